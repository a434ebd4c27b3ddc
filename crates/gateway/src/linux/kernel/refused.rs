//! The connection cache in the kernel: it is told who is blocked, and tells how many calls it
//! refused.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aya::maps::{HashMap, MapData, RingBuf};
use rustix::time::{ClockId, clock_gettime};

use super::layout::{self, Address, CallKey, Form as _, Port};
use super::tc_hooks::Command;
use crate::packet::L4;
use crate::verdict::{BlockedConnections, Cached, Caller, RefusedConnections};

type Blocked = HashMap<MapData, [u8; CallKey::BYTES], [u8; layout::Blocked::BYTES]>;

/// The map of those that are blocked. Clones are the same.
#[derive(Clone)]
pub struct KernelCache(Arc<Mutex<Told>>);

/// What the kernel was told.
struct Told {
    map: Blocked,
    /// Those in it that others announce, so that whoever hears one announced finds those to that
    /// server.
    announced: BTreeSet<Caller>,
    /// Those that an earlier run has told of, and no queue of this one.
    left: BTreeSet<Caller>,
    /// Until when somebody is refused, since boot.
    latest: Duration,
    /// Who is told that somebody is.
    keeper: Option<Sender<Command>>,
}

impl fmt::Debug for KernelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KernelCache").finish_non_exhaustive()
    }
}

impl KernelCache {
    /// What an earlier run has told it is known, too.
    pub(super) fn new(map: Blocked) -> Self {
        let mut told = Told {
            map,
            announced: BTreeSet::new(),
            left: BTreeSet::new(),
            latest: Duration::ZERO,
            keeper: None,
        };
        let times = told.map.iter().flatten();
        let latest = times.map(|(_, value)| blocked(&value).until).max();
        told.latest = Duration::from_nanos(latest.unwrap_or(0));
        let known = told.known(Duration::ZERO);
        told.left = known.iter().map(|blocked| blocked.call).collect();
        let announced = known.iter().filter(|blocked| blocked.announced);
        told.announced = announced.map(|blocked| blocked.call).collect();
        Self(Arc::new(Mutex::new(told)))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // What a panic elsewhere leaves untold is refused in user space.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody is refused any more, also of those whom an earlier run has told it.
    pub fn clear(&self) {
        let mut told = self.told();
        let known: Vec<[u8; CallKey::BYTES]> = told.map.keys().flatten().collect();
        for call in known {
            // What is gone meanwhile need not go.
            told.map.remove(&call).ok();
        }
        told.announced.clear();
        told.left.clear();
        told.latest = Duration::ZERO;
    }

    /// Whether anybody is refused.
    pub(super) fn refuses(&self) -> bool {
        let told = self.told();
        told.latest > since_boot() && told.map.keys().next().is_some()
    }

    /// From now on this keeper is told when somebody is refused, and nobody was.
    pub(super) fn tell_keeper(&self, keeper: Sender<Command>) {
        self.told().keeper = Some(keeper);
    }

    /// Who is refused, also those whom an earlier run has told it; `now` is the time since the Unix
    /// epoch. Of those whose time is over what was refused and not told is still to be
    /// [told](Self::tell).
    pub fn known(&self, now: Duration) -> Vec<BlockedConnections> {
        self.told().known(now)
    }

    /// Tells the kernel; `now` is the time since the Unix epoch. Answers what it had refused and
    /// not told of those that are gone. What the kernel does not take is refused in user space.
    pub fn tell(&self, now: Duration, cached: &Cached) -> Vec<RefusedConnections> {
        match cached {
            Cached::Until(blocked) => {
                self.told().put(now, blocked);
                Vec::new()
            }
            Cached::Gone(call) => self.told().remove(now, *call).into_iter().collect(),
            Cached::Left(call) => {
                let mut told = self.told();
                let gone = told.left.contains(call);
                let gone = gone.then(|| told.remove(now, *call));
                gone.flatten().into_iter().collect()
            }
            Cached::Announced(l4, server) => {
                let there = self.told().announced_at(*l4, *server);
                // Others may tell in between: there can be thousands of them.
                let gone = there.into_iter().map(|call| {
                    let mut told = self.told();
                    let still = told.announced.contains(&call);
                    still.then(|| told.remove(now, call))
                });
                gone.flatten().flatten().collect()
            }
        }
    }
}

impl Told {
    fn known(&self, now: Duration) -> Vec<BlockedConnections> {
        let known = self.map.iter().flatten().filter_map(|(key, value)| {
            let value = blocked(&value);
            Some(BlockedConnections {
                call: call(&CallKey::read(&mut key.as_slice())?)?,
                until: at(now, value.until),
                announced: value.announced != 0,
            })
        });
        known.collect()
    }

