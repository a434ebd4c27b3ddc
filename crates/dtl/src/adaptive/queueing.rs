//! What the delays of a round say of the queue.

use std::collections::VecDeque;

use super::tuning::TUNING;

/// The delays of a round so far, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    waited: f64,
    rtt: f64,
    datagrams: f64,
    least: Option<f64>,
    longest: f64,
    least_rtt: f64,
    /// The last datagrams' delays, those of older rounds, too; newest first.
    last: VecDeque<f64>,
    several: Several,
    /// By how much each packet may be late by chance, and how many more datagrams have to show a
    /// queue for that.
    scatter: f64,
    more: usize,
}

/// Rounds in a row, until there are enough of them.
#[derive(Copy, Clone, Debug, Default)]
struct Several {
    /// By how much delays were longer than their round's least, all together.
    spread: f64,
    datagrams: f64,
    rounds: u32,
}

/// A round, looked at from its end.
#[derive(Copy, Clone, Debug)]
pub(super) struct Look {
    /// Mean delay.
    pub(super) mean: f64,
    /// Delay of those that waited least.
    pub(super) least: f64,
    /// The longest delay.
    pub(super) longest: f64,
    /// Mean round trip.
    pub(super) rtt: f64,
    /// The shortest round trip.
    pub(super) least_rtt: f64,
    /// How many datagrams, if the path reorders them.
    scattered: Option<f64>,
}

impl Round {
    /// An acknowledgement for so many datagrams, the newest of which waited for `waited` of its
    /// round trip of `rtt`.
    pub(super) fn add(&mut self, waited: f64, rtt: f64, datagrams: f64) {
        let datagrams = datagrams.max(1.0);
        self.waited += waited * datagrams;
        self.rtt += rtt * datagrams;
        self.datagrams += datagrams;
        self.least_rtt = match self.least {
            Some(_) => self.least_rtt.min(rtt),
            None => rtt,
        };
        self.least = Some(self.least.map_or(waited, |least| least.min(waited)));
        self.longest = self.longest.max(waited);
        let few = self.few();
        for _ in 0..few.min(datagrams as usize) {
            self.last.push_front(waited);
        }
        self.last.truncate(few);
    }

    /// The least delay of the last few datagrams, if there were so many.
    pub(super) fn least_of_few(&self) -> Option<f64> {
        let least = self.last.iter().copied().fold(f64::INFINITY, f64::min);
        (self.last.len() == self.few()).then_some(least)
    }

    /// The path reorders packets: each may be late by so much, and one of `target` is to show.
    pub(super) fn scatter(&mut self, scatter: f64, target: f64) {
        self.scatter = scatter;
        self.more = (TUNING.queueing.few as f64 * 4.0 * scatter / target.max(1e-6)) as usize;
        self.more = self
            .more
            .min(TUNING.queueing.few_most - TUNING.queueing.few);
    }

    /// So many packets all of which are late by chance are as improbable as few where each is by
    /// little.
    fn few(&self) -> usize {
        TUNING.queueing.few + self.more
    }

    /// Ends the round; nothing if it brought nothing.
    pub(super) fn end(&mut self) -> Option<Look> {
        let least = self.least.take()?;
        let (waited, rtt, datagrams) = (self.waited, self.rtt, self.datagrams);
        (self.waited, self.rtt, self.datagrams) = (0.0, 0.0, 0.0);
        if datagrams >= TUNING.queueing.broad.get() {
            // The least of a few is not the least of all: of delays that are spread evenly, so many
            // times as far away.
            let of_all = (datagrams + 1.0) / (datagrams - 1.0);
            self.several.spread += (waited - least * datagrams) * of_all;
            self.several.datagrams += datagrams;
            self.several.rounds += 1;
        }
        Some(Look {
            mean: waited / datagrams,
            least,
            longest: std::mem::take(&mut self.longest),
            rtt: rtt / datagrams,
            least_rtt: self.least_rtt,
            scattered: (self.scatter > 0.0).then_some(datagrams),
        })
    }
}

impl Round {
    /// What the last rounds say of noise, once there are enough of them: by how much delays are
    /// longer than the least of a round.
    pub(super) fn noise(&mut self) -> Option<f64> {
        let several = self.several;
        if several.datagrams < TUNING.queueing.noise_datagrams.get()
            || several.rounds < TUNING.queueing.noise_rounds
        {
            return None;
        }
        self.several = Several::default();
        Some(several.spread / several.datagrams)
    }
}

impl Look {
    /// How long the queue is: the mean delay without the `noise` that is there anyway. What some
    /// did not need to wait for does not stand in the queue; the stronger the jitter, the more this
    /// decides.
    pub(super) fn queueing(&self, noise: f64, target: f64) -> f64 {
        let most = (1.5 - 4.0 * noise / target).max(0.5) * target;
        // Where packets are reordered, each is late by chance, up to twice the noise. So is the
        // least of them; their mean is off almost never by more than two standard errors.
        let (error, chance) = self.scattered.map_or((0.0, 0.0), |datagrams| {
            let all = 2.0 * noise;
            (all / (3.0 * datagrams).sqrt(), all / (datagrams + 1.0))
        });
        let least = (self.least - chance).max(self.least.min(0.0));
        (self.mean - noise - error).clamp(least.min(self.mean), self.least + most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(delays: &[f64]) -> Look {
        let mut round = Round::default();
        delays
            .iter()
            .for_each(|delay| round.add(*delay, 0.02 + delay, 1.0));
        round.end().unwrap()
    }

    #[test]
    fn a_standing_queue_counts_in_full() {
        assert!((look(&[0.004; 10]).queueing(0.0, 0.0025) - 0.004).abs() < 1e-9);
        assert!((look(&[0.004; 10]).queueing(0.002, 0.0025) - 0.004).abs() < 1e-9);
    }

    #[test]
    fn with_jitter_a_spike_is_no_queue() {
        let mut delays = vec![0.0; 6];
        delays.extend([0.030; 4]);
        let spike = look(&delays);
        assert!(spike.queueing(0.002, 0.0025) < 0.0025);
        assert!(spike.queueing(0.0, 0.0025) > 0.0025);
    }
}
