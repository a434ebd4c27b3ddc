//! From packets to flows: both directions of a 5-tuple, with a beginning and an end.
//!
//! The table is generic over what its user attaches to each flow; here that is the classifier's
//! state.

mod number;
mod prefix;
mod proof;
mod recency;
mod seniority;
mod table;

use std::net::SocketAddr;
use std::time::Duration;

pub use number::{UNASKED, first_flow_number};
pub(crate) use prefix::{Prefix, Pushed};
use proof::Proof;
pub(crate) use seniority::Seniority;
pub use table::{FlowTable, TableBounds};

use crate::packet::{L4, Packet};

/// Who sent a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The side that opened the flow.
    FromClient,
    /// The server.
    FromServer,
}

impl Direction {
    pub(crate) fn slot(self) -> usize {
        match self {
            Self::FromClient => 0,
            Self::FromServer => 1,
        }
    }

    /// The other side.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::FromClient => Self::FromServer,
            Self::FromServer => Self::FromClient,
        }
    }
}

/// Something of each direction.
#[derive(Debug, Default)]
pub(crate) struct Both<T> {
    client: T,
    server: T,
}

impl<T> Both<T> {
    pub(crate) fn of(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::FromClient => &mut self.client,
            Direction::FromServer => &mut self.server,
        }
    }

    pub(crate) fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::FromClient => &self.client,
            Direction::FromServer => &self.server,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.client, &self.server].into_iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.client, &mut self.server].into_iter()
    }

    pub(crate) fn sum(&self, size: impl Fn(&T) -> usize) -> usize {
        size(&self.client).saturating_add(size(&self.server))
    }
}

/// Packets and bytes of one direction. Bytes are those of IP packets, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    /// Packets, as the kernel handles them: what it has joined (GRO) counts once.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What this has more than an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// One flow: both directions of a 5-tuple.
#[derive(Clone, Debug)]
pub struct Flow<T> {
    /// Transport protocol.
    pub l4: L4,
    /// The side that opened the flow; see [`Flow::begin`] for the rule.
    pub client: SocketAddr,
    /// The other side.
    pub server: SocketAddr,
    /// Time of the first packet.
    pub first_seen: Duration,
    /// Time of the latest packet.
    pub last_seen: Duration,
    /// Packets in both directions.
    pub packets: u64,
    /// Bytes of their innermost IP packets, headers included.
    pub bytes: u64,
    /// Those of them that the server has sent.
    pub from_server: Count,
    /// The flow began before the capture did: TCP without its SYN.
    pub midway: bool,
    /// Position in the order in which flows began.
    pub serial: u64,
    /// What the table's user keeps with the flow.
    pub attachment: T,
    closed: bool,
    /// Which sides have sent anything.
    seen: [bool; 2],
    proof: Proof,
    established: bool,
    opening_sequence: Option<u32>,
    /// A SYN that would open the closed 5-tuple again, without its SYN-ACK yet.
    pending: Option<Pending>,
    /// The gateway has reset it: whatever opens the 5-tuple is another flow.
    cut: bool,
}

/// A SYN without its SYN-ACK.
#[derive(Clone, Copy, Debug)]
struct Pending {
    client: SocketAddr,
    sequence: u32,
    /// Bytes that it carries (TCP Fast Open, RFC 7413).
    carries: u32,
    at: Duration,
}

impl Pending {
    /// A SYN takes one number, and what it carries may be left unread.
    fn is_answered_by(&self, packet: &Packet<'_>) -> bool {
        let answer = packet.tcp.filter(|tcp| tcp.syn && tcp.ack);
        answer.is_some_and(|tcp| {
            let taken = tcp.acknowledged.wrapping_sub(self.sequence);
            packet.destination == self.client
                && (1..=self.carries.saturating_add(1)).contains(&taken)
        })
    }
}

/// What a packet says of connections between the ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SynRole {
    /// It belongs to the flow.
    Own,
    /// It opens another connection.
    Syn,
    /// The SYN-ACK to that SYN: another flow begins.
    SynAck,
    /// A SYN-ACK to another SYN than the latest.
    StraySynAck,
}

impl<T: Default> Flow<T> {
    /// A flow that begins with this packet.
    ///
    /// The client is the sender of a SYN, the receiver of a SYN+ACK. Without either, a side whose
    /// port is well known (below 1024) while the other's is not is the server. Failing that,
    /// TCP takes the lower port for the server's and UDP takes the first sender for the client.
    #[must_use]
    pub fn begin(packet: &Packet<'_>, now: Duration, serial: u64) -> Self {
        let opening = packet.tcp.filter(|tcp| tcp.syn && !tcp.ack);
        let answered = packet.tcp.is_some_and(|tcp| tcp.syn && tcp.ack);
        let reversed = match opening {
            Some(_) => false,
            None => answered || sent_by_server(packet),
        };
        let (client, server) = if reversed {
            (packet.destination, packet.source)
        } else {
            (packet.source, packet.destination)
        };
        Self {
            l4: packet.l4,
            client,
            server,
            first_seen: now,
            last_seen: now,
            packets: 0,
            bytes: 0,
            from_server: Count::default(),
            midway: packet.tcp.is_some_and(|tcp| !tcp.syn),
            serial,
            attachment: T::default(),
            closed: false,
            seen: [false; 2],
            proof: Proof::default(),
            established: false,
            // A SYN-ACK names the SYN's number, so the connection is known even if that was not
            // seen.
            opening_sequence: packet.tcp.filter(|tcp| tcp.syn).map(|tcp| {
                if tcp.ack {
                    tcp.acknowledged.wrapping_sub(1)
                } else {
                    tcp.sequence
                }
            }),
            pending: None,
            cut: false,
        }
    }
}

