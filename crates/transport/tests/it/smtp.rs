//! The mail transport without a foreign mail server: our relay client speaks to our LMTP server,
//! and mails are put by hand where each source looks.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use ringway_testbed::free_port;
use ringway_transport::limits::{MAIL_BYTES, MAIL_RETRY, SMTP_MTU};
use ringway_transport::{
    Address, ConnectError, Direction, Incoming, LatencyClass, MailAddress, MailBudget, MailLogin,
    MailRelay, MailServer, MailSource, MailTls, SendError, SmtpOptions, SmtpTransport, Transport,
};
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{installed, loopback, next, skipped, soon, until};

pub(crate) fn mailbox(name: &str) -> MailAddress {
    MailAddress::new(&format!("{name}@ring.test"), "X-Ringway", name).unwrap()
}

pub(crate) fn server(port: u16) -> MailServer {
    MailServer {
        host: "127.0.0.1".to_owned(),
        port,
        tls: MailTls::Plain,
        extra_roots: None,
    }
}

/// A member `name` that sends by the relay at the port.
pub(crate) fn member(name: &str, relay: Option<u16>, sources: Vec<MailSource>) -> SmtpOptions {
    SmtpOptions {
        address: Some(mailbox(name)),
        relay: relay.map(|port| MailRelay {
            server: server(port),
            login: None,
        }),
        sources,
        batch_time: Duration::from_millis(100),
        ..SmtpOptions::default()
    }
}

pub(crate) fn start(options: SmtpOptions) -> (SmtpTransport, Receiver<Incoming>) {
    let (sender, receiver) = channel(1000);
    (SmtpTransport::start(options, sender).unwrap(), receiver)
}

pub(crate) fn lmtp(port: u16) -> Vec<MailSource> {
    vec![MailSource::LmtpTcp(([127, 0, 0, 1], port).into())]
}

/// What two members say to each other, whatever is between them.
pub(crate) async fn conversation(
    (a, at_a): &mut (SmtpTransport, Receiver<Incoming>),
    (b, at_b): &mut (SmtpTransport, Receiver<Incoming>),
) {
    let described = b.addresses()[0].clone();
    assert_eq!(described.latency, LatencyClass::Minutes);
    assert_eq!(described.direction, Direction::Both);
    let to_b = a.connect(&described.address).await.unwrap();
    let messages: Vec<Vec<u8>> = [0, 1, 1200, SMTP_MTU]
        .iter()
        .map(|size| (0..*size).map(|n| (n % 251) as u8).collect())
        .collect();
    for message in &messages {
        to_b.send(message).unwrap();
    }
    for message in &messages {
        let incoming = next(at_b).await;
        assert_eq!(&incoming.message[..], &message[..]);
        assert_eq!(incoming.session.remote(), a.addresses()[0].address);
        incoming.session.send(message).unwrap();
    }
    for message in &messages {
        assert_eq!(&next(at_a).await.message[..], &message[..]);
    }
    assert_eq!((b.counters().received, b.counters().malformed), (4, 0));
}

#[tokio::test]
async fn messages_go_both_ways_in_mails() {
    let (port_a, port_b) = (free_port().unwrap(), free_port().unwrap());
    let mut a = start(member("oslo", Some(port_b), lmtp(port_a)));
    let mut b = start(member("rome", Some(port_a), lmtp(port_b)));
    conversation(&mut a, &mut b).await;
    let (a, b) = (a.0, b.0);
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    let size = SMTP_MTU + 1;
    let refused = to_b.send(&vec![0; size]);
    assert_eq!(
        refused,
        Err(SendError::TooLarge {
            size,
            mtu: SMTP_MTU
        })
    );
    drop(a);
    assert_eq!(to_b.send(b"x"), Err(SendError::Closed));
}

