//! The connection cache: new connections that match a blocked one are refused at once.
//!
//! The papers' observation: peer-to-peer programs reconnect at once, from another port. So the
//! client's port is no part of the key.
//!
//! Where the kernel keeps one too ([`share`](ConnectionCache::share)), it receives each change,
//! refuses new connections before anything is spent on them, and reports how many there were.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::event::Ends;
use crate::limits::{MAX_BLOCKED, REFUSALS_REPORTED};
use crate::packet::L4;

/// A client, a server and a transport: by these the connection cache knows a connection.
///
/// In order, those to one server stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedKey {
    /// The server.
    pub server: SocketAddr,
    /// The transport.
    pub l4: L4,
    /// The client, at any port.
    pub client: IpAddr,
}

/// New connections that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedConnections {
    /// Those that match this key.
    pub key: BlockedKey,
    /// Until this time since the Unix epoch.
    pub until: Duration,
    /// What was blocked is announced by others: another announcement makes it another one.
    pub announced: bool,
}

/// A change for the kernel's connection cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// These are refused.
    Until(BlockedConnections),
    /// They are not any more: refusals that were not reported have to be reported now.
    Gone(BlockedKey),
    /// The same of those that an earlier run has blocked; what a queue of this one has blocked
    /// since stays.
    Left(BlockedKey),
    /// A connection to this server was announced: of the new connections there none is refused any
    /// more that others had announced, in whatever queue the announcement was seen.
    Announced(L4, SocketAddr),
}

/// New connections that the kernel has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedConnections {
    /// Of which client to which server.
    pub key: BlockedKey,
    /// The port of the latest.
    pub client_port: u16,
    /// When that was, since the Unix epoch.
    pub at: Duration,
    /// How many there were.
    pub attempts: u64,
}

impl BlockedKey {
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
    /// It may come back as another one, by another announcement than the first so many.
    announced: Option<u64>,
    /// An earlier run has blocked it.
    left: bool,
    /// When refusals are reported next: the first one at once.
    report_at: Duration,
    /// Refusals that were not reported, and the latest of them.
    unreported: Option<Refusals>,
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

/// Blocked (client, server, server's port, protocol), each for the same time, or less if an earlier
/// run has blocked it.
#[derive(Debug, Default)]
pub(super) struct ConnectionCache {
    entries: BTreeMap<BlockedKey, Entry>,
    order: VecDeque<(Duration, BlockedKey)>,
    /// Refusals of those that were forgotten.
    rest: Vec<Refusals>,
    /// Changes for the kernel, where it has a cache of its own.
    shared: Option<VecDeque<Cached>>,
}

impl ConnectionCache {
    /// The kernel has a cache, too: from now on it has to receive the changes
    /// ([`poll_shared`](Self::poll_shared)).
    pub(super) fn share(&mut self) {
        self.shared.get_or_insert_default();
    }

    /// The next change for the kernel's cache.
    pub(super) fn poll_shared(&mut self) -> Option<Cached> {
        self.shared.as_mut()?.pop_front()
    }

    fn push_shared(&mut self, cached: Cached) {
        if let Some(shared) = &mut self.shared {
            if shared.len() >= MAX_BLOCKED {
                // Without a kernel to poll it: what is not known there is refused here.
                shared.pop_front();
            }
            shared.push_back(cached);
        }
    }

    /// Takes in what the kernel has refused; `serial` numbers the latest attempt as a flow.
    pub(super) fn take_in(&mut self, refused: &RefusedConnections, serial: u64) {
        let BlockedKey { l4, client, server } = refused.key;
        self.rest.push(Refusals {
            latest: Ends {
                l4,
                client: SocketAddr::new(client, refused.client_port),
                server,
                serial,
            },
            at: refused.at,
            attempts: refused.attempts,
        });
    }

