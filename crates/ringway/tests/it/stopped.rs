//! A receiver that stops: the sender stops, says so, keeps little, and goes on when the receiver
//! does.

use std::fs;
use std::process::Command;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder};

use super::{program, random_bytes, run, transfer_when};

/// Bytes of the file: far more than either side may keep.
const SIZE: usize = 300 << 20;

/// Bytes that a transfer may cost either side: both windows of a connection, blocks between disk
/// and network, and as much for the allocator.
const COST: u64 = 32 << 20;

/// The most memory that the process has ever had, in bytes.
fn peak(pid: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    kilobytes.unwrap().parse::<u64>().unwrap() << 10
}

fn signal(pid: u64, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn pid(ring: &Ring, name: &str) -> u64 {
    let status = ring.member(name).unwrap().status().unwrap();
    status["pid"].as_u64().unwrap()
}

/// That nothing more is sent while the receiver is stopped takes a time to show.
#[test]
fn sender_stops_and_keeps_little_memory() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let (oslo, lima) = (pid(&ring, "oslo"), pid(&ring, "lima"));
    let before = [oslo, lima].map(peak);
    let content = random_bytes("stopped", SIZE);
    let file = ring.folder().join("stopped.bin");
    fs::write(&file, &content).unwrap();
    let member = ring.member("oslo").unwrap();
    let queued = member
        .call(&["send", file.to_str().unwrap(), "lima", "--detach"])
        .unwrap();
    let id = queued[0]["id"].as_str().unwrap().to_owned();
    transfer_when(&ring, "lima", &id, |transfer| {
        transfer["bytes"].as_u64() > Some(4 << 20)
    });
    signal(lima, "-STOP");
    let stopped = transfer_when(&ring, "oslo", &id, |transfer| {
        assert_ne!(
            transfer["state"], "done",
            "the machine is too fast for the test"
        );
        transfer["limited_by"] == "unanswered"
    });
    let text = run(&["--home", member.home.to_str().unwrap(), "transfers"]).stdout;
    let bytes = stopped["bytes"].as_u64().unwrap();
    // That nothing comes meanwhile takes a while to see.
    std::thread::sleep(Duration::from_secs(2));
    let after = member.transfer(&id).unwrap();
    signal(lima, "-CONT");
    assert!(text.contains("the receiver does not answer"), "{text}");
    assert!(
        after["bytes"].as_u64().unwrap() <= bytes,
        "{stopped} {after}"
    );
    let received = transfer_when(&ring, "lima", &id, |transfer| transfer["state"] == "done");
    let path = received["path"].as_str().unwrap();
    assert!(fs::read(path).unwrap() == content, "the file differs");
    let costs = [oslo, lima].into_iter().zip(before);
    for (pid, before) in costs {
        let cost = peak(pid).saturating_sub(before);
        eprintln!("{} MiB", cost >> 20);
        assert!(cost <= COST, "{} MiB", cost >> 20);
    }
}
