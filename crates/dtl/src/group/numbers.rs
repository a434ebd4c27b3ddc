//! One sequence of packet numbers for several connections, each of which counts its own.

use std::collections::VecDeque;

use crate::limits::GROUP_RUNS;

/// Which of the group's numbers the packets of one flow have, kept as runs that are consecutive in
/// both.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    runs: VecDeque<Run>,
}

/// Packets that left one after the other: the first, its number in the group, and how many.
#[derive(Copy, Clone, Debug)]
struct Run {
    first: u64,
    number: u64,
    length: u64,
}

impl Numbers {
    /// The flow's `packet` left as the group's `number`.
    pub(super) fn record(&mut self, packet: u64, number: u64) {
        if let Some(run) = self.runs.back_mut() {
            let so_far = packet.wrapping_sub(run.first);
            if so_far == run.length && number.wrapping_sub(run.number) == run.length {
                run.length += 1;
                return;
            }
            // A connection's packet number spaces each start at zero.
            if packet < run.first || so_far < run.length {
                self.runs.clear();
            }
        }
        if self.runs.len() >= GROUP_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(Run {
            first: packet,
            number,
            length: 1,
        });
    }

    /// The group's number of a packet; 0, as old as any, if it is forgotten or unknown.
    pub(super) fn of(&self, packet: u64) -> u64 {
        let after = self.runs.partition_point(|run| run.first <= packet);
        let run = after.checked_sub(1).and_then(|index| self.runs.get(index));
        let known = run.filter(|run| packet - run.first < run.length);
        known.map_or(0, |run| run.number.saturating_add(packet - run.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_has_its_number() {
        let mut numbers = Numbers::default();
        for (packet, number) in [(5, 10), (6, 11), (7, 14), (9, 15), (10, 16)] {
            numbers.record(packet, number);
        }
        let of = [4, 5, 6, 7, 8, 9, 10, 11].map(|packet| numbers.of(packet));
        assert_eq!(of, [0, 10, 11, 14, 0, 15, 16, 0]);
        assert_eq!(numbers.runs.len(), 3);
        numbers.record(0, 17);
        assert_eq!((numbers.of(0), numbers.runs.len()), (17, 1));
    }

    #[test]
    fn past_the_bound_the_oldest_goes() {
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
