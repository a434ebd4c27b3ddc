//! Priority N > 0: N virtual CUBIC flows that share one path and one pacer.
//!
//! Each has a window, an epoch and a recovery of its own (RFC 9438). A lost packet is charged to a virtual flow by lot, in
//! proportion to their windows, as it would have hit one of N real ones. A fraction of a flow is a whole one of which a part is sent.
//!
//! Packets that leave evenly find room in a full queue more often than the bursts of a TCP: with the plain rule N flows' worth got two to
//! ten times their share on drop-tail queues in the simulator, and about their share where an AQM drops by chance. A loss therefore
//! counts for more the more sharply losses coincide with the longest queue ([`AT_FULL_QUEUE`]).

use std::time::Instant;

/// RFC 9438 §4.1.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Most virtual flows; beyond, each stands for several.
const MOST: usize = 32;
/// HyStart: samples of a round that are compared, and the increase that ends slow start. Source: Linux' tcp_cubic.c.
const SAMPLES: u32 = 8;
const INCREASE: (f64, f64) = (0.004, 0.016);
const LEAST: f64 = 1.0;
/// What is left of the longest queueing delay after a round.
const LONGEST_KEPT: f64 = 0.999;
/// A loss at this part of the longest queueing delay, or more, is one of a full queue.
const SHARP: f64 = 0.85;
const SHARP_WEIGHT: f64 = 0.1;
/// Losses that one counts for where all come from a full queue. Source: ours; of 1, 1.5, 2 and 2.5 what came closest to N real flows over
/// the cells of the simulator's example `priorities`.
const AT_FULL_QUEUE: f64 = 2.0;

#[derive(Clone, Debug)]
struct Virtual {
    /// In datagrams, as if it were a whole flow.
    window: f64,
    /// How many flows it stands for.
    weight: f64,
    threshold: f64,
    most: f64,
    epoch: Option<Epoch>,
    /// Losses of packets before this one are answered.
    recovered_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    k: f64,
    reno: f64,
}

impl Virtual {
    fn new(window: f64, threshold: f64) -> Virtual {
        Virtual {
            window: window.max(LEAST),
            weight: 1.0,
            threshold,
            most: 0.0,
            epoch: None,
            recovered_at: 0,
        }
    }

    /// Its part of the aggregate, in datagrams.
    fn part(&self) -> f64 {
        self.window * self.weight
    }

    /// `share`: acknowledged datagrams ÷ the aggregate window.
    fn grow(&mut self, now: Instant, share: f64, rtt: f64) {
        if self.window < self.threshold {
            self.window += self.window * share;
            return;
        }
        let epoch = *self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            k: ((self.most - self.window).max(0.0) / C).cbrt(),
            reno: self.window,
        });
        let time = now.saturating_duration_since(epoch.began).as_secs_f64() + rtt;
        let origin = self.most.max(if epoch.k > 0.0 { 0.0 } else { self.window });
        let target = origin + C * (time - epoch.k).powi(3);
        let step = (target.min(1.5 * self.window) - self.window).max(0.01);
        let alpha = if epoch.reno < self.most {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        } else {
            1.0
        };
        let reno = epoch.reno + alpha * share;
        self.epoch = Some(Epoch { reno, ..epoch });
        self.window = (self.window + step * share).max(reno);
    }

    /// Answers a loss that counts for `losses`.
    fn cut(&mut self, next: u64, losses: f64) {
        self.recovered_at = next;
        self.epoch = None;
        let left = (self.window * BETA.powf(losses)).max(LEAST);
        // The window before the last of them: where the next epoch's plateau is.
        let before = left / BETA;
        self.most = if before < self.most {
            before * (1.0 + BETA) / 2.0
        } else {
            before
        };
        self.threshold = left.max(2.0);
        self.window = left;
    }
}

/// The state of priority N. Sizes in datagrams, times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    flows: Vec<Virtual>,
    shortest: Option<f64>,
    round: (f64, u32),
    /// The longest queueing delay of late, and the last.
    longest: f64,
    queueing: f64,
    /// How sharply losses coincide with the longest queue, 0 to 1.
    sharpness: f64,
}

impl Flows {
    /// `count` flows that share `window` datagrams and double it in each round trip up to `bound` datagrams.
    pub(super) fn new(count: f64, window: f64, bound: f64) -> Flows {
        let mut first = Virtual::new(window / count, bound / count);
        if bound.is_finite() {
            first.most = bound / count;
        }
        let mut flows = Flows {
            flows: vec![first; number(count)],
            shortest: None,
            round: (f64::INFINITY, 0),
            longest: 0.0,
            queueing: 0.0,
            sharpness: 1.0,
        };
        flows.weigh(count);
        flows
    }

    /// Becomes worth `count` flows. Those that go take their windows with them; new ones double theirs up to the mean of the others.
    pub(super) fn set_count(&mut self, count: f64) {
        let length = self.flows.len().max(1) as f64;
        let mean = self.flows.iter().map(|flow| flow.window).sum::<f64>() / length;
        let slow_start = self.in_slow_start();
        let threshold = if slow_start { f64::INFINITY } else { mean };
        let mut new = Virtual::new(LEAST, threshold);
        new.most = if slow_start { 0.0 } else { mean };
        self.flows.resize(number(count), new);
        self.weigh(count);
    }

