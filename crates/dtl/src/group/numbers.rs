//! One sequence of packet numbers for several connections, each of which counts its own.

use std::collections::VecDeque;

use crate::limits::GROUP_RUNS;

/// Which of the group's numbers the packets of one flow have, kept as runs that are consecutive in both.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// First packet of a run, and its number in the group.
    runs: VecDeque<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl Numbers {
    /// The flow's `packet` left as the group's `number`.
    pub(super) fn record(&mut self, packet: u64, number: u64) {
        let continues = match self.last {
            // A connection's packet number spaces each start at zero.
            Some((last, _)) if packet <= last => {
                self.runs.clear();
                false
            }
            Some((last, of_group)) => packet - last == 1 && number.wrapping_sub(of_group) == 1,
            None => false,
        };
        self.last = Some((packet, number));
        if continues {
            return;
        }
        if self.runs.len() >= GROUP_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back((packet, number));
    }

    /// The group's number of a packet; 0, as old as any, if it is forgotten.
    pub(super) fn of(&self, packet: u64) -> u64 {
        let after = self.runs.partition_point(|(first, _)| *first <= packet);
        let run = after.checked_sub(1).and_then(|place| self.runs.get(place));
        run.map_or(0, |(first, number)| number.saturating_add(packet - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_has_the_number_with_which_it_left() {
        let mut numbers = Numbers::default();
        for (packet, number) in [(5, 10), (6, 11), (7, 14), (9, 15), (10, 16)] {
            numbers.record(packet, number);
        }
        let of = [4, 5, 6, 7, 9, 10].map(|packet| numbers.of(packet));
        assert_eq!(of, [0, 10, 11, 14, 15, 16]);
        assert_eq!(numbers.runs.len(), 3);
        numbers.record(0, 17);
        assert_eq!((numbers.of(0), numbers.runs.len()), (17, 1));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let mut numbers = Numbers::default();
        for packet in 0..2 * GROUP_RUNS as u64 {
            numbers.record(packet, 2 * packet + 1);
        }
        assert_eq!(numbers.runs.len(), GROUP_RUNS);
        assert_eq!(numbers.of(0), 0);
        let last = 2 * GROUP_RUNS as u64 - 1;
        assert_eq!(numbers.of(last), 2 * last + 1);
    }
}
