//! The controller: acknowledgements, losses and a priority in; a window and a pacing rate out.

use std::time::{Duration, Instant};

use crate::adaptive::{self, Adaptive};
use crate::config::{Algorithm, Config};
use crate::delay::RoundTrip;
use crate::limits::{
    MAX_DATAGRAM, MAX_RTT, MIN_DATAGRAM, ONE_WAY_KEPT, PAUSE_DATAGRAMS, PAUSE_TIME,
};
use crate::paper::{Acked, Paper};
use crate::priority::Priority;
use crate::report::{LimitedBy, Mode, Report};
use crate::sample::{AckSample, LossSample};

/// Congestion control of one path, with a priority that may change at any moment.
///
/// Getters: [`window`](Self::window), [`pacing_rate`](Self::pacing_rate),
/// [`priority`](Self::priority), [`report`](Self::report). Commands:
/// [`set_priority`](Self::set_priority), [`on_datagram_size`](Self::on_datagram_size). Everything
/// else tells it what happened, in the order of the crate's run loop. It needs no timer: both
/// algorithms move at acknowledgements and losses only. Times that go backwards, or are far apart,
/// do no harm: they count as no time, or as the nearest bound.
#[derive(Clone, Debug)]
pub struct Controller {
    config: Config,
    priority: Priority,
    engine: Engine,
    round_trip: RoundTrip,
    /// As the receiver reported it last.
    way_back: Option<WayBack>,
    batch: Batch,
    /// Losses of packets sent until then belong to a cut that was already made.
    recovering_since: Option<Instant>,
    /// The same before that cut.
    recovered_before: Option<Instant>,
    /// The newest packet that was acknowledged.
    newest: u64,
    /// Whether the last batch showed that the window is not used up.
    idle_window: bool,
    totals: Totals,
}

/// The rules in force. A further algorithm is a further variant.
#[derive(Clone, Debug)]
enum Engine {
    Adaptive(Box<Adaptive>),
    Paper(Box<Paper>),
}

impl Engine {
    /// Bytes that may be in flight.
    fn window(&self) -> f64 {
        match self {
            Engine::Adaptive(adaptive) => adaptive.window(),
            Engine::Paper(paper) => paper.window().bytes(),
        }
    }

    fn in_slow_start(&self) -> bool {
        match self {
            Engine::Adaptive(adaptive) => adaptive.in_slow_start(),
            Engine::Paper(paper) => paper.window().slow_start_from().is_some(),
        }
    }

    fn ssthresh(&self) -> Option<u64> {
        match self {
            Engine::Adaptive(_) => None,
            Engine::Paper(paper) => paper.window().ssthresh(),
        }
    }
}

/// What waits on the way back.
#[derive(Copy, Clone, Debug)]
struct WayBack {
    at: Instant,
    waits: Duration,
}

/// A packet's round trip.
#[derive(Copy, Clone, Debug)]
struct Trip {
    rtt: Duration,
    /// By how much it may have been longer.
    error: Duration,
    /// For how long the receiver held the acknowledgement back.
    receive_delay: Duration,
}

/// What the acknowledgements since the last end of a batch say together.
#[derive(Clone, Debug, Default)]
struct Batch {
    bytes: u64,
    packets: u64,
    /// Number and size of the newest packet.
    newest: u64,
    size: u64,
    /// The one with the smallest RTT.
    rtt: Option<Trip>,
    one_way_delay: Option<Duration>,
    /// When the newest marked packet was sent.
    marked: Option<Instant>,
    /// Whether any of them was sent without the application holding sending back.
    window_limited: bool,
}

#[derive(Copy, Clone, Debug, Default)]
struct Totals {
    sent: u64,
    acked: u64,
    lost: u64,
}

impl Controller {
    /// A controller in slow start. Values of `config` outside their ranges are moved into them.
    #[must_use]
    pub fn new(now: Instant, config: Config, priority: Priority) -> Controller {
        let config = config.clamped();
        let engine = match config.algorithm {
            Algorithm::Adaptive => {
                Engine::Adaptive(Box::new(Adaptive::new(now, &config, priority)))
            }
            Algorithm::Paper => Engine::Paper(Box::new(Paper::new(now, &config))),
        };
        Controller {
            config,
            priority,
            engine,
            round_trip: RoundTrip::default(),
            way_back: None,
            batch: Batch::default(),
            recovering_since: None,
            recovered_before: None,
            newest: 0,
            idle_window: false,
            totals: Totals::default(),
        }
    }

