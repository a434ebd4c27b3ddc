//! Ports, sizes, rates and networks, as a policy writes them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::listed::Feeds;
use crate::feed::Entries;

/// Ports of one rule, at least one.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    ranges: Vec<RangeInclusive<u16>>,
}

impl Ports {
    /// Reads numbers and spans such as `6881-6889`.
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let ranges: Result<Vec<_>, String> = texts
            .iter()
            .map(|text| {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let wrong = || format!("`{text}` is no port or span of ports such as 6881-6889");
                let first: u16 = first.trim().parse().map_err(|_| wrong())?;
                let last: u16 = last.trim().parse().map_err(|_| wrong())?;
                if first > last {
                    return Err(wrong());
                }
                Ok(first..=last)
            })
            .collect();
        Ok(Self { ranges: ranges? })
    }

    pub(super) fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.ranges
    }

    pub(super) fn contains(&self, port: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&port))
    }

    /// Whether every port of the other one is in this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other
            .ranges
            .iter()
            .all(|range| range.clone().all(|port| self.contains(port)))
    }
}

/// The same ports in spans that neither overlap nor touch.
#[must_use]
pub fn apart(ports: &[RangeInclusive<u16>]) -> Vec<RangeInclusive<u16>> {
    let sorted: BTreeSet<(u16, u16)> = ports
        .iter()
        .map(|span| (*span.start(), *span.end()))
        .collect();
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for (first, last) in sorted {
        match spans.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => spans.push((first, last)),
        }
    }
    let spans = spans.into_iter();
    spans.map(|(first, last)| first..=last).collect()
}

/// Networks of one condition, at least one.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    networks: Vec<IpNet>,
    pub(super) feeds: Feeds,
}

impl Networks {
    pub(super) fn new(networks: Vec<IpNet>, feeds: Feeds) -> Self {
        Self { networks, feeds }
    }

    /// Adds those of the other one.
    pub(super) fn extend(&mut self, other: &Self) {
        self.networks.extend_from_slice(&other.networks);
        self.feeds.extend(&other.feeds);
    }

    /// All of them, those in lists included; at most so many.
    pub(super) fn first(&self, most: usize) -> Vec<IpNet> {
        let mut all = self.networks.clone();
        for feed in self.feeds.iter() {
            if let Entries::Networks(networks) = feed.entries() {
                all.extend(networks.first(most.saturating_sub(all.len())));
            }
        }
        all.truncate(most);
        all
    }

    /// Bits of the prefix of the widest of them, counted as those of IPv6 (IPv4 in ::ffff:0:0/96).
    pub(super) fn widest(&self) -> u8 {
        let bits = |network: &IpNet| match network {
            IpNet::V4(network) => network.prefix_len().saturating_add(96),
            IpNet::V6(network) => network.prefix_len(),
        };
        let listed = self.feeds.iter().map(|feed| match feed.entries() {
            Entries::Networks(networks) => networks.widest(),
            Entries::Hosts(_) | Entries::Infohashes(_) | Entries::Files(_) => 0,
        });
        let written = self.networks.iter().map(bits);
        written.chain(listed).min().unwrap_or(0)
    }

    /// Reads `10.0.0.0/8`, `fd00::/8` or a single address.
    pub(super) fn parse_one(text: &str) -> Result<IpNet, String> {
        let network = text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
            .map_err(|_| format!("`{text}` is no network such as 10.0.0.0/8, and no address"))?;
        if network.addr() != network.network() {
            return Err(format!(
                "`{text}` has bits behind its prefix; the network is {}",
                network.trunc()
            ));
        }
        Ok(network)
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks
            .iter()
            .any(|network| network.contains(&address))
            || self.feeds.any(|feed| feed.has_address(address))
    }

    /// Whether each network of the other one lies in one of this one. Lists are compared as a
    /// whole: they come to be others.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let written = other
            .networks
            .iter()
            .all(|inner| self.networks.iter().any(|outer| outer.contains(inner)));
        written && self.feeds.covers(&other.feeds)
    }
}

/// A span of file sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(RangeInclusive<u64>);

