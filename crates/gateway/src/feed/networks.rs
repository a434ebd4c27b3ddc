//! Networks of both versions of IP.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Bits of `::ffff:0:0/96`, in which addresses of IPv4 stand.
const MAPPED: u8 = 96;

/// Networks by the length of their prefix: an address is looked up once for each length in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSet {
    /// In the order of their lengths, counted as those of IPv6.
    lengths: Vec<(u8, HashSet<u128>)>,
}

/// The first so many bits of an address.
fn masked(address: u128, length: u8) -> u128 {
    let left = u32::from(128_u8.saturating_sub(length));
    let mask = u128::MAX.checked_shl(left).unwrap_or(0);
    address & mask
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl NetworkSet {
    /// Adds a network.
    pub(super) fn insert(&mut self, network: IpNet) {
        let length = match network {
            IpNet::V4(network) => network.prefix_len().saturating_add(MAPPED),
            IpNet::V6(network) => network.prefix_len(),
        };
        let place = match self
            .lengths
            .binary_search_by_key(&length, |(known, _)| *known)
        {
            Ok(place) => place,
            Err(place) => {
                self.lengths.insert(place, (length, HashSet::new()));
                place
            }
        };
        if let Some((_, networks)) = self.lengths.get_mut(place) {
            networks.insert(masked(bits(network.network()), length));
        }
    }

    /// An address lies in one of them.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = bits(address);
        let mut lengths = self.lengths.iter();
        lengths.any(|(length, networks)| networks.contains(&masked(address, *length)))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let counts = self.lengths.iter().map(|(_, networks)| networks.len());
        counts.fold(0, usize::saturating_add)
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Bits of the shortest prefix, counted as those of IPv6.
    #[must_use]
    pub fn widest(&self) -> u8 {
        self.lengths.first().map_or(128, |(length, _)| *length)
    }

    /// All of them, the widest first; at most so many, and no particular ones if there are more.
    #[must_use]
    pub fn first(&self, most: usize) -> Vec<IpNet> {
        let all = self.lengths.iter().flat_map(|(length, networks)| {
            networks.iter().filter_map(|network| net(*network, *length))
        });
        all.take(most).collect()
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        let tables = self.lengths.iter();
        let sizes = tables.map(|(_, networks)| super::keys::table::<u128>(networks.capacity()));
        sizes.fold(0, usize::saturating_add)
    }
}

fn net(network: u128, length: u8) -> Option<IpNet> {
    let address = Ipv6Addr::from_bits(network);
    let v4 = length.checked_sub(MAPPED).zip(address.to_ipv4_mapped());
    match v4 {
        Some((length, address)) => Ipv4Net::new(address, length).ok().map(IpNet::V4),
        None => Ipv6Net::new(address, length).ok().map(IpNet::V6),
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use proptest::prelude::*;

    use super::NetworkSet;

    fn set(networks: &[IpNet]) -> NetworkSet {
        let mut set = NetworkSet::default();
        for network in networks {
            set.insert(*network);
        }
        set
    }

    #[test]
    fn networks_hold_their_addresses_of_both_versions() {
        let networks = ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "0.0.0.0/32"];
        let set = set(&networks.map(|network| network.parse().unwrap()));
        for address in [
            "10.255.0.1",
            "::ffff:10.1.1.1",
            "192.0.2.7",
            "2001:db8:9::1",
            "0.0.0.0",
        ] {
            assert!(set.contains(address.parse().unwrap()), "{address}");
        }
        for address in ["11.0.0.1", "192.0.2.8", "2001:db9::1", "::1"] {
            assert!(!set.contains(address.parse().unwrap()), "{address}");
        }
        assert_eq!((set.len(), set.widest()), (4, 32));
        assert_eq!(set.first(9).len(), 4);
        assert!(set.first(9).contains(&"10.0.0.0/8".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn a_set_says_what_its_networks_say(
            networks in proptest::collection::vec((any::<u32>(), 0_u8..=32), 0..40),
            asked in proptest::collection::vec(any::<u32>(), 0..40),
        ) {
            let networks: Vec<IpNet> = networks
                .iter()
                .map(|(address, length)| {
                    IpNet::new(std::net::Ipv4Addr::from_bits(*address).into(), *length).unwrap().trunc()
                })
                .collect();
            let set = set(&networks);
            for address in asked {
                let address = std::net::Ipv4Addr::from_bits(address).into();
                let listed = networks.iter().any(|network| network.contains(&address));
                prop_assert_eq!(set.contains(address), listed);
            }
        }
    }
}
