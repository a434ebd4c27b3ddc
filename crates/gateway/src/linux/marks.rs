//! Verdicts as bits of marks: two for the state, five for the class, and one that packets have that
//! come back with a verdict.

use std::fmt;

use crate::limits::MAX_CLASSES;
use crate::verdict::Offload;

const STATE: u32 = 0b11;
const ALLOWED: u32 = 1;
const BLOCKED: u32 = 2;
const SHAPED: u32 = 3;
/// In place of a class where the state's bits are zero: it is not decided for good.
const ANSWERS_PASS: u32 = 1;
const WATCHED: u32 = 2;
/// The first class of those that are watched as well.
const WATCHED_IN: u32 = 3;
const STATE_BITS: u32 = 2;
/// The bits that connections keep.
const KEPT: u32 = 7;
/// The one below them. No connection has it, so no rule of the host that gives packets their
/// connections' marks (`CONNMARK --restore-mark`) makes a packet look like one that was asked
/// about.
const ANSWERED: u32 = 1;
const BITS: u32 = 1 + KEPT;

/// The bits of marks that are ours: eight in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    shift: u32,
}

impl Default for Marks {
    /// 0x7f800000: Kubernetes and Cilium use lower ones, and the highest is Proxmox VE's. Of
    /// Tailscale's mask, 0xff0000, the highest bit is our lowest, which no connection keeps, and no
    /// packet behind our chain: Tailscale's come later.
    fn default() -> Self {
        Self { shift: 23 }
    }
}

impl Marks {
    /// The marks within this mask.
    ///
    /// # Errors
    /// It has not exactly eight bits in a row.
    pub fn within(mask: u32) -> Result<Self, String> {
        let shift = mask.trailing_zeros();
        if shift <= 32_u32.saturating_sub(BITS) && mask >> shift == (1 << BITS) - 1 {
            return Ok(Self { shift });
        }
        Err(format!(
            "the mask {mask:#x} has not exactly {BITS} bits in a row, as 0x7f800000 has"
        ))
    }

    /// All bits that are ours.
    #[must_use]
    pub fn mask(self) -> u32 {
        ((1 << BITS) - 1) << self.shift
    }

    /// Those of them that a connection keeps.
    #[must_use]
    pub fn kept(self) -> u32 {
        ((1 << KEPT) - 1) << self.kept_shift()
    }

    fn kept_shift(self) -> u32 {
        self.shift.saturating_add(1)
    }

    /// The mark of a packet that comes back with this verdict; the bits of others stay.
    #[must_use]
    pub fn apply(self, mark: u32, settled: Offload) -> u32 {
        (mark & !self.mask()) | (ANSWERED << self.shift) | self.value(settled)
    }

    fn value(self, settled: Offload) -> u32 {
        let number =
            |class: usize| u32::try_from(class.min(MAX_CLASSES.saturating_sub(1))).unwrap_or(0);
        let value = match settled {
            Offload::Allowed => ALLOWED,
            Offload::Blocked => BLOCKED,
            Offload::AnswersPass => ANSWERS_PASS << STATE_BITS,
            Offload::Watched => WATCHED << STATE_BITS,
            Offload::WatchedIn(class) => number(class).saturating_add(WATCHED_IN) << STATE_BITS,
            Offload::Shaped(class) => SHAPED | (number(class) << STATE_BITS),
        };
        value << self.kept_shift()
    }

    /// The bits that a connection keeps with this verdict; its others stay as they are.
    pub(super) fn kept_value(self, settled: Offload) -> u32 {
        self.value(settled)
    }

    /// What a connection's mark says; `None`: it is not decided.
    #[must_use]
    pub fn read(self, mark: u32) -> Option<Offload> {
        let value = (mark & self.kept()) >> self.kept_shift();
        let number = value >> STATE_BITS;
        let class = |number: u32| usize::try_from(number).ok();
        match (value & STATE, number) {
            (ALLOWED, _) => Some(Offload::Allowed),
            (BLOCKED, _) => Some(Offload::Blocked),
            (SHAPED, number) => class(number).map(Offload::Shaped),
            (_, 0) => None,
            (_, ANSWERS_PASS) => Some(Offload::AnswersPass),
            (_, WATCHED) => Some(Offload::Watched),
            (_, number) => class(number.saturating_sub(WATCHED_IN)).map(Offload::WatchedIn),
        }
    }

