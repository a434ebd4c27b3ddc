//! One upload cap for a whole process, divided between its transfers by priority. [`Scheduler`] has
//! the run loop.

mod bucket;
mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use crate::limits::MAX_FLOWS;
use crate::priority::Priority;

use bucket::Bucket;
use queue::{Queue, cost_per_byte};

/// A flow of one [`Scheduler`]. Never used again after the flow is removed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The answer to [`Scheduler::request`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Send so many bytes now, at most what was asked for. Ask again for the rest.
    Now(u64),
    /// Ask again at this time. There may be nothing then either, because another flow's turn comes
    /// first.
    Wait(Instant),
    /// Nothing will come: the flow is unknown, or the cap is 0 bytes per second.
    Never,
}

/// The scheduler has [`MAX_FLOWS`] flows. The caller is at fault; removing a flow makes room.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler has {MAX_FLOWS} flows already: end a transfer before starting another")]
pub struct TooManyFlows;

/// Divides a cap in bytes per second between flows by their priority.
///
/// Between flows that want more than they get, bytes are divided in the proportion of their
/// priorities. Flows of priority 0 get what no other flow wants, in equal parts. Nothing is held
/// back while somebody wants it: an idle cap serves priority 0 at once.
///
/// Commands: [`add`](Self::add), [`remove`](Self::remove), [`set_priority`](Self::set_priority),
/// [`want`](Self::want), [`set_rate`](Self::set_rate). Output: [`poll_grant`](Self::poll_grant)
/// until `None`, then [`poll_timeout`](Self::poll_timeout); or [`request`](Self::request).
///
/// Under a cap of R bytes per second the grants of any T seconds add up to at most R · T and one
/// burst (20 ms at the capped rate, at least 1 500 bytes and at most 1 MiB). With `request`, up to
/// 64 KiB for each flow that stays away for longer than its turn are granted before they are
/// fetched. Times that go backwards count as no time.
///
/// # Run loop
/// Tell the scheduler what each flow has to send, hand out grants until there are none, sleep until
/// [`Scheduler::poll_timeout`] or the next command. One task that owns the scheduler and reads
/// commands from a channel does; a mutex and a wake-up do too.
///
/// ```
/// use std::time::{Duration, Instant};
/// use ringway_dtl::{Priority, Scheduler};
///
/// let mut now = Instant::now();
/// let mut scheduler = Scheduler::new(Some(1_000_000)); // bytes per second; None for no cap
/// let video = scheduler.add(now, Priority::NORMAL)?;
/// let backup = scheduler.add(now, Priority::SCAVENGER)?;
/// // Ask for all that a transfer has to send, not for the next piece: between two
/// // small demands a flow wants nothing, and the others take its turn.
/// scheduler.want(now, video, 300_000);
/// scheduler.want(now, backup, 50_000);
///
/// let mut sent = Vec::new();
/// loop {
///     while let Some((flow, bytes)) = scheduler.poll_grant(now) {
///         sent.push((flow, bytes)); // let that flow send so many bytes
///     }
///     let Some(wake) = scheduler.poll_timeout() else { break };
///     now = wake.max(now); // a driver sleeps here, and wakes early for a command
/// }
/// let bytes_of = |flow| sent.iter().filter(|s| s.0 == flow).map(|s| s.1).sum::<u64>();
/// assert_eq!((bytes_of(video), bytes_of(backup)), (300_000, 50_000));
/// assert_eq!(sent.last().map(|s| s.0), Some(backup));
/// # Ok::<(), ringway_dtl::TooManyFlows>(())
/// ```
///
/// A flow that would rather ask for itself calls [`Scheduler::request`] and sleeps as it says; both
/// ways may be mixed.
#[derive(Clone, Debug)]
pub struct Scheduler {
    flows: BTreeMap<FlowId, Flow>,
    next_id: u64,
    /// Flows of positive priority that want to send.
    weighted: Queue,
    /// Flows of priority 0 that want to send.
    scavengers: Queue,
    /// `None` without a cap.
    bucket: Option<Bucket>,
    /// Flows with a grant that they have not fetched.
    unfetched: BTreeSet<FlowId>,
    /// The latest time that a call has brought.
    seen: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Flow {
    priority: Priority,
    /// Bytes wanted beyond `granted`.
    wanted: u64,
    /// Bytes granted while another flow asked, and not fetched yet. A flow with such bytes is not
    /// in a queue.
    granted: u64,
    /// Start tag in the virtual time of its queue.
    tag: u128,
}

impl Scheduler {
    /// A scheduler without flows. `rate` is the cap in bytes per second; `None` is no cap,
    /// `Some(0)` lets nothing through.
    #[must_use]
    pub fn new(rate: Option<u64>) -> Scheduler {
        Scheduler {
            flows: BTreeMap::new(),
            next_id: 0,
            weighted: Queue::default(),
            scavengers: Queue::default(),
            bucket: rate.map(Bucket::new),
            unfetched: BTreeSet::new(),
            seen: None,
        }
    }

