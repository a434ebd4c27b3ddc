//! Tokens of packets that wait behind a gap.

use std::collections::BTreeMap;

use crate::limits::PART_OVERHEAD;

/// Tokens of packets that wait for a gap to be filled, by the position behind their last byte.
#[derive(Debug)]
pub(super) struct Held<T> {
    tokens: BTreeMap<(u64, u64), T>,
    serial: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self {
            tokens: BTreeMap::new(),
            serial: 0,
        }
    }
}

impl<T> Held<T> {
    pub(super) fn held(&self) -> usize {
        self.tokens.len().saturating_mul(PART_OVERHEAD)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn push(&mut self, end: u64, token: T) {
        self.tokens.insert((end, self.serial), token);
        self.serial = self.serial.wrapping_add(1);
    }

    /// The next token of which all bytes lie before `next`.
    pub(super) fn take_due(&mut self, next: u64) -> Option<T> {
        let first = self
            .tokens
            .first_entry()
            .filter(|token| token.key().0 <= next)?;
        Some(first.remove())
    }
}