/// A leaf has no reply address, and a receiver no relay.
#[tokio::test]
async fn mail_may_go_one_way_only() {
    let port = free_port().unwrap();
    let (a, _at_a) = start(member("oslo", Some(port), Vec::new()));
    let (b, mut at_b) = start(member("rome", None, lmtp(port)));
    assert_eq!(a.addresses(), []);
    let there = b.addresses()[0].clone();
    assert_eq!(there.direction, Direction::Receive);
    let to_b = a.connect(&there.address).await.unwrap();
    to_b.send(b"hello").unwrap();
    let incoming = next(&mut at_b).await;
    assert_eq!(&incoming.message[..], b"hello");
    assert!(incoming.session.is_closed());
    let no_reply = incoming.session.remote();
    assert_eq!(
        no_reply.to_string(),
        "smtp://nobody@reply.invalid?X-Ringway=none"
    );
    assert_eq!(incoming.session.send(b"x"), Err(SendError::Closed));
    assert!(!a.accepts(&no_reply));
    let refused = b.connect(&there.address).await;
    assert!(matches!(refused, Err(ConnectError::NotAccepted { .. })));
}

#[tokio::test]
async fn a_spent_budget_drops_and_counts() {
    let port = free_port().unwrap();
    let (a, _at_a) = start(SmtpOptions {
        budget: MailBudget {
            hourly: 1,
            daily: 1,
        },
        ..member("oslo", Some(port), Vec::new())
    });
    let (b, mut at_b) = start(member("rome", None, lmtp(port)));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    to_b.send(b"one").unwrap();
    to_b.send(b"two").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"one");
    assert_eq!(&next(&mut at_b).await.message[..], b"two");
    assert_eq!(to_b.send(b"three"), Err(SendError::OverBudget));
    assert_eq!((a.counters().sent, a.counters().budget), (2, 1));
}

/// A relay that answers the end of each mail with the next of `answers` and hands out the mails.
fn relay(answers: &'static [&'static str]) -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind(loopback()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mails, received) = std::sync::mpsc::channel::<String>();
    std::thread::spawn(move || {
        let mut answers = answers.iter();
        while let Ok((stream, _)) = listener.accept() {
            let mut writer = stream.try_clone().unwrap();
            writer.write_all(b"220 x\r\n").unwrap();
            let mut mail: Option<String> = None;
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                let answer = match (&mut mail, &*line) {
                    (Some(text), ".") => {
                        mails.send(std::mem::take(text)).ok();
                        mail = None;
                        let Some(answer) = answers.next() else { return };
                        answer
                    }
                    (Some(text), line) => {
                        text.push_str(line.strip_prefix('.').unwrap_or(line));
                        text.push_str("\r\n");
                        continue;
                    }
                    (None, "DATA") => {
                        mail = Some(String::new());
                        "354 go"
                    }
                    (None, line) if line.starts_with("MAIL") && !line.contains("<>") => {
                        "550 sender"
                    }
                    (None, _) => "250 ok",
                };
                if writer
                    .write_all(format!("{answer}\r\n").as_bytes())
                    .is_err()
                {
                    break;
                }
            }
        }
    });
    (port, received)
}

/// One mail from oslo to rome, as it leaves.
pub(crate) async fn mail(text: &[u8]) -> String {
    let (port, mails) = relay(&["250 ok"]);
    let (a, _at_a) = start(member("oslo", Some(port), lmtp(free_port().unwrap())));
    let there = Address::Smtp(mailbox("rome"));
    a.connect(&there).await.unwrap().send(text).unwrap();
    let received = tokio::task::spawn_blocking(move || mails.recv().unwrap());
    soon(received).await.unwrap()
}

#[tokio::test]
async fn what_the_relay_refuses_is_counted() {
    let (port, mails) = relay(&["554 never", "451 later", "250 ok"]);
    let (a, _at_a) = start(member("oslo", Some(port), Vec::new()));
    let to = a.connect(&Address::Smtp(mailbox("rome"))).await.unwrap();
    to.send(b"one").unwrap();
    to.send(b"two").unwrap();
    until(|| a.counters().failed == 2).await;
    // A temporary failure is no loss.
    to.send(b"three").unwrap();
    let second = tokio::task::spawn_blocking(move || {
        mails.recv().unwrap();
        let second = mails.recv().unwrap();
        (second, mails)
    });
    let (_, mails) = soon(second).await.unwrap();
    assert_eq!(a.counters().failed, 2);
    assert!(mails.try_recv().is_err());
}

