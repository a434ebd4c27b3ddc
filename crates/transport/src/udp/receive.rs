//! Receiving: several trains of datagrams with one call, each cut into its messages without another
//! copy. A message of a transport, here one datagram, is what a member calls a packet of its links.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use noq::udp::RecvMeta;
use tokio::io::Interest;
use tokio::sync::watch;

use super::Shared;
use super::send::session;
use crate::limits::{UDP_LARGEST, UDP_RECEIVE_BATCH, UDP_RECEIVE_BYTES, UDP_SESSIONS};
use crate::transport::{Inbox, Session};

/// Receives until the transport is dropped or its receiver is.
pub(super) async fn run(shared: Arc<Shared>, inbox: Inbox, mut stopped: watch::Receiver<()>) {
    // Until the system has said once that the socket takes datagrams, every answer would be
    // dropped.
    if shared.socket.writable().await.is_err() {
        return;
    }
    let mut receiver = Receiver::new(shared, inbox);
    loop {
        let ready = tokio::select! {
            ready = receiver.shared.socket.readable() => ready,
            _ = stopped.changed() => return,
        };
        match ready.and_then(|()| receiver.receive()) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                // The system reports an earlier datagram's fate here; the socket stays good.
                tracing::debug!(%error, "udp receive failed");
                receiver.shared.counters.failed.add();
                tokio::task::yield_now().await;
            }
        }
    }
}

struct Receiver {
    shared: Arc<Shared>,
    inbox: Inbox,
    sessions: Sessions,
    buffers: [Box<[u8]>; UDP_RECEIVE_BATCH],
    meta: [RecvMeta; UDP_RECEIVE_BATCH],
}

impl Receiver {
    fn new(shared: Arc<Shared>, inbox: Inbox) -> Self {
        Self {
            shared,
            inbox,
            sessions: Sessions::new(),
            // Memory that is never written to costs nothing.
            buffers: std::array::from_fn(|_| vec![0; UDP_RECEIVE_BYTES].into()),
            meta: [RecvMeta::default(); UDP_RECEIVE_BATCH],
        }
    }

    /// Takes what is there, at most one batch; false once the receiver of messages is gone.
    fn receive(&mut self) -> io::Result<bool> {
        let Shared {
            socket, offload, ..
        } = &*self.shared;
        let mut buffers = self
            .buffers
            .each_mut()
            .map(|buffer| IoSliceMut::new(buffer));
        let mut count = 0;
        let taken = socket.try_io(Interest::READABLE, || {
            count = offload.recv(socket.into(), &mut buffers, &mut self.meta)?;
            // Less than was asked for is all there was: the next call would only say so. What comes
            // from now on wakes us again.
            if count < UDP_RECEIVE_BATCH {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        });
        if count == 0 {
            taken?;
        }
        for (buffer, meta) in self.buffers.iter().zip(&self.meta).take(count) {
            let Some(bytes) = buffer.get(..meta.len) else {
                continue;
            };
            let session = self.sessions.of(&self.shared, meta.addr);
            if !deliver(&self.shared, &self.inbox, session, bytes, meta.stride) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Delivers a train: datagrams of `stride` bytes, the last may be shorter. False once the receiver
/// of messages is gone.
fn deliver(shared: &Shared, inbox: &Inbox, session: &Session, train: &[u8], stride: usize) -> bool {
    let mut train = train;
    // No longer datagram is one of ours: each is counted as malformed. Only the last of a train may
    // be shorter than the others, and is delivered if it is short enough.
    if stride > UDP_LARGEST {
        let short = train
            .len()
            .checked_rem(stride)
            .filter(|rest| *rest <= UDP_LARGEST);
        let long = train.len().saturating_sub(short.unwrap_or(0));
        let count = long.div_ceil(stride);
        shared
            .counters
            .malformed
            .add_many(crate::counters::as_count(count));
        train = train.get(long..).unwrap_or_default();
        if train.is_empty() {
            return true;
        }
    }
    // One copy of exactly what is there: a message that is kept keeps its train, never a whole
    // buffer.
    let bytes = Bytes::copy_from_slice(train);
    // An empty datagram is a message, too.
    let count = bytes.len().div_ceil(stride.max(1)).max(1);
    let messages = (0..count).map(|index| {
        let from = index.saturating_mul(stride);
        let to = from.saturating_add(stride).min(bytes.len());
        bytes.slice(from..to)
    });
    inbox.deliver_all(session, messages)
}

/// The sessions of the latest senders, so that a datagram costs none of its own.
struct Sessions(Vec<Option<(SocketAddr, Session)>>);

impl Sessions {
    fn new() -> Self {
        Self(vec![None; UDP_SESSIONS])
    }

    /// The sender's session. Senders that share a place replace each other's.
    fn of(&mut self, shared: &Arc<Shared>, remote: SocketAddr) -> &Session {
        let place = place(remote);
        #[allow(clippy::indexing_slicing, reason = "a place is below the length")]
        let slot = &mut self.0[place];
        if slot.as_ref().is_some_and(|(known, _)| *known != remote) {
            *slot = None;
        }
        let (_, session) = slot.get_or_insert_with(|| (remote, session(shared, remote)));
        session
    }
}

fn place(remote: SocketAddr) -> usize {
    let port = usize::from(remote.port());
    let octets = match remote.ip() {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(ip) => ip.octets(),
    };
    let mixed = octets.iter().fold(port, |mixed, octet| {
        mixed.wrapping_mul(31).wrapping_add(usize::from(*octet))
    });
    mixed % UDP_SESSIONS
}
