//! MulTCP2 with smooth slow start: the paper §4.2, equations 6 to 8.

use crate::priority::Priority;
use crate::window::Window;

use super::Acked;

/// ln 3 ÷ (ln 3 − ln 2): the power of N at which tripling has caught up with N doublings.
const CATCH_UP_POWER: f64 = 2.709_511_291_351_455;

/// a: datagrams by which the window grows in a round trip, for N flows. Source: the paper §4.2, a =
/// N.
fn increase(flows: f64) -> f64 {
    flows
}

/// b: the share of the window that a loss takes, for N flows, in (0, 1].
///
/// Source: the paper, equation 8 with a = N: b = 2 / (1 + 3N). Below N = 1/3 that is more than 1,
/// which would ask for a negative window, so it ends at 1: a loss takes the whole window and the
/// smallest one is left. With a = N such a flow then gets N / √(3N) shares by equation 7, that is
/// more than N: the price of the paper's rule below a third of a flow.
pub(super) fn decrease(flows: f64) -> f64 {
    (2.0 / (1.0 + 3.0 * flows)).min(1.0)
}

/// The window up to which smooth slow start triples instead of doubling, in bytes.
///
/// Source: Crowcroft and Oechslin, the paper's reference 9. N flows have N · w · 2^k bytes after k
/// round trips; one that starts with w and triples has w · 3^k. They meet at w · N^(ln 3 / (ln 3 −
/// ln 2)), without a first burst of N windows. One flow, and less, only doubles.
fn catch_up_window(from: f64, flows: f64) -> f64 {
    from * flows.max(1.0).powf(CATCH_UP_POWER)
}

/// Moves the window by a batch of acknowledgements.
pub(super) fn on_acked(window: &mut Window, priority: Priority, acked: &Acked) {
    if !acked.may_grow {
        return;
    }
    let Some(from) = window.slow_start_from() else {
        return window.grow(increase(priority.get()), acked.bytes);
    };
    let bytes = acked.bytes as f64;
    let room = catch_up_window(from, priority.get()) - window.bytes();
    // Two bytes for each acknowledged one triple the window; past the catch-up window one doubles
    // it. Half the room, because the acknowledged bytes themselves take the other half.
    window.grow_slow_start(bytes + bytes.min(room.max(0.0) / 2.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn acked(bytes: u64) -> Acked {
        Acked {
            bytes,
            packets: 1,
            queueing: Duration::ZERO,
            may_grow: true,
        }
    }

    fn flows(n: f64) -> Priority {
        Priority::new(n).unwrap()
    }

    #[test]
    fn one_flow_is_standard_tcp() {
        assert_eq!((increase(1.0), decrease(1.0)), (1.0, 0.5));
    }

    #[test]
    fn parameters_satisfy_equation_7_wherever_the_formula_stands() {
        for n in [1.0 / 3.0, 0.5, 1.0, 2.0, 4.0, 8.0, 1000.0] {
            let (a, b) = (increase(n), decrease(n));
            let ratio = a * (2.0 - b) / (2.0 * b) / (1.5 * n * n);
            assert!((ratio - 1.0).abs() < 1e-12, "{n}: {ratio}");
        }
    }

    #[test]
    fn the_decrease_never_leaves_its_range() {
        for n in [f64::MIN_POSITIVE, 0.01, 0.3, 1000.0] {
            assert!(decrease(n) > 0.0 && decrease(n) <= 1.0, "{n}");
        }
        assert_eq!(decrease(0.1), 1.0);
    }

    #[test]
    fn avoidance_grows_by_n_datagrams_a_round_trip() {
        for n in [0.5, 1.0, 4.0] {
            let mut window = Window::new(50_000, 1000);
            window.cut(1.0);
            on_acked(&mut window, flows(n), &acked(50_000));
            assert_eq!(window.get(), 50_000 + (1000.0 * n) as u64);
        }
    }

    #[test]
    fn smooth_slow_start_triples_up_to_n_flows() {
        let mut window = Window::new(10_000, 1000);
        let mut rounds = 0_i32;
        let n = 2.0_f64;
        while window.get() < 1_000_000 {
            let before = window.get();
            on_acked(&mut window, flows(n), &acked(before));
            rounds += 1;
        }
        let of_n_flows = n * 10_000.0 * 2.0_f64.powi(rounds);
        let ratio = window.bytes() / of_n_flows;
        assert!((0.9..=1.1).contains(&ratio), "{ratio}");
        let mut single = Window::new(10_000, 1000);
        on_acked(&mut single, flows(1.0), &acked(10_000));
        assert_eq!(single.get(), 20_000);
    }
}
