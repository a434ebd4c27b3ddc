//! Where something is reached: a host name or an IP address, and a port.
//!
//! A name is resolved by the system whenever it is used, so that it may lead elsewhere tomorrow.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::net::TcpStream;

use crate::limits::ENDPOINT_ADDRESSES;
use crate::zone;

/// A host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Ip(IpAddr),
    /// In lower case, without a final dot.
    Name(String),
}

/// Why a text names no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a host name or an IP address and a port are needed, such as ring.example.org:7410, 192.0.2.7:7410 or [2001:db8::7]:7410"
)]
pub struct InvalidEndpoint;

impl Endpoint {
    /// The address, if it is no name.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Ip(ip) => Some(SocketAddr::new(ip, self.port)),
            Host::Name(_) => None,
        }
    }

    /// The host name, if it is no address.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Ip(_) => None,
            Host::Name(name) => Some(name),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// True if others may be given it: it is not 0.0.0.0 or `[::]`, and has a port.
    #[must_use]
    pub fn is_dialable(&self) -> bool {
        let nowhere = |ip: IpAddr| ip.is_unspecified() || ip.is_multicast();
        self.port != 0 && !matches!(self.host, Host::Ip(ip) if nowhere(ip))
    }

    /// True if it is this machine only that can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Ip(ip) => ip.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
    }

    /// The addresses that it stands for now; for a name the system is asked.
    ///
    /// # Errors
    /// When the system knows no address of the name.
    pub async fn resolve(&self) -> io::Result<Addresses> {
        let name = match &self.host {
            Host::Ip(ip) => return Ok(SocketAddr::new(*ip, self.port).into()),
            Host::Name(name) => name.as_str(),
        };
        let mut found = tokio::net::lookup_host((name, self.port)).await?;
        let nothing = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
        let first = found.next().ok_or_else(nothing)?;
        let others = found.take(ENDPOINT_ADDRESSES - 1).collect();
        Ok(Addresses { first, others })
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        let (host, port) = (Host::Ip(address.ip()), address.port());
        Endpoint { host, port }
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Endpoint, InvalidEndpoint> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let (name, port) = text.rsplit_once(':').ok_or(InvalidEndpoint)?;
        let port: u16 = port.parse().map_err(|_| InvalidEndpoint)?;
        let name = name.strip_suffix('.').unwrap_or(name);
        // A last label of digits is an address that somebody has mistyped (RFC 1123 §2.1).
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        if port == 0 || is_number || !zone::is_domain(name) {
            return Err(InvalidEndpoint);
        }
        let host = Host::Name(name.to_ascii_lowercase());
        Ok(Endpoint { host, port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(ip) => SocketAddr::new(*ip, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Endpoint, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What an [`Endpoint`] stands for at a moment: one address or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    first: SocketAddr,
    others: Vec<SocketAddr>,
}

impl Addresses {
    /// The one that is tried first, and that messages name.
    #[must_use]
    pub fn first(&self) -> SocketAddr {
        self.first
    }

    /// All of them, at most [`ENDPOINT_ADDRESSES`].
    #[must_use]
    pub fn all(&self) -> Vec<SocketAddr> {
        let others = self.others.iter().copied();
        std::iter::once(self.first).chain(others).collect()
    }

    /// Opens a connection to the first that takes it.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect(&self.all()[..]).await
    }
}

impl From<SocketAddr> for Addresses {
    fn from(first: SocketAddr) -> Addresses {
        let others = Vec::new();
        Addresses { first, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_survive_their_text() {
        for (text, shown, address) in [
            ("192.0.2.7:53", "192.0.2.7:53", true),
            ("[2001:db8::7]:7410", "[2001:db8::7]:7410", true),
            ("Ring.Example.ORG.:7410", "ring.example.org:7410", false),
            ("localhost:53", "localhost:53", false),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(endpoint.address().is_some(), address, "{text}");
            assert_eq!(shown.parse(), Ok(endpoint));
        }
    }

    #[test]
    fn texts_without_host_or_port_are_refused() {
        for text in [
            "",
            "ring.example.org",
            "ring.example.org:",
            "ring.example.org:0",
            "ring.example.org:70000",
            ":53",
            "192.0.2:53",
            "192.0.2.256:53",
            "a b:53",
            "-a.example:53",
            "2001:db8::7:53",
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(InvalidEndpoint), "{text}");
        }
    }

    #[test]
    fn nowhere_is_no_address_for_others() {
        for (text, dialable) in [
            ("0.0.0.0:53", false),
            ("[::]:53", false),
            ("192.0.2.7:0", false),
            ("224.0.0.1:53", false),
            ("192.0.2.7:53", true),
            ("ring.example.org:53", true),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.is_dialable(), dialable, "{text}");
        }
    }

    #[tokio::test]
    async fn names_are_resolved_when_used() {
        let endpoint: Endpoint = "localhost:53".parse().unwrap();
        let found = endpoint.resolve().await.unwrap();
        assert!(found.all().iter().all(|address| address.ip().is_loopback()));
        let unknown: Endpoint = "nothing.invalid:53".parse().unwrap();
        assert!(unknown.resolve().await.is_err());
    }
}
