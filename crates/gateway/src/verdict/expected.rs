//! Connections that others have announced: transfers of chat programs come from any port to any port.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::inspect::Expected;
use crate::limits::{EXPECTED_FOR, FIRST_USER_PORT, MAX_EXPECTED};

/// Announced connections, by where they will go. Clones are the same ones: the queue that gets a connection need not be that of the
/// conversation which announced it.
#[derive(Clone, Debug, Default)]
pub(super) struct Announcements(Arc<Mutex<Announced>>);

#[derive(Debug, Default)]
struct Announced {
    by_server: HashMap<SocketAddr, (Duration, Expected)>,
    order: VecDeque<(Duration, SocketAddr)>,
}

impl Announcements {
    fn announced(&self) -> MutexGuard<'_, Announced> {
        // What a panic elsewhere leaves half noted is at worst an announcement that is missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an announcement, and answers whether it counts: nobody offers a file at a service's port.
    pub(super) fn add(&self, now: Duration, expected: Expected) -> bool {
        let counts = expected.server.port() >= FIRST_USER_PORT;
        if counts {
            self.announced().add(now, expected);
        }
        counts
    }

    /// What was announced for connections to this server, and when. It stays: else anybody could use it up with a connection that
    /// carries nothing.
    pub(super) fn get(&self, now: Duration, server: SocketAddr) -> Option<(Duration, Expected)> {
        self.announced().get(now, server)
    }
}

impl Announced {
    fn add(&mut self, now: Duration, expected: Expected) {
        let until = now.saturating_add(EXPECTED_FOR);
        self.order.push_back((until, expected.server));
        self.by_server.insert(expected.server, (until, expected));
        while self.order.len() > MAX_EXPECTED {
            self.forget_oldest();
        }
    }

    fn get(&mut self, now: Duration, server: SocketAddr) -> Option<(Duration, Expected)> {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
        let (until, expected) = self.by_server.get(&server)?;
        Some((until.saturating_sub(EXPECTED_FOR), expected.clone()))
    }

    /// Forgets the oldest announcement, unless the same place was announced again since.
    fn forget_oldest(&mut self) {
        let Some((noted, server)) = self.order.pop_front() else {
            return;
        };
        if self
            .by_server
            .get(&server)
            .is_some_and(|(until, _)| *until <= noted)
        {
            self.by_server.remove(&server);
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
            let said = Some((Duration::ZERO, first.clone()));
            assert_eq!(announced.get(Duration::ZERO, server), said);
        }
        assert_eq!(announced.get(EXPECTED_FOR, server), None);
        announced.add(Duration::ZERO, first.clone());
        announced.clone().add(EXPECTED_FOR / 2, first.clone());
        let said = Some((EXPECTED_FOR / 2, first));
        assert_eq!(announced.get(EXPECTED_FOR, server), said);
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
