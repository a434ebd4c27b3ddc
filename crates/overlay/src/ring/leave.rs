//! Leaving the ring, and what the others do about one who leaves.

use std::time::Instant;

use crate::chord::Chord;
use crate::event::{Event, LeaveRefused, LookupFailure, Membership};
use crate::key::RingKey;
use crate::message::Message;
use crate::ring::Ring;

impl Chord {
    /// Leaves the ring at once, and tells the neighbours.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring, or does not know r + 1 others: the ring must keep r + 1
    /// principals. It cannot know whether others leave at the same time, nor whether those it knows
    /// are principals; two members must therefore not be told to leave a small ring at once.
    pub fn leave(&mut self, now: Instant) -> Result<(), LeaveRefused> {
        if !self.is_member() {
            return Err(LeaveRefused::NotMember);
        }
        let neighbours = self
            .ring
            .successors
            .iter()
            .copied()
            .chain(self.ring.predecessor);
        let others = neighbours.chain(self.neighbours.keys());
        let mut others: Vec<RingKey> = others.chain(self.fingers.keys()).collect();
        others.sort_unstable();
        others.dedup();
        let needed = self.config.successors.saturating_add(1);
        if others.len() < needed {
            return Err(LeaveRefused::TooFewMembers {
                left: others.len(),
                needed,
            });
        }
        for key in others {
            self.send(key, Message::Leaving);
        }
        self.ring = Ring::default();
        self.ring.membership = Membership::Outside;
        self.fingers.stop();
        self.neighbours.stop();
        self.witnessed.next_audit = None;
        self.keeping.stop();
        self.fail_all_lookups(now, LookupFailure::Left);
        self.fail_all_records(LookupFailure::Left);
        self.stop_routing();
        self.requests.forget(|_| true);
        Ok(())
    }

    /// Takes the word of a member about itself: it is gone.
    pub(crate) fn handle_leaving(&mut self, now: Instant, from: RingKey) {
        if self.ring.predecessor == Some(from) || self.ring.successors.contains(&from) {
            self.emit(Event::MemberDead(from));
        }
        self.fingers.remove(&from);
        self.neighbour_gone(now, &from);
        self.gone(now, from);
        self.routing.forget(&from);
        self.peers.suspect(now, from);
        // Whoever comes next before this member need not wait until the one that is gone has not
        // answered; and what that owned is its own now.
        self.forget_pointer(now, &from);
    }
}