    fn weigh(&mut self, count: f64) {
        let number = self.flows.len();
        let each = (count / number as f64).max(1.0);
        let last = count - each * (number as f64 - 1.0);
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.weight = if index + 1 == number { last } else { each };
        }
    }

    pub(super) fn window(&self) -> f64 {
        self.flows.iter().map(Virtual::part).sum()
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.flows.iter().all(|flow| flow.window < flow.threshold)
    }

    pub(super) fn on_acked(&mut self, now: Instant, datagrams: f64, rtt: f64, may_grow: bool) {
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if self.round.1 < SAMPLES {
            self.round = (self.round.0.min(rtt), self.round.1 + 1);
        }
        let shortest = self.shortest.unwrap_or(rtt);
        self.queueing = rtt - shortest;
        self.longest = self.longest.max(self.queueing);
        if self.in_slow_start() && self.round.1 >= SAMPLES {
            let most = shortest + (shortest / 8.0).clamp(INCREASE.0, INCREASE.1);
            if self.round.0 >= most {
                for flow in &mut self.flows {
                    flow.threshold = flow.window;
                }
            }
        }
        if !may_grow {
            return;
        }
        let share = (datagrams / self.window()).min(1.0);
        for flow in &mut self.flows {
            flow.grow(now, share, shortest);
        }
    }

    pub(super) fn on_round(&mut self) {
        self.longest *= LONGEST_KEPT;
        self.round = (f64::INFINITY, 0);
    }

    /// A packet was lost: true if it cut a window. `next` is the number of the next packet.
    pub(super) fn on_lost(&mut self, packet: u64, next: u64) -> bool {
        let mut lot = lot(packet) * self.window();
        let losses = 1.0 + (AT_FULL_QUEUE - 1.0) * self.sharpness;
        for flow in &mut self.flows {
            lot -= flow.part();
            if lot <= 0.0 {
                if packet < flow.recovered_at {
                    return false;
                }
                // A fraction of a flow meets fewer losses than a whole one: each counts for more.
                flow.cut(next, losses / flow.weight.min(1.0));
                let sharp = if self.queueing >= SHARP * self.longest {
                    1.0
                } else {
                    0.0
                };
                self.sharpness += (sharp - self.sharpness) * SHARP_WEIGHT;
                return true;
            }
        }
        false
    }

    pub(super) fn on_persistent(&mut self, next: u64) {
        for flow in &mut self.flows {
            flow.cut(next, 1.0);
            flow.window = LEAST;
        }
    }
}

/// How many virtual flows stand for `count`.
fn number(count: f64) -> usize {
    (count.ceil().max(1.0) as usize).min(MOST)
}

/// A number between 0 and 1 that depends on the packet, the same in every run.
fn lot(packet: u64) -> f64 {
    let mut mixed = packet.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(flows: &Flows) -> Vec<f64> {
        flows.flows.iter().map(|flow| flow.weight).collect()
    }

    #[test]
    fn weights_add_up_to_the_priority() {
        for (count, wanted) in [
            (0.25, vec![0.25]),
            (1.0, vec![1.0]),
            (2.5, vec![1.0, 1.0, 0.5]),
            (4.0, vec![1.0; 4]),
            (64.0, vec![2.0; 32]),
        ] {
            assert_eq!(weights(&Flows::new(count, 10.0, f64::INFINITY)), wanted);
        }
        let sum: f64 = weights(&Flows::new(1000.0, 10.0, f64::INFINITY))
            .iter()
            .sum();
        assert!((sum - 1000.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_higher_priority_does_not_jump_and_a_lower_one_does_at_once() {
        let mut flows = Flows::new(1.0, 40.0, 0.0);
        flows.set_count(4.0);
        assert!(flows.window() <= 40.0 + 3.0 * LEAST, "{}", flows.window());
        let now = crate::test_epoch();
        for _ in 0..10 {
            flows.on_acked(now, flows.window(), 0.02, true);
            flows.on_round();
        }
        assert!(
            (150.0..300.0).contains(&flows.window()),
            "{}",
            flows.window()
        );
        flows.set_count(1.0);
        assert!(flows.window() < 80.0, "{}", flows.window());
    }

    #[test]
    fn losses_of_one_round_trip_cut_each_flow_once() {
        let mut flows = Flows::new(4.0, 400.0, 0.0);
        let cuts = (0..100)
            .filter(|packet| flows.on_lost(*packet, 1000))
            .count();
        assert_eq!(cuts, 4);
        assert!(!flows.on_lost(999, 1100));
        assert!(flows.on_lost(1000, 1100));
    }

    #[test]
    fn a_loss_counts_for_more_where_it_comes_from_a_full_queue() {
        let now = crate::test_epoch();
        let run = |queueing: &[f64]| {
            let mut flows = Flows::new(1.0, 1e6, 0.0);
            flows.on_acked(now, 0.0, 0.020, false);
            flows.on_acked(now, 0.0, 0.040, false);
            for (packet, queueing) in (0_u64..).zip(queueing.iter().cycle()).take(100) {
                flows.on_acked(now, 0.0, 0.020 + queueing, false);
                let before = flows.window();
                flows.on_lost(packet * 2, packet * 2 + 1);
                if packet == 99 {
                    return flows.window() / before;
                }
                flows.flows[0].window = 1e6;
            }
            unreachable!()
        };
        assert!((run(&[0.020]) - BETA * BETA).abs() < 0.01);
        assert!((run(&[0.001, 0.005, 0.010]) - BETA).abs() < 0.01);
    }
}
