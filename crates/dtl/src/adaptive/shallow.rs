//! Whether the queue of the path is so short that packets which leave together do not fit into it.

use super::tuning::TUNING;

/// What waited between the cuts of the flows. Times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shallow {
    /// What the packets of this round waited for together, and how many they are.
    waited: f64,
    packets: f64,
    /// The longest mean of a round since the last cut.
    longest: Option<f64>,
    /// Cuts in a row before which no round waited for long.
    cuts: u32,
}

impl Shallow {
    /// A packet waited for so long.
    pub(super) fn add(&mut self, waited: f64) {
        self.waited += waited;
        self.packets += 1.0;
    }

    /// Ends the round; a datagram takes `datagram_time` at the best rate.
    pub(super) fn on_round(&mut self, datagram_time: f64) {
        if self.packets > 0.0 {
            let mean = self.waited / self.packets;
            self.longest = Some(self.longest.map_or(mean, |longest| longest.max(mean)));
            if mean >= TUNING.shallow.room.get() * datagram_time {
                self.cuts = 0;
            }
        }
        (self.waited, self.packets) = (0.0, 0.0);
    }

    /// A loss has cut a window. Further cuts of the same round trip are those of the same overflow.
    pub(super) fn on_cut(&mut self, datagram_time: f64) {
        if let Some(longest) = self.longest.take()
            && longest < TUNING.shallow.room.get() * datagram_time
        {
            self.cuts = self.cuts.saturating_add(1);
        }
    }

    /// Whether bursts do not fit into the queue.
    pub(super) fn is_seen(&self) -> bool {
        self.cuts >= TUNING.shallow.cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds with a mean of so many datagrams, each before a cut.
    fn after(means: &[f64]) -> bool {
        let mut shallow = Shallow::default();
        for mean in means {
            shallow.add(mean * 0.001);
            shallow.on_round(0.001);
            shallow.on_cut(0.001);
            shallow.on_cut(0.001);
        }
        shallow.is_seen()
    }

    #[test]
    fn two_cuts_without_waiting_show_a_short_queue() {
        assert!(!after(&[2.0]));
        assert!(after(&[2.0, 3.0]));
        assert!(!after(&[2.0, 5.0, 2.0]));
        assert!(!after(&[2.0, 3.0, 5.0]));
    }
}
