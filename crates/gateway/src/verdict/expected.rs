//! Connections that others have announced: transfers of chat programs come from any port to any
//! port.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::generations::Generations;
use crate::inspect::Expected;
use crate::limits::{EXPECTED_FOR, FIRST_USER_PORT, MAX_EXPECTED};

/// Announced connections, by where they will go. Clones are the same ones: the queue that gets a
/// connection need not be that of the conversation which announced it.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcements(Arc<Mutex<Announced>>);

#[derive(Debug)]
struct Announced {
    by_server: HashMap<SocketAddr, (Duration, Expected)>,
    order: VecDeque<(Duration, SocketAddr)>,
    /// How many there were.
    count: u64,
    /// Which was the last one for a server: for longer than it counts.
    last: Generations<SocketAddr, u64>,
}

impl Default for Announced {
    fn default() -> Self {
        Self {
            by_server: HashMap::new(),
            order: VecDeque::new(),
            count: 0,
            last: Generations::new(MAX_EXPECTED),
        }
    }
}

impl Announcements {
    fn announced(&self) -> MutexGuard<'_, Announced> {
        // What a panic elsewhere leaves half noted is at worst an announcement that is missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an announcement, and returns whether it counts: no file is offered at a service's
    /// port.
    pub(super) fn add(&self, now: Duration, expected: Expected) -> bool {
        let counts = expected.server.port() >= FIRST_USER_PORT;
        if counts {
            self.announced().add(now, expected);
        }
        counts
    }

    /// What was announced for connections to this server. It stays: else anybody could use it up
    /// with a connection that carries nothing.
    pub(super) fn get(&self, now: Duration, server: SocketAddr) -> Option<Expected> {
        self.announced().get(now, server)
    }

    /// How many announcements there were so far. Queues have clocks of their own, which one number
    /// is not older than.
    pub(super) fn count(&self) -> u64 {
        self.announced().count
    }

    /// Which of them was the last one for this server, the first of all being number 1; none: 0.
    pub(super) fn last(&self, server: SocketAddr) -> u64 {
        self.announced().last.get(&server).copied().unwrap_or(0)
    }
}

impl Announced {
    fn add(&mut self, now: Duration, expected: Expected) {
        let (server, until) = (expected.server, now.saturating_add(EXPECTED_FOR));
        self.count = self.count.saturating_add(1);
        self.last.insert(server, self.count);
        // One that is repeated takes one slot.
        if self.by_server.insert(server, (until, expected)).is_none() {
            self.order.push_back((until, server));
        }
        while self.order.len() > MAX_EXPECTED {
            self.forget_oldest();
        }
    }

    fn get(&mut self, now: Duration, server: SocketAddr) -> Option<Expected> {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
        let (_, expected) = self.by_server.get(&server)?;
        Some(expected.clone())
    }

    /// Forgets the oldest announcement, unless the same endpoint was announced again since: then it
    /// takes its new position.
    fn forget_oldest(&mut self) {
        let Some((noted, server)) = self.order.pop_front() else {
            return;
        };
        match self.by_server.get(&server) {
            Some((until, _)) if *until > noted && self.order.len() < MAX_EXPECTED => {
                self.order.push_back((*until, server));
            }
            _ => drop(self.by_server.remove(&server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Announcements;
    use crate::inspect::{Expected, FileHead};
    use crate::limits::{EXPECTED_FOR, MAX_EXPECTED};

    fn expected(port: u16, ip: u32) -> Expected {
        Expected {
            server: (std::net::Ipv4Addr::from(ip), port).into(),
            application: "dcc",
            file: FileHead::default(),
        }
    }

    #[test]
    fn an_announcement_counts_for_a_time() {
        let announced = Announcements::default();
        let (first, server) = (expected(5_000, 7), expected(5_000, 7).server);
        announced.add(Duration::ZERO, first.clone());
        for _each_connection in 0..2 {
            assert_eq!(announced.get(Duration::ZERO, server), Some(first.clone()));
        }
        assert_eq!(announced.get(EXPECTED_FOR, server), None);
        announced.add(Duration::ZERO, first.clone());
        announced.clone().add(EXPECTED_FOR / 2, first.clone());
        assert_eq!(announced.get(EXPECTED_FOR, server), Some(first));
    }

    #[test]
    fn announcements_are_numbered_for_longer_than_they_count() {
        let announced = Announcements::default();
        let at = |ip| expected(5_000, ip);
        assert_eq!((announced.count(), announced.last(at(7).server)), (0, 0));
        for ip in [7, 8, 7] {
            announced.add(Duration::ZERO, at(ip));
        }
        assert_eq!(announced.get(EXPECTED_FOR, at(7).server), None);
        let last = [7, 8, 9].map(|ip| announced.last(at(ip).server));
        assert_eq!((announced.count(), last), (3, [3, 2, 0]));
    }

    #[test]
    fn repeated_announcements_take_one_slot() {
        let announced = Announcements::default();
        let (kept, repeated) = (expected(5_000, 7), expected(5_000, 8));
        announced.add(Duration::ZERO, kept.clone());
        for _ in 0..2 * MAX_EXPECTED {
            announced.add(Duration::ZERO, repeated.clone());
        }
        let found = announced.get(Duration::ZERO, kept.server);
        assert_eq!((found, announced.announced().order.len()), (Some(kept), 2));
    }

    #[test]
    fn services_cannot_be_announced() {
        let announced = Announcements::default();
        for (port, counts) in [(25, false), (1_023, false), (1_024, true)] {
            let expected = expected(port, 7);
            assert_eq!(announced.add(Duration::ZERO, expected.clone()), counts);
            assert_eq!(
                announced.get(Duration::ZERO, expected.server).is_some(),
                counts
            );
        }
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let announced = Announcements::default();
        for ip in 0..u32::try_from(MAX_EXPECTED).unwrap() * 2 {
            announced.add(Duration::ZERO, expected(5_000, ip));
        }
        let announced = announced.announced();
        assert_eq!(announced.by_server.len(), MAX_EXPECTED);
        assert_eq!(announced.order.len(), MAX_EXPECTED);
    }
}
