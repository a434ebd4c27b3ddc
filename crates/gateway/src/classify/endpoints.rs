//! Endpoints that were seen speaking a peer-to-peer protocol: evidence for their other flows.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::limits::MAX_ENDPOINTS;

/// A bounded memory of endpoints and what they speak.
///
/// Two generations: when the younger is full the older is dropped, so that use costs the same at any size.
#[derive(Debug, Default)]
pub struct Endpoints {
    young: HashMap<SocketAddr, &'static str>,
    old: HashMap<SocketAddr, &'static str>,
}

impl Endpoints {
    /// Remembers that an endpoint speaks an application.
    pub fn note(&mut self, endpoint: SocketAddr, application: &'static str) {
        if self.young.len() >= MAX_ENDPOINTS.div_euclid(2) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(endpoint, application);
    }

    /// What an endpoint was last seen speaking.
    #[must_use]
    pub fn get(&self, endpoint: &SocketAddr) -> Option<&'static str> {
        self.young
            .get(endpoint)
            .or_else(|| self.old.get(endpoint))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::Endpoints;
    use crate::limits::MAX_ENDPOINTS;

    fn endpoint(number: usize) -> SocketAddr {
        SocketAddr::new(
            Ipv4Addr::from_bits(u32::try_from(number).unwrap()).into(),
            6881,
        )
    }

    #[test]
    fn old_endpoints_are_forgotten_and_the_bound_holds() {
        let mut endpoints = Endpoints::default();
        for number in 0..=MAX_ENDPOINTS {
            endpoints.note(endpoint(number), "bittorrent");
            assert!(endpoints.young.len() + endpoints.old.len() <= MAX_ENDPOINTS);
        }
        assert_eq!(endpoints.get(&endpoint(0)), None);
        assert_eq!(endpoints.get(&endpoint(MAX_ENDPOINTS)), Some("bittorrent"));
    }
}
