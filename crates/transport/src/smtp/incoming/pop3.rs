//! A mailbox on a POP3 server (RFC 1939), looked at again and again. Of each mail the headers are
//! read first; ours are deleted, others stay as they are.

pub(in crate::smtp) mod answer;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use zeroize::Zeroizing;

use self::answer::{Answer, AnswerError, Capabilities, Lines, Reading, Shape};
use super::{LeftAlone, Receiver, Verdict};
use crate::limits::{
    MAIL_BYTES, MAIL_HEAD_BYTES, MAIL_RETRY, MAIL_RETRY_LONGEST, POP3_ANSWER_BYTES,
    POP3_CONNECTION_TIME, POP3_FOREIGN, POP3_LOOK_LEAST, POP3_MAILS, POP3_TIME,
};
use crate::smtp::metered::Io;
use crate::smtp::options::{MailLogin, MailServer, MailTls, Pop3Source};
use crate::web_tls::WebTls;

/// Why a look at the mailbox ended early.
#[derive(Debug, Error)]
enum Pop3Error {
    #[error(transparent)]
    Network(#[from] io::Error),
    #[error("the server is none for POP3, or mistaken: {0}")]
    Answer(#[from] AnswerError),
    #[error("the server refuses {command}: {}", .reason.escape_debug())]
    Refused {
        command: &'static str,
        reason: String,
    },
}

/// How a look ended.
enum Looked {
    /// The server wants this long until the next one.
    Done(Duration),
    /// The receiver of messages is gone.
    Stopped,
}

/// Looks at the mailbox, for as long as the transport lives.
pub(in crate::smtp) async fn run(source: Pop3Source, tls: WebTls, receiver: Arc<Receiver>) {
    let interval = source.interval.max(POP3_LOOK_LEAST);
    let mut mailbox = Mailbox::default();
    let mut pause = MAIL_RETRY;
    loop {
        match look(&source, &tls, &receiver, &mut mailbox).await {
            Ok(Looked::Done(delay)) => {
                pause = MAIL_RETRY;
                sleep(interval.max(delay.min(MAIL_RETRY_LONGEST))).await;
            }
            Ok(Looked::Stopped) => return,
            Err(error) => {
                receiver.failed(&format!("pop3 {}", source.server), &error);
                sleep(pause).await;
                pause = pause.saturating_mul(2).min(MAIL_RETRY_LONGEST);
            }
        }
    }
}

async fn limited<T>(step: impl Future<Output = Result<T, Pop3Error>>) -> Result<T, Pop3Error> {
    let done = timeout(POP3_TIME, step).await;
    done.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// One connection.
async fn look(
    source: &Pop3Source,
    tls: &WebTls,
    receiver: &Receiver,
    mailbox: &mut Mailbox,
) -> Result<Looked, Pop3Error> {
    let mut session = limited(Session::connect(source, tls)).await?;
    let can = session.capabilities().await?;
    session.login(can, &source.login).await?;
    let list = session.lines("UIDL", "", POP3_ANSWER_BYTES).await?;
    let started = Instant::now();
    let mut running = true;
    for (number, name) in mailbox.unknown(&list.bytes)? {
        if started.elapsed() >= POP3_CONNECTION_TIME || mailbox.left.names.len() >= POP3_FOREIGN {
            break;
        }
        let judged = session.judge(number, receiver).await;
        match mailbox.learn(name, judged)? {
            Verdict::Taken => {
                // Should the server not delete it after all, it comes again and is a copy.
                session.line("DELE", &format!(" {number}")).await?;
            }
            Verdict::Left => {}
            Verdict::Stopped => {
                running = false;
                break;
            }
        }
    }
    // Only now the server deletes.
    session.line("QUIT", "").await?;
    Ok(if running {
        Looked::Done(can.delay)
    } else {
        Looked::Stopped
    })
}

/// What is known of the mailbox from one connection to the next.
#[derive(Debug, Default)]
struct Mailbox {
    /// Mails that are none of ours, or cannot be read.
    left: LeftAlone,
    /// The mail at which the last connection broke.
    broke: Option<u64>,
}

impl Mailbox {
    /// The mails that were not looked at yet, the newest of them: their numbers and hashes of their
    /// names. What is gone is forgotten.
    fn unknown(&mut self, list: &[u8]) -> Result<Vec<(u32, u64)>, AnswerError> {
        let listed = answer::mails(list)?.into_iter();
        let hashed = listed.map(|(number, name)| (number, self.left.hash(name)));
        let (known, mut unknown): (Vec<_>, Vec<_>) =
            hashed.partition(|(_, name)| self.left.names.contains(name));
        self.left.names = known.into_iter().map(|(_, name)| name).collect();
        unknown.drain(..unknown.len().saturating_sub(POP3_MAILS));
        Ok(unknown)
    }

    /// Remembers what became of a mail. One that breaks a second connection must not break all of
    /// them.
    fn learn(
        &mut self,
        name: u64,
        judged: Result<Verdict, Pop3Error>,
    ) -> Result<Verdict, Pop3Error> {
        match judged {
            Ok(Verdict::Left) => {
                self.left.names.insert(name);
            }
            Err(_) if self.broke == Some(name) => {
                self.left.names.insert(name);
            }
            Err(_) => self.broke = Some(name),
            Ok(_) => {}
        }
        judged
    }
}

/// A connection on which one command is under way at a time.
struct Session {
    stream: Box<dyn Io>,
    buffer: Vec<u8>,
    /// The server, for the log.
    name: String,
}

impl Session {
    /// Connects, with TLS as the source wants it.
    async fn connect(source: &Pop3Source, tls: &WebTls) -> Result<Self, Pop3Error> {
        let server = &source.server;
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
        if server.tls == MailTls::Tls {
            let stream = tls.connect(&server.host, stream).await?;
            return Self::greeted(Box::new(stream), server).await;
        }
        let mut session = Self::greeted(Box::new(stream), server).await?;
        if server.tls == MailTls::StartTls {
            // What the server said in the clear behind its answer would have been an error.
            session.line("STLS", "").await?;
            let stream = tls.connect(&server.host, session.stream).await?;
            session.stream = Box::new(stream);
        }
        Ok(session)
    }

    async fn greeted(stream: Box<dyn Io>, server: &MailServer) -> Result<Self, Pop3Error> {
        let mut session = Self {
            stream,
            buffer: vec![0; 16 * 1024],
            name: format!("pop3 {server}"),
        };
        let greeting = session.read(Shape::Line).await?;
        accepted("to talk", greeting)?;
        Ok(session)
    }

    /// Waits for an answer. The caller limits the time.
    async fn read(&mut self, shape: Shape) -> Result<Answer, Pop3Error> {
        let mut reading = Reading::new(shape);
        loop {
            let size = self.stream.read(&mut self.buffer).await?;
            if size == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let arrived = self.buffer.get(..size).unwrap_or_default();
            if let Some(answer) = reading.feed(arrived)? {
                return Ok(answer);
            }
        }
    }

    /// Says `text` and waits for the answer.
    async fn say(&mut self, text: &str, shape: Shape) -> Result<Answer, Pop3Error> {
        limited(async {
            let line = Zeroizing::new(format!("{text}\r\n"));
            self.stream.write_all(line.as_bytes()).await?;
            self.stream.flush().await?;
            self.read(shape).await
        })
        .await
    }

    /// A command whose answer is one line: what stands in it. `rest` begins with a space.
    async fn line(&mut self, command: &'static str, rest: &str) -> Result<String, Pop3Error> {
        let text = Zeroizing::new(format!("{command}{rest}"));
        let answer = self.say(&text, Shape::Line).await?;
        Ok(accepted(command, answer)?.0)
    }

    /// A command that lines answer, of which `limit` bytes are kept.
    async fn lines(
        &mut self,
        command: &'static str,
        rest: &str,
        limit: usize,
    ) -> Result<Lines, Pop3Error> {
        let text = format!("{command}{rest}");
        let answer = self.say(&text, Shape::Lines(limit)).await?;
        Ok(accepted(command, answer)?.1)
    }

    async fn capabilities(&mut self) -> Result<Capabilities, Pop3Error> {
        match self.lines("CAPA", "", POP3_ANSWER_BYTES).await {
            Ok(lines) => Ok(Capabilities::read(&lines.bytes)),
            // An old server, which does not know the question.
            Err(Pop3Error::Refused { .. }) => Ok(Capabilities::default()),
            Err(error) => Err(error),
        }
    }

    async fn login(&mut self, can: Capabilities, login: &MailLogin) -> Result<(), Pop3Error> {
        let (user, password) = (&login.user, login.password()?);
        if !can.plain {
            self.line("USER", &format!(" {user}")).await?;
            let password = Zeroizing::new(format!(" {}", *password));
            self.line("PASS", &password).await?;
            return Ok(());
        }
        // RFC 4616; behind the server's `+`, because a command has no room for a long one (RFC 5034
        // §4).
        const AUTH: &str = "AUTH PLAIN";
        let answer = self.say(AUTH, Shape::Line).await?;
        if answer != Answer::Continue {
            accepted(AUTH, answer)?;
            return Ok(());
        }
        let plain = Zeroizing::new(format!("\0{user}\0{}", *password));
        let plain = Zeroizing::new(BASE64.encode(plain.as_bytes()));
        let answer = self.say(&plain, Shape::Line).await?;
        accepted(AUTH, answer)?;
        Ok(())
    }

    /// Reads a mail as far as it takes to know what to do with it.
    async fn judge(&mut self, number: u32, receiver: &Receiver) -> Result<Verdict, Pop3Error> {
        // Without its body: most mails in a mailbox are no business of ours.
        let top = format!(" {number} 0");
        let head = match self.lines("TOP", &top, MAIL_HEAD_BYTES).await {
            Ok(head) => head,
            Err(error) => return self.skipped(error, receiver),
        };
        if !receiver.claims(&head.bytes) {
            return Ok(Verdict::Left);
        }
        let size = match self.line("LIST", &format!(" {number}")).await {
            Ok(text) => answer::size(&text)?,
            Err(error) => return self.skipped(error, receiver),
        };
        if size > MAIL_BYTES {
            receiver.too_long();
            return Ok(Verdict::Left);
        }
        let mail = match self.lines("RETR", &format!(" {number}"), MAIL_BYTES).await {
            Ok(mail) => mail,
            Err(error) => return self.skipped(error, receiver),
        };
        if mail.cut {
            receiver.too_long();
            return Ok(Verdict::Left);
        }
        Ok(receiver.take(&mail.bytes))
    }

    /// A mail that the server does not show is left alone; all else ends the connection.
    fn skipped(&self, error: Pop3Error, receiver: &Receiver) -> Result<Verdict, Pop3Error> {
        if !matches!(error, Pop3Error::Refused { .. }) {
            return Err(error);
        }
        receiver.failed(&self.name, &error);
        Ok(Verdict::Left)
    }
}

/// What a good answer says.
fn accepted(command: &'static str, answer: Answer) -> Result<(String, Lines), Pop3Error> {
    match answer {
        Answer::Good(text, lines) => Ok((text, lines)),
        Answer::Refused(reason) => Err(Pop3Error::Refused { command, reason }),
        Answer::Continue => Err(AnswerError::Unasked.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_come_first_and_deleted_are_forgotten() {
        let mut mailbox = Mailbox::default();
        let list = |range: std::ops::Range<usize>| -> String {
            range.map(|n| format!("{} mail{n}\r\n", n + 1)).collect()
        };
        let mut unknown = |list: String, broken: bool| {
            let found = mailbox.unknown(list.as_bytes()).unwrap();
            for (_, name) in &found {
                let lost = Pop3Error::Network(io::ErrorKind::TimedOut.into());
                let judged = if broken { Err(lost) } else { Ok(Verdict::Left) };
                mailbox.learn(*name, judged).ok();
            }
            let numbers: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
            (numbers, mailbox.left.names.len())
        };
        let all = POP3_MAILS + 5;
        let (first, known) = unknown(list(0..all), false);
        assert_eq!((first.len(), first[0], known), (POP3_MAILS, 6, POP3_MAILS));
        assert_eq!(unknown(list(0..all), false), (vec![1, 2, 3, 4, 5], all));
        assert_eq!(unknown(list(10..20), false), (Vec::new(), 10));
        assert_eq!(unknown(String::new(), false), (Vec::new(), 0));
        // A mail that broke a connection gets a second try and no third.
        assert_eq!(unknown(list(0..1), true), (vec![1], 0));
        assert_eq!(unknown(list(0..1), true), (vec![1], 1));
        assert_eq!(unknown(list(0..1), true), (Vec::new(), 1));
    }
}
