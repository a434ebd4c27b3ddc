//! Mails leave by a relay, one after the other: budgets make them few.

mod connection;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::time::{sleep_until, timeout};

use self::connection::{Connection, Failure};
use super::container::Container;
use super::options::{MailRelay, MailServer, file_error};
use super::outbox::Mail;
use super::{Shared, mime};
use crate::address::MailAddress;
use crate::limits::{MAIL_RELAY_IDLE, MAIL_RELAY_TIME};
use crate::transport::StartError;
use crate::web_tls::WebTls;

/// The relay, and what our mails say of us.
pub(super) struct Relay {
    relay: MailRelay,
    tls: WebTls,
    /// The connection of the last mail, and until when it is kept.
    kept: Option<(Connection, Instant)>,
    domain: String,
    reply: Option<MailAddress>,
}

impl Relay {
    /// `own` says whose mails they are, `reply` where answers go, if they can arrive.
    pub(super) fn new(
        relay: &MailRelay,
        own: Option<&MailAddress>,
        reply: Option<MailAddress>,
    ) -> Result<Self, StartError> {
        relay.server.check(relay.login.as_ref())?;
        let roots = relay.server.extra_roots.as_deref();
        let tls = WebTls::load(roots)
            .map_err(|source| file_error(roots.unwrap_or(Path::new("")), source))?;
        let mailbox = own.map_or("", MailAddress::mailbox);
        let domain = mailbox.rsplit_once('@').map(|(_, domain)| domain);
        Ok(Self {
            relay: relay.clone(),
            tls,
            kept: None,
            domain: domain.unwrap_or("localhost").to_owned(),
            reply,
        })
    }

    /// Offers a mail to the relay.
    async fn offer(&mut self, mail: &Mail, number: [u8; 16]) -> Result<(), Failure> {
        let mailbox = mail.to.mailbox().parse();
        let mailbox = mailbox.map_err(|_| Failure::Never("the mailbox is none".to_owned()))?;
        let container = Container {
            number,
            reply: self.reply.clone(),
            messages: mail.messages.clone(),
        };
        let bytes = mime::write(&container, &mail.to, &self.domain);
        // The relay may have closed the kept connection meanwhile: that says nothing of the mail.
        if let Some((connection, _)) = self.kept.take() {
            match self.send(connection, &mailbox, &bytes).await {
                Err(Failure::Lost(reason)) => tracing::debug!(%reason, "the relay is gone"),
                done => return done,
            }
        }
        let open = Connection::open(&self.relay, &self.tls, &self.domain);
        let connection = limited(open).await?;
        self.send(connection, &mailbox, &bytes).await
    }

    /// Sends by this connection, and keeps it if all is well.
    async fn send(
        &mut self,
        mut connection: Connection,
        to: &lettre::Address,
        mail: &[u8],
    ) -> Result<(), Failure> {
        limited(connection.send(to, mail)).await?;
        let until = Instant::now().checked_add(MAIL_RELAY_IDLE);
        self.kept = until.map(|until| (connection, until));
        Ok(())
    }

    /// When [`Self::rest`] has something to do.
    fn poll_timeout(&self) -> Option<Instant> {
        self.kept.as_ref().map(|(_, until)| *until)
    }

    /// Ends a connection that was unused for long.
    fn rest(&mut self, now: Instant) {
        if let Some((connection, _)) = self.kept.take_if(|(_, until)| *until <= now) {
            tokio::spawn(timeout(MAIL_RELAY_TIME, connection.quit()));
        }
    }
}

async fn limited<T>(step: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Five answers at most.
    let done = timeout(MAIL_RELAY_TIME.saturating_mul(5), step).await;
    done.unwrap_or_else(|_| {
        Err(Failure::Later(
            "the relay did not answer in time".to_owned(),
        ))
    })
}

/// Sends what is due, for as long as the transport lives.
pub(super) async fn run(shared: Arc<Shared>, mut relay: Relay) {
    loop {
        let now = Instant::now();
        relay.rest(now);
        let (mail, next) = {
            let mut outbox = shared.outbox();
            (outbox.poll(now), outbox.poll_timeout())
        };
        let Some(mut mail) = mail else {
            // A permit is kept if a message came in between.
            let more = shared.more.notified();
            match next.into_iter().chain(relay.poll_timeout()).min() {
                Some(next) => tokio::select! {
                    () = more => {}
                    () = sleep_until(next.into()) => {}
                },
                None => more.await,
            }
            continue;
        };
        let number = *mail.number.get_or_insert_with(random);
        let outcome = relay.offer(&mail, number).await;
        finish(&shared, &relay.relay.server, mail, outcome);
    }
}

/// A number that no other mail has.
fn random() -> [u8; 16] {
    let mut number = [0; 16];
    if let Err(error) = getrandom::fill(&mut number) {
        // Then copies of this mail are not told from others' mails of the same fate, and get lost.
        tracing::error!(%error, "the system has no randomness");
    }
    number
}

fn finish(shared: &Shared, relay: &MailServer, mail: Mail, outcome: Result<(), Failure>) {
    let to = mail.to.clone();
    let lost = u64::try_from(mail.messages.len()).unwrap_or(u64::MAX);
    let mut outbox = shared.outbox();
    match outcome {
        Ok(()) => {
            tracing::debug!(%to, messages = lost, "a mail is sent");
            outbox.sent(mail);
        }
        Err(Failure::Never(reason)) => {
            tracing::warn!(%relay, %to, %reason, "the relay refuses a mail");
            shared.counters.failed.add_many(lost);
            outbox.sent(mail);
        }
        Err(Failure::Later(reason) | Failure::Lost(reason)) => {
            let kept = outbox.retry(Instant::now(), mail);
            tracing::info!(%relay, %to, %reason, kept, "the relay does not take a mail now");
            if !kept {
                shared.counters.timed_out.add();
                shared.counters.failed.add_many(lost);
            }
        }
    }
}
