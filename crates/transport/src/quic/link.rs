//! One connection that carries messages: a task that reads datagrams, and the link to send on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use noq::{ConnectionError, SendDatagramError};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::connection::QuicConnection;
use crate::address::Address;
use crate::counters::Counters;
use crate::limits::{QUIC_LINK_BATCH, QUIC_LINK_MTU, QUIC_LINKS_OF_MEMBER};
use crate::member::MemberId;
use crate::transport::{Inbox, Link, SendError, Session};

/// What every connection of a transport shares.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) inbox: Inbox,
    pub(super) counters: Arc<Counters>,
    pub(super) stopped: watch::Receiver<()>,
    pub(super) idle: Duration,
    pub(super) accepted: Accepted,
}

/// Starts the task of a connection and returns a session on it.
pub(super) fn start(
    connection: QuicConnection,
    remote: SocketAddr,
    context: Context,
    slot: OwnedSemaphorePermit,
) -> Session {
    let shared = Arc::new(Shared {
        connection,
        remote,
        closed: AtomicBool::new(false),
        counters: context.counters.clone(),
    });
    let link = Arc::new(QuicLink(shared.clone()));
    let held = Arc::downgrade(&link);
    let mut stopped = context.stopped.clone();
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = read(&shared, held, &context) => ended,
            _ = stopped.changed() => End::Stopped,
        };
        shared.closed.store(true, Ordering::Release);
        shared.connection.close(0, "unused");
        context.accepted.forget(&shared);
        count(&shared, &ended);
        drop(slot);
    });
    Session::new(link)
}

/// As [`start`], for a connection that the peer has made. An earlier one of the same member from
/// the same address has ended: the peer has lost it, and would never hear what is sent there.
pub(super) fn start_accepted(
    connection: QuicConnection,
    remote: SocketAddr,
    context: Context,
    slot: OwnedSemaphorePermit,
) {
    let earlier = context.accepted.replace(&connection, remote);
    if let Some(earlier) = earlier {
        earlier.close(0, "replaced");
    }
    // The session lives on in the messages that arrive.
    drop(start(connection, remote, context, slot));
}

/// The connections that peers have made: one for each member and address, so no more than there are
/// places for connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Accepted(Arc<Mutex<BTreeMap<(MemberId, SocketAddr), QuicConnection>>>);

impl Accepted {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(MemberId, SocketAddr), QuicConnection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the member may have one from this address.
    pub(super) fn has_room(&self, member: &MemberId, remote: SocketAddr) -> bool {
        let known = self.lock();
        let own = known
            .keys()
            .filter(|(of, at)| of == member && *at != remote);
        own.count() < QUIC_LINKS_OF_MEMBER
    }

    fn replace(&self, connection: &QuicConnection, remote: SocketAddr) -> Option<QuicConnection> {
        let key = (connection.peer(), remote);
        self.lock().insert(key, connection.clone())
    }

    fn forget(&self, shared: &Shared) {
        let key = (shared.connection.peer(), shared.remote);
        let mut known = self.lock();
        let own = shared.connection.raw().stable_id();
        if known.get(&key).is_some_and(|c| c.raw().stable_id() == own) {
            known.remove(&key);
        }
    }
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The peer closed it, or has restarted.
    Peer,
    /// We stopped, or the peer has made another.
    Stopped,
    /// It was unused.
    Idle,
    /// Nothing was heard.
    Silent,
    /// The peer broke the protocol.
    Failed(ConnectionError),
}

impl From<ConnectionError> for End {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(_)
            | ConnectionError::ConnectionClosed(_)
            | ConnectionError::Reset => Self::Peer,
            ConnectionError::LocallyClosed => Self::Stopped,
            ConnectionError::TimedOut => Self::Silent,
            other => Self::Failed(other),
        }
    }
}

fn count(shared: &Shared, ended: &End) {
    tracing::trace!(remote = %shared.remote, ?ended, "quic connection for messages ended");
    match ended {
        End::Peer | End::Stopped => {}
        End::Idle | End::Silent => shared.counters.timed_out.add(),
        End::Failed(error) => {
            tracing::debug!(remote = %shared.remote, %error, "quic connection for messages failed");
            shared.counters.failed.add();
        }
    }
}

#[derive(Debug)]
struct Shared {
    connection: QuicConnection,
    /// Where it was when the connection began: a path has one name, also when the peer moves.
    remote: SocketAddr,
    closed: AtomicBool,
    counters: Arc<Counters>,
}

/// What the sessions hold; gone when the last is dropped.
#[derive(Debug)]
struct QuicLink(Arc<Shared>);

impl QuicLink {}

impl Link for QuicLink {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let shared = &self.0;
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let sending = Bytes::copy_from_slice(message);
        // Polled once: it goes into the queue now, or not at all.
        let sent = shared
            .connection
            .raw()
            .send_datagram_wait(sending)
            .now_or_never();
        match sent {
            Some(Ok(())) => {
                shared.counters.sent(message.len());
                Ok(())
            }
            None => Err(SendError::WouldBlock),
            Some(Err(SendDatagramError::TooLarge)) => {
                shared.counters.too_large.add();
                Err(SendError::TooLarge {
                    size: message.len(),
                    mtu: self.mtu(),
                })
            }
            Some(Err(error)) => {
                tracing::debug!(remote = %shared.remote, %error, "quic takes no message");
                Err(SendError::Closed)
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn remote(&self) -> Address {
        Address::Quic(self.0.remote)
    }

    fn mtu(&self) -> usize {
        let path = self.0.connection.raw().max_datagram_size();
        path.unwrap_or(QUIC_LINK_MTU)
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
}

/// Reads messages until the connection ends.
async fn read(shared: &Arc<Shared>, mut held: Weak<QuicLink>, context: &Context) -> End {
    let mut batch = vec![Bytes::new(); QUIC_LINK_BATCH];
    let connection = shared.connection.raw();
    loop {
        let arrived = connection.read_many_datagrams(&mut batch);
        let count = match timeout(context.idle, arrived).await {
            Ok(Ok(count)) => count,
            Ok(Err(error)) => return error.into(),
            Err(_) if held.strong_count() > 0 => continue,
            Err(_) => return End::Idle,
        };
        let link = held.upgrade().unwrap_or_else(|| {
            let link = Arc::new(QuicLink(shared.clone()));
            held = Arc::downgrade(&link);
            link
        });
        let messages = batch.iter_mut().take(count).map(std::mem::take);
        if !context.inbox.deliver_all(&Session::new(link), messages) {
            return End::Stopped;
        }
    }
}
