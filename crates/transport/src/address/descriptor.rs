//! What a member says about each of its addresses.

use super::{Address, Protocol};
use crate::limits;

/// Which way messages go over an address, seen from the member that advertises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The member only sends from it: never dialled, never validated. Number 0.
    Send,
    /// The member only receives at it. Number 1.
    Receive,
    /// Both. Number 2.
    Both,
}

impl Direction {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Send => 0,
            Self::Receive => 1,
            Self::Both => 2,
        }
    }

    /// The direction with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Send),
            1 => Some(Self::Receive),
            2 => Some(Self::Both),
            _ => None,
        }
    }

    /// Whether others may send to such an address.
    pub const fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Both)
    }
}

/// How long a message takes on the way, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LatencyClass {
    /// Milliseconds: UDP, TCP, QUIC. Number 0.
    Interactive,
    /// Seconds: relays, polling over HTTP. Number 1.
    Seconds,
    /// Minutes: mail. Number 2.
    Minutes,
}

impl LatencyClass {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Interactive => 0,
            Self::Seconds => 1,
            Self::Minutes => 2,
        }
    }

    /// The class with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Interactive),
            1 => Some(Self::Seconds),
            2 => Some(Self::Minutes),
            _ => None,
        }
    }
}

/// One address of a member with what a sender must know of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AddressDescriptor {
    /// Where.
    pub address: Address,
    /// Largest message, bytes.
    pub mtu: u32,
    /// Cost of sending there compared with other transports; less is better, no unit.
    pub cost: u32,
    /// Which way messages go.
    pub direction: Direction,
    /// How long they take.
    pub latency: LatencyClass,
    /// Messages a day that the owner accepts there; `None` for no limit.
    pub quota: Option<u32>,
}

impl AddressDescriptor {
    /// A descriptor of an address that sends and receives at once, without a quota.
    pub const fn new(address: Address, mtu: u32, cost: u32) -> Self {
        Self {
            address,
            mtu,
            cost,
            direction: Direction::Both,
            latency: LatencyClass::Interactive,
            quota: None,
        }
    }

    /// What may be supposed of an address without a description: one from which a peer is heard, or
    /// one in a certificate.
    pub fn observed(address: Address) -> Self {
        let protocol = address.protocol();
        let mtu = match protocol {
            Protocol::Udp => limits::UDP_MTU,
            Protocol::Quic => limits::QUIC_LINK_MTU,
            Protocol::Relay => limits::RELAY_MTU,
            _ => limits::TCP_MTU,
        };
        let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
        let mut descriptor = Self::new(address, mtu, protocol.usual_cost());
        if protocol == Protocol::Smtp {
            descriptor.latency = LatencyClass::Minutes;
        }
        descriptor
    }

    /// The protocol of the address.
    pub const fn protocol(&self) -> Protocol {
        self.address.protocol()
    }
}
