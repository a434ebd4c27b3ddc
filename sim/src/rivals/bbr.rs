//! TCP BBR, version 1. Source: Cardwell and others, *BBR: congestion-based congestion control*, and
//! Linux' tcp_bbr.c.

use std::collections::VecDeque;
use std::time::Duration;

use super::INITIAL;
use crate::bottleneck::{Acked, Control, PACKET};

const STARTUP: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBE_FOR: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Drain,
    Bandwidth { step: usize, since: Duration },
    RoundTrip { until: Option<Duration> },
}

/// One BBR flow.
#[derive(Clone, Debug)]
pub struct Bbr {
    phase: Phase,
    /// Largest rate of each of the last rounds, bytes per second.
    rates: VecDeque<(u64, f64)>,
    round: u64,
    round_end: u64,
    shortest: Option<(Duration, Duration)>,
    full: (f64, u32),
    next: u64,
    in_flight: u64,
}

impl Default for Bbr {
    fn default() -> Bbr {
        Bbr {
            phase: Phase::Startup,
            rates: VecDeque::new(),
            round: 0,
            round_end: 0,
            shortest: None,
            full: (0.0, 0),
            next: 0,
            in_flight: 0,
        }
    }
}

impl Bbr {
    fn rate(&self) -> Option<f64> {
        self.rates.iter().map(|(_, rate)| *rate).reduce(f64::max)
    }

    /// Bandwidth-delay product in bytes.
    fn product(&self) -> Option<f64> {
        let (shortest, _) = self.shortest?;
        Some(self.rate()? * shortest.as_secs_f64())
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => STARTUP,
            Phase::Drain => 1.0 / STARTUP,
            Phase::Bandwidth { step, .. } => CYCLE[step % CYCLE.len()],
            Phase::RoundTrip { .. } => 1.0,
        }
    }

    fn next_round(&mut self) {
        self.round += 1;
        self.round_end = self.next;
        while self
            .rates
            .front()
            .is_some_and(|(round, _)| round + 10 < self.round)
        {
            self.rates.pop_front();
        }
        if self.phase == Phase::Startup {
            let rate = self.rate().unwrap_or(0.0);
            if rate >= self.full.0 * 1.25 {
                self.full = (rate, 0);
            } else {
                self.full.1 += 1;
            }
            if self.full.1 >= 3 {
                self.phase = Phase::Drain;
            }
        }
    }

    fn step(&mut self, now: Duration, expired: bool) {
        let product = self.product().unwrap_or(f64::INFINITY);
        let shortest = self.shortest.map_or(Duration::ZERO, |(rtt, _)| rtt);
        let in_flight = self.in_flight as f64;
        match self.phase {
            Phase::Drain if in_flight <= product => {
                let step = usize::try_from(now.as_nanos() % 7).unwrap_or(0) + 1;
                self.phase = Phase::Bandwidth {
                    step: if step == 1 { 0 } else { step },
                    since: now,
                };
            }
            Phase::Bandwidth { step, since } => {
                let long = now > since + shortest;
                let filled = step % 8 != 0 || in_flight >= 1.25 * product;
                let drained = step % 8 == 1 && in_flight <= product;
                if (long && filled) || drained {
                    self.phase = Phase::Bandwidth {
                        step: step + 1,
                        since: now,
                    };
                }
            }
            Phase::RoundTrip { until: None } if in_flight <= 4.0 * PACKET as f64 => {
                let until = Some(now + PROBE_FOR.max(shortest));
                self.phase = Phase::RoundTrip { until };
            }
            Phase::RoundTrip { until: Some(until) } if now >= until => {
                self.shortest = self.shortest.map(|(rtt, _)| (rtt, now));
                self.phase = Phase::Bandwidth {
                    step: 2,
                    since: now,
                };
            }
            _ => {}
        }
        if expired && !matches!(self.phase, Phase::RoundTrip { .. } | Phase::Startup) {
            self.phase = Phase::RoundTrip { until: None };
        }
    }
}

impl Control for Bbr {
    fn window(&self) -> u64 {
        let packet = PACKET as f64;
        let Some(product) = self.product() else {
            return (INITIAL * packet) as u64;
        };
        let gain = match self.phase {
            Phase::RoundTrip { .. } => return 4 * PACKET,
            Phase::Startup | Phase::Drain => STARTUP,
            Phase::Bandwidth { .. } => 2.0,
        };
        (gain * product).max(4.0 * packet) as u64
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some((self.rate()? * self.gain() * 0.99) as u64)
    }

    fn on_sent(&mut self, _now: Duration, packet: u64) {
        self.next = packet + 1;
    }

    fn on_acked(&mut self, now: Duration, acked: &[Acked], delivered: u64, in_flight: u64) {
        self.in_flight = in_flight;
        let mut expired = false;
        for ack in acked {
            let rtt = now - ack.sent;
            expired |= self.shortest.is_some_and(|(_, at)| now > at + PROBE_EVERY);
            if self.shortest.is_none_or(|(known, _)| rtt <= known) || expired {
                self.shortest = Some((rtt, now));
            }
            let span = now.saturating_sub(ack.delivered.1).max(now - ack.sent);
            let rate = (delivered - ack.delivered.0) as f64 / span.as_secs_f64().max(1e-6);
            match self.rates.back_mut() {
                Some((round, known)) if *round == self.round => *known = known.max(rate),
                _ => self.rates.push_back((self.round, rate)),
            }
            if ack.packet >= self.round_end {
                self.next_round();
            }
        }
        self.step(now, expired);
    }

    fn on_lost(&mut self, _now: Duration, _lost: &[(u64, Duration)], _timeout: bool) {}
}
