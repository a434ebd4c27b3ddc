//! The web through the gateway: shaped, undisturbed by its death, its restart and its end.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ringway_testbed::{TestbedError, wait_until};

use super::beside::{Tested, all};
use super::border::{Border, CLIENT, DEADLINE, SERVER};
use super::both::{Compared, GatePath, on_both};
use super::scans::stay;

const BULK: &str = "[classes.bulk]\nrate = \"16 Mbit/s\"\n\
    [[rule]]\nname = \"slow-web\"\napp = \"http\"\naction = \"shape\"\nclass = \"bulk\"\n";
const NOTHING: &str =
    "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";

/// Answers each connection's request with so many bytes, for ever.
pub(super) fn serve(border: &Border, size: usize) {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, 80)))
        .unwrap()
        .unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut request = [0; 4_096];
                let read = stream.read(&mut request).unwrap_or(0);
                if read == 0 {
                    return;
                }
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
                // A client that has had enough goes.
                stream.write_all(head.as_bytes()).ok();
                stream.write_all(&vec![0x5a; size]).ok();
                stay(&mut stream);
            });
        }
    });
}

/// Asks for a page; gives the connection.
pub(super) fn get(border: &Border) -> TcpStream {
    let mut stream = border
        .client
        .enter(|| TcpStream::connect((SERVER, 80)))
        .unwrap()
        .unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
        .write_all(format!("GET /a HTTP/1.1\r\nHost: {SERVER}\r\n\r\n").as_bytes())
        .unwrap();
    stream
}

/// Bytes until the end or the time is over.
pub(super) fn take(stream: &mut TcpStream, most: usize) -> usize {
    let mut buffer = vec![0; 65_536];
    let mut total = 0;
    while total < most {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => total += read,
        }
    }
    total
}

/// Stretches in which a stream may show the rate of its class.
const STRETCHES: usize = 40;

/// Bytes of a stream that [`comes_by_its_class`] looks at: more than all stretches and what comes
/// before them.
pub(super) const ENOUGH: usize = (STRETCHES + 4) << 22;

/// A stream of a class of 16 Mbit/s never comes faster than that, and as fast in one stretch of
/// 4 MiB at least: a busy machine may take its time in those before it.
pub(super) fn comes_by_its_class(stream: &mut TcpStream) {
    // Within 5 % of the class, of which headers take another 5 % at most.
    let shows = |rates: &[f64]| rates.iter().any(|rate| *rate > 14.4e6);
    let mut rates = Vec::new();
    // The time that is measured begins with nothing in the buffers: what a busy machine has left
    // there has come before.
    while rates.len() < 3 || (rates.len() < STRETCHES && !shows(&rates)) {
        let begun = drain(stream);
        let bytes = take(stream, 4 << 20);
        let bits = 8.0 * f64::from(u32::try_from(bytes).unwrap());
        rates.push(bits / begun.elapsed().as_secs_f64());
    }
    let all = rates.iter().all(|rate| *rate < 16.8e6);
    assert!(all && shows(&rates), "{rates:?} bit/s");
}

/// Takes what has arrived; gives the time since when nothing waits.
fn drain(stream: &mut TcpStream) -> Instant {
    stream.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 65_536];
    let begun = loop {
        let now = Instant::now();
        if !matches!(stream.read(&mut buffer), Ok(1..)) {
            break now;
        }
    };
    stream.set_nonblocking(false).unwrap();
    begun
}

#[test]
fn shaped_flow_gets_the_rate_of_its_class() -> Tested {
    all(vec![on_both("a shaped flow", shaped)])
}

fn shaped(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("a shaped flow", path) else {
        return Ok(None);
    };
    serve(&border, ENOUGH);
    border.up(BULK, &["--enforce"]);
    let mut stream = get(&border);
    // Past the beginning, which the class's burst and the buffers let through faster.
    take(&mut stream, 2 << 20);
    comes_by_its_class(&mut stream);
    let seen = border.seen();
    assert_eq!(border.traces(), "");
    seen
}

