//! A flood of SYNs at a whole gateway: what it takes of memory is bounded, and what it blocked
//! before it still blocks.

use std::process::Command;
use std::time::Duration;

use ringway_gateway::limits::{FLOW_BYTES, MAX_CONTENT, MAX_FLOWS, MAX_TRACES};
use ringway_gateway::verdict::{EventKind, Gateway};
use ringway_gateway::{LinkType, Packets};

use super::{at, enforcing, governed};

/// Set in the process that takes the flood: memory is counted for a process, and other tests have
/// theirs.
const ALONE: &str = "RINGWAY_FLOOD_ALONE";
const TEST: &str = "floods::million_syns_take_bounded_memory";
const SYNS: u32 = 1_000_000;
/// Followed connections, so that something is kept of each SYN, and something to block.
const POLICY: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n\
    [[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"scan\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let number = line.split_whitespace().next().unwrap();
    number.parse::<usize>().unwrap() * 1_024
}

/// Takes what the gateway has to tell; answers whether a torrent was blocked.
fn told(gateway: &mut Gateway) -> bool {
    let mut blocked = false;
    while let Some(event) = gateway.poll_event() {
        blocked |= event.kind == EventKind::Alert && event.alert.signature == "no-torrents";
    }
    while gateway.poll_flow().is_some() || gateway.poll_injection().is_some() {}
    while gateway.poll_released().is_some() || gateway.poll_scan().is_some() {}
    blocked
}

/// A torrent at this time; whether it is blocked.
fn is_blocked(gateway: &mut Gateway, at_time: Duration, client: &str) -> bool {
    let mut packets = Packets::starting_at(at_time);
    let mut stream = packets.tcp(at(client), at("192.0.2.9:6881"));
    stream.open();
    stream.client(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat());
    let mut passed = true;
    for (now, bytes) in packets.iter() {
        passed = gateway.handle_packet(now, LinkType::RawIp, bytes).accepts();
    }
    told(gateway) && !passed
}

fn flood() {
    let mut gateway = governed(POLICY, enforcing());
    let mut packets = Packets::new();
    packets
        .tcp(at("10.0.0.1:4000"), at("192.0.2.9:7000"))
        .open();
    let mut syn = packets.iter().next().unwrap().1.to_vec();
    assert!(is_blocked(
        &mut gateway,
        Duration::from_secs(1),
        "10.1.0.2:5000"
    ));
    let (before, mut half, mut most) = (resident(), 0, 0);
    for number in 0..SYNS {
        syn[12..16].copy_from_slice(&(0x0b00_0000 | number).to_be_bytes());
        // A hundred thousand in a second.
        let now = Duration::from_secs(10) + Duration::from_micros(10) * number;
        assert!(gateway.handle_packet(now, LinkType::RawIp, &syn).accepts());
        told(&mut gateway);
        if number % 1_000 == 0 {
            gateway.handle_timeout(now);
            most = most.max(resident());
            if number < SYNS / 2 {
                half = most;
            }
            assert!(gateway.live_flows() <= MAX_FLOWS);
        }
    }
    let taken = most.saturating_sub(before);
    let shown = format!(
        "{} MiB, of which {} for the second half",
        taken >> 20,
        (most - half) >> 20
    );
    // What is documented; it takes about half of that.
    assert!(
        taken < MAX_FLOWS * FLOW_BYTES + MAX_TRACES + MAX_CONTENT,
        "{shown}"
    );
    // All tables are full by half time. A hundred bytes that stay of each SYN would be seen.
    assert!(most - half < 32 << 20, "{shown}");
    assert!(is_blocked(
        &mut gateway,
        Duration::from_secs(30),
        "10.1.0.3:5000"
    ));
}

/// The gateway follows contents, so that it keeps something of each SYN.
#[test]
fn million_syns_take_bounded_memory() {
    if std::env::var_os(ALONE).is_some() {
        return flood();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let outcome = command
        .args(["--exact", TEST, "--nocapture"])
        .env(ALONE, "1");
    let outcome = outcome.output().unwrap();
    let text = String::from_utf8_lossy(&outcome.stdout);
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(
        outcome.status.success() && text.contains("1 passed"),
        "{text}{errors}"
    );
}
