//! POP3 servers that are mistaken, hostile or merely odd: none stops the transport, and ours come
//! through.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_transport::{MailLogin, MailSource, Pop3Source, SmtpOptions, Transport};

use crate::smtp::{mail, member, server, start};
use crate::support::{loopback, next, until};

/// What a server does instead of the usual, by the command that it is asked.
type Oddity = fn(&str) -> Option<Vec<u8>>;

/// A server with the mails; deleted ones are gone once somebody says QUIT. Hands out what it was
/// asked.
struct Pop3 {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    mails: Arc<Mutex<BTreeMap<u32, String>>>,
}

impl Pop3 {
    fn start(mails: &[String], oddity: Oddity) -> Self {
        let listener = TcpListener::bind(loopback()).unwrap();
        let numbered = (1..).zip(mails.iter().cloned()).collect();
        let pop3 = Self {
            port: listener.local_addr().unwrap().port(),
            asked: Arc::default(),
            mails: Arc::new(Mutex::new(numbered)),
        };
        let (asked, mails) = (pop3.asked.clone(), pop3.mails.clone());
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                serve(&stream, &asked, &mails, oddity);
            }
        });
        pop3
    }

    fn options(&self, folder: &tempfile::TempDir) -> SmtpOptions {
        let password_file = folder.path().join("password");
        std::fs::write(&password_file, "secret word").unwrap();
        std::fs::set_permissions(&password_file, PermissionsExt::from_mode(0o600)).unwrap();
        let source = Pop3Source {
            server: server(self.port),
            login: MailLogin {
                user: "rome".to_owned(),
                password_file,
            },
            interval: Duration::from_secs(1),
        };
        member("rome", None, vec![MailSource::Pop3(source)])
    }

    fn count(&self, word: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|line| line.starts_with(word)).count()
    }
}

fn serve(
    mut stream: &TcpStream,
    asked: &Mutex<Vec<String>>,
    mails: &Mutex<BTreeMap<u32, String>>,
    oddity: Oddity,
) {
    let mut deleted = Vec::new();
    let greeting = oddity("").unwrap_or(b"+OK ready\r\n".to_vec());
    if stream.write_all(&greeting).is_err() {
        return;
    }
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        asked.lock().unwrap().push(line.clone());
        let words: Vec<&str> = line.split(' ').collect();
        let held = mails.lock().unwrap().clone();
        let mail = words.get(1).and_then(|word| held.get(&word.parse().ok()?));
        let usual = match (words[0], mail) {
            ("CAPA", _) => "-ERR what?\r\n".to_owned(),
            ("USER" | "PASS", _) => "+OK\r\n".to_owned(),
            ("UIDL", _) => {
                let list = held
                    .iter()
                    .map(|(n, mail)| format!("{n} u{}\r\n", mail.len()));
                format!("+OK\r\n{}.\r\n", list.collect::<String>())
            }
            ("TOP", Some(mail)) => {
                format!(
                    "+OK\r\n{}\r\n\r\n.\r\n",
                    mail.split("\r\n\r\n").next().unwrap()
                )
            }
            ("LIST", Some(mail)) => format!("+OK {} {}\r\n", words[1], mail.len()),
            ("RETR", Some(mail)) => {
                format!("+OK\r\n{}\r\n.\r\n", mail.replace("\r\n.", "\r\n.."))
            }
            ("DELE", Some(_)) => {
                deleted.push(words[1].parse::<u32>().unwrap());
                "+OK\r\n".to_owned()
            }
            ("QUIT", _) => "+OK\r\n".to_owned(),
            _ => "-ERR\r\n".to_owned(),
        };
        let answer = oddity(&line).unwrap_or(usual.into_bytes());
        if stream.write_all(&answer).is_err() || answer.is_empty() {
            return;
        }
        if line == "QUIT" {
            mails
                .lock()
                .unwrap()
                .retain(|number, _| !deleted.contains(number));
            return;
        }
    }
}

#[tokio::test]
async fn an_old_server_without_capabilities_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = "Subject: lunch\r\n\r\n.At one?".to_owned();
    let mails = [mail(b"first").await, foreign, mail(b"second").await];
    let pop3 = Pop3::start(&mails, |_| None);
    let (b, mut at_b) = start(pop3.options(&folder));
    assert_eq!(&next(&mut at_b).await.message[..], b"first");
    assert_eq!(&next(&mut at_b).await.message[..], b"second");
    until(|| pop3.count("QUIT") >= 3).await;
    assert_eq!(pop3.mails.lock().unwrap().len(), 1);
    // Of the foreign mail only the headers were read, once.
    assert_eq!((pop3.count("TOP 2"), pop3.count("RETR 2")), (1, 0));
    assert_eq!(pop3.count("PASS secret word"), pop3.count("USER rome"));
    let counters = b.counters();
    assert_eq!(
        (counters.foreign, counters.failed, counters.duplicate),
        (1, 0, 0)
    );
}

