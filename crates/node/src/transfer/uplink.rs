//! The caps on the content of transfers that a member sends: one for all of it, and one for each
//! interface that has one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ringway_dtl::{Priority, TooManyFlows};

use super::cap::{Cap, Turn};
use crate::control::CapStatus;

/// All caps of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Uplink {
    caps: Arc<Mutex<Arc<Caps>>>,
}

/// The caps at one time.
#[derive(Debug, Default)]
struct Caps {
    all: Option<Cap>,
    interfaces: BTreeMap<String, Cap>,
}

/// One transfer's entries under the caps that it is subject to; dropping it removes them.
#[derive(Debug)]
pub(super) struct Flow {
    uplink: Uplink,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    priority: Priority,
    /// The caps that the entries are of.
    caps: Arc<Caps>,
    all: Option<Arc<Turn>>,
    /// The interface by which the transfer leaves, as far as it is known.
    leaves_by: Option<String>,
    /// The turn at that interface; none if it has no cap.
    interface: Option<Arc<Turn>>,
}

/// A cap that holds a transfer back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldBack {
    /// The interface whose cap it is; none for that of the process.
    pub(super) interface: Option<String>,
    /// Whether others under it are above priority 0.
    pub(super) is_behind_others: bool,
}

impl Uplink {
    /// Caps in bytes per second; 0 and none are no cap. Starts their tasks.
    pub(super) fn start<'a>(
        all: Option<u64>,
        interfaces: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Uplink {
        let uplink = Uplink {
            caps: Arc::default(),
        };
        uplink.set(all, interfaces);
        uplink
    }

    /// Other caps from now on, in bytes per second, for transfers under way as well; 0 and none are
    /// no cap.
    pub(super) fn set<'a>(
        &self,
        all: Option<u64>,
        interfaces: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        let mut current = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        // A cap that stays keeps its transfers, and what each has had of it.
        let cap = |earlier: Option<&Cap>, rate: u64| match earlier {
            _ if rate == 0 => None,
            Some(cap) => {
                cap.set_rate(rate);
                Some(cap.clone())
            }
            None => Some(Cap::start(rate)),
        };
        let interfaces = interfaces.into_iter().filter_map(|(name, rate)| {
            let cap = cap(current.interfaces.get(name), rate)?;
            Some((name.to_owned(), cap))
        });
        let next = Caps {
            all: all.and_then(|rate| cap(current.all.as_ref(), rate)),
            interfaces: interfaces.collect(),
        };
        if let (Some(gone), None) = (&current.all, &next.all) {
            gone.lift();
        }
        for (name, gone) in &current.interfaces {
            if !next.interfaces.contains_key(name) {
                gone.lift();
            }
        }
        *current = Arc::new(next);
    }

    fn caps(&self) -> Arc<Caps> {
        let caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&caps)
    }

    /// Whether it matters by which interface a transfer leaves.
    pub(super) fn has_interface_caps(&self) -> bool {
        !self.caps().interfaces.is_empty()
    }

    /// The entries of one transfer, which leaves by no interface that has a cap until
    /// [`Flow::leaves_by`] says otherwise.
    pub(super) fn flow(&self, priority: Priority) -> Result<Flow, TooManyFlows> {
        let caps = self.caps();
        let all = caps.all.as_ref().map(|cap| cap.turn(priority));
        Ok(Flow {
            uplink: self.clone(),
            state: Mutex::new(State {
                priority,
                all: all.transpose()?.map(Arc::new),
                caps,
                leaves_by: None,
                interface: None,
            }),
        })
    }

    /// The caps, to be shown.
    pub(super) fn status(&self) -> Vec<CapStatus> {
        let status = |interface: Option<&String>, cap: &Cap| {
            Some(CapStatus {
                interface: interface.cloned(),
                upload: cap.rate()?,
                transfers: cap.transfers(),
            })
        };
        let caps = self.caps();
        let all = caps.all.iter().map(|cap| status(None, cap));
        let interfaces = caps.interfaces.iter();
        all.chain(interfaces.map(|(name, cap)| status(Some(name), cap)))
            .flatten()
            .collect()
    }
}

impl State {
    /// Takes the place of an earlier entry under these caps, if they are others than before.
    fn follow(&mut self, caps: &Arc<Caps>) {
        if Arc::ptr_eq(&self.caps, caps) {
            return;
        }
        let leaves_by = self.leaves_by.clone();
        let joined = self.join(caps, leaves_by.as_deref());
        if let Err(error) = joined {
            tracing::warn!(%error, "a transfer is not under the cap that was set");
        }
    }

    /// Entries under these caps; a cap that there was before keeps the entry that it has.
    fn join(&mut self, caps: &Arc<Caps>, leaves_by: Option<&str>) -> Result<(), TooManyFlows> {
        let priority = self.priority;
        let turn = |earlier: Option<&Arc<Turn>>, cap: Option<&Cap>| match (earlier, cap) {
            (_, None) => Ok(None),
            (Some(turn), Some(cap)) if turn.is_under(cap) => Ok(Some(Arc::clone(turn))),
            (_, Some(cap)) => cap.turn(priority).map(|turn| Some(Arc::new(turn))),
        };
        let capped = leaves_by.and_then(|name| caps.interfaces.get(name));
        let (all, interface) = (
            turn(self.all.as_ref(), caps.all.as_ref())?,
            turn(self.interface.as_ref(), capped)?,
        );
        self.leaves_by = leaves_by.map(str::to_owned);
        self.caps = Arc::clone(caps);
        (self.all, self.interface) = (all, interface);
        Ok(())
    }
}

