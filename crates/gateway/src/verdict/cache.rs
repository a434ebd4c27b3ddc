//! The connection cache: who was blocked a moment ago is not listened to again.
//!
//! The papers' observation: peer-to-peer programs call again at once, from another port. So the client's port is no part
//! of the key.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::limits::MAX_BLOCKED;
use crate::packet::L4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    l4: L4,
    client: IpAddr,
    server: SocketAddr,
}

/// Blocked (client, server, server's port, protocol), each for the same time.
#[derive(Debug, Default)]
pub(super) struct ConnectionCache {
    until: HashMap<Key, Duration>,
    order: VecDeque<(Duration, Key)>,
}

impl ConnectionCache {
    pub(super) fn block(&mut self, l4: L4, client: IpAddr, server: SocketAddr, until: Duration) {
        let key = Key { l4, client, server };
        if self.until.insert(key, until).is_none() {
            self.order.push_back((until, key));
        }
        while self.order.len() > MAX_BLOCKED {
            self.forget_oldest();
        }
    }

    pub(super) fn holds(
        &mut self,
        l4: L4,
        client: IpAddr,
        server: SocketAddr,
        now: Duration,
    ) -> bool {
        if self.until.is_empty() {
            return false;
        }
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
        self.until
            .get(&Key { l4, client, server })
            .is_some_and(|until| *until > now)
    }

    /// Drops the oldest entry, unless it was renewed: then it takes its new place.
    fn forget_oldest(&mut self) {
        let Some((noted, key)) = self.order.pop_front() else {
            return;
        };
        match self.until.get(&key).copied() {
            Some(until) if until > noted && self.order.len() < MAX_BLOCKED => {
                self.order.push_back((until, key));
            }
            _ => {
                self.until.remove(&key);
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.until.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ConnectionCache;
    use crate::limits::MAX_BLOCKED;
    use crate::packet::L4;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_blocked_connection_is_known_until_its_time_is_over() {
        let mut cache = ConnectionCache::default();
        let (client, server) = ([10, 0, 0, 1].into(), ([192, 0, 2, 1], 6881).into());
        cache.block(L4::Tcp, client, server, s(60));
        assert!(cache.holds(L4::Tcp, client, server, s(59)));
        assert!(!cache.holds(L4::Udp, client, server, s(59)));
        assert!(!cache.holds(L4::Tcp, client, ([192, 0, 2, 1], 80).into(), s(59)));
        assert!(!cache.holds(L4::Tcp, client, server, s(60)));
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_renewed_one_is_known_for_longer() {
        let mut cache = ConnectionCache::default();
        let (client, server) = ([10, 0, 0, 1].into(), ([192, 0, 2, 1], 6881).into());
        cache.block(L4::Tcp, client, server, s(60));
        cache.block(L4::Tcp, client, server, s(90));
        assert!(cache.holds(L4::Tcp, client, server, s(70)));
        assert!(!cache.holds(L4::Tcp, client, server, s(90)));
        assert_eq!((cache.len(), cache.order.len()), (0, 0));
    }

    #[test]
    fn a_renewed_one_ends_on_time_behind_later_ones() {
        let mut cache = ConnectionCache::default();
        let client = |last| std::net::IpAddr::from([10, 0, 0, last]);
        let server = ([192, 0, 2, 1], 6881).into();
        cache.block(L4::Tcp, client(1), server, s(60));
        cache.block(L4::Tcp, client(1), server, s(90));
        cache.block(L4::Tcp, client(2), server, s(95));
        assert!(cache.holds(L4::Tcp, client(1), server, s(61)));
        assert!(!cache.holds(L4::Tcp, client(1), server, s(92)));
        assert!(cache.holds(L4::Tcp, client(2), server, s(92)));
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let mut cache = ConnectionCache::default();
        for place in 0..u32::try_from(MAX_BLOCKED).unwrap() + 1_000 {
            let client = std::net::Ipv4Addr::from(place).into();
            cache.block(L4::Udp, client, ([192, 0, 2, 1], 1).into(), s(60));
        }
        assert_eq!(cache.len(), MAX_BLOCKED);
        assert_eq!(cache.order.len(), MAX_BLOCKED);
    }
}
