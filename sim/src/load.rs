//! [`Load`]: machines that take time for what they do, so that too much of it makes everything
//! late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What machines take how long for. Whatever arrives at one waits for what came before, timers too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Machines, on which members run in turn, by when they are first heard of.
    pub machines: usize,
    /// Time that a message takes its receiver's machine.
    pub message: Duration,
    /// Time that the first message between two members takes in addition: the handshake of a link.
    pub first: Duration,
    /// How long a message waits. One that would wait longer is dropped, as by a socket whose
    /// buffer is full.
    pub patience: Duration,
}

/// When something can be done that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    At(Duration),
    Never,
}

/// The machines at work.
#[derive(Debug)]
pub(crate) struct Machines<A> {
    load: Load,
    place: BTreeMap<A, usize>,
    /// When each is done with all that it has.
    free: Vec<Duration>,
    linked: BTreeSet<(A, A)>,
}

impl<A: Copy + Ord> Machines<A> {
    pub(crate) fn new(load: Load) -> Machines<A> {
        let free = vec![Duration::ZERO; load.machines.max(1)];
        Machines {
            load,
            place: BTreeMap::new(),
            free,
            linked: BTreeSet::new(),
        }
    }

    fn free(&mut self, member: A) -> &mut Duration {
        let place = self.place.len() % self.free.len();
        let place = *self.place.entry(member).or_insert(place);
        &mut self.free[place]
    }

    /// A message of `from` arrives.
    pub(crate) fn message(&mut self, now: Duration, from: A, to: A) -> Turn {
        let begins = (*self.free(to)).max(now);
        if begins - now > self.load.patience {
            return Turn::Never;
        }
        let pair = if from < to { (from, to) } else { (to, from) };
        let first = if self.linked.insert(pair) {
            self.load.first
        } else {
            Duration::ZERO
        };
        let ends = begins + self.load.message + first;
        *self.free(to) = ends;
        Turn::At(ends)
    }

    /// A timer goes off: it takes no time, but has to wait for its turn.
    pub(crate) fn timer(&mut self, now: Duration, member: A) -> Turn {
        match *self.free(member) {
            free if free > now => Turn::At(free),
            _ => Turn::Now,
        }
    }

    /// For how long the busiest is busy.
    pub(crate) fn busy(&self, now: Duration) -> Duration {
        let most = self.free.iter().max().copied().unwrap_or_default();
        most.saturating_sub(now)
    }
}
