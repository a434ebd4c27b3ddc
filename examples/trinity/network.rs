//! The network of a sender: what is counted together.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A /24 of IPv4, or a /48 of IPv6: what one sender usually has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Network {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Network {
    pub(crate) fn of(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                Network::V4(Ipv4Addr::new(a, b, c, 0))
            }
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                Network::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
            }
        }
    }

    /// The name under which all routers count it in the window that begins at `start`.
    pub(crate) fn name(self, start: u64) -> String {
        format!("mail/{self}/{start}")
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::V4(network) => write!(f, "{network}/24"),
            Network::V6(network) => write!(f, "{network}/48"),
        }
    }
}
