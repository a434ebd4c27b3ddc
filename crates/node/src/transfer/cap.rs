//! One cap in bytes per second, divided between transfers by their priority.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringway_dtl::{FlowId, Priority, Scheduler, TooManyFlows};
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep_until;

/// Bytes that a transfer asks for ahead, so that it keeps its turn between two blocks.
const AHEAD: u64 = 512 * 1024;

/// How long after a wait a transfer still counts as held back: it does not wait for each block.
const HELD_BACK: Duration = Duration::from_secs(1);

/// The scheduler, and who waits for it.
#[derive(Debug)]
struct Shared {
    scheduler: Scheduler,
    transfers: HashMap<FlowId, Entry>,
    /// Bytes per second; none once the cap is lifted.
    rate: Option<u64>,
}

/// One transfer's, as the cap knows it.
#[derive(Debug)]
struct Entry {
    permits: Arc<Semaphore>,
    priority: Priority,
    waits: Waits,
    /// When it last asked for something.
    asked: Option<Instant>,
}

impl Entry {
    /// Whether it wants anything: it waits, or has asked recently. A transfer that is served first
    /// need not wait at all.
    fn wants(&self, now: Instant) -> bool {
        let is_recent = |asked| now.saturating_duration_since(asked) < HELD_BACK;
        matches!(self.waits, Waits::Now) || self.asked.is_some_and(is_recent)
    }

    /// Until when the cap has made this transfer wait, if it has recently.
    fn held_back_until(&self, now: Instant) -> Option<Instant> {
        match self.waits {
            Waits::Never => None,
            Waits::Now => Some(now),
            Waits::Until(time) => (now.saturating_duration_since(time) < HELD_BACK).then_some(time),
        }
    }
}

/// Hands out permission to send. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Cap {
    shared: Arc<Mutex<Shared>>,
    wake: Arc<Notify>,
}

/// One transfer's entry under a cap; dropping it removes the entry.
#[derive(Debug)]
pub(super) struct Turn {
    cap: Cap,
    id: FlowId,
    permits: Arc<Semaphore>,
}

/// Whether a transfer waits for its turn.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Never,
    Now,
    Until(Instant),
}

impl Cap {
    /// A cap of `rate` bytes per second. Starts the task that hands out.
    pub(super) fn start(rate: u64) -> Cap {
        let cap = Cap {
            shared: Arc::new(Mutex::new(Shared {
                scheduler: Scheduler::new(Some(rate)),
                transfers: HashMap::new(),
                rate: Some(rate),
            })),
            wake: Arc::new(Notify::new()),
        };
        tokio::spawn(cap.clone().run());
        cap
    }

    /// Bytes per second; none once it is lifted.
    pub(super) fn rate(&self) -> Option<u64> {
        self.lock().rate
    }

    /// Another rate from now on, for transfers under way as well.
    pub(super) fn set_rate(&self, rate: u64) {
        self.change(Some(rate));
    }

    /// It holds nothing back any more, and ends with the last transfer under it.
    pub(super) fn lift(&self) {
        self.change(None);
    }

    fn change(&self, rate: Option<u64>) {
        let mut shared = self.lock();
        shared.scheduler.set_rate(Instant::now(), rate);
        shared.rate = rate;
        drop(shared);
        self.wake.notify_one();
    }