    /// The mark and mask of packets that come back with a verdict, as the packet filter writes
    /// them.
    pub(super) fn returned_mark(self) -> String {
        let bit = Hex(ANSWERED << self.shift);
        format!("{bit}/{bit}")
    }

    /// The mark and mask of packets of connections that end here, as the packet filter writes them.
    /// No verdict has it.
    pub(super) fn terminated(self) -> String {
        let value = (BLOCKED | (ANSWERS_PASS << STATE_BITS)) << self.kept_shift();
        format!("{}/{}", Hex(value), Hex(self.mask()))
    }

    /// The mark and mask of connections that are let through for good, in a class or in none, as
    /// the packet filter writes them.
    pub(super) fn passes(self) -> String {
        let bit = Hex((ALLOWED & SHAPED) << self.kept_shift());
        format!("{bit}/{bit}")
    }

    /// The state's bits.
    pub(super) fn state_mask(self) -> Hex {
        Hex(STATE << self.kept_shift())
    }

    /// A state and its mask, as the packet filter writes them.
    pub(super) fn state(self, settled: Offload) -> String {
        format!("{}/{}", Hex(self.value(settled)), self.state_mask())
    }

    /// The mark and mask of connections of which nothing is decided, as the packet filter writes
    /// them.
    pub(super) fn undecided(self) -> String {
        format!("0x0/{}", Hex(self.kept()))
    }

    /// A connection's whole value and its mask, as the packet filter writes them.
    pub(super) fn whole(self, settled: Offload) -> String {
        format!("{}/{}", Hex(self.value(settled)), Hex(self.kept()))
    }
}

/// A number in the packet filter's own form, so that what it lists can be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hex(pub(super) u32);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;
    use crate::limits::MAX_CLASSES;
    use crate::verdict::Offload;

    #[test]
    fn only_our_bits_change_and_all_verdicts_differ() {
        for mask in [0xff00_0000, 0xff, 0x7f80_0000] {
            let marks = Marks::within(mask).unwrap();
            assert_eq!(marks.mask(), mask);
            assert_eq!(marks.read(!marks.kept()), None);
            let mut seen = std::collections::BTreeSet::new();
            let some = [
                Offload::Allowed,
                Offload::Blocked,
                Offload::AnswersPass,
                Offload::Watched,
            ];
            let verdicts = some
                .into_iter()
                .chain((0..MAX_CLASSES).map(Offload::Shaped))
                .chain((0..MAX_CLASSES).map(Offload::WatchedIn));
            for settled in verdicts {
                let marked = marks.apply(0xffff_ffff, settled);
                assert_eq!(marks.read(marked), Some(settled));
                assert_eq!(marked | mask, 0xffff_ffff);
                // What a connection keeps of it is some verdict, and none says that the packet has
                // one.
                assert_ne!(marked & marks.kept(), 0);
                assert_eq!(marks.kept() & (mask ^ marks.kept()), 0);
                assert_ne!(marked & (mask ^ marks.kept()), 0);
                assert!(seen.insert(marked));
                let passes = matches!(settled, Offload::Allowed | Offload::Shaped(_));
                let bits = marks.passes();
                let (_, bit) = bits.split_once("/0x").unwrap();
                let bit = u32::from_str_radix(bit, 16).unwrap();
                assert_eq!(marked & bit != 0, passes, "{settled:?}");
            }
        }
    }

    #[test]
    fn masks_of_other_shapes_are_refused() {
        for mask in [0, 0x7f, 0x1ff, 0xff0_0001, 0xffff_ffff] {
            assert!(Marks::within(mask).is_err(), "{mask:#x}");
        }
    }
}
