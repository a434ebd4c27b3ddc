//! A mailbox on an IMAP server: we wait with IDLE (RFC 2177), or look once a minute. Only mails
//! with our filter header are looked at; ours are deleted, others stay as they are.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_imap::types::Fetch;
use async_imap::{Client, Session};
use futures_util::StreamExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::{Receiver, Verdict};
use crate::limits::{IMAP_IDLE, IMAP_LOOK, IMAP_TIME, MAIL_BYTES, MAIL_RETRY, MAIL_RETRY_LONGEST};
use crate::smtp::metered::{Budget, Io, Metered};
use crate::smtp::options::{ImapSource, MailTls};
use crate::web_tls::WebTls;

type Stream = Metered<Box<dyn Io>>;
type Error = async_imap::error::Error;

/// Waits for mails, for as long as the transport lives.
pub(in crate::smtp) async fn run(source: ImapSource, tls: WebTls, receiver: Arc<Receiver>) {
    let name = format!("imap {}", source.server);
    let source = Arc::new(source);
    let mut pause = MAIL_RETRY;
    loop {
        let started = Instant::now();
        // A task of its own: the library panics at some answers that no server should give.
        let mut task = JoinSet::new();
        let (of_task, tls, judge) = (source.clone(), tls.clone(), receiver.clone());
        task.spawn(async move { follow(&of_task, &tls, &judge).await });
        match task.join_next().await {
            Some(Ok(Ok(()))) => return,
            Some(Ok(Err(error))) => receiver.failed(&name, &error),
            Some(Err(error)) => receiver.failed(&name, &error),
            None => {}
        }
        if started.elapsed() >= MAIL_RETRY_LONGEST {
            pause = MAIL_RETRY;
        }
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(MAIL_RETRY_LONGEST);
    }
}

async fn limited<T>(step: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let done = timeout(IMAP_TIME, step).await;
    done.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// One connection. Ends well only when the receiver of messages is gone.
async fn follow(source: &ImapSource, tls: &WebTls, receiver: &Receiver) -> Result<(), Error> {
    let budget = Budget::default();
    let client = limited(connect(source, tls, &budget)).await?;
    let password = source.login.password()?;
    budget.renew();
    let login = async {
        let session = client.login(&source.login.user, password.as_str()).await;
        session.map_err(|(error, _)| error)
    };
    let mut session = limited(login).await?;
    let can = limited(session.capabilities()).await?;
    limited(session.select(&source.folder)).await?;
    let mut mailbox = Mailbox {
        receiver,
        budget: &budget,
        left: BTreeSet::new(),
        can_expunge: can.has_str("UIDPLUS"),
    };
    loop {
        if !mailbox.look(&mut session).await? {
            limited(session.logout()).await?;
            return Ok(());
        }
        budget.renew();
        if can.has_str("IDLE") {
            session = idle(session).await?;
        } else {
            sleep(IMAP_LOOK).await;
            limited(session.noop()).await?;
        }
    }
}

async fn connect(
    source: &ImapSource,
    tls: &WebTls,
    budget: &Budget,
) -> Result<Client<Stream>, Error> {
    let server = &source.server;
    let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
    if server.tls == MailTls::Tls {
        let stream = tls.connect(&server.host, stream).await?;
        return greet(budget.meter(Box::new(stream))).await;
    }
    let mut client = greet(budget.meter(Box::new(stream))).await?;
    if server.tls == MailTls::Plain {
        return Ok(client);
    }
    client.run_command_and_check_ok("STARTTLS", None).await?;
    // What came in the clear behind the answer is dropped with the client.
    let bare = client.into_inner().into_inner();
    let stream = tls.connect(&server.host, bare).await?;
    Ok(Client::new(budget.meter(Box::new(stream))))
}

async fn greet(stream: Stream) -> Result<Client<Stream>, Error> {
    let mut client = Client::new(stream);
    match client.read_response().await? {
        Some(_) => Ok(client),
        None => Err(Error::ConnectionLost),
    }
}

/// Waits until the server has news, or for [`IMAP_IDLE`].
async fn idle(session: Session<Stream>) -> Result<Session<Stream>, Error> {
    let mut handle = session.idle();
    limited(handle.init()).await?;
    {
        let forever = Duration::from_secs(3600);
        let (news, _stop) = handle.wait_with_timeout(forever);
        // The library's own limit begins again with each sign of life.
        if let Ok(Err(error)) = timeout(IMAP_IDLE, news).await {
            return Err(error);
        }
    }
    limited(handle.done()).await
}

/// What one connection knows of the mailbox.
struct Mailbox<'a> {
    receiver: &'a Receiver,
    budget: &'a Budget,
    /// Mails that are none of ours after all.
    left: BTreeSet<u32>,
    /// Whether single mails can be deleted for good (RFC 4315).
    can_expunge: bool,
}

impl Mailbox<'_> {
    /// Takes the mails that are there. False if the receiver of messages is gone.
    async fn look(&mut self, session: &mut Session<Stream>) -> Result<bool, Error> {
        let (header, value) = self.receiver.filter();
        let query = format!("UNSEEN UNDELETED HEADER {header} {value}");
        self.budget.renew();
        let found = limited(session.uid_search(query)).await?;
        let found: BTreeSet<u32> = found.into_iter().collect();
        self.left.retain(|uid| found.contains(uid));
        for uid in found {
            if self.left.contains(&uid) {
                continue;
            }
            let verdict = match self.fetch(session, uid).await? {
                Some(mail) => self.receiver.take(&mail),
                None => Verdict::Left,
            };
            match verdict {
                Verdict::Taken => self.delete(session, uid).await?,
                Verdict::Left => {
                    self.left.insert(uid);
                }
                Verdict::Stopped => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The mail; `None` if it is gone or too long.
    async fn fetch(
        &mut self,
        session: &mut Session<Stream>,
        uid: u32,
    ) -> Result<Option<Vec<u8>>, Error> {
        let limit = u32::try_from(MAIL_BYTES).unwrap_or(u32::MAX);
        let size = self.item(session, uid, "RFC822.SIZE", |fetch| fetch.size);
        match size.await? {
            Some(size) if size <= limit => {}
            Some(_) => {
                self.receiver.too_long();
                return Ok(None);
            }
            None => return Ok(None),
        }
        // PEEK leaves it unread.
        let body = self.item(session, uid, "BODY.PEEK[]", |fetch| {
            fetch.body().map(<[u8]>::to_vec)
        });
        body.await
    }

    async fn item<T>(
        &mut self,
        session: &mut Session<Stream>,
        uid: u32,
        item: &str,
        read: impl Fn(&Fetch) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.budget.renew();
        limited(async {
            let mut answers = session
                .uid_fetch(uid.to_string(), format!("(UID {item})"))
                .await?;
            let mut found = None;
            while let Some(answer) = answers.next().await {
                let answer = answer?;
                if answer.uid == Some(uid) {
                    found = read(&answer).or(found);
                }
            }
            Ok(found)
        })
        .await
    }

    async fn delete(&self, session: &mut Session<Stream>, uid: u32) -> Result<(), Error> {
        self.budget.renew();
        limited(async {
            let flags = "+FLAGS.SILENT (\\Seen \\Deleted)";
            let mut answers = session.uid_store(uid.to_string(), flags).await?;
            while let Some(answer) = answers.next().await {
                answer?;
            }
            drop(answers);
            if self.can_expunge {
                let expunged = session.uid_expunge(uid.to_string()).await?;
                let mut expunged = std::pin::pin!(expunged);
                while let Some(answer) = expunged.next().await {
                    answer?;
                }
            }
            Ok(())
        })
        .await
    }
}
