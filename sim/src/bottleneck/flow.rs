//! The two ends of a flow: what is in flight, what is lost, what is acknowledged.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Acked, Acknowledging, Clock, Control, Detection, PACKET, Series};

/// Packets after which a missing one is lost. Source: RFC 9002 §6.1.1.
const REORDERING: u64 = 3;
/// Part of the shortest round trip by which RACK waits longer for each loss that was none, once a
/// path reorders. Source: RFC 8985 §6.2, Linux' tcp_rack_reo_wnd.
const RACK_STEP: u32 = 4;
/// Round trips without an acknowledgement after which QUIC gives a packet up. Source: the driver's
/// `QUIC_GIVEN_UP`.
const GIVEN_UP: f32 = 1.5;
/// Least time before a retransmission. Source: Linux' TCP_RTO_MIN.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// Packets that leave within so long leave together: what a host's timers can tell apart.
const TOGETHER: Duration = Duration::from_millis(1);

#[derive(Copy, Clone, Debug)]
struct Sent {
    at: Duration,
    delivered: (u64, Duration),
    state: State,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    UnderWay,
    Lost,
    Acked,
}

/// What a TCP knows of how far the path reorders.
#[derive(Copy, Clone, Debug, Default)]
struct Rack {
    /// Whether it does, at all.
    seen: bool,
    /// By how many steps losses that were none have widened it, and the packet from which on the
    /// next one does.
    steps: u32,
    stepped_at: u64,
    /// The round trip of the newest packet that came, and the shortest of all.
    rtt: Duration,
    shortest: Option<Duration>,
}

/// What a flow does next.
pub(super) enum Next {
    Packet(u64),
    At(Duration),
    Nothing,
}

/// The receiver's side.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) acknowledging: Acknowledging,
    /// The packet that comes next, if all come in order.
    pub(super) next: u64,
    /// What is to be acknowledged, and when it came.
    pub(super) pending: Vec<(u64, Duration)>,
    /// The timer of the next acknowledgement.
    pub(super) due: Option<u64>,
    /// Acknowledgements, and for how long each was held back.
    pub(super) under_way: VecDeque<(Vec<(u64, Duration)>, Duration)>,
    pub(super) last_ack: Duration,
    /// Packets under way that are the last of several that left together, in order.
    pub(super) pushed: VecDeque<u64>,
    /// The receiver's clock, if it says when packets come.
    pub(super) clock: Option<Clock>,
}

impl Receiver {
    /// Whether the packet that comes now is to be acknowledged at once.
    pub(super) fn is_pushed(&mut self, packet: u64) -> bool {
        while self.pushed.front().is_some_and(|pushed| *pushed < packet) {
            self.pushed.pop_front();
        }
        self.acknowledging.pushed && self.pushed.front() == Some(&packet)
    }
}

/// The application's side: a flow that has not always something to send.
#[derive(Debug)]
pub(super) struct Supply {
    pub(super) rate: f64,
    pub(super) next: Duration,
}

pub(super) struct Flow {
    pub(super) control: Box<dyn Control>,
    pub(super) active: bool,
    /// Whether it flows the other way.
    pub(super) backwards: bool,
    /// How much longer its round trip is than the path's.
    pub(super) detour: Duration,
    pub(super) supply: Option<Supply>,
    pub(super) receiver: Receiver,
    pub(super) delivered: Series,
    pub(super) last_arrival: Duration,
    /// When the pacer looks next.
    pub(super) wake: Option<Duration>,
    /// Last acknowledgement, or the first packet after silence.
    pub(super) heard: Duration,
    pub(super) sent: u64,
    /// Packets of the last millisecond, by when they left, and the most that left in one.
    together: VecDeque<Duration>,
    pub(super) most_together: usize,
    pub(super) lost: u64,
    /// Of them, by the bottleneck's queue.
    pub(super) dropped: Series,
    /// From the oldest packet in flight on.
    window: VecDeque<Sent>,
    first: u64,
    in_flight: u64,
    largest_acked: Option<u64>,
    rack: Rack,
    /// None before this one is under way.
    undecided: u64,
    acked_bytes: u64,
    acked_at: Duration,
    /// The pacer: bytes that may leave, and since when.
    credit: (f64, Duration),
    srtt: Option<(Duration, Duration)>,
    timeouts: u32,
    timer: Option<Duration>,
    /// A packet beyond the window, to find out what has become of the others.
    probe: bool,
}

impl Flow {
    pub(super) fn new(control: Box<dyn Control>, acknowledging: Acknowledging) -> Flow {
        Flow {
            control,
            active: false,
            receiver: Receiver {
                acknowledging,
                next: 0,
                pending: Vec::new(),
                due: None,
                under_way: VecDeque::new(),
                last_ack: Duration::ZERO,
                pushed: VecDeque::new(),
                clock: None,
            },
            backwards: false,
            detour: Duration::ZERO,
            supply: None,
            delivered: Series::default(),
            last_arrival: Duration::ZERO,
            wake: None,
            heard: Duration::ZERO,
            sent: 0,
            together: VecDeque::new(),
            most_together: 0,
            lost: 0,
            dropped: Series::default(),
            window: VecDeque::new(),
            first: 0,
            in_flight: 0,
            largest_acked: None,
            rack: Rack::default(),
            undecided: 0,
            acked_bytes: 0,
            acked_at: Duration::ZERO,
            credit: (f64::INFINITY, Duration::ZERO),
            srtt: None,
            timeouts: 0,
            timer: None,
            probe: false,
        }
    }

