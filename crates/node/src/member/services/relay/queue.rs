//! What a router passes on for others: not more than so much each second, and each sender in turn.
//! Sans-IO.
//!
//! After [`RelayQueue::handle_packet`] drain [`RelayQueue::poll_transmit`]; drain it again at
//! [`RelayQueue::poll_timeout`].

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ringway_transport::MemberId;

use crate::limits::{RELAY_BURST, RELAY_QUEUE, RELAY_SENDERS};

/// Pause before a packet that waits for its turn is looked at again: finer timers cost more than
/// they bring.
const TICK: Duration = Duration::from_millis(2);

/// A packet from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) from: MemberId,
    pub(super) to: MemberId,
    pub(super) packet: Vec<u8>,
}

/// Packets that wait, by sender.
#[derive(Debug)]
pub(super) struct RelayQueue {
    /// Bytes per second; 0 passes nothing on.
    rate: u64,
    /// Bytes that may leave now; a packet may leave while this is not negative.
    credit: i64,
    credited: Option<Instant>,
    senders: BTreeMap<MemberId, VecDeque<(MemberId, Vec<u8>)>>,
    /// Whose turn it is; each sender with packets once.
    turns: VecDeque<MemberId>,
}

impl RelayQueue {
    pub(super) fn new(rate: u64) -> RelayQueue {
        RelayQueue {
            rate,
            credit: signed(RELAY_BURST),
            credited: None,
            senders: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Another rate from now on. At 0 what waits is dropped.
    pub(super) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
        if rate == 0 {
            self.senders.clear();
            self.turns.clear();
        }
    }

    /// A packet is to be passed on. False if it is dropped: too much waits already, or nothing is
    /// passed on here.
    pub(super) fn handle_packet(&mut self, passed: Passed) -> bool {
        let Passed { from, to, packet } = passed;
        let known = self.senders.contains_key(&from);
        if self.rate == 0 || (!known && self.senders.len() >= RELAY_SENDERS) {
            return false;
        }
        let waiting = self.senders.entry(from).or_default();
        if waiting.len() >= RELAY_QUEUE {
            return false;
        }
        waiting.push_back((to, packet));
        if !known {
            self.turns.push_back(from);
        }
        true
    }

    /// The next packet to pass on now.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Passed> {
        self.earn(now);
        if self.credit < 0 {
            return None;
        }
        let from = self.turns.pop_front()?;
        let waiting = self.senders.get_mut(&from)?;
        let (to, packet) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.senders.remove(&from);
        } else {
            self.turns.push_back(from);
        }
        let size = u64::try_from(packet.len()).unwrap_or(u64::MAX);
        self.credit = self.credit.saturating_sub(signed(size));
        Some(Passed { from, to, packet })
    }

    /// When [`Self::poll_transmit`] may have something again.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.turns.front()?;
        let missing = u64::try_from(self.credit.saturating_neg()).unwrap_or(0);
        let nanos = u128::from(missing) * 1_000_000_000 / u128::from(self.rate.max(1));
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.credited?.checked_add(wait.max(TICK))
    }

    fn earn(&mut self, now: Instant) {
        let since = now.saturating_duration_since(*self.credited.get_or_insert(now));
        let earned = u128::from(self.rate) * since.as_nanos() / 1_000_000_000;
        // What is too little to count is earned later.
        if earned > 0 {
            let earned = signed(u64::try_from(earned).unwrap_or(u64::MAX));
            self.credit = self.credit.saturating_add(earned).min(signed(RELAY_BURST));
            self.credited = Some(now);
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1_000;

    fn member(n: u8) -> MemberId {
        MemberId::new([n; 32])
    }

    fn packet(from: u8, to: u8) -> Passed {
        Passed {
            from: member(from),
            to: member(to),
            packet: vec![from; PACKET],
        }
    }

    /// Keeps the queue full from these senders for a time, and counts what leaves for each.
    fn run(queue: &mut RelayQueue, senders: &[(u8, usize)], time: Duration) -> BTreeMap<u8, usize> {
        let start = Instant::now();
        let (mut now, mut passed) = (start, BTreeMap::new());
        while now < start + time {
            for (from, at_once) in senders {
                for _ in 0..*at_once {
                    queue.handle_packet(packet(*from, 9));
                }
            }
            while let Some(out) = queue.poll_transmit(now) {
                *passed.entry(out.packet[0]).or_default() += 1;
            }
            let due = queue.poll_timeout().unwrap();
            assert!(due > now, "it would spin");
            now = due;
        }
        passed
    }

    #[test]
    fn not_more_than_the_rate_leaves() {
        let mut queue = RelayQueue::new(1_000_000);
        let passed = run(&mut queue, &[(1, 200)], Duration::from_secs(10));
        let expected = 10_000 + usize::try_from(RELAY_BURST).unwrap() / PACKET;
        let all: usize = passed.values().sum();
        assert!(all.abs_diff(expected) < expected / 50, "{all}");
    }

    #[test]
    fn a_flood_leaves_others_their_share() {
        let mut queue = RelayQueue::new(1_000_000);
        let passed = run(&mut queue, &[(1, 1_000), (2, 2)], Duration::from_secs(10));
        assert!(passed[&2] * 5 > passed[&1] * 4, "{passed:?}");
    }

    #[test]
    fn one_sender_may_fill_its_own_queue_only() {
        let mut queue = RelayQueue::new(1_000_000);
        let kept = (0..1_000).filter(|_| queue.handle_packet(packet(1, 9)));
        assert_eq!(kept.count(), RELAY_QUEUE);
        assert!(queue.handle_packet(packet(2, 9)));
        assert_eq!(queue.poll_transmit(Instant::now()), Some(packet(1, 9)));
    }

    #[test]
    fn senders_are_bounded() {
        let mut queue = RelayQueue::new(1_000_000);
        let kept = (0..2 * RELAY_SENDERS).filter(|n| {
            let mut passed = packet(1, 9);
            let mut id = [0; 32];
            id[..8].copy_from_slice(&n.to_be_bytes());
            passed.from = MemberId::new(id);
            queue.handle_packet(passed)
        });
        assert_eq!(kept.count(), RELAY_SENDERS);
    }

    #[test]
    fn a_rate_of_nothing_passes_nothing_on() {
        let mut queue = RelayQueue::new(0);
        assert!(!queue.handle_packet(packet(1, 9)));
        assert_eq!(queue.poll_timeout(), None);
    }
}