    /// Transfers under the cap.
    pub(super) fn transfers(&self) -> usize {
        self.lock().transfers.len()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self) {
        loop {
            let next = {
                let mut shared = self.lock();
                if shared.rate.is_none() && shared.transfers.is_empty() {
                    return;
                }
                shared.hand_out(Instant::now())
            };
            match next {
                Some(due) => {
                    tokio::select! {
                        () = sleep_until(due.into()) => {}
                        () = self.wake.notified() => {}
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// An entry for one transfer.
    pub(super) fn turn(&self, priority: Priority) -> Result<Turn, TooManyFlows> {
        let mut shared = self.lock();
        let id = shared.scheduler.add(Instant::now(), priority)?;
        let permits = Arc::new(Semaphore::new(0));
        let entry = Entry {
            permits: Arc::clone(&permits),
            priority,
            waits: Waits::Never,
            asked: None,
        };
        shared.transfers.insert(id, entry);
        drop(shared);
        Ok(Turn {
            cap: self.clone(),
            id,
            permits,
        })
    }
}

impl Shared {
    fn waits(&mut self, id: FlowId, waits: Waits) {
        if let Some(entry) = self.transfers.get_mut(&id) {
            entry.waits = waits;
        }
    }

    fn hand_out(&mut self, now: Instant) -> Option<Instant> {
        while let Some((flow, bytes)) = self.scheduler.poll_grant(now) {
            let bytes = usize::try_from(bytes).unwrap_or(0);
            if let Some(entry) = self.transfers.get(&flow) {
                entry.permits.add_permits(bytes);
            }
        }
        self.scheduler.poll_timeout()
    }
}

impl Turn {
    /// Whether it is an entry of this cap.
    pub(super) fn is_under(&self, cap: &Cap) -> bool {
        Arc::ptr_eq(&self.cap.shared, &cap.shared)
    }

    /// Until when the cap has made this transfer wait, if it has recently.
    pub(super) fn held_back_until(&self, now: Instant) -> Option<Instant> {
        let shared = self.cap.lock();
        shared.transfers.get(&self.id)?.held_back_until(now)
    }

    /// Whether another transfer above priority 0 wants what the cap gives, and so comes before all
    /// at 0.
    pub(super) fn is_behind_others(&self, now: Instant) -> bool {
        let shared = self.cap.lock();
        let mut others = shared.transfers.iter().filter(|(id, _)| **id != self.id);
        others.any(|(_, entry)| !entry.priority.is_scavenger() && entry.wants(now))
    }

    /// Waits until `bytes` may be sent.
    pub(super) async fn acquire(&self, bytes: usize) {
        // Asked for ahead, so that the transfer keeps its turn between two blocks.
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX).max(AHEAD);
        let have = u64::try_from(self.permits.available_permits()).unwrap_or(u64::MAX);
        let has_to_wait = self.permits.available_permits() < bytes;
        let lacking = wanted.saturating_sub(have);
        {
            let mut shared = self.cap.lock();
            let now = Instant::now();
            shared.scheduler.want(now, self.id, lacking);
            if let Some(entry) = shared.transfers.get_mut(&self.id) {
                entry.asked = Some(now);
            }
            if has_to_wait {
                shared.waits(self.id, Waits::Now);
            }
        }
        self.cap.wake.notify_one();
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Permits are bytes that are spent: the scheduler adds others at the rate.
        if let Ok(permit) = self.permits.acquire_many(count).await {
            permit.forget();
        }
        if has_to_wait {
            let until = Waits::Until(Instant::now());
            self.cap.lock().waits(self.id, until);
        }
    }

    /// Takes effect with the next grant.
    pub(super) fn set_priority(&self, priority: Priority) {
        let mut shared = self.cap.lock();
        shared
            .scheduler
            .set_priority(Instant::now(), self.id, priority);
        if let Some(entry) = shared.transfers.get_mut(&self.id) {
            entry.priority = priority;
        }
        drop(shared);
        self.cap.wake.notify_one();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut shared = self.cap.lock();
        shared.scheduler.remove(Instant::now(), self.id);
        shared.transfers.remove(&self.id);
        drop(shared);
        self.cap.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cap_is_shared_by_priority() {
        let cap = Cap::start(4_000_000);
        let (one, three) = (
            cap.turn(Priority::NORMAL).unwrap(),
            cap.turn(Priority::new(3.0).unwrap()).unwrap(),
        );
        let counts = Arc::new(Mutex::new([0_u64; 2]));
        let (one, three) = (Arc::new(one), Arc::new(three));
        let mut tasks = Vec::new();
        for (entry, turn) in [Arc::clone(&one), Arc::clone(&three)]
            .into_iter()
            .enumerate()
        {
            let counts = Arc::clone(&counts);
            tasks.push(tokio::spawn(async move {
                loop {
                    turn.acquire(16_384).await;
                    counts.lock().unwrap()[entry] += 16_384;
                }
            }));
        }
        // Bytes, not time: a piece of 64 KiB more or less is 4 % of the smaller part.
        while counts.lock().unwrap().iter().sum::<u64>() < 6_000_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let [first, second] = std::mem::take(&mut *counts.lock().unwrap());
        assert!(
            (26 * first..=34 * first).contains(&(10 * second)),
            "{first} and {second}: priority 3 gets three times as much"
        );
        three.set_priority(Priority::SCAVENGER);
        tokio::time::sleep(Duration::from_millis(300)).await;
        *counts.lock().unwrap() = [0; 2];
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let now = Instant::now();
        assert!(three.held_back_until(now).is_some() && three.is_behind_others(now));
        let [first, second] = *counts.lock().unwrap();
        assert!(
            first > 10 * second.max(1),
            "{first} and {second}: priority 0 gets only what is left"
        );
        one.set_priority(Priority::SCAVENGER);
        assert!(!three.is_behind_others(Instant::now()), "two at 0 share");
        for task in tasks {
            task.abort();
            // What it held is let go of only then.
            task.await.unwrap_err();
        }
        let idle = cap.turn(Priority::NORMAL).unwrap();
        drop(one);
        assert!(
            !three.is_behind_others(Instant::now()),
            "one that wants nothing is before nobody"
        );
        drop(idle);
        let served = cap.turn(Priority::NORMAL).unwrap();
        served.acquire(1).await;
        tokio::time::sleep(HELD_BACK + Duration::from_millis(100)).await;
        // There is enough for it already.
        served.acquire(1).await;
        assert!(
            three.is_behind_others(Instant::now()),
            "who is served first does not wait, and is first"
        );
    }
}
