//! Measures the mail transport through a Postfix of its own on loopback (needs root and the
//! packages `postfix` and `procmail`):
//!
//! ```sh
//! cargo run --release -p ringway-transport --example mail_throughput [COUNT]
//! ```
//!
//! First COUNT (1 000) messages of 11, 407 and 1 221 bytes one after the other, each sent once the
//! one before has arrived; then ten times as many of 1 200 bytes handed over at once. The receiver
//! gets them by LMTP, from a Maildir, or from procmail through a named pipe.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a measurement ends at the first error and prints what it found"
)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ringway_transport::{
    Address, Incoming, MailAddress, MailBudget, MailRelay, MailServer, MailSource, MailTls,
    SendError, Session, SmtpOptions, SmtpTransport, Transport,
};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{sleep, timeout};

use ringway_testbed::{Delivery, MAIL_DOMAIN, Postfix};

/// How long one message may take before the measurement fails.
const LIMIT: Duration = Duration::from_secs(60);

fn mailbox(name: &str) -> MailAddress {
    MailAddress::new(&format!("{name}@{MAIL_DOMAIN}"), "X-Ringway", name).unwrap()
}

fn options(name: &str, relay: Option<u16>, sources: Vec<MailSource>) -> SmtpOptions {
    let all = MailBudget {
        hourly: usize::MAX,
        daily: usize::MAX,
    };
    SmtpOptions {
        address: Some(mailbox(name)),
        relay: relay.map(|port| MailRelay {
            server: MailServer {
                host: "127.0.0.1".to_owned(),
                port,
                tls: MailTls::Plain,
                extra_roots: None,
            },
            login: None,
        }),
        sources,
        batch_time: Duration::ZERO,
        budget: all,
        mailbox_budget: all,
        ..SmtpOptions::default()
    }
}

/// The ways in: how Postfix delivers, and where we take it.
fn ways(folder: &Path, port: u16) -> Vec<(&'static str, Delivery, MailSource)> {
    let maildir = folder.join("maildir");
    std::fs::create_dir(&maildir).unwrap();
    for part in ["new", "cur", "tmp"] {
        std::fs::create_dir(maildir.join(part)).unwrap();
    }
    let (pipe, rules) = (folder.join("pipe"), folder.join("rules"));
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Not straight into the pipe: procmail would sleep a second after each mail.
    let (lock, pipe_name) = (folder.join("lock"), pipe.display());
    let text = format!(
        "SHELL=/bin/sh\n:0 w\n* ^X-Ringway: rome\n| flock {} sh -c 'cat > {pipe_name}'\n",
        lock.display()
    );
    std::fs::write(&rules, text).unwrap();
    // procmail delivers as an unprivileged user.
    let chown = Command::new("chown")
        .args(["-R", "nobody"])
        .arg(folder)
        .status();
    assert!(chown.unwrap().success());
    vec![
        (
            "lmtp",
            Delivery::Lmtp(port),
            MailSource::LmtpTcp(([127, 0, 0, 1], port).into()),
        ),
        (
            "maildir",
            Delivery::Maildir(maildir.clone()),
            MailSource::Maildir(maildir),
        ),
        (
            "procmail",
            Delivery::Procmail(rules),
            MailSource::Pipe(pipe),
        ),
    ]
}

/// Sends each message once the one before has arrived; messages per second.
async fn one_after_the_other(
    to: &Session,
    at: &mut Receiver<Incoming>,
    count: usize,
    size: usize,
) -> f64 {
    let started = Instant::now();
    for number in 0..count {
        let mut message = vec![7; size];
        message[..8].copy_from_slice(&number.to_be_bytes());
        to.send(&message).unwrap();
        let arrived = timeout(LIMIT, at.recv())
            .await
            .expect("a message arrives")
            .unwrap();
        assert_eq!(arrived.message, message);
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// Hands all messages over as fast as they are taken; messages per second.
async fn all_at_once(to: &Session, at: &mut Receiver<Incoming>, count: usize, size: usize) -> f64 {
    let started = Instant::now();
    for _ in 0..count {
        while let Err(error) = to.send(&vec![7; size]) {
            assert_eq!(error, SendError::WouldBlock);
            sleep(Duration::from_millis(1)).await;
        }
    }
    for _ in 0..count {
        timeout(LIMIT, at.recv())
            .await
            .expect("a message arrives")
            .unwrap();
    }
    count as f64 / started.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(1000, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for (way, delivery, source) in ways(folder.path(), port) {
        let postfix = match Postfix::start_delivering(&[("rome", delivery)]) {
            Ok(Some(postfix)) => postfix,
            Ok(None) => return println!("nothing to measure: Postfix and root are needed"),
            Err(reason) => return println!("nothing to measure: {reason}"),
        };
        let (queue, mut at_rome) = channel(100 * count);
        let rome = SmtpTransport::start(options("rome", None, vec![source]), queue).unwrap();
        let oslo = options("oslo", Some(postfix.ports[0]), Vec::new());
        let oslo = SmtpTransport::start(oslo, channel(1).0).unwrap();
        let there = Address::Smtp(mailbox("rome"));
        let to = oslo.connect(&there).await.unwrap();
        for size in [11, 407, 1221] {
            let rate = one_after_the_other(&to, &mut at_rome, count, size).await;
            println!("{way:8} {size:5} bytes, one after the other: {rate:7.1} messages/s");
        }
        let rate = all_at_once(&to, &mut at_rome, 10 * count, 1200).await;
        println!("{way:8}  1200 bytes, all at once:          {rate:7.1} messages/s");
        let (sent, received) = (oslo.counters(), rome.counters());
        assert_eq!(
            (received.malformed, received.queue_full),
            (0, 0),
            "{}",
            postfix.log()
        );
        assert_eq!(sent.failed, 0);
    }
}
