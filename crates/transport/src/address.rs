//! Addresses of transports, and what a member says about each of its own.

mod descriptor;
mod exec;
mod mail;
mod relay;
mod web;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

pub use self::descriptor::{AddressDescriptor, Direction, LatencyClass};
pub use self::exec::ExecAddress;
pub use self::mail::MailAddress;
pub use self::relay::RelayAddress;
pub use self::web::WebAddress;
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
    /// Messages over WebSocket, with TLS or without. Number 4.
    Ws,
    /// Messages in mail. Number 5.
    Smtp,
    /// Messages over a child program. Number 6.
    Exec,
    /// Messages that a router passes on to one of its leaves. Number 7.
    Relay,
}

impl Protocol {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Udp => 1,
            Self::Tcp => 2,
            Self::Quic => 3,
            Self::Ws => 4,
            Self::Smtp => 5,
            Self::Exec => 6,
            Self::Relay => 7,
        }
    }

    /// The protocol with this number, if this version knows it.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Udp),
            2 => Some(Self::Tcp),
            3 => Some(Self::Quic),
            4 => Some(Self::Ws),
            5 => Some(Self::Smtp),
            6 => Some(Self::Exec),
            7 => Some(Self::Relay),
            _ => None,
        }
    }

    /// Cost of sending over this protocol unless somebody says otherwise; less is better, no unit.
    /// By what it takes of the network and of other people: a datagram, a stream, a stream
    /// through a proxy, somebody's program, somebody's router, a mailbox.
    pub const fn usual_cost(self) -> u32 {
        match self {
            Self::Udp => 10,
            Self::Quic => 15,
            Self::Tcp => 20,
            Self::Ws => 40,
            Self::Exec => 100,
            Self::Relay => 200,
            Self::Smtp => 1_000,
        }
    }

    /// Whether its addresses lead to a member without saying which host it is, and messages over it
    /// show the peer none either. Over others a member that hides its address neither
    /// advertises nor sends. A program of the operator's own is not trusted with that.
    pub const fn hides_the_host(self) -> bool {
        match self {
            Self::Smtp | Self::Relay => true,
            Self::Udp | Self::Tcp | Self::Quic | Self::Ws | Self::Exec => false,
        }
    }

    /// The scheme in front of an address, for example `udp`.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Ws => "ws",
            Self::Smtp => "smtp",
            Self::Exec => "exec",
            Self::Relay => "relay",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())
    }
}

/// Where a member can be reached over one transport. Written `udp://192.0.2.1:7000`,
/// `wss://example.org/ringway`, `smtp://mail@example.org?X-Ringway=k3`, `exec://name/opaque`,
/// `relay://ROUTER/MEMBER`.
///
/// IPv4 addresses mapped into IPv6 are taken as the IPv4 addresses that they are by every way into
/// this crate, so that one endpoint has one address (and one budget).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A UDP socket.
    Udp(SocketAddr),
    /// A TCP listener.
    Tcp(SocketAddr),
    /// A QUIC endpoint (over UDP).
    Quic(SocketAddr),
    /// A WebSocket server.
    Ws(WebAddress),
    /// A mailbox.
    Smtp(MailAddress),
    /// Whatever a child program makes of it.
    Exec(ExecAddress),
    /// A member behind a router.
    Relay(RelayAddress),
}

/// Text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no address: {reason}")]
pub struct InvalidAddress {
    text: String,
    reason: &'static str,
}

impl InvalidAddress {
    pub(crate) fn new(text: &str, reason: &'static str) -> Self {
        Self {
            text: text.escape_debug().take(ADDRESS_BYTES).collect(),
            reason,
        }
    }
}

impl Address {
    /// The protocol of this address.
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Udp(_) => Protocol::Udp,
            Self::Tcp(_) => Protocol::Tcp,
            Self::Quic(_) => Protocol::Quic,
            Self::Ws(_) => Protocol::Ws,
            Self::Smtp(_) => Protocol::Smtp,
            Self::Exec(_) => Protocol::Exec,
            Self::Relay(_) => Protocol::Relay,
        }
    }

    /// The socket address, if the protocol has one.
    pub const fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Udp(socket) | Self::Tcp(socket) | Self::Quic(socket) => Some(*socket),
            Self::Ws(_) | Self::Smtp(_) | Self::Exec(_) | Self::Relay(_) => None,
        }
    }

    /// The IP address in it; none for a name, a mailbox, a program or a member.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ws(address) => address.ip(),
            _ => self.socket().map(|socket| socket.ip()),
        }
    }

    /// Whether only hosts of the same site can reach it: loopback, link-local, private and
    /// carrier-NAT ranges (RFC 1918, RFC 4193, RFC 3927, RFC 4291 §2.5.6, RFC 6598).
    pub fn is_private(&self) -> bool {
        self.ip().is_some_and(is_private)
    }

    /// The same endpoint as it travels: IPv4 mapped into IPv6 becomes IPv4, scope and flow label
    /// go.
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::Udp(socket) => Self::Udp(canonical(socket)),
            Self::Tcp(socket) => Self::Tcp(canonical(socket)),
            Self::Quic(socket) => Self::Quic(canonical(socket)),
            other => other,
        }
    }

    /// Whether one may send to it at all: one host and one port, as far as the text shows.
    ///
    /// False for port 0, the unspecified address, multicast and broadcast, and for a member that
    /// would pass on to itself.
    pub fn is_dialable(&self) -> bool {
        if let Self::Relay(relay) = self {
            return relay.parent != relay.member;
        }
        if self.socket().is_some_and(|socket| socket.port() == 0) {
            return false;
        }
        self.ip().is_none_or(|ip| {
            let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
            !ip.is_unspecified() && !ip.is_multicast() && !broadcast
        })
    }

    /// The bytes on the wire: of a socket 4 or 16 of the IP address, then 2 of the port, big
    /// endian; of a relay two ids; of others their text.
    pub(crate) fn to_wire(&self) -> Vec<u8> {
        match self {
            Self::Udp(socket) | Self::Tcp(socket) | Self::Quic(socket) => socket_to_wire(*socket),
            Self::Ws(address) => address.as_str().as_bytes().to_vec(),
            Self::Smtp(address) => address.as_str().as_bytes().to_vec(),
            Self::Exec(address) => address.as_str().as_bytes().to_vec(),
            Self::Relay(address) => address.to_wire(),
        }
    }

    /// Reads what [`Self::to_wire`] wrote; `None` for anything else.
    pub(crate) fn from_wire(protocol: Protocol, bytes: &[u8]) -> Option<Self> {
        if bytes.len() > ADDRESS_BYTES {
            return None;
        }
        let text = || std::str::from_utf8(bytes).ok();
        let address = match protocol {
            Protocol::Udp => Self::Udp(socket_from_wire(bytes)?),
            Protocol::Tcp => Self::Tcp(socket_from_wire(bytes)?),
            Protocol::Quic => Self::Quic(socket_from_wire(bytes)?),
            Protocol::Ws => Self::Ws(text()?.parse().ok()?),
            Protocol::Smtp => Self::Smtp(text()?.parse().ok()?),
            Protocol::Exec => Self::Exec(text()?.parse().ok()?),
            Protocol::Relay => Self::Relay(RelayAddress::from_wire(bytes)?),
        };
        // One endpoint has one spelling: another one would have a budget of its own.
        (socket_from_wire(bytes).is_some() || address.to_wire() == bytes).then_some(address)
    }
}

