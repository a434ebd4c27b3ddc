//! The connection cache in the kernel: it receives what is blocked, and reports how many new
//! connections it refused.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aya::maps::{HashMap, MapData, RingBuf};
use rustix::time::{ClockId, clock_gettime};

use super::layout::{self, Address, CacheKey, Form as _, Port};
use super::tc_hooks::Command;
use crate::packet::L4;
use crate::verdict::{BlockedConnections, BlockedKey, Cached, RefusedConnections};

type Blocked = HashMap<MapData, [u8; CacheKey::BYTES], [u8; layout::Blocked::BYTES]>;

/// The map of those that are blocked. Clones are the same.
#[derive(Clone)]
pub struct KernelCache(Arc<Mutex<CacheState>>);

/// What the kernel's cache holds, as far as this process has written it.
struct CacheState {
    map: Blocked,
    /// Those in it that others announce, so that an announcement finds those to that server.
    announced: BTreeSet<BlockedKey>,
    /// Those that an earlier run has blocked, and no queue of this one.
    left: BTreeSet<BlockedKey>,
    /// Until when somebody is refused, since boot.
    latest: Duration,
    /// Where the first block is notified.
    hooks: Option<Sender<Command>>,
}

impl fmt::Debug for KernelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KernelCache").finish_non_exhaustive()
    }
}

impl KernelCache {
    /// What an earlier run has blocked is known, too.
    pub(super) fn new(map: Blocked) -> Self {
        let mut state = CacheState {
            map,
            announced: BTreeSet::new(),
            left: BTreeSet::new(),
            latest: Duration::ZERO,
            hooks: None,
        };
        let times = state.map.iter().flatten();
        let latest = times.map(|(_, value)| blocked(&value).until).max();
        state.latest = Duration::from_nanos(latest.unwrap_or(0));
        let known = state.known(Duration::ZERO);
        state.left = known.iter().map(|blocked| blocked.key).collect();
        let announced = known.iter().filter(|blocked| blocked.announced);
        state.announced = announced.map(|blocked| blocked.key).collect();
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        // What a panic elsewhere leaves unreported is refused in user space.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No connection is refused any more, also none that an earlier run has blocked.
    pub fn clear(&self) {
        let mut state = self.lock();
        let known: Vec<[u8; CacheKey::BYTES]> = state.map.keys().flatten().collect();
        for key in known {
            // What is gone meanwhile need not go.
            state.map.remove(&key).ok();
        }
        state.announced.clear();
        state.left.clear();
        state.latest = Duration::ZERO;
    }

    /// Whether anybody is refused.
    pub(super) fn refuses(&self) -> bool {
        let state = self.lock();
        state.latest > since_boot() && state.map.keys().next().is_some()
    }

    /// From now on this hook manager is notified when the first client is blocked.
    pub(super) fn set_hook_manager(&self, hooks: Sender<Command>) {
        self.lock().hooks = Some(hooks);
    }

    /// What is refused, also since an earlier run; `now` is the time since the Unix epoch. Of
    /// those whose time is over the refusals that were not reported are still to be
    /// [taken](Self::apply).
    pub fn known(&self, now: Duration) -> Vec<BlockedConnections> {
        self.lock().known(now)
    }

    /// Applies a change; `now` is the time since the Unix epoch. Returns what it had refused and
    /// not reported of those that are gone. What the kernel does not take is refused in user
    /// space.
    pub fn apply(&self, now: Duration, cached: &Cached) -> Vec<RefusedConnections> {
        match cached {
            Cached::Until(blocked) => {
                self.lock().put(now, blocked);
                Vec::new()
            }
            Cached::Gone(key) => self.lock().remove(now, *key).into_iter().collect(),
            Cached::Left(key) => {
                let mut state = self.lock();
                let gone = state.left.contains(key);
                let gone = gone.then(|| state.remove(now, *key));
                gone.flatten().into_iter().collect()
            }
            Cached::Announced(l4, server) => {
                let there = self.lock().announced_at(*l4, *server);
                // Other queues may write in between: there can be thousands of them.
                let gone = there.into_iter().map(|key| {
                    let mut state = self.lock();
                    let still = state.announced.contains(&key);
                    still.then(|| state.remove(now, key))
                });
                gone.flatten().flatten().collect()
            }
        }
    }
}

impl CacheState {
    fn known(&self, now: Duration) -> Vec<BlockedConnections> {
        let known = self.map.iter().flatten().filter_map(|(key, value)| {
            let value = blocked(&value);
            Some(BlockedConnections {
                key: unpacked(&CacheKey::read(&mut key.as_slice())?)?,
                until: at(now, value.until),
                announced: value.announced != 0,
            })
        });
        known.collect()
    }

    /// Calls to this server that others announce.
    fn announced_at(&self, l4: L4, server: SocketAddr) -> Vec<BlockedKey> {
        let first = BlockedKey {
            server,
            l4,
            client: Ipv4Addr::UNSPECIFIED.into(),
        };
        let from = self.announced.range(first..).copied();
        from.take_while(|key| (key.server, key.l4) == (server, l4))
            .collect()
    }