    /// Lets a flow in. It wants nothing yet.
    ///
    /// # Errors
    /// [`TooManyFlows`] when there are [`MAX_FLOWS`] already.
    pub fn add(&mut self, now: Instant, priority: Priority) -> Result<FlowId, TooManyFlows> {
        self.see(now);
        if self.flows.len() >= MAX_FLOWS {
            return Err(TooManyFlows);
        }
        let id = FlowId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let tag = self.queue(priority).now();
        let flow = Flow {
            priority,
            wanted: 0,
            granted: 0,
            tag,
        };
        self.flows.insert(id, flow);
        Ok(id)
    }

    /// Ends a flow; what was granted to it and not fetched goes back. `false` if it is unknown.
    pub fn remove(&mut self, now: Instant, id: FlowId) -> bool {
        self.see(now);
        self.suspend(id);
        self.unfetched.remove(&id);
        let Some(flow) = self.flows.remove(&id) else {
            return false;
        };
        self.give_back(flow.granted);
        true
    }

    /// Changes a flow's priority, from its next grant on. `false` if it is unknown.
    pub fn set_priority(&mut self, now: Instant, id: FlowId, priority: Priority) -> bool {
        self.see(now);
        self.suspend(id);
        let Some(before) = self.flows.get(&id).map(|flow| flow.priority) else {
            return false;
        };
        let (then, present) = (self.queue(before).now(), self.queue(priority).now());
        if let Some(flow) = self.flows.get_mut(&id) {
            // What the flow has had ahead of its turn is worth less at a higher weight. Unscaled, a
            // flow raised from a tiny weight would sit out the long wait that this
            // weight had earned it.
            let ahead = flow.tag.saturating_sub(then);
            let ahead = if before.is_scavenger() == priority.is_scavenger() {
                ahead.saturating_mul(cost_per_byte(priority)) / cost_per_byte(before)
            } else {
                0
            };
            flow.priority = priority;
            flow.tag = present.saturating_add(ahead);
        }
        self.resume(id);
        true
    }

    /// Says that a flow has `bytes` to send, in place of what it said before; 0 takes it back.
    /// Grants come off it. `false` if the flow is unknown.
    pub fn want(&mut self, now: Instant, id: FlowId, bytes: u64) -> bool {
        self.see(now);
        self.suspend(id);
        let Some(flow) = self.flows.get_mut(&id) else {
            return false;
        };
        let unused = flow.granted.saturating_sub(bytes);
        flow.granted = flow.granted.saturating_sub(unused);
        flow.wanted = bytes.saturating_sub(flow.granted);
        if flow.granted == 0 {
            self.unfetched.remove(&id);
        }
        self.give_back(unused);
        self.resume(id);
        true
    }

    /// The next flow that may send, and how many bytes: at least 1, at most what it wants, under a
    /// cap at most 64 KiB. Call it until it returns `None`.
    pub fn poll_grant(&mut self, now: Instant) -> Option<(FlowId, u64)> {
        self.see(now);
        let Some(&id) = self.unfetched.first() else {
            return self.serve();
        };
        Some((id, self.fetch(id)))
    }

    /// Asks for up to `bytes` for one flow now. Takes the place of [`want`](Self::want), and the
    /// rest stays wanted. Asking for 0 withdraws what was wanted and gets `Now(0)`.
    pub fn request(&mut self, now: Instant, id: FlowId, bytes: u64) -> Grant {
        if !self.want(now, id, bytes) {
            return Grant::Never;
        }
        if bytes == 0 {
            return Grant::Now(0);
        }
        if self.bucket.is_none() {
            self.want(now, id, 0);
            return Grant::Now(bytes);
        }
        while !self.unfetched.contains(&id) {
            let Some((served, granted)) = self.serve() else {
                return self.next_serve().map_or(Grant::Never, Grant::Wait);
            };
            self.put_by(served, granted);
        }
        Grant::Now(self.fetch(id))
    }