impl Flow {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transfer leaves by this interface now; none if that is not known.
    ///
    /// # Errors
    /// [`TooManyFlows`]; the transfer then stays under the caps where it was.
    pub(super) fn leaves_by(&self, interface: Option<&str>) -> Result<(), TooManyFlows> {
        let caps = self.uplink.caps();
        self.lock().join(&caps, interface)
    }

    /// The cap that has made this transfer wait recently; of two, the one that did last.
    pub(super) fn held_back(&self, now: Instant) -> Option<HeldBack> {
        let state = self.lock();
        let by_all = state.all.as_deref().map(|turn| (None, turn));
        let by_interface = state.interface.as_deref();
        let by_interface = by_interface.map(|turn| (state.leaves_by.as_ref(), turn));
        let waits = by_all.into_iter().chain(by_interface);
        let waits = waits.filter_map(|(name, turn)| {
            let until = turn.held_back_until(now)?;
            Some((until, name, turn))
        });
        let (_, name, turn) = waits.max_by_key(|(until, ..)| *until)?;
        Some(HeldBack {
            interface: name.cloned(),
            is_behind_others: turn.is_behind_others(now),
        })
    }

    /// Waits until `bytes` may be sent.
    pub(super) async fn acquire(&self, bytes: usize) {
        let (all, interface) = {
            let mut state = self.lock();
            state.follow(&self.uplink.caps());
            (state.all.clone(), state.interface.clone())
        };
        // The cap of the process last: a transfer that waits for an interface takes nothing from
        // those that leave by another.
        for turn in [interface, all].into_iter().flatten() {
            turn.acquire(bytes).await;
        }
    }

    /// Takes effect with the next grant.
    pub(super) fn set_priority(&self, priority: Priority) {
        let mut state = self.lock();
        state.priority = priority;
        for turn in [&state.all, &state.interface].into_iter().flatten() {
            turn.set_priority(priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn without_a_cap_no_transfer_waits() {
        let uplink = Uplink::start(None, [("eth0", 0)]);
        assert!(!uplink.has_interface_caps() && uplink.status().is_empty());
        let flow = uplink.flow(Priority::NORMAL).unwrap();
        flow.leaves_by(Some("eth0")).unwrap();
        flow.acquire(1 << 30).await;
        assert_eq!(flow.held_back(Instant::now()), None);
    }

    #[tokio::test]
    async fn a_transfer_waits_for_its_interface_only() {
        let uplink = Uplink::start(None, [("eth0", 2_000), ("lo", 1 << 30)]);
        let flow = uplink.flow(Priority::NORMAL).unwrap();
        flow.acquire(1 << 30).await;
        flow.leaves_by(Some("eth0")).unwrap();
        let far = Duration::from_millis(300);
        assert!(timeout(far, flow.acquire(100_000)).await.is_err());
        let held = HeldBack {
            interface: Some("eth0".to_owned()),
            is_behind_others: false,
        };
        assert_eq!(flow.held_back(Instant::now()), Some(held));
        flow.leaves_by(Some("lo")).unwrap();
        assert_eq!(flow.held_back(Instant::now()), None);
        let soon = Duration::from_secs(60);
        timeout(soon, flow.acquire(100_000)).await.unwrap();
        let caps = uplink.status();
        let shown = caps
            .iter()
            .map(|cap| (cap.interface.as_deref(), cap.transfers));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [(Some("eth0"), 0), (Some("lo"), 1)]
        );
    }

    #[tokio::test]
    async fn both_caps_hold_and_one_is_named() {
        let uplink = Uplink::start(Some(1_000), [("eth0", 1 << 30)]);
        let flow = uplink.flow(Priority::NORMAL).unwrap();
        flow.leaves_by(Some("eth0")).unwrap();
        let far = Duration::from_millis(300);
        assert!(timeout(far, flow.acquire(100_000)).await.is_err());
        let held = flow.held_back(Instant::now()).unwrap();
        assert_eq!((held.interface, held.is_behind_others), (None, false));
    }

    #[tokio::test]
    async fn other_caps_count_for_transfers_under_way() {
        let uplink = Uplink::start(None, [("eth0", 1)]);
        let flow = Arc::new(uplink.flow(Priority::NORMAL).unwrap());
        flow.leaves_by(Some("eth0")).unwrap();
        let waiting = Arc::clone(&flow);
        let waiting = tokio::spawn(async move { waiting.acquire(1 << 20).await });
        let now = || flow.held_back(Instant::now());
        while now().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // At a byte per second it would wait for days.
        uplink.set(Some(1), []);
        let soon = Duration::from_secs(60);
        timeout(soon, waiting).await.unwrap().unwrap();
        let far = Duration::from_millis(300);
        assert!(timeout(far, flow.acquire(1 << 20)).await.is_err());
        let caps = |uplink: &Uplink| -> Vec<(u64, usize)> {
            let caps = uplink.status().into_iter();
            caps.map(|cap| (cap.upload, cap.transfers)).collect()
        };
        assert_eq!(caps(&uplink), [(1, 1)]);
        uplink.set(Some(1 << 30), []);
        assert_eq!(caps(&uplink), [(1 << 30, 1)]);
        timeout(soon, flow.acquire(1 << 20)).await.unwrap();
    }
}
