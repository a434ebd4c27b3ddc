//! A bounded memory of endpoints that were seen speaking a peer-to-peer protocol.

use std::net::SocketAddr;

use crate::generations::Generations;
use crate::limits::MAX_ENDPOINTS;

/// A bounded memory of endpoints and what they speak.
#[derive(Debug)]
pub struct Endpoints {
    known: Generations<SocketAddr, &'static str>,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            known: Generations::new(MAX_ENDPOINTS),
        }
    }
}

impl Endpoints {
    /// Remembers that an endpoint speaks an application.
    pub fn note(&mut self, endpoint: SocketAddr, application: &'static str) {
        self.known.insert(endpoint, application);
    }

    /// What an endpoint was last seen speaking.
    #[must_use]
    pub fn get(&self, endpoint: &SocketAddr) -> Option<&'static str> {
        self.known.get(endpoint).copied()
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
            assert!(endpoints.known.len() <= MAX_ENDPOINTS);
        }
        assert_eq!(endpoints.get(&endpoint(0)), None);
        assert_eq!(endpoints.get(&endpoint(MAX_ENDPOINTS)), Some("bittorrent"));
    }
}
