//! Several flows over one path with one congestion control between them, divided by priority.
//! [`Group`] has the run loop.

mod flow;
mod numbers;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::controller::{Controller, burst};
use crate::coupling::Standing;
use crate::limits::{GROUP_IDLE, GROUP_IDLE_MOST, GROUP_TURNS, MAX_GROUP_FLOWS};
use crate::priority::Priority;
use crate::report::{LimitedBy, Report};
use crate::sample::{AckSample, LossSample};

use flow::{Flow, Kind};

/// A flow of one [`Group`]. Never used again after the flow has left.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupFlow(u64);

/// The group has [`MAX_GROUP_FLOWS`] flows. The caller is at fault; a controller of its own serves
/// a further flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the group has {MAX_GROUP_FLOWS} flows already: give this one a controller of its own")]
pub struct GroupIsFull;

/// Congestion control of all flows that surely share a path, such as a process's connections
/// between the same two sockets.
///
/// The flows of positive priority have one [`Controller`] between them, worth the sum of their
/// priorities, and each gets that part of its window which its priority is of the sum. What a flow
/// does not use, others get; it then counts for nothing in the sum. Those of priority 0 have
/// another controller, a scavenger, in equal parts: to the path, and to the others, they are one.
/// (RFC 3124 calls this a congestion manager; RFC 8699 couples controllers instead, which is less
/// exact.)
///
/// Windows are counted in bytes but filled with whole datagrams. What rounding gives to one flow
/// and takes from another is kept account of, and comes off and on to their windows: over some
/// round trips the bytes that get through are in the exact proportion of the priorities. A change
/// of priority moves the windows at once.
///
/// # Run loop
/// That of [`Controller`], with the flow named in each call: [`join`](Self::join), for each
/// datagram [`on_sent`](Self::on_sent), for each acknowledgement [`on_ack`](Self::on_ack) and
/// [`on_ack_batch_end`](Self::on_ack_batch_end), for losses [`on_loss`](Self::on_loss) and
/// [`on_congestion`](Self::on_congestion); then read [`window`](Self::window) and
/// [`pacing_rate`](Self::pacing_rate). Each flow counts its own packets. Calls that name a flow
/// which has left do nothing.
///
/// ```
/// use std::time::Instant;
/// use ringway_dtl::{Config, Group, Priority};
///
/// let now = Instant::now();
/// let mut group = Group::new(Config::default());
/// let one = group.join(now, Priority::NORMAL, 1200)?;
/// let three = group.join(now, Priority::new(3.0)?, 1200)?;
/// assert_eq!(3 * group.window(one), group.window(three));
/// group.set_priority(now, three, Priority::NORMAL);
/// assert_eq!(group.window(one), group.window(three));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    config: Config,
    flows: BTreeMap<GroupFlow, Flow>,
    next_flow: u64,
    /// Number of the next packet in the group's own sequence.
    next_packet: u64,
    weighted: Option<Controller>,
    scavenger: Option<Controller>,
}

/// What the flows of one kind come to.
#[derive(Copy, Clone, Debug, Default)]
struct Sums {
    /// Weights of all, and of those that use what they get.
    all: f64,
    busy: f64,
    /// Weight × service of the latter.
    served: f64,
    /// Bytes in flight of all, and of those that do not use what they get.
    in_flight: u64,
    idle_in_flight: u64,
    /// Weights of those that do not, as far as they know, but have begun to send.
    started: f64,
    /// The largest datagram, and one of each flow that uses what it gets.
    datagram: u64,
    busy_datagrams: u64,
}

impl Sums {
    /// How far the busy flows have been served on average, in bytes for each unit of weight.
    fn virtual_time(&self) -> f64 {
        if self.busy > 0.0 {
            self.served / self.busy
        } else {
            0.0
        }
    }
}

