//! What a transport is: the trait, the session handle, and the message that arrives. Read this
//! first.
//!
//! Messages are unreliable, unordered and at most [`Transport::mtu`] bytes long; users that need
//! more build it on top. A transport knows nothing of members or encryption: it moves bytes between
//! addresses.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::address::{Address, AddressDescriptor, Protocol};
use crate::counters::{CounterSnapshot, Counters, as_count};
use crate::listening::CannotListen;

/// A future on the heap, so that [`Transport`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One way to move messages. Starting is the constructor, stopping is dropping.
///
/// Getters: [`protocol`](Self::protocol), [`mtu`](Self::mtu), [`cost`](Self::cost),
/// [`addresses`](Self::addresses), [`counters`](Self::counters). Commands:
/// [`accepts`](Self::accepts), [`connect`](Self::connect). Messages arrive as [`Incoming`] on the
/// channel given at start.
pub trait Transport: fmt::Debug + Send + Sync {
    /// The protocol (the paper's `protocolNumber`).
    fn protocol(&self) -> Protocol;

    /// Largest message, bytes.
    fn mtu(&self) -> usize;

    /// Cost compared with other transports; less is better, no unit.
    fn cost(&self) -> u32;

    /// The addresses to advertise in a HELLO (the paper's `createHELO`); none if no peer can reach
    /// this transport, as behind NAT or without a listener.
    fn addresses(&self) -> Vec<AddressDescriptor>;

    /// Whether the address is one of this transport's that it would send to (the paper's
    /// `verifyHELO`). Says nothing of whether anybody answers there.
    fn accepts(&self, address: &Address) -> bool;

    /// Makes a session to an address.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing is left behind.
    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>>;

    /// What was sent, received and dropped since the start.
    fn counters(&self) -> CounterSnapshot;
}

/// What a transport implements for one session.
pub trait Link: fmt::Debug + Send + Sync {
    /// Sends one message now or not at all. Never blocks. Counts what became of it, but not
    /// [`SendError::WouldBlock`]: the caller may still have a use for the message.
    ///
    /// # Errors
    /// [`SendError`].
    fn offer(&self, message: &[u8]) -> Result<(), SendError>;

    /// Offers messages in order until the system takes no more; how many have gone. This default
    /// offers them one by one; a transport that can hand over many at once does better.
    ///
    /// # Errors
    /// `Closed` only.
    fn offer_all(&self, messages: &[&[u8]]) -> Result<usize, SendError> {
        let mut gone: usize = 0;
        for message in messages {
            match self.offer(message) {
                Ok(()) | Err(SendError::TooLarge { .. } | SendError::OverBudget) => {
                    gone = gone.saturating_add(1);
                }
                Err(SendError::WouldBlock) => break,
                Err(SendError::Closed) => return Err(SendError::Closed),
            }
        }
        Ok(gone)
    }

    /// Where the transport counts.
    fn counters(&self) -> &Counters;

    /// The far end.
    fn remote(&self) -> Address;

    /// Largest message, bytes.
    fn mtu(&self) -> usize;

    /// Whether sending can never succeed again.
    fn is_closed(&self) -> bool;
}

/// A handle on a session. Clones are the same session; holding one is the paper's `associate`,
/// dropping the last is its `disconnect`: the transport then closes the session once it is idle.
#[derive(Debug, Clone)]
pub struct Session {
    link: Arc<dyn Link>,
}

impl Session {
    /// A session over a transport's link.
    pub fn new(link: Arc<dyn Link>) -> Self {
        Self { link }
    }

    /// Sends one message now or not at all. Never blocks; success is no proof of arrival.
    ///
    /// # Errors
    /// `TooLarge` past the MTU, `WouldBlock` if the system's buffer is full, `OverBudget` (mail),
    /// `Closed` for good.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let sent = self.link.offer(message);
        if sent == Err(SendError::WouldBlock) {
            self.link.counters().would_block.add();
        }
        sent
    }

    /// Sends leading messages in order, with as few calls of the system as the transport can; never
    /// blocks. Says how many of them have gone: sent, lost on the way out, or longer than the
    /// MTU and dropped; each is counted. If that is not all, the system takes no more right
    /// now: the rest is dropped and counted.
    ///
    /// # Errors
    /// `Closed` for good; some may have gone nevertheless.
    pub fn send_batch(&self, messages: &[&[u8]]) -> Result<usize, SendError> {
        let gone = self.link.offer_all(messages)?;
        let left = messages.len().saturating_sub(gone);
        self.link.counters().would_block.add_many(as_count(left));
        Ok(gone)
    }

    /// The far end, as its messages show it: for an accepted TCP connection an ephemeral port.
    pub fn remote(&self) -> Address {
        self.link.remote()
    }

    /// The protocol of the session.
    pub fn protocol(&self) -> Protocol {
        self.link.remote().protocol()
    }

    /// Largest message, bytes.
    pub fn mtu(&self) -> usize {
        self.link.mtu()
    }

    /// Whether sending can never succeed again.
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }
}

