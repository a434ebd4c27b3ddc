//! One direction of a connection, put in order for a reader that may give up.

use crate::limits::{MAX_NAMING_AHEAD, MAX_NAMING_PARTS};
use crate::ranges::{Ranges, after};

/// How packets are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// By their first byte, in 32 bits (TCP).
    Bytes,
    /// One by one, in 16 bits (uTP).
    Packets,
}

/// Positions from one numbered packet to the next: more than one carries.
const PACKET: u64 = 1 << 16;

/// The next bytes of a direction, and what came before its turn. Of each byte the first copy
/// counts: who sends others in its place spoils a hash, and no more.
#[derive(Debug)]
pub(super) struct Order {
    numbering: Numbering,
    /// The number of what comes next, and its position from the beginning.
    number: u32,
    position: u64,
    ahead: Ranges,
}

impl Order {
    /// A direction whose first packet has this number.
    pub(super) fn new(numbering: Numbering, number: u32) -> Self {
        Self {
            numbering,
            number,
            position: 0,
            ahead: Ranges::default(),
        }
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> usize {
        self.ahead.held()
    }

    /// Takes in a packet, and hands on what is next. `None`: too much has come before its turn.
    pub(super) fn take(
        &mut self,
        number: u32,
        bytes: &[u8],
        read: &mut dyn FnMut(&[u8]),
    ) -> Option<()> {
        let apart = number.wrapping_sub(self.number);
        let (ahead, behind) = match self.numbering {
            Numbering::Bytes if apart < 1 << 31 => (u64::from(apart), 0),
            Numbering::Bytes => (0, self.number.wrapping_sub(number)),
            Numbering::Packets => match apart & 0xffff {
                apart @ 0..0x8000 => (u64::from(apart).saturating_mul(PACKET), 0),
                _ => return Some(()),
            },
        };
        if ahead > 0 {
            let at = self.position.saturating_add(ahead);
            let room = MAX_NAMING_AHEAD.saturating_sub(self.ahead.held());
            let fits = ahead <= PACKET.saturating_mul(u64::try_from(MAX_NAMING_PARTS).ok()?);
            let kept = fits.then(|| self.ahead.insert(at, bytes, room, MAX_NAMING_PARTS));
            return kept.flatten().map(drop);
        }
        let known = usize::try_from(behind).unwrap_or(usize::MAX);
        self.hand_on(bytes.get(known..).unwrap_or_default(), read);
        while let Some((at, part)) = self.ahead.take_due(self.position) {
            let known = usize::try_from(self.position.saturating_sub(at)).unwrap_or(usize::MAX);
            self.hand_on(part.get(known..).unwrap_or_default(), read);
        }
        Some(())
    }

    fn hand_on(&mut self, bytes: &[u8], read: &mut dyn FnMut(&[u8])) {
        if bytes.is_empty() {
            return;
        }
        read(bytes);
        match self.numbering {
            Numbering::Bytes => {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                self.number = self.number.wrapping_add(length);
                self.position = after(self.position, bytes.len());
            }
            Numbering::Packets => {
                self.number = self.number.wrapping_add(1);
                self.position = self.position.saturating_add(PACKET);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Numbering, Order};
    use crate::limits::MAX_NAMING_AHEAD;

    fn read(order: &mut Order, packets: &[(u32, &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (number, bytes) in packets {
            let taken = order.take(*number, bytes, &mut |bytes| all.extend_from_slice(bytes));
            assert_eq!(taken, Some(()));
        }
        all
    }

    #[test]
    fn segments_are_read_in_their_order_once() {
        let mut order = Order::new(Numbering::Bytes, u32::MAX - 1);
        let packets: [(u32, &[u8]); 5] = [
            (u32::MAX - 1, b"abc"),
            (4, b"ghi"),
            (u32::MAX - 1, b"abcd"),
            (2, b"efg"),
            (4, b"GHI"),
        ];
        assert_eq!(read(&mut order, &packets), b"abcdefghi");
        assert_eq!(order.held(), 0);
    }

    #[test]
    fn packets_are_read_by_their_numbers() {
        let mut order = Order::new(Numbering::Packets, 0xffff);
        let packets: [(u32, &[u8]); 5] = [
            (0xffff, b"a"),
            (2, b"dd"),
            (1, b"c"),
            (0xffff, b"x"),
            (0, b"b"),
        ];
        assert_eq!(read(&mut order, &packets), b"abcdd");
    }

    #[test]
    fn too_much_ahead_ends_it() {
        let mut order = Order::new(Numbering::Bytes, 0);
        let long = vec![0; MAX_NAMING_AHEAD];
        assert_eq!(order.take(1, &long, &mut |_| {}), None);
        assert_eq!(order.take(1 << 30, b"a", &mut |_| {}), None);
    }
}
