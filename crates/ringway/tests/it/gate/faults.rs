//! A gateway that cannot keep up: what comes past a full queue is the policy's to say.

use std::net::UdpSocket;
use std::time::Duration;

use super::border::{Border, SERVER};

const OPEN: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const CLOSED: &str = "[gateway]\nfailure = \"closed\"\n\
    [[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
/// More than a queue takes.
const PACKETS: usize = 40_000;

/// Sends more than the queue of a gateway that stands still takes; gives how many packets arrive meanwhile.
fn passed_a_full_queue(border: &mut Border, port: u16) -> usize {
    let bound = border.server.enter(|| UdpSocket::bind((SERVER, port)));
    let server = bound.unwrap().unwrap();
    server
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let receiver = std::thread::spawn(move || {
        let mut arrived = 0;
        // Nothing for half a second after the first packets, or for five at all.
        for _ in 0..10 {
            while server.recv(&mut [0; 64]).is_ok() {
                arrived += 1;
            }
            if arrived > 0 {
                break;
            }
        }
        arrived
    });
    border.daemon().pause().unwrap();
    let client = border
        .client
        .enter(|| UdpSocket::bind(("0.0.0.0", 0)))
        .unwrap()
        .unwrap();
    client.connect((SERVER, port)).unwrap();
    for _ in 0..PACKETS {
        // A full buffer of the sender's own is no answer.
        client.send(b"what comes past a full queue").ok();
    }
    let arrived = receiver.join().unwrap();
    border.daemon().resume().unwrap();
    arrived
}

#[test]
fn packets_pass_a_full_queue_or_do_not_as_the_policy_at_work_says() {
    let Some(mut border) = Border::new("a full queue") else {
        return;
    };
    border.up(OPEN, &["--enforce"]);
    border.status();
    assert!(passed_a_full_queue(&mut border, 9_001) > 0);
    let closed = border.file("closed.toml", CLOSED);
    let apply = |border: &Border, file: &std::path::Path| {
        let outcome = border.ask(&["apply", file.to_str().unwrap()]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    };
    apply(&border, &closed);
    assert_eq!(passed_a_full_queue(&mut border, 9_002), 0);
    let open = border.file("open.toml", OPEN);
    apply(&border, &open);
    assert!(passed_a_full_queue(&mut border, 9_003) > 0);
    // It is none the worse for it.
    assert_eq!(border.status()["queues"], 1);
}
