//! Bounded memories: endpoints that were seen speaking a peer-to-peer protocol, and what else is told of other flows.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;

use crate::limits::MAX_ENDPOINTS;

/// A bounded map.
///
/// Two generations: when the younger is full the older is dropped, so that use costs the same at any size.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    bound: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// Holds at most this many entries.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.make_room();
        self.young.insert(key, value);
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// What is remembered of a key, to be changed; it counts as young again.
    pub(super) fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let mut known = None;
        if !self.young.contains_key(&key) {
            known = self.old.remove(&key);
            self.make_room();
        }
        self.young
            .entry(key)
            .or_insert_with(|| known.unwrap_or_default())
    }

    fn make_room(&mut self) {
        if self.young.len() >= self.bound.div_euclid(2) {
            self.old = std::mem::take(&mut self.young);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len().saturating_add(self.old.len())
    }
}

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