    /// When [`poll_grant`](Self::poll_grant) has something; a time that has passed means at once.
    /// `None` when no flow wants anything, or the cap is 0.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.unfetched.is_empty() {
            self.next_serve()
        } else {
            self.seen
        }
    }

    /// Changes the cap from now on, as in [`new`](Self::new). Saved-up capacity is kept up to the
    /// new burst.
    pub fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.see(now);
        match (&mut self.bucket, rate) {
            (Some(bucket), Some(rate)) => bucket.set_rate(rate),
            (_, rate) => self.bucket = rate.map(Bucket::new),
        }
        self.see(now);
    }

    /// The cap's clock moves on. It never goes back.
    fn see(&mut self, now: Instant) {
        let now = self.seen.map_or(now, |seen| seen.max(now));
        self.seen = Some(now);
        if let Some(bucket) = &mut self.bucket {
            bucket.refill(now);
        }
    }

    fn queue(&mut self, priority: Priority) -> &mut Queue {
        if priority.is_scavenger() {
            &mut self.scavengers
        } else {
            &mut self.weighted
        }
    }

    /// Takes a flow out of its queue.
    fn suspend(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get(&id) {
            let (priority, tag) = (flow.priority, flow.tag);
            self.queue(priority).leave(tag, id);
        }
    }

    /// Puts a flow into its queue if it wants something and has fetched what it got.
    fn resume(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        if flow.wanted == 0 || flow.granted > 0 {
            return;
        }
        let queue = if flow.priority.is_scavenger() {
            &mut self.scavengers
        } else {
            &mut self.weighted
        };
        flow.tag = queue.enter(flow.tag, id);
    }

    /// The flow whose turn it is and the piece it gets: any positive priority goes before priority
    /// 0.
    fn next(&self) -> Option<(FlowId, u64)> {
        let id = self.weighted.first().or_else(|| self.scavengers.first())?;
        let wanted = self.flows.get(&id)?.wanted;
        let most = self.bucket.as_ref().map_or(u64::MAX, Bucket::quantum);
        Some((id, wanted.min(most)))
    }

    /// When [`serve`](Self::serve) has something.
    fn next_serve(&self) -> Option<Instant> {
        let (_, bytes) = self.next()?;
        match &self.bucket {
            // A cap of 0 makes pieces of 0 bytes, which would always be ready.
            Some(bucket) if bytes > 0 => bucket.ready_at(bytes),
            Some(_) => None,
            None => self.seen,
        }
    }

    /// Grants the next piece if the cap allows it. A piece that has to wait keeps its turn: a
    /// smaller one behind it, or one of priority 0, must not use up what it waits for.
    fn serve(&mut self) -> Option<(FlowId, u64)> {
        let (id, bytes) = self.next()?;
        if let Some(bucket) = &mut self.bucket
            && (bytes == 0 || !bucket.take(bytes))
        {
            return None;
        }
        self.suspend(id);
        let capped = self.bucket.is_some();
        let flow = self.flows.get_mut(&id)?;
        flow.wanted = flow.wanted.saturating_sub(bytes);
        let (priority, tag) = (flow.priority, flow.tag);
        if capped {
            // Without a cap no flow is kept waiting, so none is to pay for it when a cap comes.
            let cost = u128::from(bytes).saturating_mul(cost_per_byte(priority));
            flow.tag = flow.tag.saturating_add(cost);
        }
        self.queue(priority).advance(tag);
        self.resume(id);
        Some((id, bytes))
    }

    /// Keeps a grant for a flow until it asks. Meanwhile it is not served, so that little is kept.
    fn put_by(&mut self, id: FlowId, bytes: u64) {
        self.suspend(id);
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.granted = flow.granted.saturating_add(bytes);
            self.unfetched.insert(id);
        }
    }

    /// What was kept for a flow, which is then back in its queue.
    fn fetch(&mut self, id: FlowId) -> u64 {
        self.unfetched.remove(&id);
        let Some(flow) = self.flows.get_mut(&id) else {
            return 0;
        };
        let granted = std::mem::take(&mut flow.granted);
        self.resume(id);
        granted
    }

    fn give_back(&mut self, bytes: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.give_back(bytes);
        }
    }
}
