//! Resets for both ends of a TCP connection that is blocked.
//!
//! A reset counts only if its sequence number is exactly the one that the receiver expects next
//! (RFC 5961 §3.2). Of the sender of a packet that is what it acknowledges; of the other end it is
//! the packet's own number, because the packet itself is dropped. If something before it was lost
//! too, the other end responds to that reset with an acknowledgement (a challenge), whose number
//! the next reset then has.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};

use crate::packet::{Packet, Tcp};
use crate::reader::length32;

/// Hops that a reset may go.
const HOPS: u8 = 64;

/// A packet that is dropped, as far as its connection's resets need to know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    source: SocketAddr,
    destination: SocketAddr,
    tcp: Option<Tcp>,
    length: u32,
}

impl Broken {
    pub(super) fn by(packet: &Packet<'_>) -> Self {
        Self {
            source: packet.source,
            destination: packet.destination,
            tcp: packet.tcp,
            length: length32(packet.payload.len()),
        }
    }
}

/// IP packets that end the connection of this packet, which itself is dropped.
pub(super) fn resets(packet: &Broken) -> Vec<Vec<u8>> {
    let Some(tcp) = packet.tcp.filter(|tcp| !tcp.rst) else {
        return Vec::new();
    };
    let taken = packet
        .length
        .wrapping_add(u32::from(tcp.syn))
        .wrapping_add(u32::from(tcp.fin));
    let after = tcp.sequence.wrapping_add(taken);
    let mut resets = Vec::new();
    if tcp.ack {
        let back = Tcp {
            sequence: tcp.acknowledged,
            acknowledged: after,
            ..tcp
        };
        resets.extend(reset(packet.destination, packet.source, back));
        resets.extend(reset(packet.source, packet.destination, tcp));
    } else {
        // A SYN gets the reset of a closed port (RFC 9293 §3.10.7.1).
        let back = Tcp {
            sequence: 0,
            acknowledged: after,
            ..tcp
        };
        resets.extend(reset(packet.destination, packet.source, back));
    }
    resets
}

/// What makes the receiver of a packet say which number it expects, so that it can be reset with
/// that: an acknowledgement behind what it has (RFC 9293 §3.10.7.4). A reset with a number that
/// lies behind is passed over in silence.
pub(super) fn question(packet: &Broken) -> Option<Vec<u8>> {
    let tcp = packet.tcp.filter(|tcp| tcp.ack && !tcp.rst)?;
    let builder = header(packet.source, packet.destination)?;
    let sequence = tcp.sequence.wrapping_sub(1);
    let (from, to) = (packet.source.port(), packet.destination.port());
    let builder = builder.tcp(from, to, sequence, 0).ack(tcp.acknowledged);
    let mut bytes = Vec::with_capacity(builder.size(0));
    builder.write(&mut bytes, &[]).ok()?;
    Some(bytes)
}

fn header(from: SocketAddr, to: SocketAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            Some(PacketBuilder::ipv4(from.octets(), to.octets(), HOPS))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            Some(PacketBuilder::ipv6(from.octets(), to.octets(), HOPS))
        }
        _ => None,
    }
}

fn reset(from: SocketAddr, to: SocketAddr, tcp: Tcp) -> Option<Vec<u8>> {
    let builder = header(from, to)?
        .tcp(from.port(), to.port(), tcp.sequence, 0)
        .rst()
        .ack(tcp.acknowledged);
    let mut bytes = Vec::with_capacity(builder.size(0));
    builder.write(&mut bytes, &[]).ok()?;
    Some(bytes)
}
