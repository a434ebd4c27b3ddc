//! Messages in mail: slow and dear, and it passes where nothing else does. The paper's §3.

mod container;
mod incoming;
mod metered;
mod mime;
mod options;
mod outbox;
mod outgoing;

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

pub use self::options::{
    ImapSource, MailBudget, MailLogin, MailRelay, MailServer, MailSource, MailTls, Pop3Source,
    SmtpOptions,
};

use self::incoming::{Receiver, imap, lmtp, maildir, pipe, pop3};
use self::options::{file_error, wrong};
use self::outbox::{Outbox, Refused};
use self::outgoing::Relay;
use crate::address::{Address, AddressDescriptor, Direction, LatencyClass, MailAddress, Protocol};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::SMTP_MTU;
use crate::transport::{
    BoxFuture, ConnectError, Inbox, Incoming, Link, SendError, Session, StartError, Transport,
};
use crate::web_tls::WebTls;

/// The `smtp` transport. Dropping it stops it; what was not mailed yet is lost.
///
/// # Out
/// The first message to a mailbox leaves at once by a relay, the organisation's mail server; what
/// follows is collected for a moment and leaves as one mail. Mails are few: when an hour's or a
/// day's budget is spent, messages are dropped. A mail looks like a bounce, so no list and no
/// vacation programme passes it on or answers it, and it bears the header by which its receiver
/// filters.
///
/// # In
/// Mails come from any number of [`MailSource`]s. One is ours if it bears our filter header and a
/// container that is whole; all else is counted and left where it is. Nothing proves the sender or
/// the reply address here: that is done above, as for every transport. An answer to a forged reply
/// address is one mail within the budgets.
#[derive(Debug)]
pub struct SmtpTransport {
    shared: Arc<Shared>,
    options: SmtpOptions,
    /// Held for its drop: it ends all tasks.
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    outbox: Mutex<Outbox>,
    /// Something was put into the outbox.
    more: Notify,
    sends: bool,
    closed: AtomicBool,
    counters: Arc<Counters>,
}

impl Shared {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // A panic elsewhere cannot leave it half changed.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SmtpTransport {
    /// Starts receiving and sending, as far as so configured. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if a listener, a file or an option cannot be used. A relay or an IMAP server
    /// that does not answer is no error: it is tried again.
    pub fn start(
        options: SmtpOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        let counters = Arc::new(Counters::default());
        let shared = Arc::new(Shared {
            outbox: Mutex::new(Outbox::new(&options)),
            more: Notify::new(),
            sends: options.relay.is_some(),
            closed: AtomicBool::new(false),
            counters: counters.clone(),
        });
        let mut tasks = JoinSet::new();
        if let Some(relay) = &options.relay {
            let relay = Relay::new(relay, options.address.as_ref(), own_reply(&options))?;
            tasks.spawn(outgoing::run(shared.clone(), relay));
        }
        if let Some(own) = &options.address {
            let inbox = Inbox::new(incoming, counters);
            let receiver = Arc::new(Receiver::new(own.clone(), shared.clone(), inbox));
            for source in &options.sources {
                receive(source, receiver.clone(), &mut tasks)?;
            }
        } else if !options.sources.is_empty() {
            return Err(wrong("there are sources of mail, but no address of ours"));
        }
        Ok(Self {
            shared,
            options,
            _tasks: tasks,
        })
    }
}

