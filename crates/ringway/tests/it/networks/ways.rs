//! Which way is taken where several lead to a member, and where only one is left.

use std::time::Instant;

use ringway_testbed::{Nginx, Postfix, WebServer};

use super::*;

/// Second addresses of the hosts in `Lan`, on a switch of their own.
fn second_link(lan: &mut Lan, labels: &[&str]) -> Vec<Link> {
    let switch = lan.network.switch("second").unwrap();
    let attach = |(label, number): (&&str, u8)| {
        let address = format!("10.88.0.{number}/24");
        let host = lan.hosts.iter().find(|host| host.label() == *label);
        let line = Line::plain();
        lan.network.attach(host.unwrap(), &switch, &address, &line)
    };
    let links = labels.iter().zip(2..).map(attach);
    links.map(Result::unwrap).collect()
}

/// What `ringway path` says of the way in use.
fn way_in_use(ring: &Ring, name: &str, peer: &str) -> Result<Value, TestbedError> {
    let answer = ring.member(name)?.call(&["path", peer])?;
    let answer = answer.into_iter().next().unwrap_or_default();
    let paths = answer["paths"].as_array().cloned().unwrap_or_default();
    let active = paths
        .into_iter()
        .find(|path| path["used_for"] == "messages");
    active.ok_or_else(|| TestbedError(format!("no way is in use: {answer}")))
}

