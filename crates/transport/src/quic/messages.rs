//! QUIC whose datagrams travel as messages between members: streams over any transport, also where
//! no UDP passes.
//!
//! The endpoint sees a socket. Each member has an address in it that is made from its id and means
//! nothing outside.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use crate::limits;
use crate::member::MemberId;

/// A datagram of QUIC to a member, or from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDatagram {
    /// The other side.
    pub member: MemberId,
    /// At most [`limits::QUIC_MESSAGE_BYTES`].
    pub bytes: Bytes,
}

/// The carrier's ends of such an endpoint.
#[derive(Debug)]
pub struct DatagramCarrier {
    /// What is to be carried. The endpoint waits while it is not taken.
    pub outgoing: mpsc::Receiver<MemberDatagram>,
    /// What has arrived. Drop it if the queue is full, as a network would.
    pub incoming: mpsc::Sender<MemberDatagram>,
}

/// The address that a member has within such an endpoint: `fd00::/8` and 15 bytes of its id.
pub fn member_address(member: &MemberId) -> SocketAddr {
    let mut octets = [0xfd; 16];
    let (_, tail) = octets.split_at_mut(1);
    for (octet, byte) in tail.iter_mut().zip(member.as_bytes()) {
        *octet = *byte;
    }
    (Ipv6Addr::from(octets), 1).into()
}

/// Members by such addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    known: Arc<Mutex<BTreeMap<SocketAddr, MemberId>>>,
}

impl Members {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, MemberId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a member that is dialled, or has been heard of; gives its address.
    pub(super) fn learn(&self, member: MemberId) -> SocketAddr {
        let address = member_address(&member);
        let mut known = self.lock();
        if known.len() >= limits::QUIC_MESSAGE_MEMBERS && !known.contains_key(&address) {
            // Any other: a member that is still needed is learned again with its next datagram.
            known.pop_first();
        }
        known.insert(address, member);
        address
    }

    fn find(&self, address: &SocketAddr) -> Option<MemberId> {
        self.lock().get(address).copied()
    }
}

/// The socket.
#[derive(Debug)]
pub(super) struct MessageSocket {
    members: Members,
    own: SocketAddr,
    outgoing: mpsc::Sender<MemberDatagram>,
    incoming: mpsc::Receiver<MemberDatagram>,
}

impl MessageSocket {
    pub(super) fn new(me: &MemberId, members: Members) -> (Self, DatagramCarrier) {
        let (outgoing, to_carry) = mpsc::channel(limits::QUIC_MESSAGE_QUEUE);
        let (arrived, incoming) = mpsc::channel(limits::QUIC_MESSAGE_QUEUE);
        let socket = Self {
            members,
            own: member_address(me),
            outgoing,
            incoming,
        };
        let carrier = DatagramCarrier {
            outgoing: to_carry,
            incoming: arrived,
        };
        (socket, carrier)
    }
}

impl AsyncUdpSocket for MessageSocket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(MessageSender {
            members: self.members.clone(),
            queue: PollSender::new(self.outgoing.clone()),
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let (Some(buffer), Some(meta)) = (buffers.first_mut(), meta.first_mut()) else {
            return Poll::Ready(Ok(0));
        };
        loop {
            let Some(datagram) = ready!(self.incoming.poll_recv(cx)) else {
                // Nothing carries datagrams any more: the member is stopping, and the endpoint with
                // it.
                return Poll::Pending;
            };
            let size = datagram.bytes.len();
            let Some(space) = buffer.get_mut(..size).filter(|_| size > 0) else {
                continue;
            };
            space.copy_from_slice(&datagram.bytes);
            *meta = RecvMeta::default();
            meta.addr = self.members.learn(datagram.member);
            meta.len = size;
            meta.stride = size;
            return Poll::Ready(Ok(1));
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.own)
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct MessageSender {
    members: Members,
    queue: PollSender<MemberDatagram>,
}

impl UdpSender for MessageSender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let gone = |_| io::Error::from(io::ErrorKind::NotConnected);
        ready!(self.queue.poll_reserve(cx)).map_err(gone)?;
        let Some(member) = self.members.find(&transmit.destination) else {
            // The member that it was for is not known; QUIC copes with a lost datagram.
            self.queue.abort_send();
            return Poll::Ready(Ok(()));
        };
        let bytes = Bytes::copy_from_slice(transmit.contents);
        let datagram = MemberDatagram { member, bytes };
        Poll::Ready(self.queue.send_item(datagram).map_err(gone))
    }
}
