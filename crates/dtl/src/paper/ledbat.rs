//! LEDBAT with slow start and multiplicative decrease: the paper §4.1, equations 3 and 5.

use crate::config::Ledbat;
use crate::window::Window;

use super::Acked;

/// What a loss leaves of the window. Source: the paper §4.1, "halving the congestion window", as
/// TCP does.
pub(super) const SHARE_AFTER_LOSS: f64 = 0.5;

/// Moves the window by a batch of acknowledgements; whether it gave way to a queue.
///
/// The paper's receiver acknowledges every packet, so β counts once for each packet, however many
/// of them one acknowledgement names.
pub(super) fn on_acked(window: &mut Window, config: &Ledbat, acked: &Acked) -> bool {
    // Δ(t) / τ, at most 1 because a queueing delay is never negative.
    let room = 1.0 - acked.queueing.as_secs_f64() / config.target.as_secs_f64();
    let slow_start = window.slow_start_from().is_some();
    if room < 0.0 && !(slow_start && config.slow_start_until_loss) {
        window.cut(config.decrease.powf(acked.packets as f64));
        return true;
    }
    if acked.may_grow {
        if slow_start {
            window.grow_slow_start(acked.bytes as f64);
        } else {
            window.grow(config.gain * room, acked.bytes);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn acked(bytes: u64, queueing_ms: u64) -> Acked {
        Acked {
            bytes,
            packets: bytes.div_ceil(1000),
            queueing: Duration::from_millis(queueing_ms),
            may_grow: true,
        }
    }

    fn steady(bytes: u64) -> Window {
        let mut window = Window::new(bytes, 1000);
        window.cut(1.0);
        window
    }

    #[test]
    fn growth_falls_linearly_to_nothing_at_the_target() {
        let config = Ledbat::default();
        for (queueing_ms, grown) in [(0, 1000), (50, 500), (100, 0)] {
            let mut window = steady(20_000);
            assert!(!on_acked(&mut window, &config, &acked(20_000, queueing_ms)));
            assert_eq!(window.get(), 20_000 + grown, "{queueing_ms} ms");
        }
    }

    #[test]
    fn each_packet_above_the_target_costs_a_hundredth() {
        let config = Ledbat::default();
        let mut window = steady(100_000);
        assert!(on_acked(&mut window, &config, &acked(1000, 101)));
        assert_eq!(window.get(), 99_000);
        let mut batch = steady(100_000);
        let mut single = steady(100_000);
        on_acked(&mut batch, &config, &acked(10_000, 101));
        for _ in 0..10 {
            on_acked(&mut single, &config, &acked(1000, 101));
        }
        assert!(batch.get().abs_diff(single.get()) <= 1);
    }

    #[test]
    fn slow_start_ends_at_the_target() {
        let mut config = Ledbat::default();
        let mut window = Window::new(10_000, 1000);
        on_acked(&mut window, &config, &acked(10_000, 99));
        assert_eq!(window.get(), 20_000);
        let mut until_loss = window.clone();
        on_acked(&mut window, &config, &acked(1000, 101));
        assert_eq!((window.get(), window.slow_start_from()), (19_800, None));
        config.slow_start_until_loss = true;
        // Growth above the target would be negative by equation 5; in this variant slow start goes
        // on.
        on_acked(&mut until_loss, &config, &acked(1000, 101));
        assert_eq!(until_loss.get(), 21_000);
    }

    #[test]
    fn an_unused_window_does_not_grow_but_yields() {
        let config = Ledbat::default();
        let mut window = steady(10_000);
        let idle = |queueing_ms| Acked {
            may_grow: false,
            ..acked(10_000, queueing_ms)
        };
        on_acked(&mut window, &config, &idle(0));
        assert_eq!(window.get(), 10_000);
        on_acked(&mut window, &config, &idle(150));
        assert!(window.get() < 10_000);
    }
}
