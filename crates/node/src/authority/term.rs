//! Terms of the authority: the part of a statement's number that grows only when another folder
//! takes the ring over.
//!
//! ```text
//!  63  62        52 51                                0
//! | 0 |    term    |  Unix time in microseconds, at least |
//! ```
//!
//! Members compare whole numbers. So every statement of an earlier term is older than each of a
//! later one, whatever the clocks of the two machines say. A ring whose authority was never
//! promoted is in term 0, and its numbers are times, as they always were.

use crate::limits::TERMS;

/// Bits of the time: until the year 2112.
pub(super) const TERM_SHIFT: u32 = 52;

/// The term in which the statement with this number was written.
pub(super) fn term_of(number: u64) -> u64 {
    number >> TERM_SHIFT
}

/// The first number of the term after that of `newest`, at this time in microseconds; none if
/// there are no more terms.
pub(super) fn next_term(newest: u64, micros: u64) -> Option<u64> {
    let term = term_of(newest) + 1;
    let time = micros & ((1 << TERM_SHIFT) - 1);
    (term <= TERMS).then_some((term << TERM_SHIFT) | time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::unix_micros;

    #[test]
    fn a_later_term_is_above_any_clock() {
        let now = unix_micros();
        assert_eq!(term_of(now), 0);
        let next = next_term(now, 0).unwrap();
        assert_eq!(term_of(next), 1);
        assert!(next > now + 365 * 86_400 * 1_000_000);
        let last = TERMS << TERM_SHIFT;
        assert!(i64::try_from(last | now).is_ok(), "SQLite has 63 bits");
        assert_eq!(next_term(last, now), None);
    }
}
