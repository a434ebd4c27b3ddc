//! A router that gets a new predecessor hands it the HELLOs for which that is responsible now. It
//! keeps its own as the copy that a successor has.

use std::time::Instant;

use minicbor::bytes::ByteVec;
use ringway_overlay::{RingKey, between};
use ringway_transport::MemberId;

use super::kept::{KeptHellos, key_of};
use crate::limits::HANDED_OVER;
use crate::link::LinkMessage;
use crate::member::core::Core;

/// What is being handed over.
#[derive(Debug, Default)]
pub(super) struct HandOver {
    /// Our predecessor, to which everything was handed or is.
    to: Option<RingKey>,
    /// The last leaf of which the HELLO was handed over.
    last: Option<MemberId>,
    /// When to go on; none when everything was handed over.
    next: Option<Instant>,
}

impl HandOver {
    /// Our neighbours have changed. Begins again if it is another predecessor; true if it is.
    pub(super) fn begin(&mut self, core: &Core, predecessor: Option<RingKey>) -> bool {
        if self.to == predecessor {
            return false;
        }
        *self = HandOver {
            to: predecessor,
            next: predecessor.map(|_| core.now),
            last: None,
        };
        true
    }

    /// A link is up: a predecessor that has restarted has forgotten everything.
    pub(super) fn linked(&mut self, core: &Core, member: &MemberId) {
        let key = core.ring_key_of(member);
        if key.is_some() && key == self.to {
            self.next = Some(core.next_look());
            self.last = None;
        }
    }

    /// Hands the next few over, as soon as there is a link; gives how many.
    pub(super) fn proceed(&mut self, core: &mut Core, kept: &KeptHellos) -> u64 {
        let (Some(me), Some(to), Some(_)) = (core.own_key(), self.to, self.next) else {
            return 0;
        };
        self.next = Some(core.next_look());
        let Some(certificate) = core.directory.cached_router(&to) else {
            return 0;
        };
        let predecessor = certificate.member();
        if !core.links.is_up(&predecessor) {
            // What waits for a link is soon too much.
            core.link_to(&certificate);
            return 0;
        }
        let theirs = |leaf: &MemberId| !is_responsible(&to, &key_of(leaf), &me);
        let handed = kept.some(core.now, self.last, HANDED_OVER, theirs);
        if handed.len() < HANDED_OVER {
            self.next = None;
        }
        self.last = handed.last().map(|entry| entry.hello.member());
        let mut count = 0;
        for entry in handed {
            let keep = LinkMessage::Keep {
                referral: ByteVec::from(entry.encode()),
                copies: 0,
            };
            core.send(&predecessor, keep);
            count += 1;
        }
        count
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next
    }
}

/// True if the router at `me`, whose predecessor is at `before`, is the one for `key`.
fn is_responsible(before: &RingKey, key: &RingKey, me: &RingKey) -> bool {
    key == me || between(before, key, me)
}
