//! What waits to be sent to one peer. Small messages share a packet.
//!
//! A packet leaves when it is full or when the first message in it has waited for the time that its
//! path's latency is worth ([`gather_time`]). Messages of applications leave only as fast as
//! [`super::flow::Flow`] allows; all others at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringway_transport::LatencyClass;

use crate::limits::{GATHER_SECONDS, LINK_QUEUE_BYTES, PACED_QUEUE_BYTES};

/// How long a message may wait for others to share its packet. On fast paths it waits for nothing
/// but the end of the round in which it was made.
pub(super) fn gather_time(latency: LatencyClass) -> Duration {
    match latency {
        LatencyClass::Seconds => GATHER_SECONDS,
        // A mail holds many packets: its own queue gathers.
        LatencyClass::Interactive | LatencyClass::Minutes => Duration::ZERO,
    }
}

/// Encoded messages, oldest first, within a bound of bytes.
#[derive(Debug, Default)]
struct Line {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Line {
    /// False if there is no room.
    fn push(&mut self, encoded: Vec<u8>, bound: usize) -> bool {
        // One message always fits, or long ones would never leave.
        if !self.messages.is_empty() && self.bytes + encoded.len() > bound {
            return false;
        }
        self.bytes += encoded.len();
        self.messages.push_back(encoded);
        true
    }

    /// Moves messages to the end of `plain` as long as the next one fits; true if any was moved.
    fn fill(&mut self, plain: &mut Vec<u8>, room: usize) -> bool {
        let mut moved = false;
        // A message that is longer than a whole packet goes alone: the path has become narrower
        // since it was cut.
        while let Some(next) = self.messages.front()
            && (plain.is_empty() || plain.len() + next.len() <= room)
        {
            plain.extend_from_slice(next);
            self.bytes -= next.len();
            self.messages.pop_front();
            moved = true;
        }
        moved
    }
}

/// The content of one packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// Encoded messages, one after the other.
    pub(super) plain: Vec<u8>,
    /// Whether a message of an application is among them.
    pub(super) paced: bool,
}

/// Messages for one peer that have not yet been put into packets.
#[derive(Debug, Default)]
pub(super) struct Queue {
    prompt: Line,
    paced: Line,
    /// When the first of them has waited long enough.
    due: Option<Instant>,
}

impl Queue {
    /// Adds a message that is not held back; false if there is no room.
    pub(super) fn push(&mut self, now: Instant, encoded: Vec<u8>, latency: LatencyClass) -> bool {
        self.note(now, latency);
        self.prompt.push(encoded, LINK_QUEUE_BYTES)
    }

    /// Adds a message of an application; false if there is no room.
    pub(super) fn push_paced(
        &mut self,
        now: Instant,
        encoded: Vec<u8>,
        latency: LatencyClass,
    ) -> bool {
        self.note(now, latency);
        self.paced.push(encoded, PACED_QUEUE_BYTES)
    }

    fn note(&mut self, now: Instant, latency: LatencyClass) {
        self.due.get_or_insert(now + gather_time(latency));
    }

    /// Whether an application should wait before it hands over more.
    pub(super) fn is_full(&self) -> bool {
        self.paced.bytes >= PACED_QUEUE_BYTES / 2
    }

    pub(super) fn is_empty(&self) -> bool {
        self.prompt.messages.is_empty() && self.paced.messages.is_empty()
    }

    /// Whether anything waits that nothing holds back.
    pub(super) fn has_prompt(&self) -> bool {
        !self.prompt.messages.is_empty()
    }

    pub(super) fn has_paced(&self) -> bool {
        !self.paced.messages.is_empty()
    }

    /// When the next packet is due, if anything waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn waiting(&self, may_pace: bool) -> usize {
        self.prompt.bytes + if may_pace { self.paced.bytes } else { 0 }
    }

    /// Whether anything waits that may leave.
    pub(super) fn has_more(&self, may_pace: bool) -> bool {
        self.waiting(may_pace) > 0
    }

    /// Whether [`Self::pack`] would give a packet.
    pub(super) fn can_pack(&self, now: Instant, room: usize, may_pace: bool) -> bool {
        let waiting = self.waiting(may_pace);
        let is_due = self.due.is_some_and(|due| due <= now);
        waiting > 0 && (is_due || waiting >= room)
    }

    /// The next packet's content of at most `room` bytes, if one is due or can be filled. Messages
    /// of applications join only with `may_pace`.
    pub(super) fn pack(&mut self, now: Instant, room: usize, may_pace: bool) -> Option<Packed> {
        if !self.can_pack(now, room, may_pace) {
            return None;
        }
        let waiting = self.waiting(may_pace);
        let mut plain = Vec::with_capacity(room.min(waiting));
        self.prompt.fill(&mut plain, room);
        let paced = may_pace && self.paced.fill(&mut plain, room);
        if self.is_empty() {
            self.due = None;
        }
        Some(Packed { plain, paced })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAST: LatencyClass = LatencyClass::Interactive;
    const SLOW: LatencyClass = LatencyClass::Seconds;

    proptest! {
        /// Whatever waits, packets are no longer than the path takes and carry every message once,
        /// each kind in order.
        #[test]
        fn packets_hold_every_message_once(
            sizes in proptest::collection::vec((1..400_usize, any::<bool>()), 1..60), room in 400..2_000_usize,
        ) {
            let now = Instant::now();
            let mut queue = Queue::default();
            for (number, (size, paced)) in (0_u8..).zip(&sizes) {
                let message = vec![number; *size];
                let taken = if *paced { queue.push_paced(now, message, FAST) } else { queue.push(now, message, FAST) };
                prop_assert!(taken);
            }
            let mut seen = Vec::new();
            while let Some(packed) = queue.pack(now, room, true) {
                prop_assert!(packed.plain.len() <= room);
                seen.extend(packed.plain);
            }
            prop_assert!(queue.is_empty());
            for (number, (size, _)) in (0_u8..).zip(&sizes) {
                prop_assert_eq!(seen.iter().filter(|n| **n == number).count(), *size);
            }
        }
    }

    #[test]
    fn slow_paths_fill_packets_until_late() {
        let start = Instant::now();
        let mut queue = Queue::default();
        queue.push(start, vec![1; 100], SLOW);
        assert_eq!(queue.pack(start, 1_000, true), None);
        queue.push(start + Duration::from_millis(1), vec![2; 100], SLOW);
        let due = queue.due().unwrap();
        assert_eq!(due, start + GATHER_SECONDS);
        let packed = queue.pack(due, 1_000, true).unwrap();
        assert_eq!(packed.plain.len(), 200);
        // Enough for a packet leaves at once.
        for _ in 0..11 {
            queue.push(due, vec![3; 100], SLOW);
        }
        assert_eq!(queue.pack(due, 1_000, true).unwrap().plain.len(), 1_000);
        assert_eq!(queue.pack(due, 1_000, true), None);
    }

    #[test]
    fn held_messages_do_not_block_others() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.push_paced(now, vec![1; 900], FAST);
        queue.push(now, vec![2; 50], FAST);
        let packed = queue.pack(now, 1_000, false).unwrap();
        assert_eq!((packed.plain.len(), packed.paced), (50, false));
        assert_eq!(queue.pack(now, 1_000, false), None);
        assert!(queue.pack(now, 1_000, true).unwrap().paced);
    }

    #[test]
    fn a_full_queue_takes_no_more() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let taken = (0..1_000_000).take_while(|_| queue.push_paced(now, vec![0; 1_000], FAST));
        assert!(taken.count() * 1_000 <= PACED_QUEUE_BYTES);
        assert!(queue.is_full());
    }
}
