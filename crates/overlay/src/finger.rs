//! Fingers: pointers far round the ring, fixed lazily by lookups in the background.
//!
//! Finger b points to the owner of this member's key + 2^b. Only distinct fingers are kept: those within
//! the successor list are left out, and after the owner of one is known, the next b is the least whose
//! point lies beyond that owner. So a ring of N members needs about log2(N) of the 256.

use std::time::{Duration, Instant};

use crate::chord::Chord;
use crate::key::{RingKey, bit_length};
use crate::limits::MAX_FINGERS;

#[derive(Debug, Default)]
pub(crate) struct Fingers {
    /// By bit, ascending, and so also clockwise.
    entries: Vec<(u16, RingKey)>,
    /// The bit to refresh next.
    cursor: u16,
    /// Whether every finger has been looked up once.
    complete: bool,
    next: Option<Instant>,
}

impl Fingers {
    pub(crate) fn start(&mut self, now: Instant) {
        *self = Fingers {
            next: Some(now),
            ..Fingers::default()
        };
    }

    pub(crate) fn stop(&mut self) {
        *self = Fingers::default();
    }

    /// The fingers, nearest first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RingKey> {
        self.entries.iter().map(|(_, key)| *key)
    }

    pub(crate) fn remove(&mut self, key: &RingKey) {
        self.entries.retain(|(_, finger)| finger != key);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next
    }

    /// Finger `bit` is `owner`: it replaces every finger that the owner makes superfluous.
    fn set(&mut self, me: &RingKey, bit: u16, owner: RingKey) {
        let next = if owner == *me {
            256
        } else {
            bit_length(&me.distance_to(&owner))
        };
        self.entries
            .retain(|(other, key)| (*other < bit && *key != owner) || *other >= next);
        if owner != *me && next > bit {
            let place = self.entries.partition_point(|(other, _)| *other < bit);
            self.entries.insert(place, (bit, owner));
            if self.entries.len() > MAX_FINGERS {
                self.entries.remove(0);
            }
        }
        self.advance(next.max(bit.saturating_add(1)));
    }

    /// The next finger is the first at or after `bit`; past the last, the pass begins again.
    fn advance(&mut self, bit: u16) {
        self.cursor = bit;
        if bit >= 256 {
            self.cursor = 0;
            self.complete = true;
        }
    }
}

impl Chord {
    pub(crate) fn fingers_due(&mut self, now: Instant) {
        if !self.is_member() || self.fingers.next.is_none_or(|next| next > now) {
            return;
        }
        let interval = self.config.finger_interval;
        let pause = if self.fingers.complete {
            interval
        } else {
            interval / 4
        };
        let pause = self.jittered(pause).max(Duration::from_millis(1));
        self.fingers.next = Some(now + pause);
        let Some(last) = self.ring.successors.last() else {
            return;
        };
        let first = bit_length(&self.me.distance_to(last));
        let bit = self.fingers.cursor.max(first);
        self.fingers.entries.retain(|(other, _)| *other >= first);
        if bit >= 256 {
            return self.fingers.advance(256);
        }
        self.fingers.cursor = bit;
        let target = self.me.plus_power(bit);
        self.start_finger_lookup(now, bit, target);
    }

    pub(crate) fn finger_found(&mut self, bit: u16, owner: RingKey) {
        let me = self.me;
        self.fingers.set(&me, bit, owner);
    }

    pub(crate) fn finger_not_found(&mut self, bit: u16) {
        self.fingers.advance(bit.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finger_replaces_those_it_makes_superfluous() {
        let me = RingKey::ZERO;
        let mut fingers = Fingers::default();
        for bit in [200, 201, 202, 210] {
            fingers.set(&me, bit, me.plus_power(bit));
            assert_eq!(fingers.cursor, bit + 1);
        }
        assert_eq!(fingers.keys().count(), 4);
        fingers.set(&me, 200, me.plus_power(202));
        let bits: Vec<u16> = fingers.entries.iter().map(|(bit, _)| *bit).collect();
        assert_eq!(bits, [200, 210]);
        assert_eq!(fingers.cursor, 203);
        fingers.set(&me, 205, me);
        assert_eq!(fingers.keys().count(), 1);
        assert!(fingers.complete);
        assert_eq!(fingers.cursor, 0);
    }
}