    /// Refuses new connections that match this one until then. `announced`: it was one that others
    /// announce, and of announcements there had been so many by then; a later one
    /// [forgives](Self::forgive) it.
    pub(super) fn block(&mut self, ends: &Ends, until: Duration, announced: Option<u64>) {
        let key = BlockedKey::of(ends);
        self.push_shared(Cached::Until(BlockedConnections {
            key,
            until,
            announced: announced.is_some(),
        }));
        match self.entries.get_mut(&key) {
            Some(entry) => {
                entry.until = until;
                entry.announced = announced;
                entry.left = false;
            }
            None => self.enter(key, until, announced, false),
        }
    }

    /// Those that the kernel refuses since an earlier run: as if this one had blocked them, so
    /// that they end by an announcement, with their time, or all together. `latest`: until when
    /// this one would refuse what it blocked now.
    pub(super) fn take_up(&mut self, mut left: Vec<BlockedConnections>, latest: Duration) {
        left.sort_by_key(|blocked| blocked.until);
        for blocked in left {
            // What this run has blocked is newer.
            if !self.entries.contains_key(&blocked.key) {
                let announced = blocked.announced.then_some(0);
                self.enter(blocked.key, blocked.until.min(latest), announced, true);
            }
        }
    }

    fn enter(&mut self, key: BlockedKey, until: Duration, announced: Option<u64>, left: bool) {
        let entry = Entry {
            until,
            announced,
            left,
            report_at: Duration::ZERO,
            unreported: None,
        };
        self.entries.insert(key, entry);
        self.order.push_back((until, key));
        while self.order.len() > MAX_BLOCKED {
            self.forget_oldest();
        }
    }

    /// A connection to this server was announced: it is another one than those announced ones that
    /// were blocked there, whose port is in use again. Anybody may announce anything: whatever
    /// else was blocked there stays so.
    pub(super) fn forgive(&mut self, l4: L4, server: SocketAddr) {
        let first = BlockedKey {
            server,
            l4,
            client: Ipv4Addr::UNSPECIFIED.into(),
        };
        let from = self.entries.range(first..);
        let there = from.take_while(|(key, _)| (key.server, key.l4) == (server, l4));
        let announced = there.filter(|(_, entry)| entry.announced.is_some());
        let keys: Vec<BlockedKey> = announced.map(|(key, _)| *key).collect();
        for key in keys {
            self.forget(key);
        }
        // What other queues have blocked there, or an earlier run.
        self.push_shared(Cached::Announced(l4, server));
    }

    /// Whether an attempt is refused. `last`: which announcement was the last one of a connection
    /// to this server, in whatever queue it was seen.
    pub(super) fn refuses(&mut self, ends: &Ends, now: Duration, last: u64) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        self.expire(now);
        let key = BlockedKey::of(ends);
        let entry = self.entries.get_mut(&key);
        let Some(entry) = entry.filter(|entry| entry.until > now) else {
            return false;
        };
        // An announcement since then may be of another application at the same address.
        let forgiven = entry.announced.is_some_and(|count| last > count);
        if key.l4 == L4::Tcp && forgiven {
            self.forget(key);
            return false;
        }
        let attempts = entry.unreported.map_or(0, |unreported| unreported.attempts);
        let refusals = Refusals {
            latest: *ends,
            at: now,
            attempts: attempts.saturating_add(1),
        };
        if entry.report_at <= now {
            entry.report_at = now.saturating_add(REFUSALS_REPORTED);
            entry.unreported = None;
            self.rest.push(refusals);
        } else {
            entry.unreported = Some(refusals);
        }
        true
    }

    /// Refusals that are due to be reported.
    pub(super) fn take_refusals(&mut self) -> Vec<Refusals> {
        std::mem::take(&mut self.rest)
    }

