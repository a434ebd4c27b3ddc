//! The cap on what a member sends, divided between its transfers by priority.

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
    permits: HashMap<FlowId, Arc<Semaphore>>,
}

/// Hands out permission to send. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Uplink {
    shared: Arc<Mutex<Shared>>,
    wake: Arc<Notify>,
    capped: bool,
}

/// One transfer's place in the uplink; dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Flow {
    uplink: Uplink,
    id: FlowId,
    permits: Arc<Semaphore>,
    waits: Mutex<Waits>,
}

/// Whether a transfer waits for the uplink.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Never,
    Now,
    Until(Instant),
}

impl Uplink {
    /// An uplink of `rate` bytes per second, or without a cap. Starts the task that hands out.
    pub(super) fn start(rate: Option<u64>) -> Uplink {
        let scheduler = Scheduler::new(rate);
        let uplink = Uplink {
            shared: Arc::new(Mutex::new(Shared {
                scheduler,
                permits: HashMap::new(),
            })),
            wake: Arc::new(Notify::new()),
            capped: rate.is_some(),
        };
        if uplink.capped {
            tokio::spawn(uplink.clone().run());
        }
        uplink
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self) {
        loop {
            let next = self.lock().hand_out(Instant::now());
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

    /// A place for one transfer.
    pub(super) fn flow(&self, priority: Priority) -> Result<Flow, TooManyFlows> {
        let mut shared = self.lock();
        let id = shared.scheduler.add(Instant::now(), priority)?;
        let permits = Arc::new(Semaphore::new(0));
        shared.permits.insert(id, Arc::clone(&permits));
        drop(shared);
        let uplink = self.clone();
        Ok(Flow {
            uplink,
            id,
            permits,
            waits: Mutex::new(Waits::Never),
        })
    }
}

impl Shared {
    fn hand_out(&mut self, now: Instant) -> Option<Instant> {
        while let Some((flow, bytes)) = self.scheduler.poll_grant(now) {
            let bytes = usize::try_from(bytes).unwrap_or(0);
            if let Some(permits) = self.permits.get(&flow) {
                permits.add_permits(bytes);
            }
        }
        self.scheduler.poll_timeout()
    }
}

impl Flow {
    fn lock_waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cap has made this transfer wait of late.
    pub(super) fn is_held_back(&self, now: Instant) -> bool {
        match *self.lock_waits() {
            Waits::Never => false,
            Waits::Now => true,
            Waits::Until(time) => now.saturating_duration_since(time) < HELD_BACK,
        }
    }

    /// Whether other transfers use the uplink.
    pub(super) fn has_others(&self) -> bool {
        self.uplink.lock().permits.len() > 1
    }

    /// Waits until `bytes` may be sent.
    pub(super) async fn acquire(&self, bytes: usize) {
        if !self.uplink.capped {
            return;
        }
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX).max(AHEAD);
        let have = u64::try_from(self.permits.available_permits()).unwrap_or(u64::MAX);
        let has_to_wait = self.permits.available_permits() < bytes;
        if has_to_wait {
            *self.lock_waits() = Waits::Now;
        }
        let lacking = wanted.saturating_sub(have);
        self.uplink
            .lock()
            .scheduler
            .want(Instant::now(), self.id, lacking);
        self.uplink.wake.notify_one();
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Ok(permit) = self.permits.acquire_many(count).await {
            permit.forget();
        }
        if has_to_wait {
            *self.lock_waits() = Waits::Until(Instant::now());
        }
    }

    /// Takes effect with the next grant.
    pub(super) fn set_priority(&self, priority: Priority) {
        self.uplink
            .lock()
            .scheduler
            .set_priority(Instant::now(), self.id, priority);
        self.uplink.wake.notify_one();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let mut shared = self.uplink.lock();
        shared.scheduler.remove(Instant::now(), self.id);
        shared.permits.remove(&self.id);
        drop(shared);
        self.uplink.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn without_a_cap_nobody_waits() {
        let uplink = Uplink::start(None);
        let flow = uplink.flow(Priority::NORMAL).unwrap();
        flow.acquire(1 << 30).await;
        assert!(!flow.is_held_back(Instant::now()));
    }

    #[tokio::test]
    async fn a_cap_is_shared_by_priority_and_follows_a_change() {
        let uplink = Uplink::start(Some(4_000_000));
        let (one, three) = (
            uplink.flow(Priority::NORMAL).unwrap(),
            uplink.flow(Priority::new(3.0).unwrap()).unwrap(),
        );
        let counts = Arc::new(Mutex::new([0_u64; 2]));
        let three = Arc::new(three);
        let mut tasks = Vec::new();
        for (place, flow) in [Arc::new(one), Arc::clone(&three)].into_iter().enumerate() {
            let counts = Arc::clone(&counts);
            tasks.push(tokio::spawn(async move {
                loop {
                    flow.acquire(16_384).await;
                    counts.lock().unwrap()[place] += 16_384;
                }
            }));
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let [first, second] = std::mem::take(&mut *counts.lock().unwrap());
        assert!(
            second > 2 * first,
            "{first} and {second}: priority 3 gets three times as much"
        );
        three.set_priority(Priority::SCAVENGER);
        tokio::time::sleep(Duration::from_millis(300)).await;
        *counts.lock().unwrap() = [0; 2];
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        assert!(three.is_held_back(Instant::now()) && three.has_others());
        let [first, second] = *counts.lock().unwrap();
        assert!(
            first > 10 * second.max(1),
            "{first} and {second}: priority 0 gets only what is left"
        );
        for task in tasks {
            task.abort();
        }
    }
}
