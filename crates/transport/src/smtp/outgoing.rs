//! Mails leave by a relay, one after the other: budgets make them few.

use std::sync::Arc;
use std::time::Instant;

use lettre::address::Envelope;
use lettre::transport::smtp::PoolConfig;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use tokio::time::{sleep_until, timeout};

use super::container::Container;
use super::options::{MailRelay, MailServer, MailTls, file_error, wrong};
use super::outbox::Mail;
use super::{Shared, mime};
use crate::address::MailAddress;
use crate::limits::MAIL_RELAY_TIME;
use crate::transport::StartError;
use crate::web_tls::certificates;

type Client = AsyncSmtpTransport<Tokio1Executor>;

/// The relay, and what our mails say of us.
pub(super) struct Relay {
    client: Client,
    /// Makes another client with the same settings.
    make: Box<dyn Fn() -> Client + Send + Sync>,
    domain: String,
    reply: Option<MailAddress>,
}

/// What became of an attempt.
enum Outcome {
    Taken,
    Later(String),
    Never(String),
}

impl Relay {
    /// `own` says whose mails they are, `reply` where answers go, if they can arrive.
    pub(super) fn new(
        relay: &MailRelay,
        own: Option<&MailAddress>,
        reply: Option<MailAddress>,
    ) -> Result<Self, StartError> {
        let MailServer { host, port, .. } = &relay.server;
        relay.server.check(relay.login.as_ref())?;
        let mailbox = own.map_or("", MailAddress::mailbox);
        let domain = mailbox.rsplit_once('@').map(|(_, domain)| domain);
        let domain = domain.unwrap_or("localhost").to_owned();
        let mut builder = Client::builder_dangerous(host)
            .port(*port)
            .hello_name(ClientId::Domain(domain.clone()))
            .timeout(Some(MAIL_RELAY_TIME))
            .pool_config(PoolConfig::new().max_size(1))
            .tls(tls(&relay.server)?);
        if let Some(login) = &relay.login {
            let password = login.password();
            let password = password.map_err(|source| file_error(&login.password_file, source))?;
            builder =
                builder.credentials(Credentials::new(login.user.clone(), password.to_string()));
        }
        let make = move || builder.clone().build();
        Ok(Self {
            client: make(),
            make: Box::new(make),
            domain,
            reply,
        })
    }

    /// Offers a mail to the relay.
    async fn offer(&mut self, mail: &Mail, number: [u8; 16]) -> Outcome {
        let Ok(mailbox) = mail.to.mailbox().parse() else {
            return Outcome::Never("the mailbox is none".to_owned());
        };
        // Without an envelope sender nobody sends a bounce for a bounce.
        let Ok(envelope) = Envelope::new(None, vec![mailbox]) else {
            return Outcome::Never("the mailbox is none".to_owned());
        };
        let container = Container {
            number,
            reply: self.reply.clone(),
            messages: mail.messages.clone(),
        };
        let bytes = mime::write(&container, &mail.to, &self.domain);
        // Five commands at most; the library limits only the first.
        let limit = MAIL_RELAY_TIME.saturating_mul(5);
        match timeout(limit, self.client.send_raw(&envelope, &bytes)).await {
            Ok(Ok(_)) => Outcome::Taken,
            Ok(Err(error)) if error.is_permanent() || error.is_client() => {
                Outcome::Never(error.to_string())
            }
            Ok(Err(error)) => Outcome::Later(error.to_string()),
            Err(_) => {
                // The connection is in the middle of something.
                self.client = (self.make)();
                Outcome::Later("the relay did not answer in time".to_owned())
            }
        }
    }
}

fn tls(server: &MailServer) -> Result<Tls, StartError> {
    if server.tls == MailTls::Plain {
        return Ok(Tls::None);
    }
    let mut builder = TlsParameters::builder(server.host.clone());
    if let Some(path) = &server.extra_roots {
        for root in certificates(path).map_err(|source| file_error(path, source))? {
            let root = Certificate::from_der(root.to_vec()).map_err(wrong)?;
            builder = builder.add_root_certificate(root);
        }
    }
    let parameters = builder.build_rustls().map_err(wrong)?;
    Ok(match server.tls {
        MailTls::StartTls => Tls::Required(parameters),
        _ => Tls::Wrapper(parameters),
    })
}

/// Sends what is due, for as long as the transport lives.
pub(super) async fn run(shared: Arc<Shared>, mut relay: Relay) {
    loop {
        let (mail, next) = {
            let mut outbox = shared.outbox();
            (outbox.poll(Instant::now()), outbox.poll_timeout())
        };
        let Some(mut mail) = mail else {
            // A permit is kept if a message came in between.
            let more = shared.more.notified();
            match next {
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
        finish(&shared, mail, outcome);
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

fn finish(shared: &Shared, mail: Mail, outcome: Outcome) {
    let to = mail.to.clone();
    let lost = u64::try_from(mail.messages.len()).unwrap_or(u64::MAX);
    let mut outbox = shared.outbox();
    match outcome {
        Outcome::Taken => {
            tracing::debug!(%to, messages = lost, "a mail is sent");
            outbox.sent(mail);
        }
        Outcome::Never(reason) => {
            tracing::warn!(%to, %reason, "the relay refuses a mail");
            shared.counters.failed.add_many(lost);
            outbox.sent(mail);
        }
        Outcome::Later(reason) => {
            let kept = outbox.retry(Instant::now(), mail);
            tracing::info!(%to, %reason, kept, "the relay does not take a mail now");
            if !kept {
                shared.counters.timed_out.add();
                shared.counters.failed.add_many(lost);
            }
        }
    }
}
