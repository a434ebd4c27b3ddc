//! What is yet to happen, in order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// What happens on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The packet at the head of a queue has left it.
    Departed { back: bool },
    /// A packet has reached its receiver.
    Arrived { flow: usize, packet: u64 },
    /// A receiver has waited long enough with its acknowledgement.
    AckDue { flow: usize, serial: u64 },
    /// The oldest acknowledgement of a flow that is under way has come.
    AckArrived { flow: usize },
    /// A flow's pacer allows the next packet.
    Paced { flow: usize },
    /// A flow's retransmission timer may have run out.
    Timeout { flow: usize },
    /// A flow begins.
    Start { flow: usize },
    /// A flow ends.
    Stop { flow: usize },
}

/// Kinds of events that have a lane of their own.
const LANES: usize = 4;

/// When, which of those of that time, and what.
type Entry = (Duration, u64, Event);

/// Events by time, those of one time in the order in which they were added.
///
/// Packets and acknowledgements overtake each other seldom, so events of their kinds are added in
/// the order in which they happen: those wait in line, one lane a kind. A heap orders what is left,
/// and stays small: with all in it, it took a third of a simulation's time.
#[derive(Debug, Default)]
pub(super) struct Events {
    lanes: [VecDeque<Entry>; LANES],
    others: BinaryHeap<Reverse<Entry>>,
    serial: u64,
}

impl Events {
    pub(super) fn add(&mut self, when: Duration, event: Event) {
        let entry = (when, self.next_serial(), event);
        let lane = match event {
            Event::Arrived { .. } => 0,
            Event::AckArrived { .. } => 1,
            Event::AckDue { .. } => 2,
            Event::Timeout { .. } => 3,
            _ => return self.others.push(Reverse(entry)),
        };
        let lane = &mut self.lanes[lane];
        if lane.back().is_none_or(|(last, ..)| *last <= when) {
            lane.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    /// A number that no other event has.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes the next event, if it happens until `end`.
    pub(super) fn next_until(&mut self, end: Duration) -> Option<(Duration, Event)> {
        let mut first = self.others.peek().map(|Reverse(entry)| *entry);
        let mut of_lane = None;
        for (lane, entries) in self.lanes.iter().enumerate() {
            if let Some(entry) = entries.front()
                && first.is_none_or(|first| (entry.0, entry.1) < (first.0, first.1))
            {
                first = Some(*entry);
                of_lane = Some(lane);
            }
        }
        let (at, _, event) = first.filter(|(at, ..)| *at <= end)?;
        match of_lane {
            Some(lane) => drop(self.lanes[lane].pop_front()),
            None => drop(self.others.pop()),
        }
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Others happen by time.
    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut events = Events::default();
        let mut waiting = Vec::new();
        let mut now = Duration::ZERO;
        for packet in 0..20_000 {
            // Few different times, so that many are the same, and some before others that wait
            // already.
            let when = now + Duration::from_millis(rng.random_range(0..20));
            let event = match rng.random_range(0..5) {
                0 => Event::Departed { back: false },
                1 => Event::AckArrived { flow: 1 },
                2 => Event::Timeout { flow: 2 },
                3 => Event::Paced { flow: 3 },
                _ => Event::Arrived { flow: 4, packet },
            };
            events.add(when, event);
            waiting.push((when, event));
            if rng.random_bool(0.5) {
                let end = now + Duration::from_millis(1);
                // The sort is stable: what was added first comes first.
                waiting.sort_by_key(|(when, _)| *when);
                while let Some(happened) = events.next_until(end) {
                    assert_eq!(happened, waiting.remove(0));
                }
                assert!(waiting.first().is_none_or(|(when, _)| *when > end));
                now = end;
            }
        }
        assert!(now > Duration::from_secs(5));
    }
}
