//! A small ring of real processes: what its members show, and a file sent by name.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, wait_until};
use serde_json::Value;

use super::{program, random_bytes};

/// Bytes of the file sent.
const SIZE: usize = 3 << 20;

fn ring() -> Ring {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .router("lima")
        .router("quito")
        .leaf("alice");
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

#[test]
fn members_find_each_other_and_exchange_a_file() {
    let mut ring = ring();
    the_control_socket_is_the_users_own(&ring);
    status_has_the_fields_of_its_schema(&ring);
    every_member_finds_the_same_router(&ring);
    pings_are_answered_by_name(&ring);
    every_way_is_explained(&ring);
    a_file_sent_by_name_arrives_unchanged(&ring);
    what_moved_is_counted_and_probes_are_no_losses(&ring);
    mistakes_that_only_the_daemon_sees(&ring);
    a_killed_member_comes_back_as_itself(&mut ring);
    the_rate_of_a_transfer_outlives_the_daemon(&ring);
    an_ended_member_leaves_no_socket(&mut ring);
}

fn the_control_socket_is_the_users_own(ring: &Ring) {
    let socket = ring.member("alice").unwrap().home.join("control.sock");
    let metadata = fs::metadata(socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

fn status_has_the_fields_of_its_schema(ring: &Ring) {
    let router = ring.member("oslo").unwrap().status().unwrap();
    assert_eq!(router["schema"], "ringway.status/1");
    assert_eq!(
        (&router["name"], &router["role"]),
        (&Value::from("oslo"), &Value::from("router"))
    );
    assert_eq!(router["ring_key"].as_str().map(str::len), Some(64));
    assert!(
        router["successors"]
            .as_array()
            .is_some_and(|list| list.len() == 2),
        "{router}"
    );
    let leaf = ring.member("alice").unwrap().status().unwrap();
    assert!(
        leaf["ring_key"].is_null() && leaf["parents"][0]["ring_key"].is_string(),
        "{leaf}"
    );
    let text = ring
        .member("alice")
        .unwrap()
        .run(&["status"])
        .unwrap()
        .stdout;
    assert!(
        text.contains("alice (leaf)") && text.contains("none (reached through its parents)"),
        "{text}"
    );
}

fn every_member_finds_the_same_router(ring: &Ring) {
    for key in ["one", "two", "three"] {
        let owner = |name: &str| {
            let found = ring
                .member(name)
                .unwrap()
                .call(&["route", "--key", key])
                .unwrap();
            assert_eq!(found[0]["schema"], "ringway.route/1");
            found[0]["owner"]["ring_key"].clone()
        };
        let owners = ["oslo", "lima", "quito", "alice"].map(owner);
        assert!(
            owners.iter().all(|found| found == &owners[0]),
            "{key}: {owners:?}"
        );
    }
}

fn pings_are_answered_by_name(ring: &Ring) {
    let alice = ring.member("alice").unwrap();
    // On a busy machine one of them may come too late.
    let pongs = ringway_testbed::wait_until(Duration::from_secs(60), || {
        alice.call(&["ping", "oslo", "--count", "3"])
    });
    let pongs = pongs.unwrap();
    assert_eq!(pongs.len(), 3);
    for (pong, sequence) in pongs.iter().zip(1..) {
        assert_eq!(
            (&pong["schema"], &pong["peer"]),
            (&Value::from("ringway.pong/1"), &Value::from("oslo"))
        );
        assert_eq!(pong["sequence"], sequence);
        assert!(
            pong["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 0.0),
            "{pong}"
        );
    }
}

fn every_way_is_explained(ring: &Ring) {
    let alice = ring.member("alice").unwrap();
    let ways = || -> Vec<Value> {
        let found = alice.call(&["path", "oslo"]).unwrap();
        assert_eq!(found[0]["schema"], "ringway.paths/1");
        assert_eq!(found[0]["linked"], true, "{}", found[0]);
        found[0]["paths"].as_array().unwrap().clone()
    };
    let of = |ways: &[Value], scheme: &str| {
        let mut fitting = ways
            .iter()
            .filter(|way| way["address"].as_str().unwrap().starts_with(scheme));
        fitting.next().cloned()
    };
    // The addresses of the HELLO are proven one after the other.
    let all = wait_until(Duration::from_secs(60), || {
        let ways = ways();
        let proven = |way: Value| way["validated_s"].is_number().then_some(way);
        match ["udp:", "tcp:", "quic:"].map(|scheme| of(&ways, scheme).and_then(proven)) {
            [Some(udp), Some(tcp), Some(quic)] => Ok((udp, tcp, quic)),
            _ => Err(ringway_testbed::TestbedError(format!("{ways:?}"))),
        }
    });
    let (udp, tcp, quic) = all.unwrap();
    assert_eq!(udp["used_for"], "messages", "{udp}");
    assert_eq!(tcp["used_for"], Value::Null, "{tcp}");
    assert!(
        tcp["reason"].as_str().unwrap().contains("costs more"),
        "{tcp}"
    );
    assert_eq!(quic["used_for"], "files", "{quic}");
}

#[test]
fn ring_forms_without_the_first_enrolled_router() {
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .router("lima")
        .router("quito")
        .leaf("alice");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let state =
        |ring: &Ring, name: &str| ring.member(name).unwrap().status().unwrap()["state"].clone();
    assert_eq!(state(&ring, "lima"), "member");
    ring.member_mut("oslo").unwrap().start().unwrap();
    ring.wait_until_settled().unwrap();
    assert_eq!(state(&ring, "oslo"), "member");
}

fn a_file_sent_by_name_arrives_unchanged(ring: &Ring) {
    let content = random_bytes("exchange", SIZE);
    let file = ring.folder().join("report.bin");
    fs::write(&file, &content).unwrap();
    let sent = ring
        .member("alice")
        .unwrap()
        .call(&["send", file.to_str().unwrap(), "quito"])
        .unwrap();
    let last = sent.last().unwrap();
    assert!(last["rate"].as_f64() > Some(0.0), "{last}");
    assert_eq!(
        (&last["schema"], &last["state"]),
        (&Value::from("ringway.transfer/1"), &Value::from("done"))
    );
    assert_eq!(last["blake3"], blake3::hash(&content).to_hex().as_str());
    let receiver = ring.member("quito").unwrap();
    let received = ringway_testbed::wait_until(Duration::from_secs(60), || {
        let transfer = receiver.transfer(last["id"].as_str().unwrap())?;
        if transfer["state"] == "done" {
            Ok(transfer)
        } else {
            Err(ringway_testbed::TestbedError(transfer.to_string()))
        }
    });
    let received = received.unwrap();
    assert_eq!(
        (&received["direction"], &received["peer"]),
        (&Value::from("receive"), &Value::from("alice"))
    );
    let path = Path::new(received["path"].as_str().unwrap()).to_owned();
    assert!(path.starts_with(&receiver.home), "{}", path.display());
    assert!(fs::read(path).unwrap() == content, "the file differs");
}

/// The file went over a stream of QUIC; all else that moved are messages.
fn what_moved_is_counted_and_probes_are_no_losses(ring: &Ring) {
    let of = |name: &str| {
        let status = ring.member(name).unwrap().status().unwrap();
        let transports = status["transports"].as_array().unwrap().clone();
        let of = |protocol: &str| {
            let mut fitting = transports.iter().filter(|t| t["protocol"] == protocol);
            fitting.next().unwrap().clone()
        };
        (of("udp"), of("quic"))
    };
    let size = u64::try_from(SIZE).unwrap();
    let ((udp, sender), (_, receiver)) = (of("alice"), of("quito"));
    assert!(
        sender["stream_sent_bytes"].as_u64() >= Some(size),
        "{sender}"
    );
    assert!(
        receiver["stream_received_bytes"].as_u64() >= Some(size),
        "{receiver}"
    );
    assert!(udp["sent"].as_u64() > Some(0), "{udp}");
    assert_eq!(udp["dropped"], serde_json::json!({}), "{udp}");
    let text = ring.member("alice").unwrap().run(&["status"]).unwrap();
    let text = text.stdout;
    assert!(
        text.contains("udp messages") && text.contains("quic files"),
        "{text}"
    );
}

/// It was near and quick, and has a rate all the same, also after a restart.
fn the_rate_of_a_transfer_outlives_the_daemon(ring: &Ring) {
    let transfers = ring.member("alice").unwrap().call(&["transfers"]).unwrap();
    let done = transfers.iter().find(|t| t["state"] == "done").unwrap();
    assert!(done["rate"].as_f64() > Some(0.0), "{done}");
    assert!(done["active_s"].as_f64() > Some(0.0), "{done}");
}

fn mistakes_that_only_the_daemon_sees(ring: &Ring) {
    let alice = ring.member("alice").unwrap();
    let file = ring.folder().join("report.bin");
    let mistakes: [&[&str]; 4] = [
        &["send", file.to_str().unwrap(), "nobody"],
        &["ping", "nobody"],
        &["priority", "ffffffffffffffffffffffffffffffff", "1"],
        &["cancel", "ffffffffffffffffffffffffffffffff"],
    ];
    for mistake in mistakes {
        let outcome = alice.run(mistake).unwrap();
        assert_eq!(outcome.code, Some(2), "{mistake:?}: {}", outcome.stderr);
        assert_eq!(
            outcome.stderr.lines().count(),
            1,
            "{mistake:?}: {}",
            outcome.stderr
        );
    }
}

fn a_killed_member_comes_back_as_itself(ring: &mut Ring) {
    for name in ["lima", "alice"] {
        let member = ring.member_mut(name).unwrap();
        let before = member.status().unwrap();
        member.kill().unwrap();
        member.start().unwrap();
        let after = member.status().unwrap();
        for field in ["member", "name", "role", "ring", "ring_key"] {
            assert_eq!(before[field], after[field], "{name}: {field}");
        }
        assert_ne!(before["pid"], after["pid"]);
    }
    ring.wait_until_settled().unwrap();
}

fn an_ended_member_leaves_no_socket(ring: &mut Ring) {
    let alice = ring.member_mut("alice").unwrap();
    assert_eq!(alice.terminate().unwrap(), Some(0), "{}", alice.log_text());
    assert!(!alice.home.join("control.sock").exists());
    let outcome = alice.run(&["status"]).unwrap();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("`ringway node`"),
        "{}",
        outcome.stderr
    );
}
