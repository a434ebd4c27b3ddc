//! A bounded memory of endpoints that were seen speaking a peer-to-peer protocol.

use std::net::SocketAddr;
use std::time::Duration;

use crate::generations::Generations;
use crate::limits::{HOST_EVIDENCE, MAX_ENDPOINTS};

/// A bounded memory of endpoints and what they speak.
#[derive(Debug)]
pub struct Endpoints {
    known: Generations<SocketAddr, (&'static str, Duration)>,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            known: Generations::new(MAX_ENDPOINTS),
        }
    }
}

impl Endpoints {
    /// Remembers that an endpoint speaks an application now.
    pub fn note(&mut self, endpoint: SocketAddr, application: &'static str, now: Duration) {
        self.known.insert(endpoint, (application, now));
    }

    /// What an endpoint was last seen speaking, if that was not longer ago than
    /// [`HOST_EVIDENCE`].
    #[must_use]
    pub fn get(&self, endpoint: &SocketAddr, now: Duration) -> Option<&'static str> {
        let (application, seen) = self.known.get(endpoint)?;
        (now <= seen.saturating_add(HOST_EVIDENCE)).then_some(application)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use super::Endpoints;
    use crate::limits::{HOST_EVIDENCE, MAX_ENDPOINTS};

    const NOW: Duration = Duration::from_secs(1_000);

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
            endpoints.note(endpoint(number), "bittorrent", NOW);
            assert!(endpoints.known.len() <= MAX_ENDPOINTS);
        }
        assert_eq!(endpoints.get(&endpoint(0), NOW), None);
        let last = endpoint(MAX_ENDPOINTS);
        assert_eq!(endpoints.get(&last, NOW), Some("bittorrent"));
        let end = NOW + HOST_EVIDENCE;
        assert_eq!(endpoints.get(&last, end), Some("bittorrent"));
        assert_eq!(endpoints.get(&last, end + Duration::from_secs(1)), None);
    }
}
