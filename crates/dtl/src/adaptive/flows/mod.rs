//! Priority N > 0: N virtual CUBIC flows that share one path and one pacer.
//!
//! Each has a window, an epoch and a recovery of its own, packets of its own, and sends as the
//! kernel's TCP does. A TCP receiver acknowledges every second packet, and at once the last of
//! several that left together, which carries PSH; what an acknowledgement lets go leaves together.
//! A sender with another pattern fares otherwise at a full queue, whatever the windows are. Evenly
//! sent packets find room where pairs do not, and one flow's worth takes up to five times its
//! share. A pair that is let go by packets that did not arrive one after the other finds its second
//! place taken. A lost packet cuts the virtual flow that sent it. A fraction of a flow is a whole
//! one of which a part is sent.

mod cubic;
mod falls;
mod ledger;
mod probe;
mod round;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use self::cubic::Cubic;
use self::falls::Falls;
use self::ledger::{Entry, Ledger};
pub(super) use self::probe::Before;
use self::probe::Probe;
use self::round::RoundTrips;
use super::tuning::TUNING;
use crate::limits::{MAX_UNDONE, MIN_WEIGHT};

/// What a cut was made of, until it is known whether it was right.
#[derive(Clone, Debug)]
struct Answered {
    before: Cubic,
    falls: Falls,
    probe: Option<Probe>,
    /// Packets that it answers and that have not arrived.
    lost: u32,
}

/// A virtual flow and its packets.
#[derive(Clone, Debug)]
struct Virtual {
    cubic: Cubic,
    /// Datagrams under way.
    in_flight: f64,
    /// Datagrams acknowledged since the window last grew.
    acked: f64,
    /// Datagrams that may leave now.
    released: f64,
    /// Datagrams that have left since some were last released.
    burst: f64,
    /// When some were last released.
    released_at: Option<Instant>,
    /// Whether a packet has arrived whose acknowledgement a TCP receiver would hold back until the
    /// next.
    held: bool,
    /// Whether a cut was less than a round trip ago.
    repairs: bool,
    /// Its part before that cut.
    before: f64,
    /// How often others were cut since it was.
    falls: Falls,
    /// The last cut, if it can be taken back.
    answered: Option<Answered>,
}

impl Virtual {
    fn new(window: f64, threshold: f64) -> Virtual {
        Virtual {
            cubic: Cubic::new(window, threshold),
            in_flight: 0.0,
            acked: 0.0,
            released: 0.0,
            burst: 0.0,
            released_at: None,
            held: false,
            repairs: false,
            before: 0.0,
            falls: Falls::default(),
            answered: None,
        }
    }

    /// Datagrams that it may have under way now.
    fn allowed(&self) -> f64 {
        let part = self.cubic.part();
        if self.in_flight < TUNING.flows.little.get() || self.cubic.in_slow_start() {
            return part;
        }
        // A flow that was cut has more under way than it may, for a round trip; the others send on
        // meanwhile.
        let most = if self.repairs { self.before } else { part };
        (self.in_flight + self.released).min(most.max(part))
    }

    /// One of its packets arrived: lets go what the kernel's TCP would.
    fn arrived(&mut self, now: Instant, packet: u64, entry: Entry, rtt: f64) {
        // Until the packets sent before a cut are through, TCP repairs, with an acknowledgement for
        // each packet, and does not grow.
        self.repairs = packet < self.cubic.recovered_at;
        if !self.repairs {
            self.acked += f64::from(entry.datagrams);
        }
        self.held = !self.held && !self.repairs && !entry.pushed;
        if self.held {
            return;
        }
        let part = self.cubic.part();
        let room = (part - self.in_flight).floor();
        // TCP sends what it may where nothing left lately or no acknowledgement is near; else
        // whole trains.
        let deferred = TUNING.flows.deferred.as_secs_f64();
        let idle = self
            .released_at
            .is_none_or(|at| now.saturating_duration_since(at) > TUNING.flows.deferred);
        let room = if self.repairs || idle || rtt > deferred * part {
            room
        } else {
            let train = self.train(rtt);
            (room / train).floor() * train
        };
        if room >= 1.0 {
            self.released = room;
            self.burst = 0.0;
            self.released_at = Some(now);
        }
    }

