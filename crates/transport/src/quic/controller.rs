//! The priority controller as QUIC's congestion controller.
//!
//! QUIC owns the controller of a path; a [`Control`] shared with the connection's handle carries
//! the priority in and the report out, so that a priority changes while data flows.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use noq::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;
use ringway_dtl::{AckSample, Config, Look, LossDetection, LossSample, Priority, Report};

use super::clock::nanos;
use super::group::{Core, SharedGroup};
use crate::limits::{
    CONTROLLER_BATCH, CONTROLLER_FIRST, CONTROLLER_FIRST_RATE, CONTROLLER_LOOKS,
    CONTROLLER_RAISED_RATE, CONTROLLER_SEND_RUNS, CONTROLLER_SLOWEST, CONTROLLER_WINDOW_DATAGRAMS,
    QUIC_CLOCK_APART, QUIC_CLOCK_QUESTIONS,
};
use crate::member::MemberId;

/// What the handle of a connection and its controller share.
#[derive(Debug)]
pub(super) struct Control {
    /// Whether `priority` differs from what the controller has. Checked for each event, so no
    /// lock.
    changed: AtomicBool,
    /// Whether `state` holds a one-way delay that the controller has not taken. No lock, either.
    told: AtomicBool,
    /// Whether it holds questions that have not left.
    asked: AtomicBool,
    state: Mutex<Shared>,
    /// With whom the connection shares its congestion control.
    group: Option<Arc<SharedGroup>>,
}

#[derive(Debug)]
struct Shared {
    priority: Priority,
    report: Option<Report>,
    /// When the last acknowledgements came, and the round trip that they showed.
    acked: Option<(Instant, Duration)>,
    /// Questions for the peer's clock that it has not answered, oldest first.
    questions: VecDeque<Question>,
    next_question: u8,
    one_way: Option<OneWay>,
}

#[derive(Debug, Clone, Copy)]
struct Question {
    number: u8,
    /// When the packet left that has it.
    left: Option<Instant>,
}

/// What a reading of the peer's clock says: a round trip and the time of its way there, by two
/// clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OneWay {
    at: Instant,
    rtt: Duration,
    delay: Duration,
}

impl Control {
    pub(super) fn new(priority: Priority) -> Self {
        Self {
            changed: AtomicBool::new(false),
            told: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            state: Mutex::new(Shared {
                priority,
                report: None,
                acked: None,
                questions: VecDeque::new(),
                next_question: 0,
                one_way: None,
            }),
            group: None,
        }
    }

    pub(super) fn in_group(priority: Priority, group: Option<Arc<SharedGroup>>) -> Self {
        Self {
            group,
            ..Self::new(priority)
        }
    }

    /// See [`QuicConnection::coupled_with`](super::QuicConnection::coupled_with).
    pub(super) fn coupled_with(&self) -> BTreeSet<MemberId> {
        let group = self.group.as_ref();
        group.map_or_else(BTreeSet::new, |group| group.coupled_with())
    }

    fn state(&self) -> MutexGuard<'_, Shared> {
        // A panic elsewhere cannot leave two plain values half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn priority(&self) -> Priority {
        self.state().priority
    }

    /// Takes effect at the controller's next event: the next packet, acknowledgement or loss.
    pub(super) fn set_priority(&self, priority: Priority) {
        self.state().priority = priority;
        self.changed.store(true, Ordering::Release);
    }

    /// What the controller reported after the last acknowledgement; `None` before the first.
    pub(super) fn report(&self) -> Option<Report> {
        self.state().report
    }

    /// The number of a question for the peer's clock, which is taken to leave with the next packet.
    /// If that is one without room for it, the way there will look longer than it is, and never
    /// shorter.
    pub(super) fn asks(&self) -> u8 {
        let mut state = self.state();
        let number = state.next_question;
        state.next_question = number.wrapping_add(1);
        if state.questions.len() >= QUIC_CLOCK_QUESTIONS {
            state.questions.pop_front();
        }
        state.questions.push_back(Question { number, left: None });
        self.asked.store(true, Ordering::Release);
        number
    }

    /// A packet leaves, with all questions that wait.
    fn leaves(&self, now: Instant) {
        if self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Acquire) {
            let mut state = self.state();
            let waiting = state.questions.iter_mut().rev();
            let waiting = waiting.take_while(|question| question.left.is_none());
            waiting.for_each(|question| question.left = Some(now));
        }
    }

    /// The peer's clock showed `peer` nanoseconds when that question came. This gives the time of
    /// the way there, whose zero is as arbitrary as the clocks' are. The way back has no part
    /// in it, nor has a task that is woken late, but that of the peer: that makes the way there
    /// longer, and never shorter.
    pub(super) fn on_reading(&self, now: Instant, question: u8, peer: u64) {
        let mut state = self.state();
        let asked = state.questions.iter();
        let Some(place) = asked.clone().position(|asked| asked.number == question) else {
            return;
        };
        let left = state.questions.drain(..=place).next_back();
        let left = left.and_then(|question| question.left);
        // The round trip is that of acknowledgements which have seen the same queue on the way
        // back.
        let fresh = |(acked, _): &(Instant, Duration)| {
            now.saturating_duration_since(*acked) <= QUIC_CLOCK_APART
        };
        let (Some(left), Some((_, rtt))) = (left, state.acked.filter(fresh)) else {
            return;
        };
        let delay = CLOCK_ZERO
            .checked_add(peer)
            .and_then(|sum| sum.checked_sub(nanos(left)));
        if let Some(delay) = delay.map(Duration::from_nanos) {
            let at = now;
            state.one_way = Some(OneWay { at, rtt, delay });
            self.told.store(true, Ordering::Release);
        }
    }

    fn take_one_way(&self) -> Option<OneWay> {
        let told = self.told.load(Ordering::Relaxed) && self.told.swap(false, Ordering::Acquire);
        told.then(|| self.state().one_way.take()).flatten()
    }

    fn keep(&self, now: Instant, rtt: Option<Duration>, report: Option<Report>) {
        let mut state = self.state();
        state.report = report;
        state.acked = rtt.map(|rtt| (now, rtt)).or(state.acked);
    }

    /// Whether somebody has set a priority above 0 that the controller has not taken.
    fn is_to_be_raised(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && !self.priority().is_scavenger()
    }

    fn take_change(&self) -> Option<Priority> {
        // A plain load first: the swap would make every packet write shared memory.
        let changed =
            self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::Acquire);
        changed.then(|| self.priority())
    }
}