/// Waits until packets from one member to another take a way whose address has this in it; gives
/// what `ringway path` says of it.
fn takes(ring: &Ring, name: &str, peer: &str, way: &str) -> Value {
    let member = ring.member(name).unwrap();
    let taken = wait_until(DEADLINE, || {
        // A link that is not used is not looked after.
        member.call(&["ping", peer, "--count", "1"])?;
        let used = way_in_use(ring, name, peer)?;
        match used["address"].as_str().unwrap_or_default().contains(way) {
            true => Ok(used),
            false => Err(TestbedError(used.to_string())),
        }
    });
    taken.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

#[test]
fn cheaper_link_is_used_whenever_it_works() {
    let Some(network) = Network::or_skip("two links of different cost").unwrap() else {
        return;
    };
    let mut lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let second = second_link(&mut lan, &["oslo", "lima"]);
    let builder = RingBuilder::new(program()).authority_on(lan.host("owner"));
    let builder = builder.absent_router("oslo").on(lan.host("oslo"));
    let mut ring = builder
        .absent_router("lima")
        .on(lan.host("lima"))
        .start()
        .unwrap();
    // The first network costs more than WebSocket's 40 on the second.
    for (name, number) in [("oslo", 2), ("lima", 3)] {
        let more = format!(
            "[ws]\nlisten = \"10.88.0.{number}:8080\"\n[[path]]\nto = \"10.77.0.0/24\"\ncost = 100\n"
        );
        let member = ring.member_mut(name).unwrap();
        member
            .configure("[\"udp\", \"tcp\", \"ws\", \"quic\"]", &more)
            .unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    takes(&ring, "oslo", "lima", "ws://10.88.0.3");
    takes(&ring, "lima", "oslo", "ws://");
    second[1].down().unwrap();
    let left = Instant::now();
    let dear = takes(&ring, "oslo", "lima", "10.77.0.3");
    println!("left the dead link after {:?}", left.elapsed());
    assert_eq!(dear["cost"], 100, "{dear}");
    second[1].up().unwrap();
    takes(&ring, "oslo", "lima", "ws://10.88.0.3");
    file_gets_through(&ring, "oslo", "lima");
}

/// The times for which the link is there and away are what is tested.
#[test]
fn file_arrives_over_a_flapping_link() {
    let Some(network) = Network::or_skip("a flapping link").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima", "alice"], &Line::plain());
    let builder = lan.routers(&["oslo", "lima"]);
    let builder = builder.leaf_with("alice", &["--upload-limit", "1MiB"]);
    let ring = started(builder.on(lan.host("alice")));
    let (content, id) = queue(&ring, "alice", "oslo", 8 << 20);
    // Outages that are shorter than what ends a transfer, and pauses in which some of it goes on.
    for _ in 0..4 {
        lan.link("oslo").down().unwrap();
        sleep(Duration::from_secs(2));
        lan.link("oslo").up().unwrap();
        sleep(Duration::from_secs(3));
    }
    arrives(&ring, "oslo", &id, &content);
    ping(&ring, "alice", "oslo", ANY);
    // Members do not run after a link that does this.
    let status = ring.member("alice").unwrap().status().unwrap();
    let changes = status["counters"]["link_path_changes"].as_u64();
    assert!(changes < Some(60), "{status}");
}

/// No other port is open.
#[test]
fn members_meet_behind_web_server_on_port_443() {
    let test = "only port 443 is left";
    let Some(network) = Network::or_skip(test).unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let builder = RingBuilder::new(program()).authority_on(lan.host("owner"));
    // Lima is the first of the ring, so that oslo calls it and not the other way round.
    let builder = builder.absent_router("lima").on(lan.host("lima"));
    let mut ring = builder
        .absent_router("oslo")
        .on(lan.host("oslo"))
        .start()
        .unwrap();
    let lima = lan.host("lima").address().unwrap();
    let web = WebServer {
        name: "lima.test",
        port: 443,
        path: "/ringway",
        upstream: "127.0.0.1:8080".parse().unwrap(),
    };
    let run = |nginx| lan.host("lima").command(nginx);
    let Some(nginx) = Nginx::start_by(run, lima, &web).unwrap() else {
        let line = "needs nginx (`./setup.sh --tests` as root installs it)";
        not_tested(&format!("{test} {line}"));
        return;
    };
    let way = format!("wss://{lima}/ringway#lima.test");
    let own = format!("[ws]\nlisten = \"127.0.0.1:8080\"\nadvertise = [\"{way}\"]\n");
    let of_oslo = format!(
        "[ws]\nca_file = \"{}\"\n[[peer]]\nname = \"lima\"\naddresses = [\"{way}\"]\n",
        nginx.certificate().display()
    );
    // DNS goes on working, as in most places where nothing else does.
    let owner = lan.host("owner").address().unwrap();
    let dns = [Traffic::any().from(owner), Traffic::any().to(owner)].map(Rule::Pass);
    lan.switch
        .rules(&[&dns[..], &[Rule::OnlyTcp(443)]].concat())
        .unwrap();
    let all = "[\"udp\", \"tcp\", \"ws\", \"quic\"]";
    for (name, more) in [("lima", own), ("oslo", of_oslo)] {
        let member = ring.member_mut(name).unwrap();
        member.configure(all, &more).unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    let used = takes(&ring, "oslo", "lima", "wss://");
    assert!(
        used["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{used}"
    );
    file_gets_through(&ring, "oslo", "lima");
    file_gets_through(&ring, "lima", "oslo");
}

#[test]
fn hosts_meet_by_their_mail_servers_alone() {
    let test = "only mail is left";
    let Some(network) = Network::or_skip(test).unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "alice"], &Line::plain());
    let address = |name: &str| lan.host(name).address().unwrap();
    // Each host has a mail server, and the servers reach each other.
    let server = |name: &str, other: &str| {
        let (own, others) = (address(name), [(other, address(other))]);
        let started = lan
            .host(name)
            .enter(|| Postfix::start_at(own, (name, 2525), &others));
        started.unwrap().unwrap()
    };
    let (Some(of_oslo), Some(of_alice)) = (server("oslo", "alice"), server("alice", "oslo")) else {
        let line = "needs Postfix (`./setup.sh --tests` as root installs it)";
        not_tested(&format!("{test} {line}"));
        return;
    };
    let builder = RingBuilder::new(program()).authority_on(lan.host("owner"));
    let builder = builder.absent_router("oslo").on(lan.host("oslo"));
    let builder = builder.absent_leaf("alice").on(lan.host("alice"));
    let mut ring = builder.start().unwrap();
    let owner = address("owner");
    let dns = [Traffic::any().from(owner), Traffic::any().to(owner)].map(Rule::Pass);
    lan.switch
        .rules(&[&dns[..], &[Rule::OnlyTcp(25)]].concat())
        .unwrap();
    for (name, other, server) in [("oslo", "alice", &of_oslo), ("alice", "oslo", &of_alice)] {
        // On a busy machine twenty mails an hour, the usual budget, may not do.
        let config = format!(
            "[smtp]\nmailbox = \"{name}@ring.test\"\nheader = [\"X-Ringway\", \"{name}-7f3k\"]\nlmtp_tcp = \"127.0.0.1:2525\"\n\
             hourly = 200\nmailbox_hourly = 200\n\
             relay = {{ host = \"127.0.0.1\", port = {}, tls = \"plain\" }}\n\
             [[peer]]\nname = \"{other}\"\naddresses = [\"smtp://{other}@ring.test?X-Ringway={other}-7f3k\"]\n",
            server.ports[0]
        );
        let member = ring.member_mut(name).unwrap();
        let all = "[\"udp\", \"tcp\", \"ws\", \"quic\"]";
        member.configure(all, &config).unwrap();
        member.start().unwrap();
    }
    takes(&ring, "alice", "oslo", "smtp://oslo@");
    let (content, id) = queue(&ring, "alice", "oslo", 20_000);
    arrives(&ring, "oslo", &id, &content);
    for (log, from) in [
        (of_oslo.log(), address("alice")),
        (of_alice.log(), address("oslo")),
    ] {
        let connected = log.contains(&format!("connect from unknown[{from}]"));
        assert!(connected && !log.contains("status=bounced"), "{log}");
    }
}