/// Its next run takes over.
#[test]
fn killed_gateway_breaks_no_flow() {
    let Some(mut border) = Border::new("a killed gateway") else {
        return;
    };
    serve(&border, 400 << 20);
    border.up(NOTHING, &["--enforce"]);
    let mut stream = get(&border);
    assert_eq!(take(&mut stream, 1 << 20) >> 20, 1);
    border.daemon().kill().unwrap();
    assert!(
        take(&mut stream, 64 << 20) >= 64 << 20,
        "a flow ended with the gateway"
    );
    let mut new = get(&border);
    assert!(
        take(&mut new, 1 << 20) >= 1 << 20,
        "no new flow without the gateway"
    );
    border.up(NOTHING, &["--enforce"]);
    assert!(
        take(&mut stream, 64 << 20) >= 64 << 20,
        "a flow ended when the gateway came back"
    );
    assert_eq!(border.daemon().terminate().unwrap(), Some(0));
    assert_eq!(border.traces(), "");
    assert!(
        take(&mut stream, 1 << 20) >= 1 << 20,
        "a flow ended with the gateway's rules"
    );
}

/// The gateway is gone meanwhile.
#[test]
fn undecided_flows_stop_when_failing_closed() {
    let Some(mut border) = Border::new("failing closed") else {
        return;
    };
    serve(&border, 1 << 20);
    border.up(
        &format!("[gateway]\nfailure = \"closed\"\n{NOTHING}"),
        &["--enforce"],
    );
    assert!(take(&mut get(&border), 1 << 20) >= 1 << 20);
    border.daemon().kill().unwrap();
    let refused = border
        .client
        .enter(|| {
            TcpStream::connect_timeout(
                &format!("{SERVER}:80").parse().unwrap(),
                Duration::from_secs(3),
            )
        })
        .unwrap();
    assert!(refused.is_err(), "a new flow went through");
    let outcome = border
        .program()
        .run(["gate", "down", &border.inside, &border.outside])
        .unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(border.traces(), "");
    assert!(
        take(&mut get(&border), 1 << 20) >= 1 << 20,
        "traffic stays stopped after `gate down`"
    );
}

/// What a host may have in its packet filter.
const OF_THE_HOST: [&str; 8] = [
    "iptables -t mangle -A FORWARD -j MARK --set-xmark 0x42/0xff",
    "iptables -t mangle -A POSTROUTING -m mark --mark 0x42",
    "ip6tables -t mangle -A FORWARD -p udp -j ACCEPT",
    "iptables -t nat -A POSTROUTING -p sctp -j ACCEPT",
    "iptables -A FORWARD -p sctp -j DROP",
    "nft add table inet own",
    "nft add chain inet own forward { type filter hook forward priority 5 ; }",
    "nft add rule inet own forward counter accept",
];

#[test]
fn rules_and_marks_of_host_stay_unchanged() {
    let Some(mut border) = Border::new("the host's own rules") else {
        return;
    };
    for words in OF_THE_HOST {
        let words: Vec<&str> = words.split(' ').collect();
        border.gateway.check(&words).unwrap();
    }
    let before = rules_and_disciplines(&border);
    serve(&border, 1 << 20);
    border.up(BULK, &["--enforce"]);
    let during = rules_and_disciplines(&border);
    let lost: Vec<&String> = before
        .iter()
        .filter(|line| !line.starts_with("qdisc") && !during.contains(line))
        .collect();
    assert_eq!(lost, [""; 0]);
    assert!(during.len() > before.len());
    assert!(take(&mut get(&border), 1 << 20) >= 1 << 20);
    // Every packet has the host's mark and nothing of ours when it leaves, those that were queued
    // too.
    let counted = border
        .gateway
        .check(&["iptables", "-t", "mangle", "-L", "-v", "-x"])
        .unwrap();
    let packets = |chain: &str, part: &str| {
        let after = counted.split(&format!("Chain {chain} ")).nth(1).unwrap();
        let line = after.lines().find(|line| line.contains(part)).unwrap();
        line.split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let (marked, seen) = (packets("FORWARD", "0x42"), packets("POSTROUTING", "0x42"));
    assert!(
        marked > 0 && seen == marked,
        "{marked} marked, {seen} seen\n{counted}"
    );
    border.daemon().terminate().unwrap();
    assert_eq!(rules_and_disciplines(&border), before);
}

/// All rules of the packet filter at the gateway, and the queueing disciplines of its interfaces.
fn rules_and_disciplines(border: &Border) -> Vec<String> {
    let mut lines = Vec::new();
    for words in [
        ["iptables-save"].as_slice(),
        &["ip6tables-save"],
        &["nft", "--stateless", "list", "table", "inet", "own"],
        &["tc", "qdisc", "show"],
    ] {
        let told = border.gateway.check(words).unwrap();
        // Not the time at which it was told, nor counts.
        let rules = told
            .lines()
            .filter(|line| !line.starts_with(['#', ':', '*']) && *line != "COMMIT");
        lines.extend(rules.map(str::to_owned));
    }
    lines
}

#[test]
fn interface_with_own_discipline_is_left_alone() {
    let Some(border) = Border::new("the host's own classes") else {
        return;
    };
    border
        .gateway
        .check(&[
            "tc",
            "qdisc",
            "add",
            "dev",
            &border.outside,
            "root",
            "handle",
            "1:",
            "htb",
        ])
        .unwrap();
    let policy = border.file("p.toml", BULK);
    let outcome = border
        .program()
        .run([
            "gate",
            "up",
            "--enforce",
            "--policy",
            policy.to_str().unwrap(),
            "--inside",
            &border.inside,
            "--outside",
            &border.outside,
            "--state",
            &border.path("state"),
            "--control",
            &border.path("gate.sock"),
        ])
        .unwrap();
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("htb 1:"), "{}", outcome.stderr);
    assert_eq!(
        border.traces(),
        "",
        "a gateway that did not start left something"
    );
}