impl Drop for SmtpTransport {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

/// Where answers go, if they can arrive at all.
fn own_reply(options: &SmtpOptions) -> Option<MailAddress> {
    let own = options.address.clone();
    own.filter(|_| !options.sources.is_empty())
}

/// Starts to take mails from one source.
fn receive(
    source: &MailSource,
    receiver: Arc<Receiver>,
    tasks: &mut JoinSet<()>,
) -> Result<(), StartError> {
    match source {
        MailSource::LmtpUnix(path) => {
            let listener = bind_unix(path).map_err(|source| file_error(path, source))?;
            tasks.spawn(lmtp::run(lmtp::Listener::Unix(listener), receiver));
        }
        MailSource::LmtpTcp(listen) => {
            if !listen.ip().is_loopback() {
                return Err(wrong(
                    "LMTP does not authenticate its clients: it listens on loopback only",
                ));
            }
            let bound = crate::stream::bind(*listen);
            let (listener, _) = bound.map_err(|source| StartError::Listen {
                protocol: Protocol::Smtp,
                listen: *listen,
                source,
            })?;
            tasks.spawn(lmtp::run(lmtp::Listener::Tcp(listener), receiver));
        }
        MailSource::Maildir(folder) => {
            let new = folder.join("new");
            new.read_dir().map_err(|source| file_error(&new, source))?;
            tasks.spawn(maildir::run(folder.clone(), receiver));
        }
        MailSource::Pipe(path) => {
            let metadata = path.metadata().map_err(|source| file_error(path, source))?;
            if !metadata.file_type().is_fifo() {
                let source = std::io::Error::other("it is no named pipe: make one with `mkfifo`");
                return Err(file_error(path, source));
            }
            tasks.spawn(pipe::run(path.clone(), receiver));
        }
        MailSource::Imap(imap) => {
            let tls = fetching(&imap.server, &imap.login)?;
            tasks.spawn(imap::run(imap.clone(), tls, receiver));
        }
        MailSource::Pop3(pop3) => {
            let tls = fetching(&pop3.server, &pop3.login)?;
            tasks.spawn(pop3::run(pop3.clone(), tls, receiver));
        }
    }
    Ok(())
}

/// What protects the way to a server that mails are fetched from.
fn fetching(server: &MailServer, login: &MailLogin) -> Result<WebTls, StartError> {
    server.check(Some(login))?;
    let roots = server.extra_roots.as_deref();
    WebTls::load(roots).map_err(|source| file_error(roots.unwrap_or(Path::new("")), source))
}

/// Makes the socket, in place of one without a listener.
fn bind_unix(path: &Path) -> std::io::Result<UnixListener> {
    let stale = path.symlink_metadata();
    if stale.is_ok_and(|metadata| metadata.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path).is_err()
    {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // The mail server is in our group, or the folder keeps everybody else out.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// A session to the member that answers at `to`; none does at `None`.
fn session(shared: &Arc<Shared>, to: Option<MailAddress>) -> Session {
    Session::new(Arc::new(MailLink {
        shared: shared.clone(),
        to,
    }))
}

impl Transport for SmtpTransport {
    fn protocol(&self) -> Protocol {
        Protocol::Smtp
    }

    fn mtu(&self) -> usize {
        SMTP_MTU
    }

    fn cost(&self) -> u32 {
        self.options.cost
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let mtu = u32::try_from(SMTP_MTU).unwrap_or(u32::MAX);
        let own = own_reply(&self.options).into_iter();
        own.map(|own| AddressDescriptor {
            direction: match self.options.relay {
                Some(_) => Direction::Both,
                None => Direction::Receive,
            },
            latency: LatencyClass::Minutes,
            quota: self.options.quota,
            ..AddressDescriptor::new(Address::Smtp(own), mtu, self.options.cost)
        })
        .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        let Address::Smtp(mail) = address else {
            return false;
        };
        // A domain that cannot exist (RFC 2606) stands for no reply address at all.
        let exists = !mail.mailbox().ends_with(".invalid");
        exists && self.shared.sends && mail.mailbox().parse::<lettre::Address>().is_ok()
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        let session = match address {
            Address::Smtp(mail) if self.accepts(address) => {
                Ok(session(&self.shared, Some(mail.clone())))
            }
            _ => Err(ConnectError::NotAccepted {
                address: address.clone(),
                protocol: Protocol::Smtp,
            }),
        };
        Box::pin(std::future::ready(session))
    }

    fn counters(&self) -> CounterSnapshot {
        self.shared.counters.snapshot()
    }
}

#[derive(Debug)]
struct MailLink {
    shared: Arc<Shared>,
    to: Option<MailAddress>,
}

impl Link for MailLink {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let Shared { counters, .. } = &*self.shared;
        if message.len() > SMTP_MTU {
            counters.too_large.add();
            return Err(SendError::TooLarge {
                size: message.len(),
                mtu: SMTP_MTU,
            });
        }
        let Some(to) = self.to.as_ref().filter(|_| !self.is_closed()) else {
            return Err(SendError::Closed);
        };
        let pushed = self.shared.outbox().push(Instant::now(), to, message);
        match pushed {
            Ok(()) => {
                counters.sent(message.len());
                self.shared.more.notify_one();
                Ok(())
            }
            Err(Refused::Full) => Err(SendError::WouldBlock),
            Err(Refused::Budget) => {
                counters.budget.add();
                Err(SendError::OverBudget)
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The mailbox; for a mail without a reply address one that cannot exist (RFC 2606).
    fn remote(&self) -> Address {
        const NO_REPLY: &str = "smtp://nobody@reply.invalid?X-Ringway=none";
        let no_reply = || NO_REPLY.parse::<MailAddress>().ok();
        let to = self.to.clone().or_else(no_reply);
        to.map_or_else(
            || Address::Udp((std::net::Ipv4Addr::UNSPECIFIED, 0).into()),
            Address::Smtp,
        )
    }

    fn mtu(&self) -> usize {
        SMTP_MTU
    }

    fn is_closed(&self) -> bool {
        let stopped = self.shared.closed.load(Ordering::Acquire);
        stopped || self.to.is_none() || !self.shared.sends
    }
}

/// Decodes a container.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_container(data: &[u8]) {
    drop(container::Container::decode(data));
}

/// Decodes a mail with the filter header `X-Ringway: fuzz`.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_mail(data: &[u8]) {
    if let Ok(own) = MailAddress::new("a@b", "X-Ringway", "fuzz") {
        drop(mime::read(data, &own));
    }
}

/// Cuts bytes from the named pipe into mails.
#[cfg(feature = "fuzzing")]
pub(crate) fn cut_pipe(data: &[u8]) {
    let mut cutter = pipe::Cutter::default();
    cutter.feed(data, |_| {});
    cutter.end(|_| {});
}

/// Reads what a POP3 server answers, kept up to `limit` bytes of its lines, in pieces of `piece`
/// bytes.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_pop3(limit: Option<usize>, piece: usize, data: &[u8]) {
    use self::incoming::pop3::answer::{Shape, read_anything};
    read_anything(limit.map_or(Shape::Line, Shape::Lines), piece, data);
}