impl Group {
    /// A group without flows, whose controllers follow `config`.
    #[must_use]
    pub fn new(config: Config) -> Group {
        Group {
            config,
            flows: BTreeMap::new(),
            next_flow: 0,
            next_packet: 0,
            weighted: None,
            scavenger: None,
        }
    }

    /// Lets a flow in whose datagrams have `datagram` bytes. It counts once it sends.
    ///
    /// # Errors
    /// [`GroupIsFull`] when there are [`MAX_GROUP_FLOWS`] already.
    pub fn join(
        &mut self,
        now: Instant,
        priority: Priority,
        datagram: u64,
    ) -> Result<GroupFlow, GroupIsFull> {
        if self.flows.len() >= MAX_GROUP_FLOWS {
            return Err(GroupIsFull);
        }
        let id = GroupFlow(self.next_flow);
        self.next_flow = self.next_flow.wrapping_add(1);
        self.flows.insert(id, Flow::new(now, priority, datagram));
        let kind = Kind::of(priority);
        // The first of its kind brings the controller, which learns the path for all after it.
        if self.controller(kind).is_none() {
            let config = Config {
                datagram_size: datagram,
                ..self.config.clone()
            };
            *self.controller_mut(kind) = Some(Controller::new(now, config, priority));
        }
        self.settle_datagram(kind);
        self.settle(now, kind, true);
        Ok(id)
    }

    /// Ends a flow. What it had goes to the others. `false` if it is unknown.
    pub fn leave(&mut self, now: Instant, id: GroupFlow) -> bool {
        let Some(flow) = self.flows.remove(&id) else {
            return false;
        };
        let kind = flow.kind();
        if self.sums(kind).all > 0.0 {
            self.settle(now, kind, false);
        } else {
            *self.controller_mut(kind) = None;
        }
        true
    }

    /// Whether no flow is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Changes a flow's priority: its window, and those of the others, from now on. `false` if it
    /// is unknown.
    pub fn set_priority(&mut self, now: Instant, id: GroupFlow, priority: Priority) -> bool {
        let Some(flow) = self.flows.get_mut(&id) else {
            return false;
        };
        let before = std::mem::replace(&mut flow.priority, priority);
        let (from, to) = (Kind::of(before), Kind::of(priority));
        if from != to {
            self.cross(now, before, priority);
        }
        self.reset_credit(id);
        self.settle(now, to, true);
        true
    }

    /// Controllers for a flow that has gone over from one kind to the other.
    fn cross(&mut self, now: Instant, before: Priority, priority: Priority) {
        let (from, to) = (Kind::of(before), Kind::of(priority));
        let left_alone = self.sums(from).all <= 0.0;
        let mut own = if left_alone {
            self.controller_mut(from).take()
        } else {
            self.controller(from).cloned()
        };
        if self.controller(to).is_none() {
            if let Some(own) = &mut own {
                // What it knows of the path, and of the window no more than was its own.
                if from == Kind::Weighted && !left_alone {
                    own.set_priority(now, before);
                }
                own.set_priority(now, priority);
            }
            *self.controller_mut(to) = own;
        }
        self.settle_datagram(to);
        self.settle(now, from, true);
    }

