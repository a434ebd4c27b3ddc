//! One connection over a stream: a task that pumps bytes, and the link to send on.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::Framing;
use crate::address::{Address, Protocol};
use crate::counters::Counters;
use crate::places::Place;
use crate::transport::{BoxFuture, Inbox, Link, SendError, Session};

/// What every connection of a transport shares.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) inbox: Inbox,
    pub(super) counters: Arc<Counters>,
    pub(super) stopped: watch::Receiver<()>,
    pub(super) idle: Duration,
}

/// Sends messages without waiting.
pub trait Writer: Debug + Send + Sync + 'static {
    /// Sends a message that is not longer than the MTU, if that goes at once.
    fn try_write(&self, message: &[u8]) -> Result<(), SendError>;
}

/// Moves bytes between the stream and the connection until either ends.
pub(crate) type Pump<W> = Box<dyn FnOnce(Receiver<W>) -> BoxFuture<'static, End> + Send>;

/// A connection that is open.
pub struct Opened<W> {
    pub(super) remote: Address,
    pub(super) writer: W,
    pub(super) pump: Pump<W>,
}

impl<W> Debug for Opened<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The peer closed it.
    Peer,
    /// We stopped.
    Stopped,
    /// It was not used.
    Idle,
    /// It was not used, and another wanted its place.
    Crowded,
    /// Nothing was received for long, or a message took too long.
    Slow,
    /// What arrived is none of our messages, or longer than the MTU.
    Malformed,
    /// The network failed.
    Failed(io::Error),
}

/// Starts the task of an open connection and returns a session on it.
pub(super) fn start<F: Framing>(
    opened: Opened<F::Writer>,
    context: Context,
    place: Place,
) -> Session {
    let Opened {
        remote,
        writer,
        pump,
    } = opened;
    let shared = Arc::new(Shared {
        writer,
        remote,
        mtu: F::MTU,
        closed: AtomicBool::new(false),
        counters: context.counters.clone(),
        place,
    });
    let link = StreamLink::new(shared.clone());
    let receiver = Receiver {
        shared: shared.clone(),
        held: Arc::downgrade(&link),
        inbox: context.inbox,
        idle: context.idle,
    };
    let mut stopped = context.stopped;
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = pump(receiver) => ended,
            _ = stopped.changed() => End::Stopped,
            () = shared.place.must_go() => End::Crowded,
        };
        shared.closed.store(true, Ordering::Release);
        shared.count(F::PROTOCOL, &ended);
    });
    Session::new(link)
}

#[derive(Debug)]
pub(crate) struct Shared<W> {
    pub(super) writer: W,
    remote: Address,
    mtu: usize,
    closed: AtomicBool,
    counters: Arc<Counters>,
    place: Place,
}

impl<W> Shared<W> {
    fn count(&self, protocol: Protocol, ended: &End) {
        tracing::trace!(%protocol, remote = %self.remote, ?ended, "connection ended");
        match ended {
            End::Peer | End::Stopped => {}
            End::Crowded => self.counters.refused.add(),
            End::Idle | End::Slow => self.counters.timed_out.add(),
            End::Malformed => self.counters.malformed.add(),
            End::Failed(error) => {
                tracing::debug!(%protocol, remote = %self.remote, %error, "connection failed");
                self.counters.failed.add();
            }
        }
    }
}

/// Takes what arrives.
#[derive(Debug)]
pub(crate) struct Receiver<W> {
    pub(super) shared: Arc<Shared<W>>,
    /// What the sessions hold, while there are any.
    held: Weak<StreamLink<W>>,
    inbox: Inbox,
    /// Silence after which a connection without a session ends.
    pub(super) idle: Duration,
}

impl<W: Writer> Receiver<W> {
    /// There is a session on it.
    pub(super) fn is_held(&self) -> bool {
        self.held.strong_count() > 0
    }

    /// The peer closes it: nothing is to be sent any more.
    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    /// Hands a message on, with a session to answer it; false if nothing takes messages any more.
    pub(super) fn deliver(&mut self, message: Bytes) -> bool {
        let link = self.held.upgrade().unwrap_or_else(|| {
            let link = StreamLink::new(self.shared.clone());
            self.held = Arc::downgrade(&link);
            link
        });
        self.inbox.deliver(Session::new(link), message)
    }
}

/// What the sessions hold; gone when the last is dropped.
#[derive(Debug)]
pub(crate) struct StreamLink<W>(Arc<Shared<W>>);

impl<W> StreamLink<W> {
    /// While there is one, a session is held.
    fn new(shared: Arc<Shared<W>>) -> Arc<Self> {
        shared.place.keep();
        Arc::new(Self(shared))
    }
}

impl<W> Drop for StreamLink<W> {
    fn drop(&mut self) {
        self.0.place.release();
    }
}

impl<W: Writer> Link for StreamLink<W> {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let shared = &self.0;
        if message.len() > shared.mtu {
            shared.counters.too_large.add();
            return Err(SendError::TooLarge {
                size: message.len(),
                mtu: shared.mtu,
            });
        }
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let sent = shared.writer.try_write(message);
        match sent {
            Ok(()) => shared.counters.sent(message.len()),
            Err(SendError::WouldBlock) => {}
            Err(_) => shared.closed.store(true, Ordering::Release),
        }
        sent
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn remote(&self) -> Address {
        self.0.remote.clone()
    }

    fn mtu(&self) -> usize {
        self.0.mtu
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
}
