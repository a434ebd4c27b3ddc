//! Reunite: find the members that went out of sight, and make two rings one again.
//!
//! Zave's proof assumes that the ring never falls apart; a divided network makes it fall apart all the same,
//! and so does the death of r neighbours at once. So each member looks up *itself* now and then, beginning
//! at some member that it knew once. In a whole ring the answer is the member itself. If the answer is
//! another member o, then the ring of the one who answered does not know this member, and two things are
//! done, both of them ordinary steps of ring maintenance:
//!
//! - o is notified, as a new member would do. Its ring then finds this member by stabilisation.
//! - If o is closer than the present successor, this member stabilises from it, so o is contacted first.
//!
//! Best successors only ever get closer this way, so the rings grow together like a ring with new members.
//!
//! Source: the idea is from Shafaat, Ghodsi and Haridi, "Dealing with Network Partitions in Structured
//! Overlay Networks", 2009; the steps are Zave's.

use std::collections::VecDeque;
use std::time::Instant;

use rand::seq::IndexedRandom;

use crate::chord::Chord;
use crate::key::{RingKey, between};
use crate::limits::{REUNITE_INTERVAL, REUNITE_INTERVAL_ALONE};
use crate::message::Message;
use crate::ring::Operation;

impl Chord {
    /// Starts a lookup for the own key at some member that is no neighbour.
    pub(super) fn start_probe(&mut self, now: Instant) {
        let alone = self.ring.successors.is_empty();
        let interval = if alone {
            let factor = 1_u32.checked_shl(self.ring.probes_alone.min(8)).unwrap_or(1);
            let longer = REUNITE_INTERVAL_ALONE.saturating_mul(factor);
            self.ring.probes_alone = self.ring.probes_alone.saturating_add(1);
            longer.min(REUNITE_INTERVAL)
        } else {
            self.ring.probes_alone = 0;
            REUNITE_INTERVAL
        };
        let interval = self.jittered(interval.mul_f64(self.doubt()));
        self.ring.next_probe = Some(now + interval);
        let neighbour = |key: &RingKey| {
            self.ring.successors.contains(key) || self.ring.predecessor == Some(*key)
        };
        let strangers: Vec<RingKey> = self.peers.known().filter(|key| !neighbour(key)).collect();
        if let Some(stranger) = strangers.choose(&mut self.rng) {
            self.start_probe_lookup(now, VecDeque::from([*stranger]));
        }
    }

    /// The lookup for the own key found `owner`.
    pub(crate) fn probe_answered(&mut self, now: Instant, owner: RingKey) {
        if owner == self.me || !self.is_member() {
            return;
        }
        self.send(owner, Message::Notify);
        let head = self.head();
        if between(&self.me, &owner, &head) && self.ring.operation == Operation::Idle {
            self.stabilise_from_predecessor(now, head, owner);
        }
    }
}