/// Makes the controllers of one connection, one for each path.
#[derive(Debug)]
pub(super) struct PriorityFactory {
    pub(super) control: Arc<Control>,
    pub(super) config: Config,
}

impl ControllerFactory for PriorityFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(self.controller(now, current_mtu))
    }
}

impl PriorityFactory {
    fn controller(&self, now: Instant, current_mtu: u16) -> PriorityController {
        let datagram = u64::from(current_mtu);
        let mut config = self.config.clone();
        config.datagram_size = datagram;
        let (priority, group) = (self.control.priority(), self.control.group.as_ref());
        let inner = Core::new(now, config, priority, group);
        let mut controller = PriorityController {
            initial_window: inner.window(),
            inner,
            control: self.control.clone(),
            datagram,
            acks: Vec::new(),
            look: None,
            losses: Vec::new(),
            detection: LossDetection::default(),
            lateness: Duration::ZERO,
            returned: false,
            keyed: None,
            sent: SendTimes::default(),
            rtt: None,
            newest: None,
            first: CONTROLLER_FIRST,
            window: 0,
            looked: now,
            rate: None,
            burst: None,
            pacing: None,
            last_sent: None,
        };
        controller.refresh(now);
        controller
    }
}

/// What is added to one-way delays so that no difference between two clocks makes them negative: 73
/// years, in nanoseconds.
const CLOCK_ZERO: u64 = 1 << 61;

/// Nanoseconds.
const SECOND: u128 = 1_000_000_000;

/// One path's controller: turns QUIC's callbacks into samples for the core.
#[derive(Debug, Clone)]
struct PriorityController {
    inner: Core,
    control: Arc<Control>,
    initial_window: u64,
    datagram: u64,
    /// Acknowledged packets of the batch that is coming in; their `rtt` and its error are set at
    /// its end.
    acks: Vec<AckSample>,
    /// What those say of the path that were handed to the core since the last end of a batch.
    look: Option<Look>,
    /// Packets and sizes that QUIC has given up since the last report, and that were not known to
    /// be lost.
    losses: Vec<(u64, u64)>,
    /// What is lost, long before QUIC gives it up.
    detection: LossDetection,
    /// By how much the path was known to reorder at the last acknowledgement.
    lateness: Duration,
    /// Whether all that QUIC has given up recently has arrived.
    returned: bool,
    /// When the first packet was acknowledged of those whose numbers began last.
    keyed: Option<Instant>,
    sent: SendTimes,
    /// The last round-trip time that a newest packet showed, and when the newest of all was sent.
    rtt: Option<Duration>,
    newest: Option<Instant>,
    /// How many of the connection's first datagrams have not been sent yet.
    first: u64,
    /// Kept between events: QUIC asks for both several times for each packet.
    window: u64,
    rate: Option<u64>,
    burst: Option<u64>,
    /// When they were last looked up.
    looked: Instant,
    /// The rate told to QUIC: lower than `rate` after a pause, see
    /// [`PriorityController::after_pause`].
    pacing: Option<u64>,
    last_sent: Option<Instant>,
}

