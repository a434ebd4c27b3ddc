//! A local mail server delivers to us by LMTP (RFC 2033), or by SMTP if it greets so.

use std::io;
use std::slice::Iter;
use std::sync::Arc;

use smtp_proto::request::receiver::{DataReceiver, DummyDataReceiver, RequestReceiver};
use smtp_proto::{
    EXT_8BIT_MIME, EXT_ENHANCED_STATUS_CODES, EXT_PIPELINING, EXT_SIZE, EhloResponse, Error,
    Request, Response,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;

use super::{Receiver, Verdict};
use crate::limits::{
    ACCEPT_PAUSE, LMTP_CONNECTION_TIME, LMTP_CONNECTIONS, LMTP_MISTAKES, LMTP_RECIPIENTS,
    LMTP_TIME, MAIL_BYTES,
};
use crate::places::{Place, Places};

use crate::smtp::metered::Io;

/// The name that we give ourselves; no client resolves it.
const HOST: &str = "ringway.localhost";

/// Where the mail server connects to.
#[derive(Debug)]
pub(in crate::smtp) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Io>> {
        match self {
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// Serves the mail server, for as long as the transport lives.
pub(in crate::smtp) async fn run(listener: Listener, receiver: Arc<Receiver>) {
    let places = Places::new(LMTP_CONNECTIONS);
    // Their tasks end with ours.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                receiver.failed("lmtp", &error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.take() else {
            receiver.refused();
            continue;
        };
        let receiver = receiver.clone();
        connections.spawn(async move {
            let served = Box::pin(serve(stream, &receiver, &place));
            let served = tokio::select! {
                served = timeout(LMTP_CONNECTION_TIME, served) => served,
                () = place.must_go() => return receiver.refused(),
            };
            match served {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => {
                    tracing::debug!(%error, "lmtp connection failed");
                }
                Ok(Err(_)) | Err(_) => receiver.timed_out(),
            }
        });
    }
}

async fn limited<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = timeout(LMTP_TIME, step).await;
    done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn serve(mut stream: Box<dyn Io>, receiver: &Receiver, place: &Place) -> io::Result<()> {
    let mut conversation = Conversation::default();
    conversation.reply(220, [2, 0, 0], HOST);
    let mut buffer = vec![0; 8 * 1024];
    loop {
        let answer = std::mem::take(&mut conversation.answer);
        limited(stream.write_all(&answer)).await?;
        if !answer.is_empty() {
            // A whole command, or a whole mail.
            place.touch();
        }
        if conversation.over {
            return limited(stream.shutdown()).await;
        }
        let size = limited(stream.read(&mut buffer)).await?;
        if size == 0 {
            return Ok(());
        }
        conversation.feed(buffer.get(..size).unwrap_or_default(), |mail| {
            receiver.take(mail)
        });
        if std::mem::take(&mut conversation.too_long) {
            receiver.too_long();
        }
    }
}

/// What is being read.
enum Reading {
    Commands,
    Mail(DataReceiver),
    /// A mail that is too long; the rest of it is dropped.
    Rest(DummyDataReceiver),
}

/// The state of one connection. Reads no socket.
struct Conversation {
    commands: RequestReceiver,
    reading: Reading,
    mail: Vec<u8>,
    /// Whether the client greeted with LHLO: then each recipient gets a reply of its own.
    lmtp: bool,
    has_sender: bool,
    recipients: usize,
    mistakes: usize,
    /// What is to be written.
    answer: Vec<u8>,
    /// Whether the connection ends once the answer is written.
    over: bool,
    too_long: bool,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            commands: RequestReceiver::default(),
            reading: Reading::Commands,
            mail: Vec::new(),
            lmtp: false,
            has_sender: false,
            recipients: 0,
            mistakes: 0,
            answer: Vec::new(),
            over: false,
            too_long: false,
        }
    }
}

impl Conversation {
    fn reply(&mut self, code: u16, [a, b, c]: [u8; 3], text: &str) {
        // Writing to memory does not fail.
        Response::new(code, a, b, c, text)
            .write(&mut self.answer)
            .ok();
    }

