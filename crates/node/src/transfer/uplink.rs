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
    all: Option<Cap>,
    interfaces: Arc<BTreeMap<String, Cap>>,
}

/// One transfer's entries under the caps that it is subject to; dropping it removes them.
#[derive(Debug)]
pub(super) struct Flow {
    uplink: Uplink,
    all: Option<Turn>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    priority: Priority,
    /// The interface by which the transfer leaves, and its turn there; none if that has no cap.
    interface: Option<(String, Arc<Turn>)>,
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
        let cap = |rate: u64| (rate > 0).then(|| Cap::start(rate));
        let capped = interfaces
            .into_iter()
            .filter_map(|(name, rate)| Some((name.to_owned(), cap(rate)?)));
        Uplink {
            all: all.and_then(cap),
            interfaces: Arc::new(capped.collect()),
        }
    }

    /// Whether it matters by which interface a transfer leaves.
    pub(super) fn has_interface_caps(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// The entries of one transfer, which leaves by no interface that has a cap until
    /// [`Flow::leaves_by`] says otherwise.
    pub(super) fn flow(&self, priority: Priority) -> Result<Flow, TooManyFlows> {
        let all = self
            .all
            .as_ref()
            .map(|cap| cap.turn(priority))
            .transpose()?;
        Ok(Flow {
            uplink: self.clone(),
            all,
            state: Mutex::new(State {
                priority,
                interface: None,
            }),
        })
    }

    /// The caps, to be shown.
    pub(super) fn status(&self) -> Vec<CapStatus> {
        let status = |interface: Option<&String>, cap: &Cap| CapStatus {
            interface: interface.cloned(),
            upload: cap.rate(),
            transfers: cap.transfers(),
        };
        let all = self.all.iter().map(|cap| status(None, cap));
        let interfaces = self.interfaces.iter();
        all.chain(interfaces.map(|(name, cap)| status(Some(name), cap)))
            .collect()
    }
}

impl Flow {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> Option<Arc<Turn>> {
        let state = self.lock();
        state.interface.as_ref().map(|(_, turn)| Arc::clone(turn))
    }

    /// The transfer leaves by this interface now; none if that is not known.
    ///
    /// # Errors
    /// [`TooManyFlows`]; the transfer then stays under the caps where it was.
    pub(super) fn leaves_by(&self, interface: Option<&str>) -> Result<(), TooManyFlows> {
        let mut state = self.lock();
        let known = state.interface.as_ref().map(|(name, _)| name.as_str());
        if known == interface {
            return Ok(());
        }
        let capped = interface.and_then(|name| Some((name, self.uplink.interfaces.get(name)?)));
        state.interface = match capped {
            Some((name, cap)) => Some((name.to_owned(), Arc::new(cap.turn(state.priority)?))),
            None => None,
        };
        Ok(())
    }

    /// The cap that has made this transfer wait recently; of two, the one that did last.
    pub(super) fn held_back(&self, now: Instant) -> Option<HeldBack> {
        let state = self.lock();
        let by_interface = state.interface.as_ref();
        let by_interface = by_interface.map(|(name, turn)| (Some(name), turn.as_ref()));
        let by_all = self.all.as_ref().map(|turn| (None, turn));
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
        // The cap of the process last: a transfer that waits for an interface takes nothing from
        // those that leave by another.
        if let Some(turn) = self.turn() {
            turn.acquire(bytes).await;
        }
        if let Some(all) = &self.all {
            all.acquire(bytes).await;
        }
    }

    /// Takes effect with the next grant.
    pub(super) fn set_priority(&self, priority: Priority) {
        if let Some(all) = &self.all {
            all.set_priority(priority);
        }
        let mut state = self.lock();
        state.priority = priority;
        if let Some((_, turn)) = &state.interface {
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
}
