//! TCP CUBIC. Source: RFC 9438, with Linux' HyStart, fast convergence and whole packets.

use std::time::Duration;

use super::{HyStart, INITIAL, Undo, is_used};
use crate::bottleneck::{Acked, Control, PACKET};

const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// One CUBIC flow.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    most: f64,
    /// When the present epoch began, its K in seconds, and the window of Reno beside it.
    epoch: Option<(Duration, f64, f64)>,
    srtt: Option<Duration>,
    shortest: Option<Duration>,
    hystart: HyStart,
    next: u64,
    recovered_at: u64,
    undo: Undo,
}

impl Default for Cubic {
    fn default() -> Cubic {
        Cubic {
            window: INITIAL,
            threshold: f64::INFINITY,
            most: 0.0,
            epoch: None,
            srtt: None,
            shortest: None,
            hystart: HyStart::default(),
            next: 0,
            recovered_at: 0,
            undo: Undo::default(),
        }
    }
}

impl Cubic {
    fn grow(&mut self, now: Duration) {
        let window = self.window;
        let (begin, k, reno) = *self.epoch.get_or_insert_with(|| {
            let missing = (self.most - window).max(0.0);
            (now, (missing / C).cbrt(), window)
        });
        let origin = self.most.max(if k > 0.0 { self.most } else { window });
        let rtt = self.shortest.unwrap_or_default().as_secs_f64();
        let time = (now - begin).as_secs_f64() + rtt;
        let target = origin + C * (time - k).powi(3);
        let step = if target > window {
            // RFC 9438 §4.4: at most half as much again in a round trip.
            (target.min(1.5 * window) - window) / window
        } else {
            0.01 / window
        };
        // RFC 9438 §4.3, but as Linux has it, which keeps to this above the former window, too.
        let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let reno = reno + alpha / window;
        self.epoch = Some((begin, k, reno));
        self.window = (window + step).max(if reno > window + step { reno } else { 0.0 });
    }
}

impl Control for Cubic {
    fn window(&self) -> u64 {
        (self.window * PACKET as f64) as u64
    }

    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn on_sent(&mut self, _now: Duration, packet: u64) {
        self.next = packet + 1;
    }

    fn on_acked(&mut self, now: Duration, acked: &[Acked], _delivered: u64, in_flight: u64) {
        let Some(newest) = acked.last() else {
            return;
        };
        let rtt = now - newest.sent;
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if newest.packet < self.recovered_at || !is_used(self.window, in_flight) {
            return;
        }
        for ack in acked {
            if self.window < self.threshold {
                self.window += 1.0;
                let left = self.hystart.leaves(rtt, ack.packet, self.next);
                if left && self.window >= 16.0 {
                    self.threshold = self.window;
                }
            } else {
                self.grow(now);
            }
        }
    }

    fn on_lost(&mut self, _now: Duration, lost: &[(u64, Duration)], timeout: bool) {
        let newest = lost.iter().map(|(packet, _)| *packet).max().unwrap_or(0);
        self.undo.lost(lost.len());
        if newest < self.recovered_at && !timeout {
            return;
        }
        self.undo = Undo::of(self.window, self.threshold, lost.len());
        self.recovered_at = self.next;
        self.epoch = None;
        self.most = if self.window < self.most {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.threshold = (self.window * BETA).floor().max(2.0);
        self.window = if timeout { 1.0 } else { self.threshold };
    }

    fn on_returned(&mut self, _now: Duration, packets: &[(u64, Duration)]) {
        if self.undo.returned(packets.len()) {
            self.window = self.window.max(self.undo.window);
            self.threshold = self.undo.threshold;
            self.recovered_at = 0;
        }
    }
}
