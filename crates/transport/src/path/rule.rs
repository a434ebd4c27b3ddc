//! What the user says of paths: their cost, and which are metered.

use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::address::{Address, Protocol};

/// What counts for the paths that a rule fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    target: Target,
    /// The cost to use instead of the peer's.
    pub cost: Option<u32>,
    /// Whether to use such a path only if no other works.
    pub metered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Protocol(Protocol),
    Network(IpAddr, u8),
    Address(Address),
}

/// Rules in the user's order; the first that fits counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathRules {
    rules: Vec<PathRule>,
}

/// What a rule should fit is neither a protocol, a network nor an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no protocol (such as `udp`), network (`10.0.0.0/8`) or address (`udp://192.0.2.1:7400`)"
)]
pub struct InvalidRule(String);

impl PathRule {
    /// A rule for a protocol, a network or one address, as text.
    ///
    /// # Errors
    /// [`InvalidRule`].
    pub fn new(target: &str, cost: Option<u32>, metered: bool) -> Result<Self, InvalidRule> {
        Ok(Self {
            target: target.parse()?,
            cost,
            metered,
        })
    }
}

impl PathRules {
    /// These rules.
    pub fn new(rules: Vec<PathRule>) -> Self {
        Self { rules }
    }

    /// The first rule that fits the address.
    pub fn of(&self, address: &Address) -> Option<&PathRule> {
        self.rules.iter().find(|rule| rule.target.fits(address))
    }
}

impl Target {
    fn fits(&self, address: &Address) -> bool {
        match self {
            Self::Protocol(protocol) => address.protocol() == *protocol,
            Self::Address(own) => own == address,
            Self::Network(network, bits) => address
                .ip()
                .is_some_and(|ip| is_within(ip, *network, *bits)),
        }
    }
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let masked = |value: u128, width: u32| {
        let host = width.saturating_sub(u32::from(bits));
        value.checked_shr(host).unwrap_or(0)
    };
    match (ip.to_canonical(), network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            masked(ip.to_bits().into(), 32) == masked(network.to_bits().into(), 32)
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            masked(ip.to_bits(), 128) == masked(network.to_bits(), 128)
        }
        _ => false,
    }
}

impl FromStr for Target {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let invalid = || InvalidRule(text.chars().take(100).collect());
        let protocols = [
            Protocol::Udp,
            Protocol::Tcp,
            Protocol::Quic,
            Protocol::Ws,
            Protocol::Smtp,
            Protocol::Exec,
            Protocol::Relay,
        ];
        if let Some(protocol) = protocols.into_iter().find(|p| p.scheme() == text) {
            return Ok(Self::Protocol(protocol));
        }
        if text.contains("://") {
            return text.parse().map(Self::Address).map_err(|_| invalid());
        }
        let (ip, bits) = text.split_once('/').ok_or_else(invalid)?;
        let ip: IpAddr = ip.parse().map_err(|_| invalid())?;
        let bits: u8 = bits.parse().map_err(|_| invalid())?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        if bits > most {
            return Err(invalid());
        }
        Ok(Self::Network(ip, bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rule = |target, cost| PathRule::new(target, Some(cost), false).unwrap();
        let rules = PathRules::new(vec![
            rule("udp://10.0.0.1:7", 1),
            rule("10.0.0.0/8", 2),
            rule("udp", 3),
            rule("2001:db8::/32", 4),
        ]);
        let cost = |text: &str| rules.of(&text.parse().unwrap()).and_then(|rule| rule.cost);
        assert_eq!(cost("udp://10.0.0.1:7"), Some(1));
        assert_eq!(cost("tcp://10.200.0.1:7"), Some(2));
        assert_eq!(cost("ws://10.0.0.9/"), Some(2));
        assert_eq!(cost("udp://11.0.0.1:7"), Some(3));
        assert_eq!(cost("tcp://[2001:db8:1::1]:7"), Some(4));
        assert_eq!(cost("tcp://11.0.0.1:7"), None);
        assert_eq!(cost("smtp://a@b?X-C=d"), None);
    }

    #[test]
    fn what_fits_nothing_is_refused() {
        for text in [
            "",
            "carrier-pigeon",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "udp://x",
        ] {
            assert!(PathRule::new(text, None, true).is_err(), "{text}");
        }
        assert!(PathRule::new("0.0.0.0/0", None, true).is_ok());
    }
}
