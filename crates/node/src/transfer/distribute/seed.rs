//! The sender's part: which piece goes to which receiver. No input or output, no clock.
//!
//! Each piece goes across the sender's line once, to one receiver, who gives it to the others. It
//! goes again when all that had it are gone, or to one that cannot get it from others.
//!
//! Commands: [`Seeder::join`], [`Seeder::leave`]. Input: [`Seeder::handle_has`],
//! [`Seeder::handle_wants`]. Output: [`Seeder::poll_piece`]. Getter: [`Seeder::others`].

use std::collections::BTreeMap;

use super::pieces::Pieces;
use crate::limits::{PIECES_AHEAD, SHARERS};

/// What is known of one receiver.
#[derive(Debug)]
struct Receiver {
    has: Pieces,
    /// Given to it, and not yet said to be there.
    ahead: Pieces,
    /// What it cannot get from others.
    wants: Pieces,
}

/// Which piece goes to which receiver; these are known by an `R`.
#[derive(Debug)]
pub(super) struct Seeder<R> {
    count: u32,
    receivers: BTreeMap<R, Receiver>,
    /// How many receivers have each piece, or were given it.
    copies: Vec<u32>,
}

impl<R: Copy + Ord> Seeder<R> {
    /// Of a file of `count` pieces.
    pub(super) fn new(count: u32) -> Seeder<R> {
        let copies = usize::try_from(count).unwrap_or(0);
        Seeder {
            count,
            receivers: BTreeMap::new(),
            copies: vec![0; copies],
        }
    }

    fn count_copy(&mut self, piece: u32, change: fn(u32, u32) -> u32) {
        let place = usize::try_from(piece).ok();
        if let Some(copies) = place.and_then(|place| self.copies.get_mut(place)) {
            *copies = change(*copies, 1);
        }
    }

    /// A receiver has accepted the file, and has these pieces. One that was there before is another
    /// attempt.
    pub(super) fn join(&mut self, receiver: R, has: Pieces) {
        self.leave(receiver);
        for piece in has.iter() {
            self.count_copy(piece, u32::saturating_add);
        }
        let none = || Pieces::none(self.count);
        let (ahead, wants) = (none(), none());
        self.receivers
            .insert(receiver, Receiver { has, ahead, wants });
    }

    /// A receiver is gone, or gives nothing any more.
    pub(super) fn leave(&mut self, receiver: R) {
        let Some(gone) = self.receivers.remove(&receiver) else {
            return;
        };
        for piece in gone.has.iter().chain(gone.ahead.iter()) {
            self.count_copy(piece, u32::saturating_sub);
        }
    }

    /// A receiver has these pieces as well.
    pub(super) fn handle_has(&mut self, receiver: R, pieces: &Pieces) {
        for piece in pieces.iter() {
            let Some(known) = self.receivers.get_mut(&receiver) else {
                return;
            };
            let was_ahead = known.ahead.contains(piece);
            known.ahead.remove(piece);
            known.wants.remove(piece);
            if known.has.add(piece) && !was_ahead {
                self.count_copy(piece, u32::saturating_add);
            }
        }
    }

    /// A receiver cannot get these from others.
    pub(super) fn handle_wants(&mut self, receiver: R, pieces: &Pieces) {
        let Some(known) = self.receivers.get_mut(&receiver) else {
            return;
        };
        for piece in pieces.iter() {
            // What was given to it is on its way.
            if !known.has.contains(piece) && !known.ahead.contains(piece) {
                known.wants.add(piece);
            }
        }
    }

    /// The next piece for this receiver: one that no receiver has, else one that it wants. None
    /// until something changes.
    pub(super) fn poll_piece(&mut self, receiver: R) -> Option<u32> {
        let known = self.receivers.get_mut(&receiver)?;
        if usize::try_from(known.ahead.len()).is_ok_and(|ahead| ahead >= PIECES_AHEAD) {
            return None;
        }
        let copies = (0..self.count).zip(&self.copies);
        let new = copies.into_iter().find(|(_, copies)| **copies == 0);
        let wanted = || known.wants.iter().next();
        let piece = new.map(|(piece, _)| piece).or_else(wanted)?;
        known.wants.remove(piece);
        known.ahead.add(piece);
        self.count_copy(piece, u32::saturating_add);
        Some(piece)
    }

    /// The others that accepted the same file, in order.
    pub(super) fn others(&self, receiver: R) -> Vec<R> {
        let others = self.receivers.keys().filter(|other| **other != receiver);
        others.take(SHARERS).copied().collect()
    }
}