    /// Calls to this server that others announce.
    fn announced_at(&self, l4: L4, server: SocketAddr) -> Vec<Caller> {
        let first = Caller {
            server,
            l4,
            client: Ipv4Addr::UNSPECIFIED.into(),
        };
        let from = self.announced.range(first..).copied();
        from.take_while(|call| (call.server, call.l4) == (server, l4))
            .collect()
    }

    fn put(&mut self, now: Duration, blocked: &BlockedConnections) {
        let key = key(&blocked.call).bytes();
        // Refusals that were counted stay counted.
        let known = self.map.get(&key, 0);
        let mut value = self::blocked(&known.unwrap_or([0; layout::Blocked::BYTES]));
        let boot = since_boot();
        let until = boot.saturating_add(blocked.until.saturating_sub(now));
        // Whoever was let go left the time behind.
        let nobody = self.latest <= boot || self.map.keys().next().is_none();
        self.latest = self.latest.max(until);
        value.until = nanoseconds(until);
        value.announced = blocked.announced.into();
        self.left.remove(&blocked.call);
        if blocked.announced {
            self.announced.insert(blocked.call);
        } else {
            self.announced.remove(&blocked.call);
        }
        self.map.insert(key, value.bytes(), 0).ok();
        if let Some(keeper) = self.keeper.as_ref().filter(|_| nobody) {
            // One that has gone has nothing to keep.
            keeper.send(Command::Blocked).ok();
        }
    }

    /// What was refused and not told.
    fn remove(&mut self, now: Duration, call: Caller) -> Option<RefusedConnections> {
        self.announced.remove(&call);
        self.left.remove(&call);
        let key = key(&call).bytes();
        let value = blocked(&self.map.get(&key, 0).ok()?);
        self.map.remove(&key).ok();
        (value.untold > 0).then(|| RefusedConnections {
            call,
            client_port: value.client_port.number(),
            at: at(now, value.latest),
            attempts: value.untold,
        })
    }
}

/// What the kernel tells of calls that it refused.
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
            let told = self.0.next()?;
            if let Some(refused) = refusals(&told, now) {
                return Some(refused);
            }
        }
    }
}

fn refusals(mut told: &[u8], now: Duration) -> Option<RefusedConnections> {
    let told = layout::Refusals::read(&mut told)?;
    Some(RefusedConnections {
        call: call(&told.call)?,
        client_port: told.client_port.number(),
        attempts: told.attempts,
        at: at(now, told.latest),
    })
}

/// A value of the map, which is as long as one.
fn blocked(value: &[u8; layout::Blocked::BYTES]) -> layout::Blocked {
    let read = layout::Blocked::read(&mut value.as_slice());
    read.unwrap_or_default()
}

fn key(call: &Caller) -> CallKey {
    CallKey {
        client: Address::of(call.client),
        server: Address::of(call.server.ip()),
        port: Port::new(call.server.port()),
        l4: match call.l4 {
            L4::Tcp => 6,
            L4::Udp => 17,
        },
        zero: 0,
    }
}

/// What such a key is of.
fn call(key: &CallKey) -> Option<Caller> {
    let l4 = match key.l4 {
        6 => L4::Tcp,
        17 => L4::Udp,
        _ => return None,
    };
    Some(Caller {
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
    use super::{Caller, L4, key, since_boot};

    #[test]
    fn what_the_kernel_tells_is_what_it_was_told() {
        for (client, server) in [
            ("10.66.0.2", "198.51.100.9:6881"),
            ("2001:db8::2", "[2001:db8::9]:6881"),
        ] {
            let call = Caller {
                l4: L4::Tcp,
                client: client.parse().unwrap(),
                server: server.parse().unwrap(),
            };
            let latest = u64::try_from(since_boot().as_nanos()).unwrap();
            let mut told = Vec::new();
            let refusals = layout::Refusals {
                call: key(&call),
                client_port: Port::new(40_000),
                zero: [0; 2],
                attempts: 7,
                latest,
            };
            refusals.write(&mut told);
            let now = Duration::from_secs(1_700_000_000);
            let refused = super::refusals(&told, now).unwrap();
            assert_eq!(
                (refused.call, refused.client_port, refused.attempts),
                (call, 40_000, 7)
            );
            assert!(
                now - refused.at < Duration::from_secs(5),
                "{:?}",
                refused.at
            );
            for cut in [40, 20, 0] {
                assert_eq!(super::refusals(&told[..cut], now), None);
            }
        }
    }
}
