//! Addresses of transports, and what a member says about each of its own.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::limits::ADDRESS_BYTES;

/// A transport protocol, by its number on the wire (the paper's `protocolNumber`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Messages in UDP datagrams. Number 1.
    Udp,
    /// Messages framed in a TCP connection. Number 2.
    Tcp,
    /// QUIC connections between member keys. Number 3.
    Quic,
}

impl Protocol {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Udp => 1,
            Self::Tcp => 2,
            Self::Quic => 3,
        }
    }

    /// The protocol with this number, if this version knows it.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Udp),
            2 => Some(Self::Tcp),
            3 => Some(Self::Quic),
            _ => None,
        }
    }

    /// The scheme in front of an address, for example `udp`.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())
    }
}

/// Where a member can be reached over one transport. Written `udp://192.0.2.1:7000`.
///
/// IPv4 addresses mapped into IPv6 are taken as the IPv4 addresses that they are by every way into
/// this crate, so that one endpoint has one address (and one budget).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A UDP socket.
    Udp(SocketAddr),
    /// A TCP listener.
    Tcp(SocketAddr),
    /// A QUIC endpoint (over UDP).
    Quic(SocketAddr),
}

impl Address {
    /// The protocol of this address.
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) => Protocol::Udp,
            Self::Tcp(_) => Protocol::Tcp,
            Self::Quic(_) => Protocol::Quic,
        }
    }

    /// The socket address, if the protocol has one.
    pub const fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Udp(socket) | Self::Tcp(socket) | Self::Quic(socket) => Some(*socket),
        }
    }

    /// The same endpoint as it travels: IPv4 mapped into IPv6 becomes IPv4, scope and flow label go.
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::Udp(socket) => Self::Udp(canonical(socket)),
            Self::Tcp(socket) => Self::Tcp(canonical(socket)),
            Self::Quic(socket) => Self::Quic(canonical(socket)),
        }
    }

    /// Whether one may send to it at all: one host and one port, as far as the text shows.
    ///
    /// False for port 0, the unspecified address, multicast and broadcast.
    pub fn is_dialable(&self) -> bool {
        let Some(socket) = self.socket() else {
            return false;
        };
        let ip = socket.ip();
        let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        socket.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !broadcast
    }

    /// The bytes on the wire: 4 or 16 of the IP address, then 2 of the port, big endian.
    pub(crate) fn to_wire(self) -> Vec<u8> {
        match self {
            Self::Udp(socket) | Self::Tcp(socket) | Self::Quic(socket) => {
                let socket = canonical(socket);
                let mut bytes = match socket.ip() {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                bytes.extend_from_slice(&socket.port().to_be_bytes());
                bytes
            }
        }
    }

    /// Reads what [`Self::to_wire`] wrote; `None` for any other length.
    pub(crate) fn from_wire(protocol: Protocol, bytes: &[u8]) -> Option<Self> {
        if bytes.len() > ADDRESS_BYTES {
            return None;
        }
        let (ip, port) = bytes.split_last_chunk::<2>()?;
        let ip: IpAddr = match ip.len() {
            4 => <[u8; 4]>::try_from(ip).ok()?.into(),
            16 => <[u8; 16]>::try_from(ip).ok()?.into(),
            _ => return None,
        };
        let socket = SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(*port));
        Some(match protocol {
            Protocol::Udp => Self::Udp(socket),
            Protocol::Tcp => Self::Tcp(socket),
            Protocol::Quic => Self::Quic(socket),
        })
    }
}

/// The socket address with a mapped IPv4 address unmapped, and without scope or flow label.
pub(crate) fn canonical(socket: SocketAddr) -> SocketAddr {
    SocketAddr::new(socket.ip().to_canonical(), socket.port())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(socket) | Self::Tcp(socket) | Self::Quic(socket) => {
                write!(f, "{}://{socket}", self.protocol())
            }
        }
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    /// The protocol of the address.
    pub const fn protocol(&self) -> Protocol {
        self.address.protocol()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_a_url() {
        let udp = Address::Udp("1.2.3.4:5".parse().unwrap());
        assert_eq!(udp.to_string(), "udp://1.2.3.4:5");
        let quic = Address::Quic("[2001:db8::1]:7".parse().unwrap());
        assert_eq!(quic.to_string(), "quic://[2001:db8::1]:7");
    }

    #[test]
    fn what_no_host_answers_at_is_not_dialable() {
        for text in [
            "0.0.0.0:1",
            "[::]:1",
            "1.2.3.4:0",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "[ff02::1]:1",
        ] {
            assert!(!Address::Udp(text.parse().unwrap()).is_dialable(), "{text}");
        }
        assert!(Address::Tcp("127.0.0.1:1".parse().unwrap()).is_dialable());
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let mapped = Address::Udp("[::ffff:1.2.3.4]:5".parse().unwrap());
        let back = Address::from_wire(Protocol::Udp, &mapped.to_wire());
        assert_eq!(back, Some(Address::Udp("1.2.3.4:5".parse().unwrap())));
        assert_eq!(back, Some(mapped.canonical()));
    }
}
