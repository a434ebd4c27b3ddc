//! The connection cache: who was blocked a moment ago is not listened to again.
//!
//! The papers' observation: peer-to-peer programs call again at once, from another port. So the client's port is no part
//! of the key.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::event::Ends;
use crate::limits::{MAX_BLOCKED, REFUSALS_TOLD};
use crate::packet::L4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    l4: L4,
    client: IpAddr,
    server: SocketAddr,
}

impl Key {
    fn of(ends: &Ends) -> Self {
        Self {
            l4: ends.l4,
            client: ends.client.ip(),
            server: ends.server,
        }
    }
}

/// What is known of a blocked one.
#[derive(Debug)]
struct Entry {
    until: Duration,
    /// When refusals are told next: the first one at once.
    tell_at: Duration,
    /// Refusals that were not told, and the latest of them.
    untold: Option<Refusals>,
}

/// Attempts that were refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals {
    /// The latest attempt.
    pub(super) latest: Ends,
    /// When it was.
    pub(super) at: Duration,
    pub(super) attempts: u64,
}

/// Blocked (client, server, server's port, protocol), each for the same time.
#[derive(Debug, Default)]
pub(super) struct ConnectionCache {
    entries: HashMap<Key, Entry>,
    order: VecDeque<(Duration, Key)>,
    /// Refusals of those that were forgotten.
    rest: Vec<Refusals>,
}

impl ConnectionCache {
    pub(super) fn block(&mut self, ends: &Ends, until: Duration) {
        let key = Key::of(ends);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.until = until;
            return;
        }
        let entry = Entry {
            until,
            tell_at: Duration::ZERO,
            untold: None,
        };
        self.entries.insert(key, entry);
        self.order.push_back((until, key));
        while self.order.len() > MAX_BLOCKED {
            self.forget_oldest();
        }
    }

    /// Whether an attempt is refused.
    pub(super) fn refuses(&mut self, ends: &Ends, now: Duration) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        self.expire(now);
        let entry = self.entries.get_mut(&Key::of(ends));
        let Some(entry) = entry.filter(|entry| entry.until > now) else {
            return false;
        };
        let attempts = entry.untold.map_or(0, |untold| untold.attempts);
        let refusals = Refusals {
            latest: *ends,
            at: now,
            attempts: attempts.saturating_add(1),
        };
        if entry.tell_at <= now {
            entry.tell_at = now.saturating_add(REFUSALS_TOLD);
            entry.untold = None;
            self.rest.push(refusals);
        } else {
            entry.untold = Some(refusals);
        }
        true
    }

    /// Refusals that are to be told by now.
    pub(super) fn take_told(&mut self) -> Vec<Refusals> {
        std::mem::take(&mut self.rest)
    }

    /// Forgets those whose time is over.
    pub(super) fn expire(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    /// All refusals are to be told: nobody will come to it again.
    pub(super) fn close(&mut self) {
        let untold = self
            .entries
            .values_mut()
            .filter_map(|entry| entry.untold.take());
        self.rest.extend(untold);
    }

    /// Drops the oldest entry, unless it was renewed: then it takes its new place.
    fn forget_oldest(&mut self) {
        let Some((noted, key)) = self.order.pop_front() else {
            return;
        };
        match self.entries.get(&key).map(|entry| entry.until) {
            Some(until) if until > noted && self.order.len() < MAX_BLOCKED => {
                self.order.push_back((until, key));
            }
            _ => {
                let entry = self.entries.remove(&key);
                self.rest.extend(entry.and_then(|entry| entry.untold));
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;

    use super::{ConnectionCache, Ends};
    use crate::limits::{MAX_BLOCKED, REFUSALS_TOLD};
    use crate::packet::L4;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ends(l4: L4, client: impl Into<IpAddr>, server: impl Into<SocketAddr>) -> Ends {
        Ends {
            l4,
            client: (client.into(), 50_000).into(),
            server: server.into(),
            serial: 1,
        }
    }

    fn tcp(last: u8) -> Ends {
        ends(L4::Tcp, [10, 0, 0, last], ([192, 0, 2, 1], 6_881))
    }

    fn told(cache: &mut ConnectionCache) -> Vec<u64> {
        let told = cache.take_told();
        told.iter().map(|refusals| refusals.attempts).collect()
    }

    #[test]
    fn a_blocked_connection_is_known_until_its_time_is_over() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60));
        assert!(cache.refuses(&tcp(1), s(59)));
        let server = ([192, 0, 2, 1], 6_881);
        assert!(!cache.refuses(&ends(L4::Udp, [10, 0, 0, 1], server), s(59)));
        let web = ends(L4::Tcp, [10, 0, 0, 1], ([192, 0, 2, 1], 80));
        assert!(!cache.refuses(&web, s(59)));
        assert!(!cache.refuses(&tcp(1), s(60)));
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_renewed_one_is_known_for_longer() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60));
        cache.block(&tcp(1), s(90));
        assert!(cache.refuses(&tcp(1), s(70)));
        assert!(!cache.refuses(&tcp(1), s(90)));
        assert_eq!((cache.len(), cache.order.len()), (0, 0));
    }

    #[test]
    fn a_renewed_one_ends_on_time_behind_later_ones() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60));
        cache.block(&tcp(1), s(90));
        cache.block(&tcp(2), s(95));
        assert!(cache.refuses(&tcp(1), s(61)));
        assert!(!cache.refuses(&tcp(1), s(92)));
        assert!(cache.refuses(&tcp(2), s(92)));
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let mut cache = ConnectionCache::default();
        for place in 0..u32::try_from(MAX_BLOCKED).unwrap() + 1_000 {
            let client = std::net::Ipv4Addr::from(place);
            cache.block(&ends(L4::Udp, client, ([192, 0, 2, 1], 1)), s(60));
        }
        assert_eq!(cache.len(), MAX_BLOCKED);
        assert_eq!(cache.order.len(), MAX_BLOCKED);
    }

    #[test]
    fn the_first_refusal_is_told_at_once_and_the_others_together() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(600));
        assert!(cache.refuses(&tcp(1), s(1)));
        assert_eq!(told(&mut cache), [1]);
        for _attempt in 0..100 {
            assert!(cache.refuses(&tcp(1), s(2)));
        }
        assert!(told(&mut cache).is_empty());
        assert!(cache.refuses(&tcp(1), s(1) + REFUSALS_TOLD));
        assert_eq!(told(&mut cache), [101]);
    }

    #[test]
    fn what_was_not_told_is_told_when_it_is_forgotten_or_at_the_end() {
        let mut cache = ConnectionCache::default();
        for (last, until) in [(1, s(10)), (2, s(60))] {
            cache.block(&tcp(last), until);
            for _attempt in 0..3 {
                assert!(cache.refuses(&tcp(last), s(1)));
            }
        }
        assert_eq!(told(&mut cache), [1, 1]);
        cache.expire(s(10));
        assert_eq!(told(&mut cache), [2]);
        cache.close();
        assert_eq!(told(&mut cache), [2]);
        cache.close();
        assert!(told(&mut cache).is_empty());
    }
}