impl Sizes {
    /// Reads `> 10 MiB`, `>= 1 GB`, `< 4 kB`, `<= 100` or `1 MiB - 2 MiB` (both ends belong to it).
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no span of sizes; one is written `> 10 MiB`, `<= 4 kB` or `1 MiB - 2 MiB`"
            )
        };
        let text_of = |prefix: &str| text.trim().strip_prefix(prefix).map(str::trim);
        // The longer sign first: `>` is also the beginning of `>=`.
        if let Some(rest) = text_of(">=") {
            return Ok(Self(bytes(rest).ok_or_else(wrong)?..=u64::MAX));
        }
        if let Some(rest) = text_of("<=") {
            return Ok(Self(0..=bytes(rest).ok_or_else(wrong)?));
        }
        if let Some(rest) = text_of(">") {
            let first = bytes(rest).and_then(|bound| bound.checked_add(1));
            return Ok(Self(first.ok_or_else(wrong)?..=u64::MAX));
        }
        if let Some(rest) = text_of("<") {
            let last = bytes(rest).and_then(|bound| bound.checked_sub(1));
            return Ok(Self(0..=last.ok_or_else(wrong)?));
        }
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let (first, last) = (
            bytes(first).ok_or_else(wrong)?,
            bytes(last).ok_or_else(wrong)?,
        );
        if first > last {
            return Err(wrong());
        }
        Ok(Self(first..=last))
    }

    pub(super) fn contains(&self, size: u64) -> bool {
        self.0.contains(&size)
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.0.start() <= other.0.start() && other.0.end() <= self.0.end()
    }
}

/// Bytes: a whole number with an optional unit, decimal (kB, MB, GB, TB) or binary (KiB, MiB, GiB,
/// TiB).
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "tib" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Bits per second: a number with `bit/s`, `kbit/s`, `Mbit/s` or `Gbit/s`.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is no rate; rates are written `500 kbit/s`, `20 Mbit/s`, `1 Gbit/s`");
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "bit/s" => 1,
        "kbit/s" => 1_000,
        "mbit/s" => 1_000_000,
        "gbit/s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number
        .checked_mul(unit)
        .filter(|&rate| rate >= 8_000)
        .ok_or_else(|| format!("`{text}` is no rate from 8 kbit/s on"))
}

#[cfg(test)]
mod tests {
    use super::super::listed::Feeds;
    use super::{Networks, Ports, Sizes, apart, bytes, rate};

    #[test]
    fn sizes_and_rates_are_read_with_their_units() {
        assert_eq!(bytes("10 MiB"), Some(10_485_760));
        assert_eq!(bytes("3kB"), Some(3_000));
        assert_eq!(bytes("ten"), None);
        assert_eq!(bytes("99999999999 GiB"), None);
        assert_eq!(rate("20 Mbit/s"), Ok(20_000_000));
        assert!(rate("20").is_err() && rate("1 bit/s").is_err());
        let span = Sizes::parse("> 4 kB").unwrap();
        assert!(!span.contains(4_000) && span.contains(4_001));
        assert!(Sizes::parse("< 0").is_err() && Sizes::parse("2 - 1").is_err());
        assert!(Sizes::parse(">= 1").unwrap().covers(&span));
        assert!(!Sizes::parse("<= 10").unwrap().covers(&span));
    }

    #[test]
    fn networks_are_exact_and_see_through_mapped_addresses() {
        assert!(Networks::parse_one("10.0.0.1/8").is_err());
        let inside = Networks::new(
            vec![Networks::parse_one("10.0.0.0/8").unwrap()],
            Feeds::default(),
        );
        assert!(inside.contains("::ffff:10.2.3.4".parse().unwrap()));
        let one = Networks::new(
            vec![Networks::parse_one("10.2.3.4").unwrap()],
            Feeds::default(),
        );
        assert!(inside.covers(&one) && !one.covers(&inside));
    }

    #[test]
    fn spans_of_ports_lie_apart() {
        assert_eq!(
            apart(&[80..=80, 8000..=8080, 8081..=9000, 79..=81]),
            [79..=81, 8000..=9000]
        );
        assert_eq!(apart(&[1..=65_535, 7..=7]), [1..=65_535]);
    }

    #[test]
    fn ports_cover_by_union() {
        let parse = |texts: &[&str]| {
            Ports::parse(&texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>()).unwrap()
        };
        assert!(parse(&["1-10", "11-20"]).covers(&parse(&["5-15"])));
        assert!(!parse(&["1-10"]).covers(&parse(&["5-15"])));
        assert!(Ports::parse(&["9-1".to_owned()]).is_err());
    }
}