/// A relay that answers each line as it is told; a connection begins with "" and ends with "(end)".
/// It hangs up after a 421.
fn told_relay(
    answer: impl Fn(&str) -> &'static str + Send + 'static,
) -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind(loopback()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (said, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let reader = BufReader::new(stream.try_clone().unwrap());
            let lines = reader
                .lines()
                .map(|line| line.unwrap_or("(bytes)".to_owned()));
            let mut in_mail = false;
            for line in std::iter::once(String::new()).chain(lines) {
                if in_mail && line != "." {
                    continue;
                }
                let answer = answer(line.split(' ').next().unwrap());
                in_mail = answer.contains("354");
                let ends = line == "(bytes)" || answer.starts_with("421");
                said.send(line).ok();
                if stream.write_all(answer.as_bytes()).is_err() || ends {
                    break;
                }
            }
            said.send("(end)".to_owned()).ok();
        }
    });
    (port, received)
}

/// What the relay is told, up to the line.
async fn told_until(
    lines: std::sync::mpsc::Receiver<String>,
    last: &'static str,
) -> (Vec<String>, std::sync::mpsc::Receiver<String>) {
    let told = tokio::task::spawn_blocking(move || {
        let mut told = Vec::new();
        while told.last().is_none_or(|line| line != last) {
            match lines.recv_timeout(Duration::from_secs(50)) {
                Ok(line) => told.push(line),
                Err(_) => panic!("after {told:?} comes no {last:?}"),
            }
        }
        (told, lines)
    });
    soon(told).await.unwrap()
}

fn commands<'t>(told: &'t [String], word: &str) -> Vec<&'t str> {
    let lines = told.iter().map(String::as_str);
    lines
        .filter(|line| line.split(' ').next() == Some(word))
        .collect()
}

#[tokio::test]
async fn mails_share_a_connection_and_commands_a_packet() {
    // It answers three commands once it has all of them: who waits after each would wait forever.
    let (port, lines) = told_relay(|line| match line {
        "" => "220 x\r\n",
        "EHLO" => "250-x\r\n250-PIPELINING\r\n250 HELP\r\n",
        "DATA" => "250 sender\r\n250 recipient\r\n354 go\r\n",
        "." => "250 taken\r\n",
        _ => "",
    });
    let (a, _at_a) = start(member("oslo", Some(port), Vec::new()));
    let to = a.connect(&Address::Smtp(mailbox("rome"))).await.unwrap();
    to.send(b"one").unwrap();
    let (told, lines) = told_until(lines, ".").await;
    assert_eq!(commands(&told, "MAIL"), ["MAIL FROM:<>"]);
    assert_eq!(commands(&told, "RCPT"), ["RCPT TO:<rome@ring.test>"]);
    to.send(b"two").unwrap();
    let (told, _lines) = told_until(lines, ".").await;
    assert_eq!(told[0], "MAIL FROM:<>", "no new connection, no greeting");
    assert_eq!(a.counters().failed, 0);
}

#[tokio::test]
async fn connection_ended_by_the_relay_is_reopened() {
    let mails = std::sync::atomic::AtomicUsize::new(0);
    let (port, lines) = told_relay(move |line| match line {
        "" => "220 x\r\n",
        "EHLO" => "250 x\r\n",
        // The second mail finds the connection at its end.
        "MAIL" if mails.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 => "421 bye\r\n",
        "MAIL" | "RCPT" => "250 go on\r\n",
        "DATA" => "354 go\r\n",
        "." => "250 taken\r\n",
        _ => "",
    });
    let (a, _at_a) = start(member("oslo", Some(port), Vec::new()));
    let to = a.connect(&Address::Smtp(mailbox("rome"))).await.unwrap();
    to.send(b"one").unwrap();
    let (_, lines) = told_until(lines, ".").await;
    to.send(b"two").unwrap();
    let sent = std::time::Instant::now();
    let (told, _lines) = told_until(lines, ".").await;
    assert_eq!(commands(&told, "MAIL").len(), 2, "{told:?}");
    // At once: not after the pause of a relay that does not take it now.
    assert!(sent.elapsed() < MAIL_RETRY, "{:?}", sent.elapsed());
    assert_eq!(a.counters().failed, 0);
}

