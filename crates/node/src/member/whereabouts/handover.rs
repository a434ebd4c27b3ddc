//! A router that gets a new predecessor hands it the HELLOs for which that is responsible now. It
//! keeps its own as the copy that a successor has.

use std::time::Instant;

use minicbor::bytes::ByteVec;
use ringway_overlay::{Chord, RingKey, between};
use ringway_transport::MemberId;

use super::key_of;
use crate::limits::HANDED_OVER;
use crate::link::LinkMessage;
use crate::member::runtime::{Runtime, ring_key_of};

/// What is being handed over.
#[derive(Debug, Default)]
pub(super) struct HandOver {
    /// Our predecessor, to which everything was handed or is.
    to: Option<RingKey>,
    under_way: bool,
    /// The last leaf of which the HELLO was handed over.
    last: Option<MemberId>,
}

impl HandOver {
    /// Begins anew if it is another predecessor; true if it is.
    fn begin(&mut self, predecessor: Option<RingKey>) -> bool {
        if self.to == predecessor {
            return false;
        }
        *self = HandOver {
            to: predecessor,
            under_way: predecessor.is_some(),
            last: None,
        };
        true
    }
}

impl Runtime {
    /// Our neighbours in the ring have changed.
    pub(in crate::member) fn predecessor_changed(&mut self, now: Instant) {
        let predecessor = self.chord.as_ref().and_then(Chord::predecessor);
        if self.whereabouts.hand_over.begin(predecessor) {
            self.hand_over(now);
        }
    }

    /// A link is up: a predecessor that has restarted has forgotten everything.
    pub(in crate::member) fn predecessor_linked(&mut self, member: &MemberId) {
        let key = ring_key_of(&self.directory, member);
        let state = &mut self.whereabouts.hand_over;
        if key.is_some() && key == state.to {
            state.under_way = true;
            state.last = None;
        }
    }

    /// Hands the next few over, as soon as there is a link.
    pub(in crate::member) fn hand_over(&mut self, now: Instant) {
        let state = &self.whereabouts.hand_over;
        let (Some(me), Some(to), true) = (self.own_key(), state.to, state.under_way) else {
            return;
        };
        let Some(certificate) = self.directory.cached_router(&to) else {
            return;
        };
        let predecessor = certificate.member();
        if !self.links.is_up(&predecessor) {
            // What waits for a link is soon too much.
            self.link_to(now, &certificate);
            return;
        }
        let theirs = |leaf: &MemberId| !is_responsible(&to, &key_of(leaf), &me);
        let kept = &self.whereabouts.kept;
        let handed = kept.some(now, state.last, HANDED_OVER, theirs);
        let under_way = handed.len() == HANDED_OVER;
        let last = handed.last().map(|whereabout| whereabout.hello.member());
        let handed: Vec<ByteVec> = handed.iter().map(|w| w.encode().into()).collect();
        for referral in handed {
            let keep = LinkMessage::Keep {
                referral,
                copies: 0,
            };
            self.links.send(now, &predecessor, keep);
            self.count("hellos_handed_over");
        }
        let state = &mut self.whereabouts.hand_over;
        state.under_way = under_way;
        state.last = last;
    }
}

/// True if the router at `me`, whose predecessor is at `before`, is the one for `key`.
fn is_responsible(before: &RingKey, key: &RingKey, me: &RingKey) -> bool {
    key == me || between(before, key, me)
}