    /// Packets that TCP gathers before it sends them: a millisecond's worth, two at least and a
    /// third of the window at most.
    fn train(&self, rtt: f64) -> f64 {
        let part = self.cubic.part();
        let rate = TUNING.flows.paced.get() * part / rtt.max(1e-3);
        (rate * TUNING.flows.deferred.as_secs_f64())
            .min(part / 3.0)
            .floor()
            .max(2.0)
    }

    /// Answers a loss that counts for `losses`.
    fn cut(&mut self, next: u64, losses: f64) {
        self.before = self.cubic.part();
        self.released = 0.0;
        self.repairs = true;
        self.cubic.cut(next, losses);
    }

    /// A packet was sent: true if it is the last of several that went together.
    fn sent(&mut self, datagrams: f64) -> bool {
        if self.in_flight < TUNING.flows.little.get() {
            // After a pause no acknowledgement will come to set the rest of the window free.
            self.released = self.cubic.part().floor();
            self.burst = 0.0;
        }
        self.in_flight += datagrams;
        self.burst += datagrams;
        self.released = (self.released - datagrams).max(0.0);
        self.released < TUNING.flows.little.get() && self.burst > 1.0 + TUNING.flows.little.get()
    }
}

/// A packet is no longer under way.
fn left(flows: &mut [Virtual], entry: Entry) {
    if let Some(flow) = flows.get_mut(usize::from(entry.owner)) {
        flow.in_flight = (flow.in_flight - f64::from(entry.datagrams)).max(0.0);
    }
}

/// The state of priority N. Sizes in datagrams, times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    flows: Vec<Virtual>,
    ledger: Ledger,
    /// Packets that were deemed lost, and whose they were.
    lost: BTreeMap<u64, Entry>,
    shortest: Option<f64>,
    round: RoundTrips,
    /// By how much packets may be late because the path reorders them.
    scatter: f64,
    /// By how much the round trips were longer that ended slow start, until something is lost.
    started: Option<f64>,
    /// When the last acknowledgement came, and since when the window has not been used.
    acked_at: Option<Instant>,
    resting: Option<Instant>,
    /// After a change from 0, until the new share is found.
    probe: Option<Probe>,
}

impl Flows {
    /// `count` flows that share `window` datagrams and double it in each round trip up to `bound`
    /// datagrams.
    pub(super) fn new(count: f64, window: f64, bound: f64) -> Flows {
        let count = count.max(MIN_WEIGHT);
        let mut first = Virtual::new(window / count, bound / count);
        if bound.is_finite() {
            first.cubic.most = bound / count;
        }
        let mut all = vec![first; number(count)];
        for (flow, weight) in all.iter_mut().zip(weights(count)) {
            flow.cubic.weight = weight;
        }
        Flows {
            flows: all,
            ledger: Ledger::default(),
            lost: BTreeMap::new(),
            shortest: None,
            round: RoundTrips::default(),
            scatter: 0.0,
            started: None,
            acked_at: None,
            resting: None,
            probe: None,
        }
    }

    /// The same after priority 0: up by a bounded probe.
    pub(super) fn probing(now: Instant, count: f64, before: &Before) -> Flows {
        let probe = Probe::begin(now, count.max(MIN_WEIGHT), before);
        let mut flows = Flows::new(count, before.window, probe.goal(before.rtt));
        flows.probe = Some(probe);
        for flow in &mut flows.flows {
            flow.cubic.recovered_at = before.next;
        }
        flows
    }