#[tokio::test]
async fn nothing_in_the_clear_gets_behind_starttls() {
    let (port, lines) = told_relay(|line| match line {
        "" => "220 x\r\n",
        "EHLO" => "250-x\r\n250 STARTTLS\r\n",
        // Somebody between us and the relay adds an answer of his own.
        "STARTTLS" => "220 go\r\n250 AUTH LOGIN\r\n",
        _ => "",
    });
    let relay = MailRelay {
        server: MailServer {
            tls: MailTls::StartTls,
            ..server(port)
        },
        login: None,
    };
    let (a, _at_a) = start(SmtpOptions {
        relay: Some(relay),
        ..member("oslo", None, Vec::new())
    });
    let to = a.connect(&Address::Smtp(mailbox("rome"))).await.unwrap();
    to.send(b"one").unwrap();
    let (told, _lines) = told_until(lines, "(end)").await;
    assert_eq!(told, ["", "EHLO ring.test", "STARTTLS", "(end)"]);
}

#[tokio::test]
async fn a_relay_without_starttls_gets_no_mail() {
    let (port, lines) = told_relay(|line| match line {
        "" => "220 x\r\n",
        _ => "250 x\r\n",
    });
    let relay = MailRelay {
        server: MailServer {
            tls: MailTls::StartTls,
            ..server(port)
        },
        login: None,
    };
    let (a, _at_a) = start(SmtpOptions {
        relay: Some(relay),
        ..member("oslo", None, Vec::new())
    });
    let to = a.connect(&Address::Smtp(mailbox("rome"))).await.unwrap();
    to.send(b"one").unwrap();
    let (told, _lines) = told_until(lines, "(end)").await;
    assert_eq!(told, ["", "EHLO ring.test", "(end)"]);
}

/// What must not be taken for ours: each as a whole mail.
async fn strange_mails() -> Vec<(&'static str, Vec<u8>)> {
    let good = mail(b"good").await;
    let cut = good.len() * 3 / 4;
    vec![
        ("foreign", b"Subject: lunch\r\n\r\nAt one?\r\n".to_vec()),
        (
            "foreign",
            good.replace("X-Ringway: rome", "X-Ringway: r").into(),
        ),
        (
            "malformed",
            b"X-Ringway: rome\r\n\r\nfooled you\r\n".to_vec(),
        ),
        ("malformed", good.as_bytes()[..cut].to_vec()),
        (
            "malformed",
            format!("{good}{}", "x\r\n".repeat(MAIL_BYTES / 3)).into(),
        ),
        ("good", good.clone().into()),
        ("duplicate", good.into()),
    ]
}

fn check_strange(transport: &SmtpTransport) {
    let counters = transport.counters();
    assert_eq!(counters.received, 1);
    assert_eq!(
        (counters.foreign, counters.malformed, counters.duplicate),
        (2, 3, 1)
    );
}

#[tokio::test]
async fn a_maildir_keeps_what_is_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["new", "cur", "tmp"] {
        std::fs::create_dir(folder.path().join(part)).unwrap();
    }
    let put = |name: &str, mail: &[u8]| {
        let hidden = folder.path().join("tmp").join(name);
        std::fs::write(&hidden, mail).unwrap();
        std::fs::rename(hidden, folder.path().join("new").join(name)).unwrap();
    };
    put("before", mail(b"before we started").await.as_bytes());
    let source = MailSource::Maildir(folder.path().to_owned());
    let (b, mut at_b) = start(member("rome", None, vec![source]));
    assert_eq!(&next(&mut at_b).await.message[..], b"before we started");
    drop(b);

    let (b, mut at_b) = start(member(
        "rome",
        None,
        vec![MailSource::Maildir(folder.path().to_owned())],
    ));
    for (number, (kind, mail)) in strange_mails().await.into_iter().enumerate() {
        put(&format!("{number}-{kind}"), &mail);
    }
    assert_eq!(&next(&mut at_b).await.message[..], b"good");
    until(|| b.counters().duplicate == 1).await;
    until(|| b.counters().malformed == 3 && b.counters().foreign == 2).await;
    check_strange(&b);
    let left = || {
        let listed = folder.path().join("new").read_dir().unwrap();
        let mut names: Vec<String> = listed
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    until(|| left().len() == 5).await;
    assert!(
        left()
            .iter()
            .all(|name| name.contains("foreign") || name.contains("malformed"))
    );
}

