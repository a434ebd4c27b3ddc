//! A real Postfix asks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ringway_testbed::{Postfix, RingBuilder};

use super::super::{not_tested, program};
use super::{DEADLINE, LIE, Trinity, leave, network, window};

/// Takes mail by LMTP and gives each one's text.
fn mailbox() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mails, taken) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mails = mails.clone();
            thread::spawn(move || take(stream, &mails));
        }
    });
    (port, taken)
}

fn take(stream: TcpStream, mails: &Sender<String>) -> Option<()> {
    let mut reading = BufReader::new(stream.try_clone().ok()?).lines();
    let mut writing = stream;
    writing.write_all(b"220 box.ring.test\r\n").ok()?;
    while let Some(Ok(line)) = reading.next() {
        let answer = match line.get(..4) {
            Some("DATA") => {
                writing.write_all(b"354 go on\r\n").ok()?;
                let text = reading.by_ref().map_while(Result::ok);
                let text: Vec<String> = text.take_while(|line| line != ".").collect();
                mails.send(text.join("\n")).ok()?;
                "250 2.0.0 taken"
            }
            Some("QUIT") => "221 2.0.0 bye",
            _ => "250 2.0.0 ok",
        };
        writing.write_all(format!("{answer}\r\n").as_bytes()).ok()?;
    }
    Some(())
}

/// Sends a mail as a client at this address would; gives the answer to its recipient.
fn send(port: u16, client: &str) -> String {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut reading = BufReader::new(stream.try_clone().unwrap());
    let mut writing = stream;
    let mut answer = |said: &str| {
        writing.write_all(said.as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            assert!(reading.read_line(&mut line).unwrap() > 0, "after {said:?}");
            if line.as_bytes().get(3) == Some(&b' ') {
                return line;
            }
        }
    };
    assert!(answer("").starts_with("220"));
    answer("EHLO client.test\r\n");
    let known = answer(&format!("XCLIENT ADDR={client} NAME=client.test\r\n"));
    assert!(known.starts_with("220"), "{known}");
    answer("EHLO client.test\r\n");
    answer("MAIL FROM:<sender@client.test>\r\n");
    let taken = answer("RCPT TO:<box@ring.test>\r\n");
    if taken.starts_with("250") {
        answer("DATA\r\n");
        let queued = answer("Subject: hello\r\n\r\nhello\r\n.\r\n");
        assert!(queued.starts_with("250"), "{queued}");
    }
    answer("QUIT\r\n");
    taken
}

/// Mail gets a header that says how much has come from its network, is deferred past the threshold,
/// which a lie does not reach, and goes on when the ring is away.
#[test]
fn postfix_defers_networks_that_send_much() {
    let (window, start) = window();
    let builder = RingBuilder::new(program());
    let routers = ["mx0", "mx1", "mx2", "mx3"];
    let builder = routers.iter().fold(builder, |b, name| b.router(name));
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    for (router, count) in [("mx1", 10), ("mx2", 20), ("mx3", LIE)] {
        let counts = [(network(2), count), (network(7), LIE)];
        let counts = if count == LIE {
            &counts[..]
        } else {
            &counts[..1]
        };
        leave(&ring, router, counts, start, window);
    }
    let seconds = window.to_string();
    let arguments = ["--window", &seconds, "--liars", "1", "--defer", "40"];
    let trinity = Trinity::start(&ring, "mx0", &arguments);
    let (mailbox, mails) = mailbox();
    let asks = format!(
        "smtpd_recipient_restrictions = reject_unauth_destination, \
         check_policy_service inet:127.0.0.1:{}\nsmtpd_authorized_xclient_hosts = 127.0.0.1\n",
        trinity.port
    );
    let postfix = Postfix::start(&[("box", mailbox)], &[""], |_| asks).unwrap();
    let Some(postfix) = postfix else {
        return not_tested("trinity::mail: no Postfix, or not root");
    };
    let port = postfix.ports[0];
    for n in 1..=10 {
        let answer = send(port, &format!("192.0.2.{n}"));
        assert!(answer.starts_with("250"), "mail {n}: {answer}");
    }
    let mut headers = Vec::new();
    for _ in 0..10 {
        let mail = mails.recv_timeout(DEADLINE).unwrap();
        let header = mail.lines().find(|line| line.starts_with("X-Trinity: "));
        headers.push(header.unwrap_or_else(|| panic!("{mail}")).to_owned());
    }
    let reported = LIE + 31;
    let first =
        format!("X-Trinity: network=192.0.2.0/24; at-least=31; reported={reported}; routers=3");
    assert!(headers.contains(&first), "{headers:?}");
    let answer = send(port, "192.0.2.200");
    assert!(answer.starts_with("450 4.7.1"), "{answer}");
    assert!(
        answer.contains("192.0.2.0/24 has sent 41 mails"),
        "{answer}"
    );
    // A lie alone defers none.
    let answer = send(port, "192.0.7.1");
    assert!(answer.starts_with("250"), "{answer}");
    let mail = mails.recv_timeout(DEADLINE).unwrap();
    assert!(mail.contains("network=192.0.7.0/24; at-least=1;"), "{mail}");
    ring.member_mut("mx0").unwrap().kill().unwrap();
    let answer = send(port, "203.0.113.1");
    assert!(answer.starts_with("250"), "{answer}");
    let mail = mails.recv_timeout(DEADLINE).unwrap();
    assert!(!mail.contains("X-Trinity"), "{mail}");
}