    fn next_number(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    pub(super) fn next_packet(&mut self, now: Duration) -> Next {
        let room = self.in_flight == 0 || self.in_flight + PACKET <= self.control.window();
        if !self.active || !(room || self.probe) {
            return Next::Nothing;
        }
        if let Some(supply) = &self.supply
            && !self.probe
            && now < supply.next
        {
            return self.wake_at(supply.next);
        }
        let rate = self.control.pacing_rate();
        if let Some(rate) = rate.filter(|_| !self.probe) {
            let burst = self.control.burst() as f64;
            let rate = rate.max(1) as f64;
            let (credit, since) = self.credit;
            let credit = (credit + rate * (now - since).as_secs_f64()).min(burst);
            self.credit = (credit, now);
            if credit < PACKET as f64 {
                let missing = (PACKET as f64 - credit) / rate;
                let wait = Duration::from_secs_f64(missing.clamp(1e-6, 60.0));
                return self.wake_at(now + wait);
            }
            self.credit.0 -= PACKET as f64;
        }
        self.probe = false;
        if let Some(supply) = &mut self.supply {
            // What was not sent when it could have been waits, but no more than a second's worth.
            let since = supply.next.max(now.saturating_sub(Duration::from_secs(1)));
            supply.next = since + Duration::from_secs_f64(PACKET as f64 / supply.rate.max(1.0));
        }
        let packet = self.next_number();
        if self.in_flight == 0 {
            self.heard = now;
            self.acked_at = self.acked_at.max(now);
        }
        self.window.push_back(Sent {
            at: now,
            delivered: (self.acked_bytes, self.acked_at),
            state: State::UnderWay,
        });
        self.in_flight += PACKET;
        self.sent += 1;
        self.leaves(now);
        self.control.on_sent(now, packet);
        Next::Packet(packet)
    }

    fn leaves(&mut self, now: Duration) {
        let within = |left: &&Duration| **left + TOGETHER <= now;
        let before = self.together.iter().take_while(within).count();
        self.together.drain(..before);
        self.together.push_back(now);
        self.most_together = self.most_together.max(self.together.len());
    }

    fn wake_at(&mut self, when: Duration) -> Next {
        if self.wake.is_some_and(|earlier| earlier <= when) {
            return Next::Nothing;
        }
        self.wake = Some(when);
        Next::At(when)
    }

    fn place(&mut self, packet: u64) -> Option<&mut Sent> {
        let position = usize::try_from(packet.checked_sub(self.first)?).ok()?;
        self.window.get_mut(position)
    }

    /// Whether a packet has been sent again, or would have been.
    pub(super) fn is_given_up(&mut self, packet: u64) -> bool {
        let sent = self.place(packet);
        sent.is_some_and(|sent| sent.state == State::Lost)
    }

    fn take(&mut self, packet: u64, state: State) -> Option<Sent> {
        let sent = self.place(packet)?;
        if sent.state != State::UnderWay {
            return None;
        }
        sent.state = state;
        let sent = *sent;
        self.in_flight -= PACKET;
        Some(sent)
    }

    /// What is lost stays known for as long as it may still come.
    fn forget_old(&mut self, now: Duration) {
        let kept = self
            .srtt
            .map_or(Duration::ZERO, |(smoothed, _)| smoothed * 2);
        let is_old = |sent: &&Sent| match sent.state {
            State::UnderWay => false,
            State::Lost => sent.at + kept < now,
            State::Acked => true,
        };
        while self.window.front().filter(is_old).is_some() {
            self.window.pop_front();
            self.first += 1;
        }
    }

    pub(super) fn take_acknowledgement(&mut self, now: Duration) {
        let Some((packets, held)) = self.receiver.under_way.pop_front() else {
            return;
        };
        let (mut acked, mut returned) = (Vec::with_capacity(packets.len()), Vec::new());
        let clock = self.receiver.clock;
        let newest_before = self.largest_acked;
        for (packet, arrived) in packets {
            if newest_before.is_some_and(|newest| packet < newest) {
                self.rack.seen = true;
            }
            if let Some(sent) = self.place(packet)
                && sent.state == State::Lost
            {
                sent.state = State::Acked;
                returned.push((packet, sent.at));
            }
            if let Some(sent) = self.take(packet, State::Acked) {
                self.acked_bytes += PACKET;
                acked.push(Acked {
                    packet,
                    sent: sent.at,
                    delivered: sent.delivered,
                    held,
                    one_way: clock.map(|clock| clock.reads(arrived).saturating_sub(sent.at)),
                });
            }
            self.largest_acked = self.largest_acked.max(Some(packet));
        }
        self.came_back(now, &returned);
        if let Some(newest) = acked.last() {
            self.acked_at = now;
            let rtt = now - newest.sent;
            if self.largest_acked == Some(newest.packet) {
                self.rack.rtt = rtt;
            }
            let shortest = self.rack.shortest.map_or(rtt, |shortest| shortest.min(rtt));
            self.rack.shortest = Some(shortest);
            self.srtt = Some(match self.srtt {
                Some((smoothed, variation)) => (
                    (smoothed * 7 + rtt) / 8,
                    (variation * 3 + rtt.abs_diff(smoothed)) / 4,
                ),
                None => (rtt, rtt / 2),
            });
            self.heard = now;
            self.timeouts = 0;
            let (delivered, in_flight) = (self.acked_bytes, self.in_flight);
            self.control.on_acked(now, &acked, delivered, in_flight);
        }
        self.forget_old(now);
        self.detect_losses(now);
    }

    fn came_back(&mut self, now: Duration, returned: &[(u64, Duration)]) {
        let Some((newest, _)) = returned.last() else {
            return;
        };
        if *newest >= self.rack.stepped_at {
            self.rack.stepped_at = self.next_number();
            self.rack.steps += 1;
        }
        self.control.on_returned(now, returned);
    }

    /// For how long after it left a packet is waited for, if time decides.
    fn patience(&self) -> Option<Duration> {
        let smoothed = self.srtt.map_or(Duration::ZERO, |(smoothed, _)| smoothed);
        // Until then the control's own detection tells a loss at the same moment as a TCP.
        if !self.rack.seen {
            return None;
        }
        Some(match self.control.detection() {
            Detection::Quic => smoothed.max(self.rack.rtt).mul_f32(GIVEN_UP),
            Detection::Tcp => {
                let step = self.rack.shortest.unwrap_or_default() / RACK_STEP;
                self.rack.rtt + (step * (self.rack.steps + 1)).min(smoothed)
            }
        })
    }

    fn detect_losses(&mut self, now: Duration) {
        let Some(largest) = self.largest_acked else {
            return;
        };
        let patience = self.patience();
        let mut lost = Vec::new();
        self.undecided = self.undecided.max(self.first);
        while self.undecided < largest {
            let packet = self.undecided;
            if let Some(sent) = self.place(packet).copied()
                && sent.state == State::UnderWay
            {
                let too_late = match patience {
                    Some(patience) => now >= sent.at + patience,
                    None => packet + REORDERING <= largest,
                };
                if !too_late {
                    break;
                }
                self.take(packet, State::Lost);
                lost.push((packet, sent.at));
            }
            self.undecided = packet + 1;
        }
        self.report(now, &lost, false);
    }

    fn report(&mut self, now: Duration, lost: &[(u64, Duration)], timeout: bool) {
        self.forget_old(now);
        if !lost.is_empty() {
            self.lost += lost.len() as u64;
            self.control.on_lost(now, lost, timeout);
        }
    }

    fn timeout(&self) -> Duration {
        let measured = self
            .srtt
            .map(|(smoothed, variation)| smoothed + variation * 4);
        let base = measured
            .unwrap_or(Duration::from_secs(1))
            .max(LEAST_TIMEOUT);
        base * (1 << self.timeouts.min(6))
    }

    /// When the oldest packet before the newest acknowledged one is given up, if time decides.
    fn gives_up(&mut self) -> Option<Duration> {
        let patience = self.patience()?;
        let waits = self.undecided < self.largest_acked?;
        let oldest = self.place(self.undecided).filter(|_| waits)?;
        (oldest.state == State::UnderWay).then(|| oldest.at + patience)
    }

    /// When to look at the timer next, if it has to be set.
    pub(super) fn next_timeout(&mut self) -> Option<Duration> {
        if self.in_flight == 0 {
            return None;
        }
        let silence = self.timer.is_none().then(|| self.heard + self.timeout());
        let when = [silence, self.gives_up()].into_iter().flatten().min()?;
        if self.timer.is_some_and(|timer| timer <= when) {
            return None;
        }
        self.timer = Some(when);
        Some(when)
    }

    /// True if something is to be sent because of it.
    pub(super) fn timed_out(&mut self, now: Duration) -> bool {
        // A later one may have been set before.
        if self.timer.is_some_and(|timer| timer > now) {
            return false;
        }
        self.timer = None;
        if self.gives_up().is_some_and(|when| when <= now) {
            self.detect_losses(now);
            return true;
        }
        if self.in_flight == 0 || now < self.heard + self.timeout() {
            return false;
        }
        self.timeouts += 1;
        self.heard = now;
        if self.timeouts < 2 {
            // RFC 8985 §7, RFC 9002 §6.2: first a probe.
            self.probe = true;
            return true;
        }
        let lost: Vec<_> = (self.first..self.next_number())
            .filter_map(|packet| self.take(packet, State::Lost).map(|sent| (packet, sent.at)))
            .collect();
        self.report(now, &lost, true);
        true
    }
}
