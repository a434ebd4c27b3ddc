//! What a controller is configured with: the algorithm and its constants.

use std::time::Duration;

use crate::limits::{
    MAX_BASE_HISTORY, MAX_DATAGRAM, MAX_GAIN, MAX_NOISE_FILTER, MAX_TARGET, MAX_WINDOW,
    MIN_DATAGRAM, MIN_PACING_GAIN, MIN_TARGET,
};

/// Which rules turn acknowledgements and losses into a window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Ours: an adaptive delay target at priority 0, N virtual CUBIC flows above it.
    #[default]
    Adaptive,
    /// The paper's: LEDBAT with slow start and multiplicative decrease at priority 0, MulTCP2 above
    /// it.
    Paper,
}

/// The constants of a [`Controller`](crate::Controller).
///
/// A value outside its range is moved to the nearest end of it when the controller is made; NaN
/// becomes the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The rules to follow.
    pub algorithm: Algorithm,
    /// Payload of a full datagram in bytes, 300 ..= 65 535. Default 1 200, QUIC's first datagram
    /// size.
    pub datagram_size: u64,
    /// First window in bytes, from one datagram to 4 GiB. Default 12 000: ten datagrams, RFC 9002
    /// §7.2.
    pub initial_window: u64,
    /// Pacing rate ÷ (window ÷ smoothed RTT) after slow start, 1 ..= 4. Default 1.25, RFC 9002
    /// §7.7.
    pub pacing_gain: f64,
    /// The same in slow start, 1 ..= 4. Default 2: the window doubles in a round trip.
    pub slow_start_pacing_gain: f64,
    /// What the paper's algorithm has besides; the default one makes no use of it.
    pub ledbat: Ledbat,
}

/// The constants of the paper's LEDBAT, that is of priority 0 with [`Algorithm::Paper`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ledbat {
    /// TARGET and τ: the queueing delay that priority 0 aims at, 1 ms ..= 1 s. Default 100 ms, the
    /// paper §4.1.
    pub target: Duration,
    /// γ · TARGET: datagrams by which priority 0 grows in a round trip at an empty queue, 0 ..= 4.
    /// Default 1 (γ = 1/TARGET, as fast as TCP), the paper §4.1.
    pub gain: f64,
    /// β: what an acknowledged datagram leaves of the window when the queueing delay is above the
    /// target, 0 ..= 1. Default 0.99, the paper §4.1.
    pub decrease: f64,
    /// BASE_HISTORY: minutes for which the smallest delay is remembered, 1 ..= 60. Default 13, the
    /// paper §4.1.
    pub base_history: usize,
    /// NOISE_FILTER: last delays of which the smallest counts, 1 ..= 16. Default 3, the paper
    /// §4.1.
    pub noise_filter: usize,
    /// Whether slow start at priority 0 ends only at a loss. By default (`false`) it also ends
    /// when the queueing delay passes the target: the paper's equation 5 has no exception for
    /// slow start. Without that, a flow that is to stay out of the way fills a deep buffer to
    /// its brim.
    pub slow_start_until_loss: bool,
}

impl Default for Ledbat {
    fn default() -> Ledbat {
        Ledbat {
            target: Duration::from_millis(100),
            gain: 1.0,
            decrease: 0.99,
            base_history: 13,
            noise_filter: 3,
            slow_start_until_loss: false,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            algorithm: Algorithm::default(),
            datagram_size: 1200,
            initial_window: 12_000,
            pacing_gain: 1.25,
            slow_start_pacing_gain: 2.0,
            ledbat: Ledbat::default(),
        }
    }
}

impl Config {
    /// The same with every value inside its range.
    pub(crate) fn clamped(self) -> Config {
        let ours = Config::default();
        let datagram_size = self.datagram_size.clamp(MIN_DATAGRAM, MAX_DATAGRAM);
        Config {
            datagram_size,
            initial_window: self.initial_window.clamp(datagram_size, MAX_WINDOW),
            pacing_gain: within(
                self.pacing_gain,
                MIN_PACING_GAIN,
                MAX_GAIN,
                ours.pacing_gain,
            ),
            slow_start_pacing_gain: within(
                self.slow_start_pacing_gain,
                MIN_PACING_GAIN,
                MAX_GAIN,
                ours.slow_start_pacing_gain,
            ),
            ledbat: self.ledbat.clamped(),
            ..self
        }
    }
}

impl Ledbat {
    fn clamped(self) -> Ledbat {
        let ours = Ledbat::default();
        Ledbat {
            target: self.target.clamp(MIN_TARGET, MAX_TARGET),
            gain: within(self.gain, 0.0, MAX_GAIN, ours.gain),
            decrease: within(self.decrease, 0.0, 1.0, ours.decrease),
            base_history: self.base_history.clamp(1, MAX_BASE_HISTORY),
            noise_filter: self.noise_filter.clamp(1, MAX_NOISE_FILTER),
            ..self
        }
    }
}

fn within(value: f64, low: f64, high: f64, when_nan: f64) -> f64 {
    if value.is_nan() {
        when_nan
    } else {
        value.clamp(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_inside_every_range() {
        assert_eq!(Config::default().clamped(), Config::default());
    }

    #[test]
    fn absurd_values_move_to_the_nearest_end() {
        let config = Config {
            datagram_size: 0,
            initial_window: 0,
            pacing_gain: 0.0,
            slow_start_pacing_gain: f64::NEG_INFINITY,
            ledbat: Ledbat {
                target: Duration::ZERO,
                gain: f64::NAN,
                decrease: f64::INFINITY,
                base_history: usize::MAX,
                noise_filter: 0,
                ..Ledbat::default()
            },
            ..Config::default()
        }
        .clamped();
        assert_eq!(config.datagram_size, MIN_DATAGRAM);
        assert_eq!(config.initial_window, MIN_DATAGRAM);
        assert_eq!(config.ledbat.target, MIN_TARGET);
        assert_eq!(config.ledbat.gain, 1.0);
        assert_eq!(config.ledbat.decrease, 1.0);
        assert_eq!(config.ledbat.base_history, MAX_BASE_HISTORY);
        assert_eq!(config.ledbat.noise_filter, 1);
        assert_eq!(config.pacing_gain, 1.0);
        assert_eq!(config.slow_start_pacing_gain, 1.0);
    }
}
