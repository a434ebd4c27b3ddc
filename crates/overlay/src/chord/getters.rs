//! What a caller may know of a member.

use super::Chord;
use crate::event::{Counters, Membership, Snapshot, Waiting};
use crate::key::{Offset, RingKey};
use crate::limits::MAX_PERSISTED;
use crate::proof::Proof;

impl Chord {
    /// This member's key.
    #[must_use]
    pub fn key(&self) -> RingKey {
        self.shared.me
    }

    /// Where this member stands.
    #[must_use]
    pub fn state(&self) -> Membership {
        self.ring.membership()
    }

    /// The predecessor; none in a ring of one and outside.
    #[must_use]
    pub fn predecessor(&self) -> Option<RingKey> {
        self.ring.pointers().predecessor
    }

    /// The successors, nearest first: at most r, fewer in a small ring, none in a ring of one.
    #[must_use]
    pub fn successors(&self) -> &[RingKey] {
        &self.ring.pointers().successors
    }

    /// The members of all fingers, the nearest finger first.
    #[must_use]
    pub fn fingers(&self) -> Vec<RingKey> {
        self.fingers.keys().collect()
    }

    /// The members of this member's group that have answered, itself among them, clockwise.
    #[must_use]
    pub fn group(&self) -> Vec<RingKey> {
        self.neighbours.members().to_vec()
    }

    /// The finger points that a member of a ring with neighbours this far apart looks after,
    /// `spacing` being a share of the ring.
    #[must_use]
    pub fn finger_points(&self, spacing: f64) -> Vec<(Offset, RingKey)> {
        let mut offset = Offset::reaching(2.0 * spacing);
        let mut points = vec![(offset, self.shared.me.plus(offset))];
        while offset != Offset::MAX {
            offset = offset.next();
            points.push((offset, self.shared.me.plus(offset)));
        }
        points
    }

    /// What this member waits for on its way into the ring; none if it is not on its way.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        self.ring.waiting(&self.shared.requests, &self.shared.trust)
    }

    /// Records that this member keeps for others.
    #[must_use]
    pub fn records_kept(&self) -> usize {
        self.keeping.len()
    }

    /// The members that this one holds proof against, and the proof.
    pub fn convicted(&self) -> impl Iterator<Item = (RingKey, &Proof)> {
        let convictions = self.shared.trust.convictions();
        convictions.map(|(key, conviction)| (*key, &conviction.proof))
    }

    /// The members to persist, so that [`resume`](Self::resume) finds the ring again: neighbours
    /// first, then some of each finger, then others. At most 145.
    #[must_use]
    pub fn known_members(&self) -> Vec<RingKey> {
        let mut members: Vec<RingKey> = Vec::new();
        let neighbours = self.ring.pointers().keys();
        let fingers = self.fingers.entries().iter();
        let of_fingers = fingers.filter_map(|finger| finger.group.get(finger.group.len() / 2));
        for key in neighbours
            .chain(self.neighbours.keys())
            .chain(of_fingers.copied())
            .chain(self.shared.peers.known())
        {
            if key != self.shared.me && !members.contains(&key) {
                members.push(key);
            }
        }
        members.truncate(MAX_PERSISTED);
        members
    }

    /// The part of the state that [`invariant`](crate::invariant) judges.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            key: self.shared.me,
            state: self.ring.membership(),
            predecessor: self.ring.pointers().predecessor,
            successors: self.ring.pointers().successors.clone(),
        }
    }

    /// What was ignored or repeated so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.out.counters
    }
}