    /// Forgets those whose time is over.
    pub(super) fn expire(&mut self, now: Duration) {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    /// No connection is refused any more.
    pub(super) fn clear(&mut self) {
        self.close();
        self.entries.clear();
        self.order.clear();
    }

    /// All refusals are to be reported: the cache is not used again.
    pub(super) fn close(&mut self) {
        let unreported = self
            .entries
            .values_mut()
            .filter_map(|entry| entry.unreported.take());
        self.rest.extend(unreported);
        let known: Vec<BlockedKey> = self.order.iter().map(|(_, key)| *key).collect();
        for key in known {
            self.push_shared(self.end_of(key));
        }
    }

    /// Drops the oldest entry, unless it was renewed: then it takes its new position.
    fn forget_oldest(&mut self) {
        let Some((noted, key)) = self.order.pop_front() else {
            return;
        };
        match self.entries.get(&key).map(|entry| entry.until) {
            Some(until) if until > noted && self.order.len() < MAX_BLOCKED => {
                self.order.push_back((until, key));
            }
            _ => self.forget(key),
        }
    }

    fn end_of(&self, key: BlockedKey) -> Cached {
        match self.entries.get(&key) {
            Some(entry) if entry.left => Cached::Left(key),
            _ => Cached::Gone(key),
        }
    }

    fn forget(&mut self, key: BlockedKey) {
        self.push_shared(self.end_of(key));
        let entry = self.entries.remove(&key);
        self.rest.extend(entry.and_then(|entry| entry.unreported));
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

    use super::{
        BlockedConnections, BlockedKey, Cached, ConnectionCache, Ends, RefusedConnections,
    };
    use crate::limits::{MAX_BLOCKED, REFUSALS_REPORTED};
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

    fn blocked(ends: &Ends, until: Duration, announced: bool) -> BlockedConnections {
        BlockedConnections {
            key: BlockedKey::of(ends),
            until,
            announced,
        }
    }

    fn gone(cache: &mut ConnectionCache) -> Vec<BlockedKey> {
        let shared = std::iter::from_fn(|| cache.poll_shared());
        let keys = shared.map(|cached| match cached {
            Cached::Gone(key) => Some(key),
            Cached::Until(blocked) => panic!("{blocked:?} is sent again"),
            Cached::Left(key) => Some(key),
            Cached::Announced(..) => None,
        });
        keys.flatten().collect()
    }

    fn reported(cache: &mut ConnectionCache) -> Vec<u64> {
        let reported = cache.take_refusals();
        reported.iter().map(|refusals| refusals.attempts).collect()
    }

    #[test]
    fn a_blocked_connection_is_known_until_it_expires() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60), None);
        assert!(cache.refuses(&tcp(1), s(59), 0));
        let server = ([192, 0, 2, 1], 6_881);
        assert!(!cache.refuses(&ends(L4::Udp, [10, 0, 0, 1], server), s(59), 0));
        let web = ends(L4::Tcp, [10, 0, 0, 1], ([192, 0, 2, 1], 80));
        assert!(!cache.refuses(&web, s(59), 0));
        assert!(!cache.refuses(&tcp(1), s(60), 0));
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_renewed_one_is_known_for_longer() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60), None);
        cache.block(&tcp(1), s(90), None);
        assert!(cache.refuses(&tcp(1), s(70), 0));
        assert!(!cache.refuses(&tcp(1), s(90), 0));
        assert_eq!((cache.len(), cache.order.len()), (0, 0));
    }

    #[test]
    fn a_renewed_entry_expires_on_time() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60), None);
        cache.block(&tcp(1), s(90), None);
        cache.block(&tcp(2), s(95), None);
        assert!(cache.refuses(&tcp(1), s(61), 0));
        assert!(!cache.refuses(&tcp(1), s(92), 0));
        assert!(cache.refuses(&tcp(2), s(92), 0));
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let mut cache = ConnectionCache::default();
        for place in 0..u32::try_from(MAX_BLOCKED).unwrap() + 1_000 {
            let client = std::net::Ipv4Addr::from(place);
            cache.block(&ends(L4::Udp, client, ([192, 0, 2, 1], 1)), s(60), None);
        }
        assert_eq!(cache.len(), MAX_BLOCKED);
        assert_eq!(cache.order.len(), MAX_BLOCKED);
    }

    #[test]
    fn the_first_refusal_is_reported_at_once() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(600), None);
        assert!(cache.refuses(&tcp(1), s(1), 0));
        assert_eq!(reported(&mut cache), [1]);
        for _attempt in 0..100 {
            assert!(cache.refuses(&tcp(1), s(2), 0));
        }
        assert!(reported(&mut cache).is_empty());
        assert!(cache.refuses(&tcp(1), s(1) + REFUSALS_REPORTED, 0));
        assert_eq!(reported(&mut cache), [101]);
    }

    #[test]
    fn the_kernels_cache_gets_changes_and_reports_refusals() {
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(60), None);
        assert_eq!(cache.poll_shared(), None);
        cache.share();
        let key = BlockedKey::of(&tcp(2));
        cache.block(&tcp(2), s(60), None);
        cache.block(&tcp(2), s(90), None);
        for until in [s(60), s(90)] {
            let blocked = blocked(&tcp(2), until, false);
            assert_eq!(cache.poll_shared(), Some(Cached::Until(blocked)));
        }
        cache.expire(s(89));
        assert_eq!(
            cache.poll_shared(),
            Some(Cached::Gone(BlockedKey::of(&tcp(1))))
        );
        assert_eq!(cache.poll_shared(), None);
        let refused = RefusedConnections {
            key,
            client_port: 40_000,
            at: s(70),
            attempts: 12,
        };
        cache.take_in(&refused, 7);
        assert_eq!(reported(&mut cache), [12]);
        cache.close();
        assert_eq!(cache.poll_shared(), Some(Cached::Gone(key)));
    }

    #[test]
    fn earlier_blocks_end_like_new_ones() {
        let cache_with = || {
            let mut cache = ConnectionCache::default();
            cache.share();
            let left = [(3, s(900), true), (1, s(30), false), (2, s(60), true)];
            let left = left.map(|(last, until, announced)| blocked(&tcp(last), until, announced));
            // It was blocked for longer then.
            cache.take_up(left.to_vec(), s(90));
            // The kernel knows them.
            assert_eq!(cache.poll_shared(), None);
            cache
        };
        let keys = |places: [u8; 2]| places.map(|last| BlockedKey::of(&tcp(last))).to_vec();

        let mut cache = cache_with();
        assert!(
            [1, 2, 3]
                .iter()
                .all(|last| cache.refuses(&tcp(*last), s(1), 0))
        );
        cache.forgive(L4::Tcp, ([192, 0, 2, 1], 6_881).into());
        assert_eq!(gone(&mut cache), keys([2, 3]));
        assert!(cache.refuses(&tcp(1), s(29), 0) && !cache.refuses(&tcp(2), s(29), 0));

        let mut cache = cache_with();
        cache.expire(s(60));
        assert_eq!(gone(&mut cache), keys([1, 2]));
        cache.clear();
        assert_eq!(gone(&mut cache), [BlockedKey::of(&tcp(3))]);
        assert!(!cache.refuses(&tcp(3), s(61), 0));

        // What it has left goes with it, unless another queue has blocked it since; what this one
        // blocks again is this one's.
        let mut cache = cache_with();
        cache.block(&tcp(1), s(80), None);
        cache.poll_shared();
        cache.expire(s(90));
        let ends = std::iter::from_fn(|| cache.poll_shared()).collect::<Vec<_>>();
        let [one, two, three] = [1, 2, 3].map(|last| BlockedKey::of(&tcp(last)));
        let expected = [Cached::Left(two), Cached::Left(three), Cached::Gone(one)];
        assert_eq!(ends, expected);

        // What this run has blocked by then is newer.
        let mut cache = ConnectionCache::default();
        cache.block(&tcp(1), s(90), None);
        cache.take_up(vec![blocked(&tcp(1), s(30), true)], s(90));
        assert!(cache.refuses(&tcp(1), s(89), 0));
        assert_eq!((cache.len(), cache.order.len()), (1, 1));
    }

    #[test]
    fn an_announcement_forgives_clients_of_its_server_only() {
        let mut cache = ConnectionCache::default();
        let server = ([192, 0, 2, 1], 6_881);
        let over_udp = ends(L4::Udp, [10, 0, 0, 1], server);
        let by_v6 = ends(L4::Tcp, std::net::Ipv6Addr::LOCALHOST, server);
        let other_port = ends(L4::Tcp, [10, 0, 0, 1], ([192, 0, 2, 1], 6_882));
        let kept = [over_udp, other_port, tcp(7)];
        let forgiven = [tcp(1), tcp(255), by_v6];
        for blocked in kept.iter().chain(&forgiven) {
            // What is no announced one stays blocked at the same position.
            let announced = blocked.client != tcp(7).client;
            cache.block(blocked, s(60), announced.then_some(0));
        }
        cache.share();
        assert!(cache.refuses(&tcp(1), s(1), 0));
        assert!(cache.refuses(&tcp(1), s(2), 0));
        assert_eq!(reported(&mut cache), [1]);
        cache.forgive(L4::Tcp, server.into());
        assert!(kept.iter().all(|blocked| cache.refuses(blocked, s(3), 0)));
        assert!(forgiven.iter().all(|other| !cache.refuses(other, s(3), 0)));
        // Refusals that were not reported are now, beside the first of each that stays, and the
        // kernel receives each.
        assert_eq!(reported(&mut cache), [1, 1, 1, 1]);
        let shared = std::iter::from_fn(|| cache.poll_shared()).collect::<Vec<_>>();
        let gone = forgiven.map(|other| Cached::Gone(BlockedKey::of(&other)));
        assert!(gone.iter().all(|gone| shared.contains(gone)));
        assert_eq!(shared[3..], [Cached::Announced(L4::Tcp, server.into())]);
        // It is blocked again, for as long as then.
        cache.block(&tcp(1), s(90), None);
        assert!(cache.refuses(&tcp(1), s(89), 0));
        assert!(!cache.refuses(&tcp(1), s(90), 0));
        assert_eq!((cache.len(), cache.order.len()), (0, 0));
    }

    #[test]
    fn what_another_queue_hears_announced_forgives_here_too() {
        let mut cache = ConnectionCache::default();
        let udp = ends(L4::Udp, [10, 0, 0, 1], ([192, 0, 2, 1], 6_881));
        for (blocked, announced) in [(&tcp(1), Some(3)), (&tcp(2), None), (&udp, Some(3))] {
            cache.block(blocked, s(70), announced);
        }
        // What was said before is what it was blocked by.
        for last in [0, 3] {
            assert!(cache.refuses(&tcp(1), s(11), last));
        }
        assert!(!cache.refuses(&tcp(1), s(12), 4));
        assert!(!cache.refuses(&tcp(1), s(12), 0));
        // It concerns neither connections without announcements nor datagrams.
        assert!(cache.refuses(&tcp(2), s(12), 4));
        assert!(cache.refuses(&udp, s(12), 4));
    }

    #[test]
    fn unreported_refusals_are_reported_at_the_end() {
        let mut cache = ConnectionCache::default();
        for (last, until) in [(1, s(10)), (2, s(60))] {
            cache.block(&tcp(last), until, None);
            for _attempt in 0..3 {
                assert!(cache.refuses(&tcp(last), s(1), 0));
            }
        }
        assert_eq!(reported(&mut cache), [1, 1]);
        cache.expire(s(10));
        assert_eq!(reported(&mut cache), [2]);
        cache.close();
        assert_eq!(reported(&mut cache), [2]);
        cache.close();
        assert!(reported(&mut cache).is_empty());
    }
}
