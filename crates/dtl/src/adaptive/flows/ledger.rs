//! Which virtual flow each packet under way belongs to.

use std::collections::VecDeque;

use crate::limits::{MAX_LEDGER, MAX_PACKET_GAP};

/// Whose a packet is, and its size in datagrams: what a virtual flow has under way for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) owner: u8,
    /// Whether it is the last of several that left together.
    pub(super) pushed: bool,
    pub(super) datagrams: f32,
}

/// An entry for each packet from the oldest under way to the newest; none for packets that are
/// no flow's, or no longer under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Number of the first entry's packet.
    first: u64,
    entries: VecDeque<Option<Entry>>,
}

impl Ledger {
    /// Enters a packet. Those that are forgotten for it, because there are too many or because
    /// packet numbers began again, are given to `forget`.
    pub(super) fn enter(&mut self, packet: u64, entry: Entry, mut forget: impl FnMut(Entry)) {
        let next = self.next();
        if packet < next || packet - next > MAX_PACKET_GAP {
            self.entries.drain(..).flatten().for_each(&mut forget);
        }
        if self.entries.is_empty() {
            self.first = packet;
        }
        for _ in self.next()..packet {
            self.entries.push_back(None);
        }
        self.entries.push_back(Some(entry));
        while self.entries.len() > MAX_LEDGER {
            if let Some(oldest) = self.pop() {
                forget(oldest);
            }
        }
    }

    /// Gives up packets before this one: no report of them will come.
    pub(super) fn give_up_before(&mut self, packet: u64, mut forget: impl FnMut(Entry)) {
        while self.first < packet && !self.entries.is_empty() {
            if let Some(oldest) = self.pop() {
                forget(oldest);
            }
        }
    }

    /// Takes a packet that is no longer under way.
    pub(super) fn take(&mut self, packet: u64) -> Option<Entry> {
        let index = usize::try_from(packet.checked_sub(self.first)?).ok()?;
        let entry = self.entries.get_mut(index)?.take();
        while let Some(None) = self.entries.front() {
            self.pop();
        }
        entry
    }

    /// Number of the packet after the last.
    fn next(&self) -> u64 {
        self.first.saturating_add(self.entries.len() as u64)
    }

    fn pop(&mut self) -> Option<Entry> {
        let oldest = self.entries.pop_front();
        self.first = self.first.saturating_add(1);
        oldest.flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(owner: u8) -> Entry {
        Entry {
            owner,
            pushed: false,
            datagrams: 1.0,
        }
    }

    #[test]
    fn a_packet_is_taken_once() {
        let mut ledger = Ledger::default();
        for packet in [5, 6, 9] {
            ledger.enter(packet, entry(packet as u8), |_| unreachable!());
        }
        assert_eq!(ledger.take(4), None);
        assert_eq!(ledger.take(6), Some(entry(6)));
        assert_eq!(ledger.take(6), None);
        assert_eq!(ledger.take(7), None);
        assert_eq!(ledger.take(5), Some(entry(5)));
        assert_eq!(ledger.entries.len(), 1);
        assert_eq!(ledger.take(9), Some(entry(9)));
        assert_eq!(ledger.take(10), None);
        assert!(ledger.entries.is_empty());
    }

    #[test]
    fn forgotten_packets_are_reported_and_memory_is_bounded() {
        let mut ledger = Ledger::default();
        let mut forgotten = 0;
        for packet in 0..MAX_LEDGER as u64 + 10 {
            ledger.enter(packet, entry(1), |_| forgotten += 1);
        }
        assert_eq!((forgotten, ledger.entries.len()), (10, MAX_LEDGER));
        // Numbers that begin again, and a leap: both begin a new ledger.
        for packet in [3, u64::MAX - 1] {
            ledger.enter(packet, entry(2), |_| forgotten += 1);
            assert_eq!(ledger.entries.len(), 1);
        }
        assert_eq!(forgotten, 10 + MAX_LEDGER + 1);
        assert_eq!(ledger.take(u64::MAX - 1), Some(entry(2)));
    }

    #[test]
    fn unreported_packets_are_given_up() {
        let mut ledger = Ledger::default();
        let mut given_up = Vec::new();
        for packet in 0..10 {
            ledger.enter(packet, entry(packet as u8), |_| unreachable!());
        }
        ledger.take(2);
        ledger.give_up_before(4, |entry| given_up.push(entry.owner));
        assert_eq!(given_up, [0, 1, 3]);
        assert_eq!(ledger.take(4), Some(entry(4)));
    }
}
