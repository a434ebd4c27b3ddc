//! The two ends of a flow: what is in flight, what is lost, what is acknowledged.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Acked, Acknowledging, Clock, Control, PACKET, Series};

/// Packets after which a missing one is lost. Source: RFC 9002 §6.1.1.
const REORDERING: u64 = 3;
/// Least time before a retransmission. Source: Linux' TCP_RTO_MIN.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// Packets that leave within so long leave together: what a host's timers can tell apart.
const TOGETHER: Duration = Duration::from_millis(1);

#[derive(Copy, Clone, Debug)]
struct Sent {
    at: Duration,
    delivered: (u64, Duration),
    /// False once it is acknowledged or lost.
    in_flight: bool,
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
            in_flight: true,
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

    fn take(&mut self, packet: u64) -> Option<Sent> {
        let position = usize::try_from(packet.checked_sub(self.first)?).ok()?;
        let sent = self.window.get_mut(position)?;
        if !std::mem::replace(&mut sent.in_flight, false) {
            return None;
        }
        self.in_flight -= PACKET;
        Some(*sent)
    }

    fn forget_old(&mut self) {
        while self.window.front().is_some_and(|sent| !sent.in_flight) {
            self.window.pop_front();
            self.first += 1;
        }
    }

    pub(super) fn take_acknowledgement(&mut self, now: Duration) {
        let Some((packets, held)) = self.receiver.under_way.pop_front() else {
            return;
        };
        let mut acked = Vec::with_capacity(packets.len());
        let clock = self.receiver.clock;
        for (packet, arrived) in packets {
            if let Some(sent) = self.take(packet) {
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
        if let Some(newest) = acked.last() {
            self.acked_at = now;
            let rtt = now - newest.sent;
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
        self.forget_old();
        self.detect_losses(now);
    }

    fn detect_losses(&mut self, now: Duration) {
        let Some(largest) = self.largest_acked else {
            return;
        };
        let mut lost = Vec::new();
        let mut packet = self.first;
        while packet + REORDERING <= largest {
            if let Some(sent) = self.take(packet) {
                lost.push((packet, sent.at));
            }
            packet += 1;
        }
        self.report(now, &lost, false);
    }

    fn report(&mut self, now: Duration, lost: &[(u64, Duration)], timeout: bool) {
        self.forget_old();
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

    /// When to look at the timer next, if it has to be set.
    pub(super) fn next_timeout(&mut self) -> Option<Duration> {
        if self.timer.is_some() || self.in_flight == 0 {
            return None;
        }
        let when = self.heard + self.timeout();
        self.timer = Some(when);
        Some(when)
    }

    /// True if something is to be sent because of it.
    pub(super) fn timed_out(&mut self, now: Duration) -> bool {
        self.timer = None;
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
            .filter_map(|packet| self.take(packet).map(|sent| (packet, sent.at)))
            .collect();
        self.report(now, &lost, true);
        true
    }
}
