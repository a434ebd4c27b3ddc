//! Flows that the machine does not track, by a rule of its owner: no mark stays with them, so that
//! each packet is asked about.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use super::beside::{Tested, wrong};
use super::border::{Border, SERVER};
use super::both::GatePath;
use super::kernel::{HELLO, answered, echo};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const UNTRACKED: &str = "iptables --table raw --append PREROUTING --jump NOTRACK";
/// A question of the distributed hash table (BEP 5).
const PING: &[u8] = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
/// Longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers datagrams by the same bytes, for as long as the test runs.
fn echo_datagrams(border: &Border, at: &str) -> Tested {
    let socket = border.server.enter(|| UdpSocket::bind(at))??;
    thread::spawn(move || {
        let mut said = [0; 100];
        while let Ok((length, from)) = socket.recv_from(&mut said) {
            socket.send_to(&said[..length], from).ok();
        }
    });
    Ok(())
}

/// How many of ten datagrams are answered.
fn datagrams_answered(border: &Border, server: &str, what: &[u8]) -> Tested<usize> {
    let socket = border.client.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    for _ in 0..10 {
        socket.send(what)?;
    }
    let answers = std::iter::repeat_with(|| socket.recv(&mut [0; 100])).take(10);
    Ok(answers.take_while(Result::is_ok).count())
}

#[test]
fn torrents_are_blocked_and_pages_pass() -> Tested {
    for path in [GatePath::User, GatePath::Kernel] {
        let Some(mut border) = Border::on("connections that are not tracked", path) else {
            continue;
        };
        let words: Vec<&str> = UNTRACKED.split(' ').collect();
        border.gateway.check(&words)?;
        border.up(BLOCK, &["--enforce"]);
        let [page, torrent] = [80, 6881].map(|port| format!("{SERVER}:{port}"));
        for at in [&page, &torrent] {
            echo(&border, at)?;
        }
        answered(&border, &page, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true)?;
        answered(&border, &torrent, HELLO, false)?;
        for at in [&page, &torrent] {
            echo_datagrams(&border, at)?;
        }
        let said = datagrams_answered(&border, &page, b"is anybody there?")?;
        let asked = datagrams_answered(&border, &torrent, PING)?;
        if (said, asked) != (10, 0) {
            return wrong(format!("{path:?}: {said} and {asked} answered"));
        }
    }
    Ok(())
}