    fn put(&mut self, now: Duration, blocked: &BlockedConnections) {
        let packed = packed(&blocked.key).bytes();
        // Refusals that were counted stay counted.
        let known = self.map.get(&packed, 0);
        let mut value = self::blocked(&known.unwrap_or([0; layout::Blocked::BYTES]));
        let boot = since_boot();
        let until = boot.saturating_add(blocked.until.saturating_sub(now));
        // Entries that were removed leave the time behind.
        let is_first = self.latest <= boot || self.map.keys().next().is_none();
        self.latest = self.latest.max(until);
        value.until = nanoseconds(until);
        value.announced = blocked.announced.into();
        self.left.remove(&blocked.key);
        if blocked.announced {
            self.announced.insert(blocked.key);
        } else {
            self.announced.remove(&blocked.key);
        }
        self.map.insert(packed, value.bytes(), 0).ok();
        if let Some(hooks) = self.hooks.as_ref().filter(|_| is_first) {
            // One that has gone has nothing to keep.
            hooks.send(Command::Blocked).ok();
        }
    }

    /// Refusals that were not reported.
    fn remove(&mut self, now: Duration, key: BlockedKey) -> Option<RefusedConnections> {
        self.announced.remove(&key);
        self.left.remove(&key);
        let packed = packed(&key).bytes();
        let value = blocked(&self.map.get(&packed, 0).ok()?);
        self.map.remove(&packed).ok();
        (value.unreported > 0).then(|| RefusedConnections {
            key,
            client_port: value.client_port.number(),
            at: at(now, value.latest),
            attempts: value.unreported,
        })
    }
}

/// What the kernel reports of new connections that it refused.
pub struct Refusals(RingBuf<MapData>);

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refusals").finish_non_exhaustive()
    }
}

impl Refusals {
    pub(super) fn new(ring: RingBuf<MapData>) -> Self {
        Self(ring)
    }

    /// The next ones; `now` is the time since the Unix epoch.
    pub fn poll(&mut self, now: Duration) -> Option<RefusedConnections> {
        loop {
            let record = self.0.next()?;
            if let Some(refused) = refusals(&record, now) {
                return Some(refused);
            }
        }
    }
}

fn refusals(mut record: &[u8], now: Duration) -> Option<RefusedConnections> {
    let record = layout::Refusals::read(&mut record)?;
    Some(RefusedConnections {
        key: unpacked(&record.key)?,
        client_port: record.client_port.number(),
        attempts: record.attempts,
        at: at(now, record.latest),
    })
}

/// A value of the map, which is as long as one.
fn blocked(value: &[u8; layout::Blocked::BYTES]) -> layout::Blocked {
    let read = layout::Blocked::read(&mut value.as_slice());
    read.unwrap_or_default()
}

fn packed(key: &BlockedKey) -> CacheKey {
    CacheKey {
        client: Address::of(key.client),
        server: Address::of(key.server.ip()),
        port: Port::new(key.server.port()),
        l4: match key.l4 {
            L4::Tcp => 6,
            L4::Udp => 17,
        },
        zero: 0,
    }
}

/// What such a key is of.
fn unpacked(key: &CacheKey) -> Option<BlockedKey> {
    let l4 = match key.l4 {
        6 => L4::Tcp,
        17 => L4::Udp,
        _ => return None,
    };
    Some(BlockedKey {
        l4,
        client: key.client.ip(),
        server: SocketAddr::new(key.server.ip(), key.port.number()),
    })
}

/// A time since boot as one since the Unix epoch.
fn at(now: Duration, since: u64) -> Duration {
    let (time, boot) = (Duration::from_nanos(since), since_boot());
    now.saturating_add(time.saturating_sub(boot))
        .saturating_sub(boot.saturating_sub(time))
}

pub(super) fn since_boot() -> Duration {
    // Neither part is negative.
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::layout::{self, Form as _, Port};
    use super::{BlockedKey, L4, packed, since_boot};

    #[test]
    fn records_are_read_as_they_were_written() {
        for (client, server) in [
            ("10.66.0.2", "198.51.100.9:6881"),
            ("2001:db8::2", "[2001:db8::9]:6881"),
        ] {
            let key = BlockedKey {
                l4: L4::Tcp,
                client: client.parse().unwrap(),
                server: server.parse().unwrap(),
            };
            let latest = u64::try_from(since_boot().as_nanos()).unwrap();
            let mut record = Vec::new();
            let refusals = layout::Refusals {
                key: packed(&key),
                client_port: Port::new(40_000),
                zero: [0; 2],
                attempts: 7,
                latest,
            };
            refusals.write(&mut record);
            let now = Duration::from_secs(1_700_000_000);
            let refused = super::refusals(&record, now).unwrap();
            assert_eq!(
                (refused.key, refused.client_port, refused.attempts),
                (key, 40_000, 7)
            );
            assert!(
                now - refused.at < Duration::from_secs(5),
                "{:?}",
                refused.at
            );
            for cut in [40, 20, 0] {
                assert_eq!(super::refusals(&record[..cut], now), None);
            }
        }
    }
}