    /// A flow's datagrams now have `bytes` bytes.
    pub fn on_datagram_size(&mut self, id: GroupFlow, bytes: u64) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        flow.datagram = bytes;
        let kind = flow.kind();
        self.settle_datagram(kind);
    }

    /// A flow's packet of `bytes` bytes left.
    pub fn on_sent(&mut self, now: Instant, id: GroupFlow, packet: u64, bytes: u64) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let number = self.next_packet;
        self.next_packet = number.wrapping_add(1);
        flow.on_sent(packet, number, bytes);
        let kind = flow.kind();
        if flow.needs_rebase() {
            self.rebase(kind);
        }
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_sent(now, number, bytes);
        }
    }

    /// A packet was acknowledged. Takes effect at the end of the batch.
    pub fn on_ack(&mut self, now: Instant, id: GroupFlow, sample: &AckSample) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let packet = flow.on_ack(sample);
        let kind = flow.kind();
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_ack(now, &AckSample { packet, ..*sample });
        }
    }

    /// As [`Controller::on_one_way_delay`]; by the same two clocks for all flows of the group.
    pub fn on_one_way_delay(
        &mut self,
        now: Instant,
        id: GroupFlow,
        rtt: Duration,
        one_way: Duration,
    ) {
        let Some(kind) = self.flows.get(&id).map(Flow::kind) else {
            return;
        };
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_one_way_delay(now, rtt, one_way);
        }
    }

    /// All packets of one acknowledgement have been reported; `in_flight` bytes of this flow are
    /// still under way.
    pub fn on_ack_batch_end(&mut self, now: Instant, id: GroupFlow, in_flight: u64) {
        let window = self.window(id);
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let kind = flow.kind();
        let (was_busy, uses) = (flow.busy, flow.on_batch_end(now, in_flight, window));
        if !(was_busy && uses) {
            self.reset_credit(id);
        }
        let Sums {
            in_flight: all,
            busy_datagrams,
            ..
        } = self.sums(kind);
        let mut idle_after = GROUP_IDLE;
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_ack_batch_end(now, all);
            idle_after = idle_after.max(4 * controller.smoothed_rtt());
            if kind == Kind::Scavenger {
                // At the floor a flow's next packet is due when all others have had theirs.
                let turn =
                    busy_datagrams as f64 / controller.pacing_rate().unwrap_or(u64::MAX) as f64;
                let turns = Duration::try_from_secs_f64(GROUP_TURNS * turn);
                idle_after = idle_after.max(turns.unwrap_or_default().min(GROUP_IDLE_MOST));
            }
        }
        let changed = self.look_for_idle(now, kind, idle_after);
        if changed || uses != was_busy {
            self.settle(now, kind, false);
        }
        self.bound_deficit(id);
    }

    /// A packet was deemed lost.
    pub fn on_loss(&mut self, now: Instant, id: GroupFlow, sample: &LossSample) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let packet = flow.on_loss(sample);
        let kind = flow.kind();
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_loss(now, &LossSample { packet, ..*sample });
        }
    }

    /// A packet that was deemed lost has arrived: [`Controller::on_spurious_loss`].
    pub fn on_spurious_loss(&mut self, now: Instant, id: GroupFlow, sample: &LossSample) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let packet = flow.on_spurious_loss(sample);
        let kind = flow.kind();
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_spurious_loss(now, &LossSample { packet, ..*sample });
        }
    }

    /// The path of all flows reorders packets: [`Controller::on_reordering`].
    pub fn on_reordering(&mut self, id: GroupFlow, lateness: Duration) {
        if let Some(kind) = self.flows.get(&id).map(Flow::kind)
            && let Some(controller) = self.controller_mut(kind)
        {
            controller.on_reordering(lateness);
        }
    }

    /// A batch of packets was deemed lost or marked: [`Controller::on_congestion`].
    pub fn on_congestion(
        &mut self,
        now: Instant,
        id: GroupFlow,
        persistent: bool,
        ecn: bool,
        sent: Instant,
    ) {
        let Some(kind) = self.flows.get(&id).map(Flow::kind) else {
            return;
        };
        if let Some(controller) = self.controller_mut(kind) {
            controller.on_congestion(now, persistent, ecn, sent);
        }
    }

    /// Bytes that a flow may have in flight, at least 1; below one datagram the [pacing
    /// rate](Self::pacing_rate) counts. 1 for an unknown flow.
    #[must_use]
    pub fn window(&self, id: GroupFlow) -> u64 {
        (self.allowance(id) as u64).max(1)
    }

    /// Bytes per second at which a flow is to send, at least 1; `None` until an RTT is known, and
    /// for an unknown flow.
    #[must_use]
    pub fn pacing_rate(&self, id: GroupFlow) -> Option<u64> {
        let flow = self.flows.get(&id)?;
        let controller = self.controller(flow.kind())?;
        let all = controller.pacing_rate()?;
        let (part, whole) = (self.allowance(id), controller.window() as f64);
        let rate = if part < 2.0 * flow.datagram as f64 && part < whole {
            // QUIC cannot keep so little in flight: the rate alone keeps it, and must not be above
            // it.
            part / controller.smoothed_rtt().as_secs_f64().max(1e-6)
        } else {
            all as f64 * part / whole
        };
        Some((rate as u64).max(1))
    }

    /// As [`Controller::burst`], of a flow's own rate; `None` for an unknown flow.
    #[must_use]
    pub fn burst(&self, id: GroupFlow) -> Option<u64> {
        let flow = self.flows.get(&id)?;
        self.controller(flow.kind())?.burst()?;
        Some(burst(self.pacing_rate(id)?, flow.datagram))
    }

    /// What the flows above priority 0 have together, for a [`Coupling`](crate::Coupling) with
    /// groups to other peers. `None` while they look for their share, or under the paper's
    /// algorithm.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        let controller = self.weighted.as_ref().filter(|at| at.is_settled())?;
        Some(Standing {
            weight: self.sums(Kind::Weighted).busy,
            window: controller.window(),
            smoothed: controller.smoothed_rtt(),
        })
    }

    /// Changes what the flows above priority 0 have together by this factor, as
    /// [`Coupling::exchange`](crate::Coupling::exchange) gives it. Nothing happens if it is not
    /// finite, or not above 0.
    pub fn scale(&mut self, factor: f64) {
        if let Some(controller) = &mut self.weighted
            && factor.is_finite()
            && factor > 0.0
        {
            controller.scale(factor);
        }
    }

    /// The state of one flow: the path's, with its own window, rate and bytes; `None` for an
    /// unknown flow.
    #[must_use]
    pub fn report(&self, id: GroupFlow) -> Option<Report> {
        let flow = self.flows.get(&id)?;
        let mut report = self.controller(flow.kind())?.report();
        report.priority = flow.priority;
        report.window = self.window(id);
        report.pacing_rate = self.pacing_rate(id);
        flow.count_into(&mut report);
        if !flow.busy && self.sums(flow.kind()).busy > 0.0 {
            report.limited_by = LimitedBy::Application;
        }
        Some(report)
    }

    fn controller(&self, kind: Kind) -> Option<&Controller> {
        match kind {
            Kind::Weighted => self.weighted.as_ref(),
            Kind::Scavenger => self.scavenger.as_ref(),
        }
    }

    fn controller_mut(&mut self, kind: Kind) -> &mut Option<Controller> {
        match kind {
            Kind::Weighted => &mut self.weighted,
            Kind::Scavenger => &mut self.scavenger,
        }
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Flow> {
        self.flows.values().filter(move |flow| flow.kind() == kind)
    }

    fn sums(&self, kind: Kind) -> Sums {
        let mut sums = Sums::default();
        for flow in self.of_kind(kind) {
            let weight = flow.weight();
            sums.all += weight;
            sums.in_flight = sums.in_flight.saturating_add(flow.in_flight);
            sums.datagram = sums.datagram.max(flow.datagram);
            if flow.busy {
                sums.busy += weight;
                sums.busy_datagrams = sums.busy_datagrams.saturating_add(flow.datagram);
                sums.served += weight * flow.served;
            } else {
                sums.idle_in_flight = sums.idle_in_flight.saturating_add(flow.in_flight);
                if flow.in_flight > 0 {
                    sums.started += weight;
                }
            }
        }
        sums
    }

    /// A flow's part of its controller's window, and what it lacks of what it should have had.
    fn allowance(&self, id: GroupFlow) -> f64 {
        let Some((flow, controller)) = self.flows.get(&id).and_then(|flow| {
            let controller = self.controller(flow.kind())?;
            Some((flow, controller))
        }) else {
            return 1.0;
        };
        let (sums, window) = (self.sums(flow.kind()), controller.window() as f64);
        let weight = flow.weight();
        if sums.busy <= 0.0 {
            return window * weight / sums.all;
        }
        if !flow.busy {
            // It may begin with its share at any moment; until it uses that, the others have it. Of
            // several that begin at once each has its share, and all of them no more than there is.
            let others = if flow.in_flight > 0 {
                sums.started - weight
            } else {
                sums.started
            };
            let room = window - sums.idle_in_flight.saturating_sub(flow.in_flight) as f64;
            let most = room.max(2.0 * flow.datagram as f64);
            return (window * weight / (sums.busy + others + weight)).min(most);
        }
        let share = (window - sums.idle_in_flight as f64).max(window / 2.0) * weight / sums.busy;
        let most = (share / 2.0).max(2.0 * flow.datagram as f64);
        let deficit = (sums.virtual_time() - flow.served) * weight;
        (share + deficit.clamp(-most, most)).max(share / 4.0)
    }

    /// The controller is worth as much as those who use it; where none does, as all of them, if
    /// idle flows count.
    fn settle(&mut self, now: Instant, kind: Kind, also_idle: bool) {
        if kind == Kind::Scavenger {
            return;
        }
        let sums = self.sums(kind);
        let worth = match sums.busy {
            busy if busy > 0.0 => busy,
            // A pause of all is no reason to be worth something else.
            _ if !also_idle => return,
            _ => sums.all,
        };
        let worth = Priority::new(worth.min(crate::limits::MAX_PRIORITY));
        let Ok(worth) = worth else {
            return;
        };
        if let Some(controller) = &mut self.weighted
            && !worth.is_scavenger()
            && controller.priority() != worth
        {
            controller.set_priority(now, worth);
        }
    }

    fn settle_datagram(&mut self, kind: Kind) {
        let largest = self.sums(kind).datagram;
        if let Some(controller) = self.controller_mut(kind)
            && largest > 0
            && controller.config().datagram_size != largest
        {
            controller.on_datagram_size(largest);
        }
    }

    /// A flow neither lacks nor owes anything: it did not want what it did not get.
    fn reset_credit(&mut self, id: GroupFlow) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        let (kind, busy) = (flow.kind(), std::mem::replace(&mut flow.busy, false));
        let virtual_time = self.sums(kind).virtual_time();
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.busy = busy;
            flow.served = virtual_time;
        }
    }

    /// A flow that could not send for long is not made up for all of it.
    fn bound_deficit(&mut self, id: GroupFlow) {
        let Some(flow) = self.flows.get(&id).filter(|flow| flow.busy) else {
            return;
        };
        let virtual_time = self.sums(flow.kind()).virtual_time();
        let most = 4.0 * self.allowance(id).max(4.0 * flow.datagram as f64) / flow.weight();
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.served = flow.served.clamp(virtual_time - most, virtual_time + most);
        }
    }

    /// Flows that have long used less than they may no longer count. True if there were any.
    fn look_for_idle(&mut self, now: Instant, kind: Kind, after: Duration) -> bool {
        let mut any = false;
        for flow in self.flows.values_mut().filter(|flow| flow.kind() == kind) {
            if flow.busy && now.saturating_duration_since(flow.used_at) > after {
                flow.busy = false;
                any = true;
            }
        }
        any
    }

    /// Counts the service of all from the present on, so that it stays small enough to be exact.
    fn rebase(&mut self, kind: Kind) {
        let virtual_time = self.sums(kind).virtual_time();
        for flow in self.flows.values_mut().filter(|flow| flow.kind() == kind) {
            flow.served -= virtual_time;
        }
    }
}

impl fmt::Display for GroupFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