/// A message that arrived. Keep the session to answer over it, or drop it.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The session it came over.
    pub session: Session,
    /// The message, at most the transport's MTU.
    pub message: Bytes,
}

/// Where a transport puts the messages that arrive: the bounded channel given at start.
#[derive(Debug, Clone)]
pub struct Inbox {
    queue: mpsc::Sender<Incoming>,
    counters: Arc<Counters>,
}

impl Inbox {
    /// An inbox that counts in `counters`.
    pub fn new(queue: mpsc::Sender<Incoming>, counters: Arc<Counters>) -> Self {
        Self { queue, counters }
    }

    /// Puts a message into the queue, or drops and counts it if the queue is full.
    ///
    /// False once the receiver is gone: the transport may stop.
    pub fn deliver(&self, session: Session, message: Bytes) -> bool {
        let size = message.len();
        match self.queue.try_send(Incoming { session, message }) {
            Ok(()) => self.counters.received(size),
            Err(mpsc::error::TrySendError::Full(_)) => self.counters.queue_full.add(),
            Err(mpsc::error::TrySendError::Closed(_)) => return false,
        }
        true
    }

    /// Puts messages of one session into the queue, in order; as many as it takes. The rest is
    /// dropped and counted.
    ///
    /// False once the receiver is gone: the transport may stop.
    pub(crate) fn deliver_all(
        &self,
        session: &Session,
        messages: impl ExactSizeIterator<Item = Bytes>,
    ) -> bool {
        let (mut count, mut bytes, mut dropped) = (0_usize, 0_usize, 0_usize);
        match self.queue.try_reserve_many(messages.len()) {
            // Room for all is had at once; only the waking is for each.
            Ok(places) => {
                for (place, message) in places.zip(messages) {
                    count = count.saturating_add(1);
                    bytes = bytes.saturating_add(message.len());
                    place.send(Incoming {
                        session: session.clone(),
                        message,
                    });
                }
            }
            Err(mpsc::error::TrySendError::Closed(())) => return false,
            Err(mpsc::error::TrySendError::Full(())) => {
                for message in messages {
                    let size = message.len();
                    let session = session.clone();
                    match self.queue.try_send(Incoming { session, message }) {
                        Ok(()) => {
                            count = count.saturating_add(1);
                            bytes = bytes.saturating_add(size);
                        }
                        Err(mpsc::error::TrySendError::Full(_)) => {
                            dropped = dropped.saturating_add(1);
                        }
                        Err(mpsc::error::TrySendError::Closed(_)) => return false,
                    }
                }
            }
        }
        self.counters.received_many(count, bytes);
        self.counters.queue_full.add_many(as_count(dropped));
        true
    }
}

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// We were misused: the message exceeds the MTU.
    #[error("the message has {size} bytes, the session takes {mtu}; split it")]
    TooLarge {
        /// Bytes of the message.
        size: usize,
        /// Largest message, bytes.
        mtu: usize,
    },
    /// The system's buffer is full; the message is dropped, later ones may pass.
    #[error("the network takes no more right now; the message is dropped, send slower")]
    WouldBlock,
    /// What may be sent in this time is used up; the message is dropped.
    #[error("the budget of messages is used up; the message is dropped, try another way or later")]
    OverBudget,
    /// The session ended.
    #[error("the session is closed; connect again")]
    Closed,
}

/// Why no session was made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// We were misused: not an address of this transport, or none that it sends to.
    #[error("{address} is no address that the {protocol} transport sends to")]
    NotAccepted {
        /// The address.
        address: Address,
        /// The transport.
        protocol: Protocol,
    },
    /// Too many sessions.
    #[error("no session to {address}: {limit} are open; close some or raise the limit")]
    Busy {
        /// The address.
        address: Address,
        /// The limit that is reached.
        limit: usize,
    },
    /// There was no answer in time.
    #[error("{address} did not answer in time; check that the peer runs and the path is open")]
    TimedOut {
        /// The address.
        address: Address,
    },
    /// The network failed.
    #[error("cannot connect to {address}: {source}")]
    Network {
        /// The address.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a transport could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The listening address cannot be had.
    #[error("cannot listen on {protocol}://{listen}: {}", CannotListen { address: *.listen, source })]
    Listen {
        /// The transport.
        protocol: Protocol,
        /// Where it was to listen.
        listen: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A file or program that the options name cannot be used.
    #[error("the {protocol} transport cannot use {}: {source}", path.display())]
    File {
        /// The transport.
        protocol: Protocol,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// An option is wrong.
    #[error("the {protocol} transport cannot start: {reason}")]
    Option {
        /// The transport.
        protocol: Protocol,
        /// Which option, and the mend.
        reason: String,
    },
}