    /// A packet of `bytes` bytes left. Retransmissions are packets of their own.
    pub fn on_sent(&mut self, _now: Instant, packet: u64, bytes: u64) {
        self.totals.sent = self.totals.sent.saturating_add(bytes);
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            adaptive.on_sent(packet, bytes);
        }
    }

    /// A packet was acknowledged. Takes effect at the end of the batch.
    pub fn on_ack(&mut self, now: Instant, sample: &AckSample) {
        self.totals.acked = self.totals.acked.saturating_add(sample.bytes);
        let batch = &mut self.batch;
        batch.bytes = batch.bytes.saturating_add(sample.bytes);
        batch.packets = batch.packets.saturating_add(1);
        // Older packets waited at the receiver for the common acknowledgement.
        if batch.packets == 1 || sample.packet >= batch.newest {
            batch.newest = sample.packet;
            batch.size = sample.bytes;
            self.newest = sample.packet;
        }
        if batch.rtt.is_none_or(|trip| sample.rtt <= trip.rtt) {
            batch.rtt = Some(Trip {
                rtt: sample.rtt,
                error: sample.rtt_error,
                receive_delay: sample.receive_delay,
            });
        }
        let least = batch.one_way_delay.into_iter().chain(sample.one_way_delay);
        batch.one_way_delay = least.min();
        if sample.ecn {
            batch.marked = batch.marked.max(Some(sample.sent));
        }
        batch.window_limited |= !sample.app_limited;
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            adaptive.on_arrived(now, sample.packet);
        }
    }

    /// All packets that one acknowledgement names have been reported; `in_flight` bytes are still
    /// under way.
    ///
    /// Without an [`on_ack`](Self::on_ack) since the last end it does nothing.
    pub fn on_ack_batch_end(&mut self, now: Instant, in_flight: u64) {
        let batch = std::mem::take(&mut self.batch);
        let Some(trip) = batch.rtt else {
            return;
        };
        let rtt = self.round_trip.update(trip.rtt, trip.receive_delay);
        let rtt_error = trip.error.min(MAX_RTT.saturating_sub(rtt));
        let fresh = |back: &WayBack| now.saturating_duration_since(back.at) <= ONE_WAY_KEPT;
        self.way_back = self.way_back.filter(fresh);
        // A window of which less than half was used says nothing about the path (RFC 9002 §7.8).
        // Half, because pacing and a doubling in slow start leave some of it unused for
        // good reasons.
        let used = in_flight.saturating_add(batch.bytes) as f64;
        let datagram = self.config.datagram_size as f64;
        let may_grow = batch.window_limited && self.engine.window() <= 2.0 * (used + datagram);
        self.idle_window = !may_grow;
        match &mut self.engine {
            Engine::Adaptive(adaptive) => {
                let batch = adaptive::Batch {
                    bytes: batch.bytes,
                    rtt,
                    rtt_error,
                    one_way: batch.one_way_delay,
                    smoothed: self.round_trip.smoothed().unwrap_or(rtt),
                    newest: batch.newest,
                    size: batch.size,
                    may_grow,
                };
                adaptive.on_acked(now, &batch);
            }
            Engine::Paper(paper) => {
                paper.on_delays(now, rtt, batch.one_way_delay);
                let acked = Acked {
                    bytes: batch.bytes,
                    packets: batch.packets,
                    queueing: paper.delays().queueing().unwrap_or_default(),
                    may_grow,
                };
                paper.on_acked(self.priority, &acked);
            }
        }
        if let Some(sent) = batch.marked {
            self.on_congestion(now, false, true, sent);
        }
    }

    /// The time of the way there of a packet whose round trip took `rtt`, where the receiver
    /// reports it apart from acknowledgements, and now and then only. As
    /// [`AckSample::one_way_delay`]: by two clocks. Priority 0 takes what waits on the way back
    /// off its round trips by it; a controller with the paper's algorithm wants it in each sample,
    /// or not at all, and ignores it here.
    pub fn on_one_way_delay(&mut self, now: Instant, rtt: Duration, one_way: Duration) {
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            let back = adaptive.on_one_way_delay(now, rtt, one_way);
            self.way_back = Some(WayBack {
                at: now,
                waits: back,
            });
        }
    }

    /// A packet was deemed lost. Call it for each, before [`on_congestion`](Self::on_congestion)
    /// for all of them: above priority 0 the default algorithm answers here, by cutting the
    /// window of that virtual flow whose packet it was, once in a round trip. Priority 0 and the
    /// paper's algorithm count it only.
    pub fn on_loss(&mut self, _now: Instant, sample: &LossSample) {
        self.totals.lost = self.totals.lost.saturating_add(sample.bytes);
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            adaptive.on_lost(sample.packet);
        }
    }

    /// A packet that was deemed lost has arrived: the path has only reordered it. Call it before
    /// [`on_ack`](Self::on_ack) for the packet, if that is called. Once all that a cut answered
    /// have arrived, the default algorithm takes the cut back.
    pub fn on_spurious_loss(&mut self, now: Instant, sample: &LossSample) {
        self.totals.lost = self.totals.lost.saturating_sub(sample.bytes);
        if let Engine::Adaptive(adaptive) = &mut self.engine
            && adaptive.on_spurious_loss(now, sample.packet)
        {
            self.recovering_since = self.recovered_before;
        }
    }

    /// The path reorders packets: some arrive by so much later than newer ones
    /// ([`LossDetection::lateness`](crate::LossDetection::lateness)). That is not taken for a queue.
    pub fn on_reordering(&mut self, lateness: Duration) {
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            adaptive.on_reordering(lateness.min(MAX_RTT));
        }
    }

    /// A batch of packets was deemed lost (or, with `ecn`, marked), the newest of which was sent at
    /// `sent`.
    ///
    /// Priority 0 and the paper's algorithm answer here: the window is cut at most once for all
    /// packets sent before the cut, that is once in a round trip. Above priority 0 the default
    /// algorithm answers losses in [`on_loss`](Self::on_loss), and here a mark, by cutting one of
    /// the virtual flows, each at most once in a round trip: tell it of each acknowledgement
    /// with marks. With `persistent` nothing came through for several retransmission timeouts:
    /// the smallest window is left. Slow start follows, but at priority 0, which is back at what it
    /// had as after others have gone.
    pub fn on_congestion(&mut self, now: Instant, persistent: bool, ecn: bool, sent: Instant) {
        let by_flow = matches!(&self.engine, Engine::Adaptive(at) if !at.is_scavenger());
        let answered = self.recovering_since.is_some_and(|since| sent <= since);
        if answered && !persistent && !by_flow {
            return;
        }
        self.recovered_before = self.recovering_since;
        self.recovering_since = self.recovering_since.max(Some(now));
        match &mut self.engine {
            Engine::Adaptive(adaptive) => adaptive.on_congestion(persistent, ecn, self.newest),
            Engine::Paper(paper) => paper.on_congestion(self.priority, persistent),
        }
    }

    /// The path now carries datagrams of `bytes` bytes; 300 ..= 65 535, other values count as the
    /// nearest of these.
    pub fn on_datagram_size(&mut self, bytes: u64) {
        let bytes = bytes.clamp(MIN_DATAGRAM, MAX_DATAGRAM);
        self.config.datagram_size = bytes;
        match &mut self.engine {
            Engine::Adaptive(adaptive) => adaptive.on_datagram_size(bytes),
            Engine::Paper(paper) => paper.on_datagram_size(bytes),
        }
    }

    /// Changes the priority, at once and as often as one likes.
    ///
    /// With the default algorithm the window may change with it:
    /// - From N to 0 the window is a quarter, at least two datagrams, for two round trips, so that
    ///   what is ours leaves the queue. Then it is what fills the path by the round trip seen
    ///   meanwhile. In the first slow start the window stays, and slow start goes on.
    /// - To a lower N it loses the flows that are given up, with their windows.
    /// - From 0 to N it begins a bounded probe towards N flows' share, after the first slow start.
    ///
    /// With the paper's algorithm the window stays as it is, and the next acknowledgement or loss
    /// moves it by the new rule.
    ///
    /// Read [`window`](Self::window) and [`pacing_rate`](Self::pacing_rate) again after the change,
    /// and arm the pacer's timer again: a flow at the floor of priority 0 may be waiting for two
    /// seconds until its next packet is due.
    pub fn set_priority(&mut self, now: Instant, priority: Priority) {
        self.priority = priority;
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            let before = adaptive.is_scavenger();
            adaptive.set_priority(now, priority);
            if !before && adaptive.is_scavenger() && !adaptive.in_slow_start() {
                // What N flows have overrun is answered by the drain.
                self.recovering_since = self.recovering_since.max(Some(now));
            }
        }
    }

    /// Bytes that may be in flight. At least 1; may be below one datagram, then the
    /// [pacing rate](Self::pacing_rate) alone says when the next datagram may leave.
    #[must_use]
    pub fn window(&self) -> u64 {
        (self.engine.window() as u64).max(1)
    }

    /// Bytes per second at which to send, at least 1; `None` until an RTT is known.
    #[must_use]
    pub fn pacing_rate(&self) -> Option<u64> {
        let rtt = self.round_trip.smoothed()?.as_secs_f64();
        let gain = match &self.engine {
            engine if engine.in_slow_start() => self.config.slow_start_pacing_gain,
            Engine::Adaptive(adaptive) => adaptive.pacing_gain(self.config.pacing_gain),
            _ => self.config.pacing_gain,
        };
        // The RTT is at least MIN_RTT: the quotient is finite.
        Some(((self.engine.window() * gain / rtt) as u64).max(1))
    }

    /// Bytes that may leave at once after a pause, faster than [`pacing_rate`](Self::pacing_rate);
    /// `None`: whatever the window allows.
    ///
    /// A scavenger sees what it sends at once as a queue. Where acknowledgements come in bunches,
    /// it would yield to itself. Flows that lost packets in a queue of a few datagrams would lose
    /// more in it.
    #[must_use]
    pub fn burst(&self) -> Option<u64> {
        match &self.engine {
            Engine::Adaptive(adaptive) if adaptive.leaves_evenly() => {
                Some(burst(self.pacing_rate()?, self.config.datagram_size))
            }
            Engine::Adaptive(_) | Engine::Paper(_) => None,
        }
    }

    /// Whether its window is that of N flows which have found their share, and may be exchanged
    /// with others'.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.engine {
            Engine::Adaptive(adaptive) => adaptive.is_settled(),
            Engine::Paper(_) => false,
        }
    }

    /// Makes such a window larger or smaller.
    pub(crate) fn scale(&mut self, factor: f64) {
        if let Engine::Adaptive(adaptive) = &mut self.engine {
            adaptive.scale(factor);
        }
    }

    /// Zero until the first acknowledgement.
    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.round_trip.smoothed().unwrap_or_default()
    }

    /// The priority in force.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The constants in force, every one inside its range.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The state of the controller, to be shown to a person or written to a log.
    #[must_use]
    pub fn report(&self) -> Report {
        let way_back = self.way_back.map(|back| back.waits);
        let (base, queueing, limit) = match &self.engine {
            Engine::Adaptive(adaptive) => (
                adaptive.base_delay(),
                adaptive.queueing_delay(),
                adaptive.limited_by(),
            ),
            Engine::Paper(paper) => {
                let delays = paper.delays();
                (delays.base(), delays.queueing(), paper.limited_by())
            }
        };
        Report {
            priority: self.priority,
            mode: Mode::from(self.priority),
            window: self.window(),
            ssthresh: self.engine.ssthresh(),
            srtt: self.round_trip.smoothed(),
            base_delay: base,
            queueing_delay: queueing
                .map(|queueing| queueing.saturating_sub(way_back.unwrap_or_default())),
            way_back_delay: way_back,
            pacing_rate: self.pacing_rate(),
            limited_by: if self.idle_window {
                LimitedBy::Application
            } else {
                limit
            },
            sent_bytes: self.totals.sent,
            acked_bytes: self.totals.acked,
            lost_bytes: self.totals.lost,
        }
    }
}

/// What a scavenger that sends at `rate` may send at once.
pub(crate) fn burst(rate: u64, datagram: u64) -> u64 {
    let due = rate as f64 * PAUSE_TIME.as_secs_f64();
    (due as u64).max(PAUSE_DATAGRAMS * datagram)
}