    /// Whether a new share is still looked for.
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Becomes worth `count` flows. Those that go take their windows with them; new ones double
    /// theirs up to the mean of the others, and so does one that is to stand for more of a flow
    /// than before.
    pub(super) fn set_count(&mut self, count: f64) {
        self.started = None;
        let count = count.max(MIN_WEIGHT);
        let length = self.flows.len().max(1) as f64;
        let had = self.flows.iter().map(|flow| flow.cubic.has_had());
        let mean = had.sum::<f64>() / length;
        let slow_start = self.is_starting();
        let threshold = if slow_start { f64::INFINITY } else { mean };
        let mut new = Virtual::new(TUNING.cubic.least.get(), threshold);
        new.cubic.most = if slow_start { 0.0 } else { mean };
        self.flows.resize(number(count), new);
        for (flow, weight) in self.flows.iter_mut().zip(weights(count)) {
            flow.cubic.weigh(weight);
            flow.answered = None;
        }
        if let Some(probe) = &mut self.probe {
            probe.set_count(count);
        }
    }

    /// Gives windows to others of the same program, or takes some of theirs.
    pub(super) fn scale(&mut self, factor: f64) {
        for flow in &mut self.flows {
            flow.cubic.scale(factor);
            flow.answered = None;
        }
    }

    /// Whether the path's capacity has not been found yet, neither by these flows nor by priority 0
    /// before them.
    pub(super) fn is_starting(&self) -> bool {
        let starts = |flow: &Virtual| flow.cubic.in_slow_start() && flow.cubic.most == 0.0;
        // A probe that is broken off has not found it either, but it has not found the path empty.
        self.probe.is_none() && self.flows.iter().all(starts)
    }

    /// Datagrams that they have under way, or had before what they recover from.
    pub(super) fn has_had(&self) -> f64 {
        let flows = self.flows.iter().map(|flow| &flow.cubic);
        flows.map(|cubic| cubic.has_had() * cubic.weight).sum()
    }

    /// Datagrams that may be under way now.
    pub(super) fn window(&self) -> f64 {
        self.flows.iter().map(Virtual::allowed).sum()
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.flows.iter().all(|flow| flow.cubic.in_slow_start())
    }

    /// A packet left: it is that of the virtual flow with the most room.
    pub(super) fn on_sent(&mut self, packet: u64, datagrams: f64) {
        let room = |flow: &Virtual| flow.allowed() - flow.in_flight;
        let flows = self.flows.iter_mut().enumerate();
        let next = flows.max_by(|(_, one), (_, other)| room(one).total_cmp(&room(other)));
        let Some((index, flow)) = next else {
            return;
        };
        let entry = Entry {
            owner: u8::try_from(index).unwrap_or(u8::MAX),
            pushed: flow.sent(datagrams),
            datagrams: datagrams as f32,
        };
        let flows = &mut self.flows;
        self.ledger.enter(packet, entry, |gone| left(flows, gone));
    }

    /// A packet arrived. Takes effect with [`Flows::on_acked`].
    pub(super) fn on_arrived(&mut self, now: Instant, packet: u64, rtt: f64) {
        let Some(entry) = self.ledger.take(packet) else {
            return;
        };
        left(&mut self.flows, entry);
        if let Some(flow) = self.flows.get_mut(usize::from(entry.owner)) {
            flow.arrived(now, packet, entry, rtt);
        }
    }

    /// The end of a batch of acknowledgements, the newest of which took `rtt`.
    pub(super) fn on_acked(&mut self, now: Instant, newest: u64, rtt: f64, may_grow: bool) {
        // What was not heard of for so long will not be: lost probes of the path's MTU, for one,
        // are not reported.
        let under_way: f64 = self.flows.iter().map(|flow| flow.in_flight).sum();
        let stale = newest.saturating_sub((2.0 * under_way) as u64 + TUNING.flows.stale);
        let flows = &mut self.flows;
        self.ledger.give_up_before(stale, |gone| left(flows, gone));
        while let Some(oldest) = self.lost.first_entry()
            && *oldest.key() < stale
        {
            oldest.remove();
        }
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        self.round.add(rtt);
        if self.is_starting() && self.round.samples >= TUNING.flows.hystart_samples {
            let least = (shortest / 8.0).clamp(
                TUNING.flows.hystart_least.as_secs_f64(),
                TUNING.flows.hystart_most.as_secs_f64(),
            );
            let longer = self.round.shortest - shortest;
            if longer >= least.max(self.scatter) {
                self.started = Some(longer);
                for flow in &mut self.flows {
                    flow.cubic.threshold = flow.cubic.window;
                }
            }
        }
        let rested = self.rested(now, rtt, may_grow);
        let pace = self.probe.as_ref().map_or(1.0, Probe::pace);
        for flow in &mut self.flows {
            flow.cubic.rest(rested);
            let mut acked = std::mem::take(&mut flow.acked);
            if flow.cubic.in_slow_start() {
                acked *= pace;
            }
            if may_grow && acked > 0.0 {
                flow.cubic.grow(now, acked, shortest);
            }
        }
    }