#[tokio::test]
async fn undeleted_mail_is_recognised_as_duplicate() {
    let folder = tempfile::tempdir().unwrap();
    // The connection is lost before the server deletes.
    let pop3 = Pop3::start(&[mail(b"first").await], |line| {
        (line == "QUIT").then(|| b"-ERR disk full\r\n".to_vec())
    });
    let mails = pop3.mails.lock().unwrap().clone();
    let (b, mut at_b) = start(pop3.options(&folder));
    assert_eq!(&next(&mut at_b).await.message[..], b"first");
    until(|| b.counters().failed == 1).await;
    *pop3.mails.lock().unwrap() = mails;
    until(|| b.counters().duplicate == 1).await;
    assert_eq!(b.counters().received, 1);
}

#[tokio::test]
async fn bad_mails_do_not_delay_good_ones() {
    let folder = tempfile::tempdir().unwrap();
    let claims = "X-Ringway: rome\r\nSubject: ";
    let long = "x".repeat(5 << 20);
    let mails = [
        format!("{claims}a mail whose headers are refused\r\n\r\n"),
        format!("{claims}a mail of another size\r\n\r\n"),
        format!(
            "{claims}a mail that says to be too long\r\n\r\n{}",
            &long[..2 << 20]
        ),
        format!("Subject: {}\r\n\r\n", &long[..3 << 20]),
        mail(b"good").await,
    ];
    let pop3 = Pop3::start(&mails, |line| match line {
        "TOP 1 0" => Some(b"-ERR not now\r\n".to_vec()),
        "RETR 2" => Some(format!("+OK\r\n{}.\r\n", "long\r\n".repeat(400_000)).into_bytes()),
        _ => None,
    });
    let (b, mut at_b) = start(pop3.options(&folder));
    assert_eq!(&next(&mut at_b).await.message[..], b"good");
    until(|| pop3.count("QUIT") >= 2).await;
    let counters = b.counters();
    assert_eq!(
        (counters.malformed, counters.foreign, counters.failed),
        (2, 1, 1)
    );
    assert_eq!((pop3.count("RETR"), pop3.count("TOP")), (2, 5));
}

/// Says something wrong at one command, and lets us see that it is a failure and no more.
async fn fails(oddity: Oddity) {
    let folder = tempfile::tempdir().unwrap();
    let pop3 = Pop3::start(&[mail(b"never").await], oddity);
    let (b, mut at_b) = start(pop3.options(&folder));
    until(|| b.counters().failed >= 1).await;
    assert!(at_b.try_recv().is_err());
    assert_eq!(b.counters().received, 0);
}

#[tokio::test]
async fn hostile_servers_are_left() {
    fails(|line| (line.is_empty()).then(|| b"* OK IMAP4rev1\r\n".to_vec())).await;
    fails(|line| (line.is_empty()).then(|| vec![b'x'; 1 << 20])).await;
    fails(|line| (line.is_empty()).then(|| b"-ERR go away\r\n".to_vec())).await;
    fails(|line| (line.starts_with("PASS")).then(|| b"-ERR [AUTH] wrong\r\n".to_vec())).await;
    fails(|line| (line.starts_with("PASS")).then(|| b"+ more?\r\n".to_vec())).await;
    fails(|line| (line == "UIDL").then(|| b"-ERR what?\r\n".to_vec())).await;
    fails(|line| (line == "UIDL").then(|| b"+OK\r\nfirst\r\n.\r\n".to_vec())).await;
    fails(|line| (line == "UIDL").then(|| b"+OK\r\n1 a\r\n.\r\n+OK".to_vec())).await;
    fails(|line| (line == "UIDL").then(|| [&b"+OK\r\n"[..], &vec![b'x'; 5 << 20]].concat())).await;
    fails(|line| (line == "TOP 1 0").then(Vec::new)).await;
    fails(|line| (line == "LIST 1").then(|| b"+OK 1 many\r\n".to_vec())).await;
    fails(|line| (line == "RETR 1").then(|| [&b"+OK\r\n"[..], &vec![b'x'; 5 << 20]].concat()))
        .await;
}