impl PriorityController {
    /// Takes over a new priority and lets the core's clock run. First in every event.
    fn begin(&mut self, now: Instant) {
        if let Some(priority) = self.control.take_change() {
            self.inner.set_priority(now, priority);
            self.refresh(now);
        }
        if let Some(OneWay { at, rtt, delay }) = self.control.take_one_way() {
            self.inner.on_one_way_delay(at, rtt, delay);
        }
        if std::mem::take(&mut self.returned) {
            for sample in self.detection.on_returned(now) {
                self.inner.on_spurious_loss(now, &sample);
            }
            self.refresh(now);
        }
    }

    fn refresh(&mut self, now: Instant) {
        let least = CONTROLLER_WINDOW_DATAGRAMS.saturating_mul(self.datagram);
        // QUIC takes for under way what it has not given up.
        let missing = self.detection.missing_bytes();
        self.window = self.inner.window().max(least).saturating_add(missing);
        self.rate = self
            .inner
            .pacing_rate()
            .map(|rate| rate.max(self.slowest()));
        self.burst = self.inner.burst();
        self.pacing = self.rate;
        self.looked = now;
    }

    /// The least rate at which the connection stays one.
    fn slowest(&self) -> u64 {
        let in_seconds = self.datagram.checked_div(CONTROLLER_SLOWEST.as_secs());
        match self.first {
            0 => in_seconds.unwrap_or(self.datagram),
            _ => CONTROLLER_FIRST_RATE.saturating_mul(self.datagram),
        }
    }

    /// Whether others of the group may have begun to send since the last look.
    fn is_to_look(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.looked);
        self.rtt
            .is_some_and(|rtt| since.saturating_mul(CONTROLLER_LOOKS) > rtt)
    }

    /// Takes from QUIC's pacer what it has saved up since the last packet beyond the burst: ten
    /// packets, which it would let go at once. It counts by the rate that it is told, so it is
    /// told one at which the pause is worth a burst, until the next packet has left.
    fn after_pause(&mut self, now: Instant) {
        let (Some(rate), Some(burst), Some(last)) = (self.rate, self.burst, self.last_sent) else {
            return;
        };
        let pause = now.saturating_duration_since(last).as_nanos();
        let bytes = u128::from(burst).saturating_mul(SECOND);
        let told = bytes.checked_div(pause).unwrap_or(u128::MAX);
        if told < u128::from(rate) {
            self.pacing = Some(u64::try_from(told).unwrap_or(rate).max(1));
        }
    }

    /// Keeps an acknowledged packet until its batch ends.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, app_limited: bool) {
        self.keyed.get_or_insert(now);
        if let Some(spurious) = self.detection.on_acked(now, pn, sent) {
            self.inner.on_spurious_loss(now, &spurious);
        }
        if self.acks.len() >= CONTROLLER_BATCH {
            self.flush_acks(now);
        }
        self.acks.push(AckSample {
            packet: pn,
            bytes,
            sent,
            rtt: Duration::ZERO,
            rtt_error: Duration::ZERO,
            // Not told by QUIC; bounded by the acknowledgement delay that we ask the peer for.
            receive_delay: Duration::ZERO,
            one_way_delay: None,
            ecn: false,
            app_limited,
        });
    }

    /// Hands the batch to the core with the round-trip time of its newest packet: the older ones
    /// waited at the receiver for the common acknowledgement.
    fn flush_acks(&mut self, now: Instant) {
        let newest = self.acks.iter().max_by_key(|ack| ack.packet);
        let Some(newest) = newest.map(|ack| (ack.packet, ack.sent)) else {
            return;
        };
        // A late acknowledgement of an older packet says when it was sent, not how long the way is.
        // Packet numbers do not tell: those of packets without data are not told, and each
        // number space has its own.
        let fresh = self.newest.is_none_or(|sent| newest.1 >= sent);
        self.newest = self.newest.max(Some(newest.1));
        let measured = now.saturating_duration_since(newest.1);
        let rtt = if fresh {
            measured
        } else {
            self.rtt.unwrap_or(measured)
        };
        self.rtt = Some(rtt);
        // QUIC reads the clock before it reads the socket, and works by that time through all that
        // it finds there: what came in between, which is long where the thread had to wait
        // for a processor, seems to have come too early. It has come by now.
        let rtt_error = Instant::now().saturating_duration_since(now);
        let mut bytes = self.look.map_or(0, |look| look.bytes);
        for ack in &mut self.acks {
            ack.rtt = rtt;
            ack.rtt_error = rtt_error;
            bytes = bytes.saturating_add(ack.bytes);
        }
        self.inner.on_acks(now, &self.acks);
        let sent = newest.1;
        self.look = Some(Look { sent, rtt, bytes });
        self.acks.clear();
    }

    /// Answers what an acknowledgement has shown to be lost.
    fn detect_losses(&mut self, now: Instant) {
        let mut lost = self.detection.on_ack_batch_end(now);
        lost.retain(|sample| self.is_answered(sample.sent));
        for sample in &lost {
            self.inner.on_loss(now, sample);
        }
        if let Some(newest) = lost.last() {
            self.inner.on_congestion(now, false, false, newest.sent);
        }
        let lateness = self.detection.lateness();
        if std::mem::replace(&mut self.lateness, lateness) != lateness {
            self.inner.on_reordering(lateness);
        }
    }

    /// Whether a loss of what was sent then says something of the path. The peer drops what
    /// overtakes the packets that bring it the keys: RFC 9002 §7.5.
    fn is_answered(&self, sent: Instant) -> bool {
        self.keyed.is_some_and(|keyed| sent >= keyed)
    }

    fn flush_losses(&mut self, now: Instant, fallback: Instant) {
        for (packet, bytes) in self.losses.drain(..) {
            let sample = LossSample {
                packet,
                bytes,
                sent: self.sent.of(packet).unwrap_or(fallback),
            };
            self.inner.on_loss(now, &sample);
        }
    }
}