    /// The path reorders packets: some are late by so much.
    pub(super) fn reorders(&mut self, scatter: f64) {
        self.scatter = scatter;
        // What ended slow start was no queue, as it turns out.
        if self.started.take_if(|longer| *longer < scatter).is_some() {
            for flow in &mut self.flows {
                flow.cubic.threshold = f64::INFINITY;
            }
        }
    }

    /// For how long the application, not the window, has said how much is sent, once that has come
    /// to an end.
    fn rested(&mut self, now: Instant, rtt: f64, may_grow: bool) -> Duration {
        let acked_at = self.acked_at.replace(now).unwrap_or(now);
        if !may_grow {
            self.resting.get_or_insert(acked_at);
            return Duration::ZERO;
        }
        let since = self.resting.take().unwrap_or(acked_at);
        let rested = now.saturating_duration_since(since);
        // A part of a datagram in a round trip leaves long pauses by itself.
        let pause = rtt / self.window().clamp(TUNING.packets.least_window.get(), 1.0);
        let long = rested.as_secs_f64()
            > TUNING
                .flows
                .rests
                .as_secs_f64()
                .max(TUNING.flows.rests_round_trips.get() * pause);
        if long { rested } else { Duration::ZERO }
    }

    /// A round has ended in which `rate` datagrams a second came through, and the window was used
    /// or not. `base` is the path's delay without a queue.
    pub(super) fn on_round(&mut self, now: Instant, rate: f64, may_grow: bool, base: Option<f64>) {
        let Some(rtt) = std::mem::take(&mut self.round).mean() else {
            return;
        };
        if may_grow {
            self.go_on_probing(now, rate, rtt);
        } else if let Some(probe) = &mut self.probe {
            probe.rest(rtt);
        }
        let queueing = (rtt - base.unwrap_or(rtt)).max(0.0);
        for flow in &mut self.flows {
            flow.falls.look(queueing);
        }
    }

    fn go_on_probing(&mut self, now: Instant, rate: f64, rtt: f64) {
        let Some(probe) = &mut self.probe else {
            return;
        };
        probe.look(rate, rtt);
        let window = self.flows.iter().map(|flow| flow.cubic.part()).sum::<f64>();
        let left = probe.goal(rtt) / window.max(TUNING.flows.little.get());
        if left <= 1.0 || probe.is_over(now) {
            self.end_probe();
            return;
        }
        for flow in &mut self.flows {
            // One that was cut meanwhile goes on doubling.
            flow.cubic.threshold = flow.cubic.window * left;
        }
    }

    fn end_probe(&mut self) {
        if self.probe.take().is_some() {
            for flow in &mut self.flows {
                flow.cubic.threshold = flow.cubic.threshold.min(flow.cubic.window);
            }
        }
    }

    /// A packet was lost: true if it cut a window. `next` is the number of the next packet.
    pub(super) fn on_lost(&mut self, packet: u64, next: u64) -> bool {
        let entry = self.ledger.take(packet);
        if let Some(entry) = entry {
            left(&mut self.flows, entry);
            self.lost.insert(packet, entry);
            if self.lost.len() > MAX_UNDONE {
                self.lost.pop_first();
            }
        }
        let owner = entry.map(|entry| usize::from(entry.owner));
        self.charge(owner, packet, next)
    }