pub(crate) fn fifo(path: &Path) -> bool {
    let Some(mkfifo) = installed("mkfifo") else {
        skipped("the named pipe's test", "mkfifo");
        return false;
    };
    std::process::Command::new(mkfifo)
        .arg(path)
        .status()
        .unwrap()
        .success()
}

#[tokio::test]
async fn a_named_pipe_takes_mail_after_mail() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    if !fifo(&pipe) {
        return;
    }
    let (b, mut at_b) = start(member("rome", None, vec![MailSource::Pipe(pipe.clone())]));
    let strange = strange_mails().await;
    let last = mail(b"last").await;
    let written = tokio::task::spawn_blocking(move || {
        // One writer for each, as a delivery programme has it; the last two in one go, as an mbox.
        for (_, mail) in strange {
            std::fs::write(&pipe, mail).unwrap();
            // The reader tells mails apart by the end of their writer.
            std::thread::sleep(Duration::from_millis(50));
        }
        let mbox = format!("From MAILER-DAEMON Mon Jan  1\n{last}\n");
        std::fs::write(&pipe, mbox.repeat(2)).unwrap();
    });
    assert_eq!(&next(&mut at_b).await.message[..], b"good");
    soon(written).await.unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"last");
    until(|| b.counters().duplicate == 2).await;
    assert_eq!((b.counters().foreign, b.counters().malformed), (2, 3));
}

#[tokio::test]
async fn strange_mails_hurt_no_lmtp_server() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("lmtp");
    // One without a listener is replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let source = MailSource::LmtpUnix(socket.clone());
    let (b, mut at_b) = start(member("rome", None, vec![source]));
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let strange = strange_mails().await;
    let talked = tokio::task::spawn_blocking(move || {
        let mut codes = Vec::new();
        for (_, mail) in strange {
            let stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut say = |text: &[u8]| {
                (&stream).write_all(text).unwrap();
                answers
                    .find(|line| !line.as_ref().unwrap().contains("250-"))
                    .unwrap()
                    .unwrap()
            };
            say(b"");
            for line in ["LHLO x", "MAIL FROM:<>", "RCPT TO:<rome@ring.test>", "DATA"] {
                say(format!("{line}\r\n").as_bytes());
            }
            let stuffed = String::from_utf8(mail).unwrap().replace("\r\n.", "\r\n..");
            codes.push(say(format!("{stuffed}\r\n.\r\n").as_bytes())[..3].to_owned());
        }
        codes
    });
    let codes = soon(talked).await.unwrap();
    assert_eq!(codes, ["550", "550", "550", "550", "552", "250", "250"]);
    assert_eq!(&next(&mut at_b).await.message[..], b"good");
    check_strange(&b);
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "open to all").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let relay = |host: &str, tls| MailRelay {
        server: MailServer {
            host: host.to_owned(),
            tls,
            ..server(25)
        },
        login: Some(MailLogin {
            user: "oslo".to_owned(),
            password_file: secret.clone(),
        }),
    };
    let with_relay = |relay| SmtpOptions {
        relay: Some(relay),
        ..member("oslo", None, Vec::new())
    };
    for (options, expected) in [
        (with_relay(relay("mail.test", MailTls::Plain)), "use TLS"),
        (with_relay(relay("mail.test", MailTls::Tls)), "chmod 600"),
        (
            member("a", None, vec![MailSource::Pipe(secret.clone())]),
            "mkfifo",
        ),
        (
            member("a", None, vec![MailSource::Maildir(secret.clone())]),
            "new",
        ),
        (
            member(
                "a",
                None,
                vec![MailSource::LmtpTcp(([0, 0, 0, 0], 0).into())],
            ),
            "loopback",
        ),
        (
            SmtpOptions {
                address: None,
                ..member("a", None, lmtp(0))
            },
            "no address",
        ),
    ] {
        let error = SmtpTransport::start(options, channel(1).0).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
