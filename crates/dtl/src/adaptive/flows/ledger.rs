//! Which virtual flow each packet under way belongs to.

use std::collections::VecDeque;

use crate::limits::{MAX_LEDGER, MAX_PACKET_GAP};

/// Nobody's packet, or one that is no longer under way.
const NOBODY: u8 = u8::MAX;

/// A flow's index for each packet from the oldest under way to the newest: one byte a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Number of the first entry's packet.
    first: u64,
    owners: VecDeque<u8>,
}

impl Ledger {
    /// Enters a packet. Those that are forgotten for it, because there are too many or because packet numbers began anew, are given to `forget`.
    pub(super) fn enter(&mut self, packet: u64, owner: u8, mut forget: impl FnMut(u8)) {
        let next = self.first.saturating_add(self.owners.len() as u64);
        if packet < next || packet - next > MAX_PACKET_GAP {
            self.owners
                .drain(..)
                .filter(|owner| *owner != NOBODY)
                .for_each(&mut forget);
        }
        if self.owners.is_empty() {
            self.first = packet;
        }
        let next = self.first.saturating_add(self.owners.len() as u64);
        for _ in next..packet {
            self.owners.push_back(NOBODY);
        }
        self.owners.push_back(owner);
        while self.owners.len() > MAX_LEDGER {
            let oldest = self.owners.pop_front();
            self.first = self.first.saturating_add(1);
            if let Some(owner) = oldest.filter(|owner| *owner != NOBODY) {
                forget(owner);
            }
        }
    }

    /// Gives up packets before this one: nobody will tell what became of them.
    pub(super) fn give_up_before(&mut self, packet: u64, mut forget: impl FnMut(u8)) {
        while self.first < packet {
            let Some(owner) = self.owners.pop_front() else {
                return;
            };
            self.first = self.first.saturating_add(1);
            if owner != NOBODY {
                forget(owner);
            }
        }
    }

    /// Takes a packet that is no longer under way: its flow, if it had one.
    pub(super) fn take(&mut self, packet: u64) -> Option<u8> {
        let index = usize::try_from(packet.checked_sub(self.first)?).ok()?;
        let entry = self.owners.get_mut(index)?;
        let owner = std::mem::replace(entry, NOBODY);
        while self.owners.front() == Some(&NOBODY) {
            self.owners.pop_front();
            self.first = self.first.saturating_add(1);
        }
        (owner != NOBODY).then_some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_once() {
        let mut ledger = Ledger::default();
        for packet in [5, 6, 9] {
            ledger.enter(packet, packet as u8, |_| unreachable!());
        }
        assert_eq!(ledger.take(4), None);
        assert_eq!(ledger.take(6), Some(6));
        assert_eq!(ledger.take(6), None);
        assert_eq!(ledger.take(7), None);
        assert_eq!(ledger.take(5), Some(5));
        assert_eq!(ledger.owners.len(), 1);
        assert_eq!(ledger.take(9), Some(9));
        assert_eq!(ledger.take(10), None);
        assert!(ledger.owners.is_empty());
    }

    #[test]
    fn what_is_forgotten_is_told_and_memory_is_bounded() {
        let mut ledger = Ledger::default();
        let mut forgotten = 0;
        for packet in 0..MAX_LEDGER as u64 + 10 {
            ledger.enter(packet, 1, |_| forgotten += 1);
        }
        assert_eq!((forgotten, ledger.owners.len()), (10, MAX_LEDGER));
        // Numbers that begin anew, and a leap: both begin a new ledger.
        for packet in [3, u64::MAX - 1] {
            ledger.enter(packet, 2, |_| forgotten += 1);
            assert_eq!(ledger.owners.len(), 1);
        }
        assert_eq!(forgotten, 10 + MAX_LEDGER + 1);
        assert_eq!(ledger.take(u64::MAX - 1), Some(2));
    }
}
