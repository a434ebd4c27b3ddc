//! The paper's algorithm: [`ledbat`] at priority 0, [`multcp`] above it, one window for both.
//!
//! A change of priority keeps the window, the threshold and the phase (slow start or not). From the
//! next acknowledgement or loss on the other rule moves them: the paper's Figure 6 and its
//! "avoiding … transfer rate fluctuations" (§6).

mod ledbat;
mod multcp;

use std::time::{Duration, Instant};

use crate::config::{Config, Ledbat};
use crate::delay::DelayHistory;
use crate::priority::Priority;
use crate::report::LimitedBy;
use crate::window::Window;

/// A batch of acknowledgements, as the algorithm needs it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Acked {
    /// Bytes acknowledged.
    pub(crate) bytes: u64,
    /// Packets acknowledged; at least one.
    pub(crate) packets: u64,
    /// Filtered queueing delay.
    pub(crate) queueing: Duration,
    /// Whether the window was used, so that growing it means something.
    pub(crate) may_grow: bool,
}

/// The state of the paper's algorithm.
#[derive(Clone, Debug)]
pub(crate) struct Paper {
    window: Window,
    ledbat: Ledbat,
    /// Of RTT samples and of one-way samples: apart, because their bases differ.
    rtt_delays: DelayHistory,
    one_way_delays: DelayHistory,
    one_way_in_use: bool,
    last_cut: Option<LimitedBy>,
}

impl Paper {
    pub(crate) fn new(now: Instant, config: &Config) -> Paper {
        let ledbat = config.ledbat.clone();
        let delays = DelayHistory::new(now, ledbat.base_history, ledbat.noise_filter);
        Paper {
            window: Window::new(config.initial_window, config.datagram_size),
            ledbat,
            rtt_delays: delays.clone(),
            one_way_delays: delays,
            one_way_in_use: false,
            last_cut: None,
        }
    }

    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    pub(crate) fn on_datagram_size(&mut self, bytes: u64) {
        self.window.set_datagram(bytes);
    }

    /// Takes the delays of a batch of acknowledgements, before [`on_acked`](Self::on_acked).
    pub(crate) fn on_delays(&mut self, now: Instant, rtt: Duration, one_way: Option<Duration>) {
        self.rtt_delays.update(now, rtt);
        self.one_way_in_use = one_way.is_some();
        if let Some(delay) = one_way {
            self.one_way_delays.update(now, delay);
        }
    }

    /// The history of the kind of delay that the last batch brought.
    pub(crate) fn delays(&self) -> &DelayHistory {
        if self.one_way_in_use {
            &self.one_way_delays
        } else {
            &self.rtt_delays
        }
    }

    pub(crate) fn on_acked(&mut self, priority: Priority, acked: &Acked) {
        if !priority.is_scavenger() {
            multcp::on_acked(&mut self.window, priority, acked);
        } else if ledbat::on_acked(&mut self.window, &self.ledbat, acked) {
            self.last_cut = Some(LimitedBy::Yielding);
        }
    }

    /// Losses or marks, at most once in a round trip; `persistent` when nothing came through for
    /// long.
    pub(crate) fn on_congestion(&mut self, priority: Priority, persistent: bool) {
        self.last_cut = Some(LimitedBy::Loss);
        let share = if priority.is_scavenger() {
            ledbat::SHARE_AFTER_LOSS
        } else {
            1.0 - multcp::decrease(priority.get())
        };
        if persistent {
            self.window.collapse(share);
        } else {
            self.window.cut_by_loss(share);
        }
    }

    /// Why the window is not larger.
    pub(crate) fn limited_by(&self) -> LimitedBy {
        if self.window.slow_start_from().is_some() {
            LimitedBy::SlowStart
        } else {
            self.last_cut.unwrap_or(LimitedBy::Growth)
        }
    }
}