    fn reset(&mut self) {
        self.has_sender = false;
        self.recipients = 0;
        self.mail = Vec::new();
    }

    /// Takes what the client sent; hands whole mails to `take`.
    fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8]) -> Verdict) {
        let mut bytes = bytes.iter();
        while !self.over && !bytes.as_slice().is_empty() {
            match &mut self.reading {
                Reading::Commands => self.command(&mut bytes),
                Reading::Mail(data) => {
                    let whole = data.ingest(&mut bytes, &mut self.mail);
                    if self.mail.len() > MAIL_BYTES {
                        self.mail = Vec::new();
                        self.too_long = true;
                        self.reading = Reading::Rest(DummyDataReceiver::new_data(data));
                        if whole {
                            self.finish(552, [5, 3, 4], "the mail is too long");
                        }
                    } else if whole {
                        match take(&self.mail) {
                            Verdict::Taken => self.finish(250, [2, 0, 0], "delivered"),
                            Verdict::Left => self.finish(550, [5, 6, 0], "not a mail for Ringway"),
                            Verdict::Stopped => self.finish(451, [4, 3, 0], "stopped"),
                        }
                    }
                }
                Reading::Rest(data) => {
                    if data.ingest(&mut bytes) {
                        self.finish(552, [5, 3, 4], "the mail is too long");
                    }
                }
            }
        }
    }

    /// Answers for a mail, and waits for the next command.
    fn finish(&mut self, code: u16, status: [u8; 3], text: &str) {
        let replies = if self.lmtp { self.recipients } else { 1 };
        for _ in 0..replies {
            self.reply(code, status, text);
        }
        self.reset();
        self.reading = Reading::Commands;
    }

    fn command(&mut self, bytes: &mut Iter<'_, u8>) {
        let request = match self.commands.ingest(bytes) {
            Ok(request) => request.into_owned(),
            Err(Error::NeedsMoreData { .. }) => return,
            Err(Error::ResponseTooLong) => {
                self.over = true;
                return self.reply(500, [5, 5, 6], "the line is too long");
            }
            Err(_) => return self.mistake(500, [5, 5, 2], "not understood"),
        };
        match request {
            Request::Lhlo { .. } | Request::Ehlo { .. } => {
                self.lmtp = matches!(request, Request::Lhlo { .. });
                self.reset();
                let mut greeting = EhloResponse::new(HOST);
                greeting.capabilities =
                    EXT_8BIT_MIME | EXT_ENHANCED_STATUS_CODES | EXT_PIPELINING | EXT_SIZE;
                greeting.size = MAIL_BYTES;
                greeting.write(&mut self.answer).ok();
            }
            Request::Helo { .. } => {
                self.lmtp = false;
                self.reset();
                self.reply(250, [2, 0, 0], HOST);
            }
            Request::Mail { from } if from.size > MAIL_BYTES => {
                self.too_long = true;
                self.mistake(552, [5, 3, 4], "the mail is too long");
            }
            Request::Mail { .. } => {
                self.reset();
                self.has_sender = true;
                self.reply(250, [2, 1, 0], "go on");
            }
            Request::Rcpt { .. } if !self.has_sender => {
                self.mistake(503, [5, 5, 1], "MAIL comes first");
            }
            Request::Rcpt { .. } if self.recipients >= LMTP_RECIPIENTS => {
                self.reply(452, [4, 5, 3], "too many recipients");
            }
            Request::Rcpt { .. } => {
                self.recipients = self.recipients.saturating_add(1);
                self.reply(250, [2, 1, 5], "go on");
            }
            Request::Data if self.recipients == 0 => {
                self.mistake(503, [5, 5, 1], "RCPT comes first");
            }
            Request::Data => {
                self.reading = Reading::Mail(DataReceiver::new());
                self.reply(354, [3, 0, 0], "end with a dot");
            }
            Request::Rset => {
                self.reset();
                self.reply(250, [2, 0, 0], "reset");
            }
            Request::Noop { .. } => self.reply(250, [2, 0, 0], "nothing done"),
            Request::Quit => {
                self.over = true;
                self.reply(221, [2, 0, 0], "bye");
            }
            _ => self.mistake(502, [5, 5, 1], "not offered"),
        }
    }

    fn mistake(&mut self, code: u16, status: [u8; 3], text: &str) {
        self.mistakes = self.mistakes.saturating_add(1);
        self.over = self.mistakes >= LMTP_MISTAKES;
        self.reply(code, status, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Talks to a conversation in pieces; returns the answers' codes and the mails.
    fn talk(text: &[u8], piece: usize) -> (Vec<String>, Vec<Vec<u8>>) {
        let (mut conversation, mut mails) = (Conversation::default(), Vec::new());
        for part in text.chunks(piece) {
            conversation.feed(part, |mail| {
                mails.push(mail.to_vec());
                if mail.starts_with(b"X") {
                    Verdict::Taken
                } else {
                    Verdict::Left
                }
            });
        }
        let answer = String::from_utf8(conversation.answer).unwrap();
        let last = answer.lines().filter(|line| &line[3..4] == " ");
        (last.map(|line| line[..3].to_owned()).collect(), mails)
    }

    #[test]
    fn each_recipient_gets_a_reply_in_lmtp_only() {
        let rest = b" me\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.c>\r\nRCPT TO:<d@b.c>\r\nDATA\r\n\
            X-A: b\r\n\r\n..dot\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.c>\r\nDATA\r\nno\r\n.\r\nQUIT\r\n";
        for piece in [1, 2, 7, 1000] {
            let (codes, mails) = talk(&[&b"LHLO"[..], rest].concat(), piece);
            let expected = "250 250 250 250 354 250 250 250 250 354 550 221";
            assert_eq!(codes.join(" "), expected, "{piece}");
            assert_eq!(mails[0], b"X-A: b\r\n\r\n.dot\r\n");
            let (codes, _) = talk(&[&b"EHLO"[..], rest].concat(), piece);
            let expected = "250 250 250 250 354 250 250 250 354 550 221";
            assert_eq!(codes.join(" "), expected, "{piece}");
        }
    }

    #[test]
    fn too_much_is_refused() {
        let begin = "LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.c>\r\nDATA\r\nX: y\r\n\r\n";
        let long = "x".repeat(998) + "\r\n";
        let text = format!("{begin}{}.\r\nNOOP\r\n", long.repeat(MAIL_BYTES / 1000 + 1));
        let (codes, mails) = talk(text.as_bytes(), 8192);
        assert_eq!(codes.join(" "), "250 250 250 354 552 250");
        assert!(mails.is_empty());
        let announced = format!("LHLO me\r\nMAIL FROM:<> SIZE={}\r\n", MAIL_BYTES + 1);
        assert_eq!(talk(announced.as_bytes(), 100).0.join(" "), "250 552");
        let line = "x".repeat(10_000);
        assert_eq!(talk(line.as_bytes(), 1000).0.join(" "), "500");
        let mistakes = "DATA\r\n".repeat(100);
        assert_eq!(talk(mistakes.as_bytes(), 64).0.len(), LMTP_MISTAKES);
        let many = "RCPT TO:<a@b.c>\r\n".repeat(LMTP_RECIPIENTS + 1);
        let text = format!("LHLO me\r\nMAIL FROM:<>\r\n{many}");
        assert_eq!(talk(text.as_bytes(), 64).0.last().unwrap(), "452");
    }

    proptest! {
        #[test]
        fn random_talk_never_panics(
            words in prop::collection::vec(prop_oneof![
                Just(b"LHLO x\r\n".to_vec()),
                Just(b"MAIL FROM:<>\r\n".to_vec()),
                Just(b"RCPT TO:<a@b.c>\r\n".to_vec()),
                Just(b"DATA\r\n".to_vec()),
                Just(b"\r\n.\r\n".to_vec()),
                Just(b"BDAT 5 LAST\r\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..30),
            ], 0..30),
            piece in 1_usize..50,
        ) {
            talk(&words.concat(), piece);
        }
    }
}