impl Controller for PriorityController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.begin(now);
        self.control.leaves(now);
        self.sent.record(now, pn);
        if pn == 0 {
            self.keyed = None;
        }
        // QUIC tells of no loss of a probe for larger packets.
        if u64::from(bytes) <= self.datagram {
            self.detection.on_sent(now, pn, bytes.into());
        }
        self.inner.on_sent(now, pn, bytes.into());
        self.last_sent = Some(now);
        self.pacing = self.rate;
        if self.first > 0 || self.is_to_look(now) {
            self.first = self.first.saturating_sub(1);
            self.refresh(now);
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        // `_rtt` lags one acknowledgement behind and its minimum never expires.
        self.acked(now, sent, bytes, pn, app_limited);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        _app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.begin(now);
        self.flush_acks(now);
        let in_flight = in_flight.saturating_sub(self.detection.missing_bytes());
        self.inner
            .on_ack_batch_end(now, in_flight, self.look.take());
        self.detect_losses(now);
        self.refresh(now);
        self.after_pause(now);
        self.control.keep(now, self.rtt, self.inner.report());
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        // QUIC tells of lost acknowledgements, too, which it did not tell of when they left.
        if lost_bytes == 0 || !self.detection.on_given_up(pn) {
            return;
        }
        if self.sent.of(pn).is_some_and(|sent| !self.is_answered(sent)) {
            return;
        }
        if self.losses.len() >= CONTROLLER_BATCH {
            self.flush_losses(now, now);
        }
        self.losses.push((pn, lost_bytes.into()));
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        self.begin(now);
        // What was known to be lost has been answered.
        if is_ecn || is_persistent_congestion || !self.losses.is_empty() {
            self.flush_losses(now, sent);
            self.inner
                .on_congestion(now, is_persistent_congestion, is_ecn, sent);
        }
        self.refresh(now);
        self.after_pause(now);
        self.control.state().report = self.inner.report();
    }

    fn on_spurious_congestion_event(&mut self) {
        // It says no time; the acknowledgement that it came with says it.
        self.returned = true;
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.datagram = new_mtu.into();
        self.inner.on_datagram_size(self.datagram);
        self.refresh(self.looked);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window;
        metrics.pacing_rate = self.pacing;
        // The controller takes over a change with the next packet, which at priority 0 (only there
        // bursts are bounded) may be due in two seconds: it is let go now.
        if let Some(rate) = &mut metrics.pacing_rate
            && self.burst.is_some()
            && self.control.is_to_be_raised()
        {
            *rate = (*rate).max(CONTROLLER_RAISED_RATE.saturating_mul(self.datagram));
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// When packets were sent, kept as runs of packets sent at one instant.
#[derive(Debug, Clone, Default)]
struct SendTimes {
    runs: VecDeque<(u64, Instant)>,
}

impl SendTimes {
    fn record(&mut self, now: Instant, packet: u64) {
        match self.runs.back() {
            Some((_, sent)) if *sent == now => return,
            // The handshake's packet number spaces each start at zero.
            Some((first, _)) if *first >= packet => self.runs.clear(),
            _ => {}
        }
        if self.runs.len() >= CONTROLLER_SEND_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back((packet, now));
    }

    /// When `packet` was sent; if its run is forgotten, the oldest time known.
    fn of(&self, packet: u64) -> Option<Instant> {
        let after = self.runs.partition_point(|(first, _)| *first <= packet);
        let run = self.runs.get(after.saturating_sub(1));
        run.map(|(_, sent)| *sent)
    }
}

#[cfg(test)]
mod tests;
