//! Members that start before their network, and those that lose it for a while.

use std::path::Path;
use std::thread;
use std::time::Instant;

use ringway_testbed::Process;

use super::*;

const NAMES: [&str; 4] = ["oslo", "lima", "quito", "accra"];

/// So long that pauses between tries have become long, too.
const LONG_OUTAGE: Duration = Duration::from_secs(50);

/// Takes the only network of a host away, as if it had not come up yet.
fn unplug(lan: &Lan, name: &str) {
    let host = lan.host(name);
    host.check(&["ip", "addr", "flush", "dev", "eth0"]).unwrap();
    host.check(&["ip", "link", "set", "eth0", "down"]).unwrap();
}

fn plug(lan: &Lan, name: &str) {
    let host = lan.host(name);
    let address = format!("{}/24", host.address().unwrap());
    host.check(&["ip", "link", "set", "eth0", "up"]).unwrap();
    host.check(&["ip", "addr", "add", &address, "dev", "eth0"])
        .unwrap();
}

/// Waits until a router is in the ring, with links that answer.
fn in_ring(ring: &Ring, name: &str) {
    let member = ring.member(name).unwrap();
    let inside = wait_until(DEADLINE, || {
        let status = member.status()?;
        let successors = status["successors"].as_array().map_or(0, Vec::len);
        let links = status["links"].as_array().cloned().unwrap_or_default();
        let fresh = links
            .iter()
            .filter(|link| link["idle_s"].as_f64() < Some(2.0));
        match status["state"] == "member" && successors >= 2 && fresh.count() >= 2 {
            true => Ok(()),
            false => Err(TestbedError(status.to_string())),
        }
    });
    inside.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
}

/// Starts what is to wait for the network, and plugs the host in once the log says so.
fn starts_unplugged(
    lan: &Lan,
    name: &str,
    log: &Path,
    start: impl FnOnce() -> Result<(), TestbedError> + Send,
) {
    let waits = "waits for the network";
    unplug(lan, name);
    thread::scope(|scope| {
        let starting = scope.spawn(start);
        let waiting = wait_until(DEADLINE, || match fs::read_to_string(log) {
            Ok(text) if text.contains(waits) => Ok(()),
            other => Err(TestbedError(format!("it waits for nothing: {other:?}"))),
        });
        waiting.unwrap();
        assert!(!starting.is_finished(), "it has started, or ended");
        plug(lan, name);
        starting.join().unwrap().unwrap();
    });
}

#[test]
fn router_and_authority_wait_for_their_network() {
    let Some(network) = Network::or_skip("a start before the network").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &NAMES, &Line::plain());
    let mut ring = started(lan.routers(&NAMES));
    let log = |ring: &Ring, name: &str| ring.folder().join(name).with_extension("log");
    let quitos = log(&ring, "quito");
    let quito = ring.member_mut("quito").unwrap();
    quito.terminate().unwrap();
    starts_unplugged(&lan, "quito", &quitos, || quito.start());
    let begun = Instant::now();
    in_ring(&ring, "quito");
    eprintln!("in the ring {:?} after its start", begun.elapsed());

    let owners = log(&ring, "owner");
    ring.authority.terminate().unwrap();
    starts_unplugged(&lan, "owner", &owners, || ring.start_authority());
}

/// It asks them once there are some.
#[test]
fn member_starts_before_dns_servers_are_known() {
    let Some(network) = Network::or_skip("no DNS servers yet").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima", "alice"], &Line::plain());
    let builder = lan.routers(&["oslo", "lima"]);
    let mut ring = started(builder.absent_leaf("alice").on(lan.host("alice")));
    // As in /etc: the daemon's view of it is this file.
    let resolv = ring.folder().join("resolv.conf");
    fs::write(&resolv, "").unwrap();
    let config = ring.folder().join("alice/ringway.toml");
    let text = fs::read_to_string(&config).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with("resolver"));
    let text = lines.by_ref().map(|line| format!("{line}\n"));
    fs::write(&config, text.collect::<String>()).unwrap();
    let names = "udp dport 53 redirect to :7453";
    for words in [
        "add table ip names",
        "add chain ip names in { type nat hook prerouting priority 0 ; }",
        &format!("add rule ip names in {names}"),
    ] {
        let words: Vec<&str> = ["nft"].into_iter().chain(words.split(' ')).collect();
        lan.host("owner").check(&words).unwrap();
    }
    let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    let mut command = lan.host("alice").command("sh");
    command.args(["-c", script]).arg(&resolv);
    command.arg(env!("CARGO_BIN_EXE_ringway"));
    command
        .args(["--json", "-v", "--home"])
        .arg(ring.folder().join("alice"));
    command.args(["node", "--exit-with-stdin"]);
    let log = ring.folder().join("alice.log");
    let _running = Process::start(command, &log).unwrap();
    assert!(
        fs::read_to_string(&log)
            .unwrap()
            .contains("no DNS server is known yet")
    );

    // Only DNS knows this name here.
    let alice = ring.member_mut("alice").unwrap();
    let unknown = alice
        .run(&["ping", "owner-of-nothing", "--count", "1"])
        .unwrap();
    assert!(
        unknown.stderr.contains("DNS did not answer"),
        "{}",
        unknown.stderr
    );
    let server = lan.host("owner").address().unwrap();
    fs::write(&resolv, format!("nameserver {server}\n")).unwrap();
    let asked = wait_until(DEADLINE, || {
        let answer = alice.run(&["ping", "owner-of-nothing", "--count", "1"])?;
        match answer.stderr.contains("no member `owner-of-nothing`") {
            true => Ok(()),
            false => Err(TestbedError(answer.stderr)),
        }
    });
    asked.unwrap();
}

#[test]
fn files_resume_soon_after_outage_at_either_end() {
    let Some(network) = Network::or_skip("files and an outage").unwrap() else {
        return;
    };
    let line = Line::plain().rate(8_000_000, 100);
    let lan = Lan::new(network, &NAMES, &line);
    let ring = started(lan.routers(&NAMES));
    let ways = [("quito", "oslo"), ("lima", "quito")];
    let files = ways.map(|(name, peer)| (name, peer, queue(&ring, name, peer, 3 << 20)));
    let bytes = |peer: &str, id: &str| {
        let transfer = ring.member(peer).unwrap().transfer(id).unwrap();
        transfer["bytes"].as_u64()
    };
    for (_, peer, (_, id)) in &files {
        transfer_when(&ring, peer, id, |it| it["bytes"].as_u64() > Some(1 << 19));
    }
    unplug(&lan, "quito");
    // Connections end, and others are made, in vain.
    for (name, _, (_, id)) in &files {
        transfer_when(&ring, name, id, |it| it["state"] == "connecting");
    }
    sleep(LONG_OUTAGE);
    let had = files.each_ref().map(|(_, peer, (_, id))| bytes(peer, id));
    plug(&lan, "quito");
    let begun = Instant::now();
    for ((name, peer, (_, id)), had) in files.iter().zip(had) {
        transfer_when(&ring, peer, id, |it| it["bytes"].as_u64() > had);
        eprintln!("from {name}: on {:?} after the outage", begun.elapsed());
    }
    // The next try would come as late as the outage was long.
    assert!(begun.elapsed() < LONG_OUTAGE, "{:?}", begun.elapsed());
    for (_, peer, (content, id)) in &files {
        arrives(&ring, peer, id, content);
    }
}
