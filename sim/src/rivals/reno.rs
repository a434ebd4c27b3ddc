//! TCP NewReno with selective acknowledgements. Source: RFC 5681, RFC 6675.

use std::time::Duration;

use super::{INITIAL, is_used};
use crate::bottleneck::{Acked, Control, PACKET};

/// One Reno flow.
#[derive(Clone, Debug)]
pub struct Reno {
    window: f64,
    threshold: f64,
    next: u64,
    /// Losses of packets before this one belong to a cut that was made.
    recovered_at: u64,
}

impl Default for Reno {
    fn default() -> Reno {
        Reno {
            window: INITIAL,
            threshold: f64::INFINITY,
            next: 0,
            recovered_at: 0,
        }
    }
}

impl Control for Reno {
    fn window(&self) -> u64 {
        (self.window * PACKET as f64) as u64
    }

    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn on_sent(&mut self, _now: Duration, packet: u64) {
        self.next = packet + 1;
    }

    fn on_acked(&mut self, _now: Duration, acked: &[Acked], _delivered: u64, in_flight: u64) {
        let recovering = acked.iter().any(|ack| ack.packet < self.recovered_at);
        if recovering || !is_used(self.window, in_flight) {
            return;
        }
        for _ in acked {
            self.window += if self.window < self.threshold {
                1.0
            } else {
                1.0 / self.window
            };
        }
    }

    fn on_lost(&mut self, _now: Duration, lost: &[(u64, Duration)], timeout: bool) {
        let newest = lost.iter().map(|(packet, _)| *packet).max().unwrap_or(0);
        if newest < self.recovered_at && !timeout {
            return;
        }
        self.recovered_at = self.next;
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = if timeout { 1.0 } else { self.threshold };
    }
}
