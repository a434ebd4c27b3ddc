//! One way of the line: a queue, a rate and then a delay, without clocks and devices.
//!
//! Packets may be told late: what happens depends on when they came, not on when [`Way::arrive`] is
//! called. First [`Way::arrive`] for all that came until a time, in order; then [`Way::advance`] to
//! that time; then [`Way::due`] until it returns nothing, and again at the next of [`Way::dues`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::arguments::Line;
use crate::queue::{Packet, Queue};

/// A direction of the line.
#[derive(Debug)]
pub(crate) struct Way {
    rate: u64,
    delay: Duration,
    queue: Queue,
    /// Until when the line transmits what it has begun.
    free: Instant,
    /// Until when all that came is known.
    known: Instant,
    /// What is transmitted or under way, by the time of its arrival at the other end.
    flying: VecDeque<(Instant, Packet)>,
}

impl Way {
    /// An empty way that begins at this time.
    pub(crate) fn new(line: &Line, begin: Instant) -> Way {
        Way {
            rate: line.rate,
            delay: line.delay,
            queue: Queue::new(&line.queue),
            free: begin,
            known: begin,
            flying: VecDeque::new(),
        }
    }

    /// How long a packet takes at least.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// A packet came. One that should have been told before counts as come now.
    pub(crate) fn arrive(&mut self, mut packet: Packet) {
        let at = packet.arrived.max(self.known);
        packet.arrived = at;
        // As in rattan, a packet that comes exactly at the end of a transmission finds the queue as
        // it was before.
        self.transmit_while(|start| start < at);
        self.queue.push(packet);
        self.advance(at);
    }

    /// All that came until this time has been told.
    pub(crate) fn advance(&mut self, at: Instant) {
        self.known = self.known.max(at);
        self.transmit_while(|start| start <= at);
    }

    /// Puts packets on the line that find it free at such times.
    fn transmit_while(&mut self, begun: impl Fn(Instant) -> bool) {
        while let Some(oldest) = self.queue.oldest() {
            // A queue is not empty only while the line transmits, or when its first packet has just
            // come.
            let start = self.free.max(oldest);
            if !begun(start) {
                return;
            }
            // The packet under transmission has left the queue and does not count for its limit.
            if let Some(packet) = self.queue.pop(start) {
                self.free = start + time_for(packet.size(), self.rate);
                self.flying.push_back((self.free + self.delay, packet));
            }
        }
    }

    /// When those packets arrive whose transmission has begun, in order. Those that wait arrive
    /// more than a delay after the time that was given to [`Way::advance`].
    pub(crate) fn dues(&self) -> impl Iterator<Item = Instant> {
        self.flying.iter().map(|(due, _)| *due)
    }

    /// Takes the next packet that has arrived.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Packet> {
        let (_, packet) = self.flying.pop_front_if(|(due, _)| *due <= now)?;
        Some(packet)
    }

    /// Whether it holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.flying.is_empty() && self.queue.oldest().is_none()
    }
}

/// How long so many bytes take.
fn time_for(bytes: usize, bits_per_second: u64) -> Duration {
    let bits = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(8);
    Duration::from_nanos(bits.saturating_mul(1_000_000_000) / bits_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{CoDelArguments, Limits, QueueKind};

    const LATER: Duration = Duration::from_secs(100);
    /// What a packet of 1 500 bytes takes at [`RATE`], milliseconds.
    const TIME: u64 = 12;
    const RATE: u64 = 1_000_000;
    const DELAY: u64 = 10;

    fn line(byte_limit: usize) -> Line {
        Line {
            rate: RATE,
            delay: Duration::from_millis(DELAY),
            queue: QueueKind::DropTail(Limits {
                packet_limit: None,
                byte_limit: Some(byte_limit),
            }),
        }
    }

    fn packet(arrived: Instant) -> Packet {
        Packet {
            frame: vec![0; 1_514],
            arrived,
        }
    }

    /// Milliseconds at which packets arrive that come at these.
    fn pass(line: &Line, come: &[u64]) -> Vec<u64> {
        let begin = Instant::now();
        let mut way = Way::new(line, begin);
        for at in come {
            way.arrive(packet(begin + Duration::from_millis(*at)));
        }
        way.advance(begin + LATER);
        let mut arrived = Vec::new();
        loop {
            let Some(due) = way.dues().next() else { break };
            assert!(way.due(begin).is_none());
            assert!(way.due(due).is_some());
            arrived.push(u64::try_from((due - begin).as_millis()).unwrap());
        }
        assert!(way.is_empty());
        arrived
    }

    #[test]
    fn rate_and_then_delay() {
        let line = line(100_000);
        assert_eq!(pass(&line, &[0]), [TIME + DELAY]);
        assert_eq!(
            pass(&line, &[0, 0, 5]),
            [1, 2, 3].map(|number| number * TIME + DELAY)
        );
        // A line that was idle begins again.
        assert_eq!(pass(&line, &[0, 100]), [TIME + DELAY, 100 + TIME + DELAY]);
    }

    /// The packet that is being sent takes no room in it.
    #[test]
    fn full_queue_drops_arriving_packets() {
        let line = line(3_000);
        assert_eq!(
            pass(&line, &[0; 10]),
            [1, 2, 3].map(|number| number * TIME + DELAY)
        );
        // At 12 the second begins and makes room, though only for packets that come after that.
        assert_eq!(pass(&line, &[0, 0, 0, 12, 13, 14]).len(), 4);
        assert_eq!(pass(&line, &[0, 0, 0, 11, 12]).len(), 3);
    }

    #[test]
    fn what_is_told_late_happens_in_time() {
        let begin = Instant::now();
        let mut way = Way::new(&line(3_000), begin);
        for at in [0, 1, 2, 3, 13] {
            way.arrive(packet(begin + Duration::from_millis(at)));
        }
        let know = begin + Duration::from_millis(13);
        way.advance(know);
        // The first has arrived after 22 ms, the second is under way, the others wait.
        assert_eq!(
            way.dues().next(),
            Some(begin + Duration::from_millis(TIME + DELAY))
        );
        assert_eq!(way.dues().count(), 2);
        // One from before that time counts as come then, and one more has no room.
        way.arrive(packet(begin));
        way.advance(begin + LATER);
        assert_eq!(way.dues().count(), 4);
    }

    #[test]
    fn codel_keeps_order_and_time() {
        let begin = Instant::now();
        let mut line = line(0);
        line.queue = QueueKind::CoDel(CoDelArguments::default());
        let mut way = Way::new(&line, begin);
        for number in 0..200 {
            // Twice the rate of the line.
            way.arrive(packet(begin + Duration::from_millis(TIME / 2) * number));
        }
        way.advance(begin + LATER);
        let dues: Vec<_> = way.dues().collect();
        assert!(dues.is_sorted());
        let spaced = dues
            .windows(2)
            .all(|pair| pair[1] - pair[0] == Duration::from_millis(TIME));
        assert!(spaced, "the line is never idle");
        assert!((100..199).contains(&dues.len()), "{}", dues.len());
    }
}
