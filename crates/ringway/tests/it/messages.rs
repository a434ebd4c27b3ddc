//! Messages between members: whatever is killed, each is there once and in order; over mail alone;
//! receipts, refusals, and what a terminal is shown.

use std::fs;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::program;

/// How long each part may take; generous, the machine is busy.
pub(super) const DEADLINE: Duration = Duration::from_secs(240);

fn call(ring: &Ring, name: &str, arguments: &[&str]) -> Vec<Value> {
    let member = ring.member(name).unwrap();
    let called = member.call(arguments);
    called.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

/// Waits until all messages that `name` has sent are in one of these states.
pub(super) fn wait_for_states(ring: &Ring, name: &str, states: &[&str]) -> Vec<Value> {
    let member = ring.member(name).unwrap();
    let all = wait_until(DEADLINE, || {
        let all = member.call(&["msg", "--list"])?;
        let mut sent = all.iter().filter(|message| message["direction"] == "send");
        let wanted = |message: &Value| states.contains(&message["state"].as_str().unwrap());
        match sent.all(wanted) {
            true => Ok(all),
            false => Err(TestbedError(format!("{all:?}"))),
        }
    });
    all.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

#[test]
fn messages_arrive_once_after_kills() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let mut expected = Vec::new();
    for number in 0..24 {
        let text = format!("message {number}");
        call(&ring, "alice", &["msg", "oslo", &text]);
        expected.push(text);
        let victim = match number % 8 {
            2 => "oslo",
            6 => "alice",
            _ => continue,
        };
        ring.member_mut(victim).unwrap().kill().unwrap();
        ring.member_mut(victim).unwrap().start().unwrap();
    }
    let first = call(&ring, "oslo", &["msg", "--follow", "--count", "10"]);
    ring.member_mut("oslo").unwrap().kill().unwrap();
    ring.member_mut("oslo").unwrap().start().unwrap();
    let rest = call(
        &ring,
        "oslo",
        &["msg", "--follow", "alice", "--count", "14"],
    );
    let all: Vec<&Value> = first.iter().chain(&rest).collect();
    let bodies: Vec<&str> = all.iter().map(|m| m["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, expected);
    let numbers: Vec<u64> = all.iter().map(|m| m["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=24).collect::<Vec<u64>>());
    assert!(
        all.iter()
            .all(|m| m["schema"] == "ringway.message/1" && m["peer"] == "alice")
    );
    // The sender is told.
    let sent = wait_for_states(&ring, "alice", &["read"]);
    assert_eq!(sent.len(), 24);
    assert!(
        sent.iter()
            .all(|m| m["signed"].is_u64() && m["read"].is_u64())
    );
}

#[test]
fn receivers_rules_reach_the_sender() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder
        .absent_leaf("lab-1")
        .absent_leaf("lab-2")
        .start()
        .unwrap();
    let quiet = "[messages]\nreceipts = false\n";
    let strict = "[messages]\nfrom = [\"lima\"]\n";
    for (name, rules) in [("lab-1", quiet), ("lab-2", strict)] {
        let member = ring.member_mut(name).unwrap();
        let usual = "[\"udp\", \"tcp\", \"quic\", \"ws\"]";
        member.configure(usual, rules).unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    // Patterns are of the members that are known.
    call(&ring, "oslo", &["ping", "lab-1", "--count", "1"]);
    call(&ring, "oslo", &["ping", "lab-2", "--count", "1"]);
    let file = ring.folder().join("plan.txt");
    fs::write(&file, "the plan").unwrap();
    let path = file.to_str().unwrap();
    let sent = call(
        &ring,
        "oslo",
        &["msg", "--to", "lab-*", "hello", "--attach", path],
    );
    assert_eq!(sent.len(), 2, "{sent:?}");
    let came = call(&ring, "lab-1", &["msg", "--follow", "--count", "1"]);
    let transfer = came[0]["attach"][0].as_str().unwrap();
    assert_eq!(sent[0]["attach"][0], transfer);
    super::transfer_when(&ring, "lab-1", transfer, |transfer| {
        transfer["state"] == "done"
    });
    let states = wait_for_states(&ring, "oslo", &["signed", "failed"]);
    assert_eq!(
        (&states[0]["state"], &states[1]["state"]),
        (&"signed".into(), &"failed".into())
    );
    let reason = states[1]["reason"].as_str().unwrap();
    assert!(
        reason.contains("takes no messages from the sender"),
        "{reason}"
    );
}

/// A terminal is shown no escapes, and JSON has every byte.
#[test]
fn bodies_are_exact_in_json_and_harmless_shown() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let long = "x".repeat(60_000);
    call(&ring, "oslo", &["msg", "lima", "\u{1b}[2Jcleared"]);
    call(&ring, "oslo", &["msg", "lima", &long]);
    let unread = ring.member("lima").unwrap();
    let shown = unread.run(&["msg", "--follow", "--count", "1"]).unwrap();
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stdout.contains("oslo: ") && !shown.stdout.contains('\u{1b}'));
    let came = call(&ring, "lima", &["msg", "--follow", "--count", "1"]);
    assert_eq!(came[0]["body"], long.as_str());
    let all = call(&ring, "lima", &["msg", "--list"]);
    assert_eq!(all[0]["body"], "\u{1b}[2Jcleared");
    // Wrong uses change nothing.
    for wrong in [
        &["msg", "nowhere", "text"][..],
        &["msg", "lima", "text"],
        &["msg", "oslo", "text", "--to", "z*"],
        &["msg", "--list", "nowhere"],
    ] {
        let refused = ring.member("lima").unwrap().run(wrong).unwrap();
        assert_eq!(refused.code, Some(2), "{wrong:?}: {}", refused.stderr);
    }
}

/// Each line is a message, in order and once, though the receiver dies while they come.
#[test]
fn lines_of_a_file_arrive_once() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let expected: Vec<String> = (0..3_000).map(|line| format!("line {line}")).collect();
    let home = ring.member("oslo").unwrap().home.clone();
    let send = ["--json", "--home", home.to_str().unwrap(), "msg", "lima"];
    let send = [&send[..], &["--lines"]].concat();
    let text = format!("{}\n\n", expected.join("\n"));
    let sent = program().run_with_input(&send, &text).unwrap();
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let sent = sent.objects().unwrap();
    assert_eq!(sent[0]["schema"], "ringway.messages/1");
    assert_eq!(sent[0]["stored"], 3_000);
    let lima = ring.member_mut("lima").unwrap();
    lima.kill().unwrap();
    lima.start().unwrap();
    let came = call(&ring, "lima", &["msg", "--follow", "--count", "3000"]);
    let came: Vec<&str> = came.iter().map(|m| m["body"].as_str().unwrap()).collect();
    assert_eq!(came, expected);
    // A text beside it cannot be meant.
    let wrong = [&send[..], &["text"]].concat();
    let refused = program().run_with_input(&wrong, "line\n").unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    // What cannot be a message ends it, and what stands before is sent.
    let long = format!("before\n{}\nbehind\n", "x".repeat(70_000));
    let ended = program().run_with_input(&send, &long).unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.objects().unwrap()[0]["stored"], 1);
}