impl<T> Flow<T> {
    /// What the client has sent.
    #[must_use]
    pub fn from_client(&self) -> Count {
        let all = Count {
            packets: self.packets,
            bytes: self.bytes,
        };
        all.since(self.from_server)
    }

    /// Which side sent this packet of the flow.
    #[must_use]
    pub fn direction(&self, packet: &Packet<'_>) -> Direction {
        if packet.source == self.client {
            Direction::FromClient
        } else {
            Direction::FromServer
        }
    }

    /// Both sides take part: neither was made up by somebody who sends in its name. Of UDP both
    /// must have spoken since this packet of the flow, from 1, or 0 if it does not matter when.
    pub(crate) fn is_answered(&self, since: u64) -> bool {
        self.proof.holds(self.l4, self.midway, since)
    }

    /// Both ends have been reset: whatever opens the 5-tuple again is another flow.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.cut = true;
    }

    /// What a packet of the two ends says of another connection between them.
    ///
    /// Whether an old connection is over only its ends know: what is settled goes by unseen to its
    /// end, and an end or a reset that comes by may die behind the gateway, as a SYN may. So each
    /// SYN counts as a new connection, but for retransmissions of the one that has opened a flow
    /// without data since; and the flow gives way when a SYN-ACK confirms the latest SYN. An end
    /// that still has the old connection sends none (RFC 9293 §3.10.7.4 has it send an
    /// acknowledgement).
    pub(crate) fn syn_role(&self, packet: &Packet<'_>) -> SynRole {
        let Some(tcp) = packet.tcp.filter(|tcp| tcp.syn) else {
            return SynRole::Own;
        };
        if !tcp.ack {
            let repeated =
                self.opening_sequence == Some(tcp.sequence) && packet.source == self.client;
            let open = self.established || self.closed;
            return if repeated && !open {
                SynRole::Own
            } else {
                SynRole::Syn
            };
        }
        match self.pending {
            None => SynRole::Own,
            Some(pending) if pending.is_answered_by(packet) => SynRole::SynAck,
            Some(_) => SynRole::StraySynAck,
        }
    }

    /// When the SYN came that this SYN-ACK confirms.
    fn syn_at(&self) -> Option<Duration> {
        self.pending.map(|pending| pending.at)
    }

    fn take_in(&mut self, packet: &Packet<'_>, now: Duration) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(packet.ip_len.into());
        if self.direction(packet) == Direction::FromServer {
            self.from_server = self.from_server.plus(Count {
                packets: 1,
                bytes: packet.ip_len.into(),
            });
        }
        self.last_seen = self.last_seen.max(now);
        match self.syn_role(packet) {
            SynRole::Own | SynRole::SynAck => {}
            SynRole::StraySynAck => return,
            SynRole::Syn => {
                self.pending = packet.tcp.map(|tcp| Pending {
                    client: packet.source,
                    sequence: tcp.sequence,
                    carries: u32::try_from(packet.payload.len()).unwrap_or(0),
                    at: now,
                });
                return;
            }
        }
        self.closed |= packet.tcp.is_some_and(|tcp| tcp.fin || tcp.rst);
        let direction = self.direction(packet);
        if let Some(seen) = self.seen.get_mut(direction.slot()) {
            *seen = true;
        }
        self.proof
            .take_in(packet, direction, self.packets, self.opening_sequence);
        // A SYN and a SYN+ACK cost their senders nothing. The third packet of the handshake, or
        // data, show that there is a connection; both sides must be seen, because anyone can send
        // what looks like a third packet.
        let third = packet.tcp.is_none_or(|tcp| !tcp.syn && !tcp.rst) && self.seen == [true; 2];
        let data = !packet.payload.is_empty() && packet.tcp.is_none_or(|tcp| !tcp.syn);
        self.established |= third || data;
    }

    /// This packet opens the 5-tuple again. Where the gateway itself has reset both ends, a SYN is
    /// enough.
    fn is_reopened_by(&self, packet: &Packet<'_>) -> bool {
        match self.syn_role(packet) {
            SynRole::SynAck => true,
            SynRole::Syn => self.cut,
            SynRole::Own | SynRole::StraySynAck => false,
        }
    }
}

fn sent_by_server(packet: &Packet<'_>) -> bool {
    let (from, to) = (packet.source.port(), packet.destination.port());
    match (from < 1024, to < 1024) {
        (true, false) => true,
        (false, true) => false,
        _ => packet.l4 == L4::Tcp && from < to,
    }
}
