//! Where one of the authority's servers is: what members are given, and where it listens.
//!
//! The two differ behind a 1:1 NAT or a port forward, and where members are given a host name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::machine;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What members are given.
    pub advertised: Endpoint,
    /// Where it listens; none: at the advertised address.
    pub listen: Option<SocketAddr>,
}

impl Site {
    /// Where it listens.
    #[must_use]
    pub fn binds_at(&self) -> SocketAddr {
        let advertised = self.advertised.address();
        let chosen = self.listen.or(advertised);
        chosen.unwrap_or_else(|| everywhere(&self.advertised))
    }

    /// Writes down where it listens, if nothing has been said and it cannot be the advertised
    /// address: that is a name, or another machine's, such as a router's in front of this one.
    pub(super) fn settle(&mut self) {
        let here = |address| !machine::is_foreign(&address);
        if self.listen.is_none() && !self.advertised.address().is_some_and(here) {
            self.listen = Some(everywhere(&self.advertised));
        }
    }
}

/// All addresses of this machine of the kind that is advertised, with its port.
fn everywhere(advertised: &Endpoint) -> SocketAddr {
    let v4 = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let v6 = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let ip = match advertised.address().map(|address| address.ip()) {
        Some(IpAddr::V4(_)) => v4,
        Some(IpAddr::V6(_)) => v6,
        // It takes both kinds, where the kernel has IPv6.
        None if UdpSocket::bind((v6, 0)).is_ok() => v6,
        None => v4,
    };
    SocketAddr::new(ip, advertised.port())
}

impl From<SocketAddr> for Site {
    fn from(address: SocketAddr) -> Site {
        Site {
            advertised: address.into(),
            listen: None,
        }
    }
}

impl FromStr for Site {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Site, InvalidEndpoint> {
        Ok(Site {
            advertised: text.parse()?,
            listen: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_advertised_addresses_listen_everywhere() {
        for (text, binds) in [
            ("127.0.0.1:53", "127.0.0.1:53"),
            ("192.0.2.7:53", "0.0.0.0:53"),
            ("[2001:db8::7]:53", "[::]:53"),
        ] {
            let mut site: Site = text.parse().unwrap();
            site.settle();
            assert_eq!(site.binds_at().to_string(), binds);
        }
        let mut named: Site = "ring.example.org:7410".parse().unwrap();
        named.settle();
        assert!(named.binds_at().ip().is_unspecified());
        assert_eq!(named.binds_at().port(), 7410);
        named.listen = Some(SocketAddr::from(([127, 0, 0, 1], 9)));
        named.settle();
        assert_eq!(named.binds_at().to_string(), "127.0.0.1:9");
    }
}