#[test]
fn unconfirmed_policy_is_reverted() {
    let Some(mut border) = Border::new("a policy on trial") else {
        return;
    };
    serve(&border, 1 << 20);
    border.up(NOTHING, &["--enforce"]);
    let closed = border.file("closed.toml", &format!("[gateway]\ninside = \"{CLIENT}\"\n[[rule]]\nname = \"all\"\ndirection = \"outbound\"\naction = \"block\"\n"));
    let outcome = border.ask(&["apply", closed.to_str().unwrap(), "--confirm", "4s"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(border.status()["reverts_in_s"].is_u64());
    let connect = |border: &Border| {
        border
            .client
            .enter(|| {
                TcpStream::connect_timeout(
                    &format!("{SERVER}:80").parse().unwrap(),
                    Duration::from_secs(2),
                )
            })
            .unwrap()
    };
    assert!(connect(&border).is_err(), "the applied policy does nothing");
    wait_until(DEADLINE, || {
        let status = border.status();
        let back = status["reverts_in_s"].is_null();
        back.then_some(()).ok_or(TestbedError(status.to_string()))
    })
    .unwrap();
    let status = border.status();
    assert!(
        status["policy"].as_str().unwrap().ends_with("policy.toml"),
        "{status}"
    );
    let wrong = border.file("wrong.toml", "[[rule]]\nname = \"x\"\n");
    let outcome = border.ask(&["apply", wrong.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("wrong.toml:1: "),
        "{}",
        outcome.stderr
    );
    let outcome = border.ask(&["confirm"]);
    assert_eq!(outcome.code, Some(2), "nothing waits: {}", outcome.stderr);
}

#[test]
fn silent_client_does_not_stop_the_metrics() {
    let Some(mut border) = Border::new("metrics") else {
        return;
    };
    serve(&border, 1_000);
    border.up(NOTHING, &["--enforce", "--metrics", "127.0.0.1:9710"]);
    border.status();
    let mut stream = get(&border);
    assert!(take(&mut stream, usize::MAX) > 1_000);
    drop(stream);
    let scrape = |path: &str| -> Result<String, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError(error.to_string());
        let connect = || TcpStream::connect("127.0.0.1:9710");
        let mut stream = border.gateway.enter(connect)?.map_err(wrong)?;
        stream.set_read_timeout(Some(DEADLINE)).map_err(wrong)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(wrong)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(wrong)?;
        Ok(text)
    };
    let text = wait_until(DEADLINE, || {
        let text = scrape("/metrics")?;
        let asked = text.lines().any(|line| {
            let packets = line.strip_prefix("ringway_gate_packets_total ");
            packets.is_some_and(|count| count != "0")
        });
        if asked {
            Ok(text)
        } else {
            Err(TestbedError(text))
        }
    })
    .unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("application/openmetrics-text"), "{text}");
    assert!(text.contains("\nringway_gate_enforcing 1\n"), "{text}");
    assert!(scrape("/").unwrap().starts_with("HTTP/1.1 404"));
    // Somebody who says nothing keeps the next one waiting for some seconds only.
    let silent = border
        .gateway
        .enter(|| TcpStream::connect("127.0.0.1:9710"))
        .unwrap()
        .unwrap();
    assert!(scrape("/metrics").unwrap().contains("# EOF"));
    drop(silent);
}