    /// A packet that was deemed lost has arrived: true if it was the last for which a window was
    /// cut, which has what it had again.
    pub(super) fn on_spurious_loss(&mut self, now: Instant, packet: u64, rtt: f64) -> bool {
        let Some(entry) = self.lost.remove(&packet) else {
            return false;
        };
        let Some(flow) = self.flows.get_mut(usize::from(entry.owner)) else {
            return false;
        };
        let mut undone = None;
        let until = flow.cubic.recovered_at;
        if let Some(answered) = &mut flow.answered
            && (answered.before.recovered_at..until).contains(&packet)
        {
            answered.lost = answered.lost.saturating_sub(1);
            if answered.lost == 0 {
                undone = flow.answered.take();
            }
        }
        if let Some(answered) = &undone {
            flow.cubic.undo(&answered.before);
            flow.falls = answered.falls;
            flow.repairs = false;
        }
        flow.arrived(now, packet, entry, rtt);
        let Some(answered) = undone else {
            return false;
        };
        // It goes on until its time is over, unless another flow has come to an end of it.
        self.probe = self.probe.or(answered.probe);
        true
    }

    /// A packet came through with a mark, or one of those before it: true if it cut a window.
    pub(super) fn on_mark(&mut self, packet: u64, next: u64) -> bool {
        self.charge(None, packet, next)
    }

    /// Cuts the flow that a packet belonged to; where that is not known, one by lot, in proportion
    /// to their windows.
    fn charge(&mut self, owner: Option<usize>, packet: u64, next: u64) -> bool {
        let known = owner.filter(|owner| *owner < self.flows.len());
        let charged = known.or_else(|| self.by_lot(packet));
        let Some(flow) = charged.and_then(|charged| self.flows.get_mut(charged)) else {
            return false;
        };
        if packet < flow.cubic.recovered_at {
            if let Some(answered) = &mut flow.answered
                && known.is_some()
                && packet >= answered.before.recovered_at
            {
                answered.lost = answered.lost.saturating_add(1);
            }
            return false;
        }
        self.started = None;
        flow.answered = known.map(|_| Answered {
            before: flow.cubic.clone(),
            falls: flow.falls,
            probe: self.probe,
            lost: 1,
        });
        let part = flow.cubic.weight;
        let losses = if flow.cubic.most > 0.0 {
            flow.falls.cut(part)
        } else {
            // Slow start has filled the whole path, whatever the part is.
            falls::most(part)
        };
        flow.cut(next, losses);
        if self
            .probe
            .as_mut()
            .is_some_and(|probe| probe.lost(packet, next))
        {
            self.end_probe();
        }
        true
    }

    fn by_lot(&self, packet: u64) -> Option<usize> {
        let parts = || self.flows.iter().map(|flow| flow.cubic.part());
        let mut lot = lot(packet) * parts().sum::<f64>();
        parts().position(|part| {
            lot -= part;
            lot <= 0.0
        })
    }

    /// Nothing came through for long.
    pub(super) fn on_persistent(&mut self, next: u64) {
        for flow in &mut self.flows {
            flow.cut(next, 1.0);
            self.started = None;
            flow.answered = None;
            flow.cubic.window = TUNING.cubic.least.get();
        }
    }
}

/// How many virtual flows stand for `count`.
fn number(count: f64) -> usize {
    (count.ceil().max(1.0) as usize).min(TUNING.flows.most)
}

/// How much of a flow each of them stands for: of one, or of several, and the last of what is
/// missing.
fn weights(count: f64) -> impl Iterator<Item = f64> {
    let number = number(count);
    let each = (count / number as f64).max(1.0);
    let last = count - each * (number as f64 - 1.0);
    std::iter::repeat_n(each, number - 1).chain([last])
}

/// A number between 0 and 1 that depends on the packet, the same in every run.
fn lot(packet: u64) -> f64 {
    let mut mixed = packet.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests;