fn socket_to_wire(socket: SocketAddr) -> Vec<u8> {
    let socket = canonical(socket);
    let mut bytes = match socket.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend_from_slice(&socket.port().to_be_bytes());
    bytes
}

fn socket_from_wire(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk::<2>()?;
    let ip: IpAddr = match ip.len() {
        4 => <[u8; 4]>::try_from(ip).ok()?.into(),
        16 => <[u8; 16]>::try_from(ip).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(
        ip.to_canonical(),
        u16::from_be_bytes(*port),
    ))
}

/// The socket address with a mapped IPv4 address unmapped, and without scope or flow label.
pub(crate) fn canonical(socket: SocketAddr) -> SocketAddr {
    SocketAddr::new(socket.ip().to_canonical(), socket.port())
}

fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            let carrier = first == 100 && second & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || carrier
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(socket) | Self::Tcp(socket) | Self::Quic(socket) => {
                write!(f, "{}://{socket}", self.protocol())
            }
            Self::Ws(address) => address.fmt(f),
            Self::Smtp(address) => address.fmt(f),
            Self::Exec(address) => address.fmt(f),
            Self::Relay(address) => address.fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = |reason| InvalidAddress::new(text, reason);
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| invalid("it begins with a scheme, such as `udp://`"))?;
        let socket = || -> Result<SocketAddr, InvalidAddress> {
            let socket = rest.parse();
            socket
                .map(canonical)
                .map_err(|_| invalid("an IP address and a port are needed"))
        };
        match scheme {
            "udp" => Ok(Self::Udp(socket()?)),
            "tcp" => Ok(Self::Tcp(socket()?)),
            "quic" => Ok(Self::Quic(socket()?)),
            "ws" | "wss" => Ok(Self::Ws(text.parse()?)),
            "smtp" => Ok(Self::Smtp(text.parse()?)),
            "exec" => Ok(Self::Exec(text.parse()?)),
            "relay" => Ok(Self::Relay(text.parse()?)),
            _ => Err(invalid(
                "the schemes are udp, tcp, quic, ws, wss, smtp, exec and relay",
            )),
        }
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

    #[test]
    fn every_text_is_read_as_it_is_written() {
        let [parent, member] = [1, 2].map(|byte| crate::MemberId::new([byte; 32]));
        let relay = format!("relay://{parent}/{member}");
        for text in [
            relay.as_str(),
            "udp://192.0.2.1:7000",
            "tcp://[2001:db8::1]:7",
            "quic://192.0.2.1:7001",
            "ws://example.org:8080/ring",
            "wss://example.org/",
            "smtp://oslo.ring@example.org?X-Ringway=k3",
            "exec://radio/channel-7",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let back = Address::from_wire(address.protocol(), &address.to_wire());
            assert_eq!(back, Some(address), "{text}");
        }
        for text in [
            "",
            "udp",
            "udp://example.org:1",
            "ftp://example.org/",
            "udp:///",
            "relay://a/b",
            "relay://",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn private_ranges_are_known() {
        let udp = |text: &str| Address::Udp(format!("{text}:1").parse().unwrap());
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "169.254.1.1",
            "100.64.0.1",
            "[::1]",
            "[fd00::1]",
            "[fe80::1]",
            "[::ffff:10.0.0.1]",
        ] {
            assert!(udp(text).is_private(), "{text}");
        }
        for text in ["192.0.2.1", "100.128.0.1", "172.32.0.1", "[2001:db8::1]"] {
            assert!(!udp(text).is_private(), "{text}");
        }
        let web: Address = "ws://10.0.0.1/x".parse().unwrap();
        assert!(web.is_private());
        assert!(
            !"ws://0.0.0.0/"
                .parse::<Address>()
                .is_ok_and(|a| a.is_dialable())
        );
    }
}
