//! Transfers of one member that share a slow line: their priorities are exact.

use std::time::{Duration, Instant};

use super::*;

/// Bits a second of the line.
const RATE: u64 = 10_000_000;
/// 20 ms of round trip, and as much again in the queue.
const DELAY_MS: u64 = 5;
const QUEUE: usize = 25_000;

/// Queues a file of this size to lima and gives the transfer's id.
fn send(ring: &Ring, number: usize, priority: &str, size: usize) -> String {
    send_to(ring, "lima", number, priority, size)
}

fn send_to(ring: &Ring, peer: &str, number: usize, priority: &str, size: usize) -> String {
    let file = ring.folder().join(format!("weighted-{number}.bin"));
    fs::write(&file, random_bytes(&number.to_string(), size)).unwrap();
    let member = ring.member("oslo").unwrap();
    let arguments = ["send", file.to_str().unwrap(), peer, "--detach"];
    let queued = member
        .call(&[&arguments[..], &["--priority", priority]].concat())
        .unwrap();
    queued[0]["id"].as_str().unwrap().to_owned()
}

fn set_priority(ring: &Ring, id: &str, priority: &str) {
    let member = ring.member("oslo").unwrap();
    member.call(&["priority", id, priority]).unwrap();
}

/// Bytes of each transfer that have arrived.
fn arrived(ring: &Ring, ids: &[String]) -> Vec<f64> {
    arrived_at(ring, "lima", ids)
}

fn arrived_at(ring: &Ring, peer: &str, ids: &[String]) -> Vec<f64> {
    let member = ring.member(peer).unwrap();
    let transfers = member.call(&["transfers"]).unwrap();
    let bytes = |id: &String| {
        let transfer = transfers.iter().find(|transfer| transfer["id"] == **id);
        transfer.and_then(|transfer| transfer["bytes"].as_f64())
    };
    ids.iter().map(|id| bytes(id).unwrap_or_default()).collect()
}

/// What each gets of what all get over so many seconds, and what all get in megabits a second. A
/// share is one over a time: blocks of 64 KiB on a line of 10 Mbit/s need that long to tell a
/// difference of some per cent.
fn shares(ring: &Ring, ids: &[String], seconds: u64) -> (Vec<f64>, f64) {
    let (begin, before) = (Instant::now(), arrived(ring, ids));
    std::thread::sleep(Duration::from_secs(seconds));
    let after = arrived(ring, ids);
    let time = begin.elapsed().as_secs_f64();
    let got = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after - before);
    let got: Vec<f64> = got.collect();
    let all: f64 = got.iter().sum();
    (got.iter().map(|one| one / all).collect(), all * 8e-6 / time)
}

/// Each within so much of what is due to it: the receiver counts blocks of 64 KiB, a few per cent
/// of what the least gets.
fn assert_near(shares: &[f64], weights: &[f64], tolerance: f64, shown: &str) {
    let sum: f64 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(weights) {
        let due = weight / sum;
        assert!((share - due).abs() <= tolerance * due, "{shown}");
    }
}

/// The pauses let what was under way in the old proportion go by; no event says that it has.
#[test]
fn transfers_to_one_peer_share_by_priority() {
    let Some(network) = Network::or_skip("priorities of one member").unwrap() else {
        return;
    };
    let line = Line::plain().delay_ms(DELAY_MS).rate(RATE, QUEUE);
    let lan = Lan::new(network, &["oslo", "lima"], &line);
    let ring = started(lan.routers(&["oslo", "lima"]));
    ping(&ring, "oslo", "lima", "udp://");
    let flows = |id: &str| {
        transfer_when(&ring, "lima", id, |transfer| {
            transfer["bytes"].as_u64() > Some(1 << 17)
        });
    };
    let priorities = ["1", "2", "4"].into_iter().enumerate();
    let mut ids: Vec<String> = priorities
        .map(|(number, priority)| send(&ring, number, priority, 40 << 20))
        .collect();
    ids.iter().for_each(|id| flows(id));
    // Slow start is no share, nor is what was under way when priorities change.
    std::thread::sleep(Duration::from_secs(3));
    let first = shares(&ring, &ids, 20);
    set_priority(&ring, &ids[0], "4");
    set_priority(&ring, &ids[2], "1");
    std::thread::sleep(Duration::from_secs(1));
    let swapped = shares(&ring, &ids, 10);
    set_priority(&ring, &ids[0], "0");
    std::thread::sleep(Duration::from_secs(2));
    let leftover = shares(&ring, &ids, 8);
    // One that comes later need not find its share out.
    ids.push(send(&ring, 3, "4", 40 << 20));
    flows(&ids[3]);
    std::thread::sleep(Duration::from_secs(1));
    // Where the newcomer has all others lose, the path is free for a moment, which priority 0 uses:
    // some blocks more or less.
    let late = shares(&ring, &ids, 16);
    let shown = format!(
        "1, 2, 4: {first:?}; 4, 2, 1: {swapped:?}; 0, 2, 1: {leftover:?}; 0, 2, 1, 4: {late:?}"
    );
    eprintln!("{shown}");
    // A machine that is busy with others may not fill the line all the while.
    let most = [first.1, swapped.1, leftover.1, late.1]
        .into_iter()
        .fold(0.0, f64::max);
    assert!(most >= 5.0, "{shown}");
    assert_near(&first.0, &[1.0, 2.0, 4.0], 0.05, &shown);
    assert_near(&swapped.0, &[4.0, 2.0, 1.0], 0.08, &shown);
    for (shares, weights) in [(&leftover.0, &[2.0, 1.0][..]), (&late.0, &[2.0, 1.0, 4.0])] {
        assert!(shares[0] <= 0.03, "{shown}");
        assert_near(&shares[1..], weights, 0.1, &shown);
    }
    let member = ring.member("oslo").unwrap();
    for id in &ids {
        member.call(&["cancel", id]).unwrap();
    }
}

/// It waits while the sender finds out that both wait in one queue, and measures over a time.
#[test]
fn transfers_to_two_peers_share_by_priority() {
    let Some(network) = Network::or_skip("priorities to several peers").unwrap() else {
        return;
    };
    let line = Line::plain().delay_ms(DELAY_MS).rate(RATE, QUEUE);
    let lan = Lan::new(network, &["oslo", "lima", "paris"], &line);
    let ring = started(lan.routers(&["oslo", "lima", "paris"]));
    let peers = ["lima", "paris"];
    let sent = peers.into_iter().enumerate().map(|(number, peer)| {
        ping(&ring, "oslo", peer, "udp://");
        let priority = ["1", "3"][number];
        let id = send_to(&ring, peer, number, priority, 60 << 20);
        transfer_when(&ring, peer, &id, |transfer| {
            transfer["bytes"].as_u64() > Some(1 << 17)
        });
        id
    });
    let ids: Vec<String> = sent.collect();
    let at_peers = || -> Vec<f64> {
        let each = peers.iter().zip(&ids);
        let bytes = each.flat_map(|(peer, id)| arrived_at(&ring, peer, std::slice::from_ref(id)));
        bytes.collect()
    };
    // That they wait in one queue shows after some seconds.
    std::thread::sleep(Duration::from_secs(10));
    let before = at_peers();
    std::thread::sleep(Duration::from_secs(20));
    let after = at_peers();
    let known = peers.into_iter().rev().zip(&ids);
    for (other, id) in known {
        transfer_when(&ring, "oslo", id, |transfer| {
            transfer["shares_with"] == serde_json::json!([other])
        });
    }
    let got = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after - before);
    let got: Vec<f64> = got.collect();
    let all: f64 = got.iter().sum();
    let shares: Vec<f64> = got.iter().map(|one| one / all).collect();
    let shown = format!("1, 3: {shares:?}, {} Mbit/s", all * 8e-6 / 20.0);
    eprintln!("{shown}");
    // Half of the line: a busy machine may not fill it all the while.
    assert!(all * 8e-6 / 20.0 >= 5.0, "{shown}");
    assert_near(&shares, &[1.0, 3.0], 0.08, &shown);
    for id in &ids {
        let member = ring.member("oslo").unwrap();
        member.call(&["cancel", id]).unwrap();
    }
}

#[test]
fn transfer_keeps_to_the_lan_interfaces_cap() {
    let Some(network) = Network::or_skip("a cap on an interface").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let builder = lan.routers(&["lima"]);
    let mut ring = started(builder.absent_router("oslo").on(lan.host("oslo")));
    let interface = lan.link("oslo").first_interface().to_owned();
    let caps = [("lo", 1), (interface.as_str(), 500_000)]
        .map(|(name, rate)| format!("[[interface]]\nname = \"{name}\"\nupload = {rate}\n"));
    let oslo = ring.member_mut("oslo").unwrap();
    oslo.configure("[\"udp\", \"tcp\", \"quic\"]", &caps.concat())
        .unwrap();
    oslo.start().unwrap();
    ping(&ring, "oslo", "lima", "udp://");
    let id = send(&ring, 0, "1", 20 << 20);
    let held = transfer_when(&ring, "oslo", &id, |transfer| {
        transfer["limited_by"] == "capped"
    });
    assert_eq!(held["capped_by"], interface.as_str(), "{held}");
    let moves = |transfer: &Value| transfer["bytes"].as_u64() > Some(1 << 18);
    transfer_when(&ring, "lima", &id, moves);
    let (_, megabits) = shares(&ring, std::slice::from_ref(&id), 8);
    // 4 Mbit/s of what QUIC carries.
    assert!((2.8..=4.4).contains(&megabits), "{megabits} Mbit/s");
}
