//! Which handshakes may wait for their first message, and which have been used up.
//!
//! Anybody that has recorded an initiation can send it again, from any address. So a recorded one
//! must not take the place of an honest one:
//! - An initiation that has had its chance is remembered and not read a second time.
//! - Without a proof of the sender's address a handshake takes a free slot only, and only if it is
//!   newer than all that became a link. There are few such slots for each member. Past them the
//!   sender has to show a cookie, and has slots of its own.
//! - A handshake makes room by ending older ones from its own source only, or one that is not new.

use std::collections::{HashSet, VecDeque};

use ringway_transport::MemberId;

use super::cookie::Source;
use super::dial::HalfOpen;
use crate::limits::{
    HALF_OPEN, HALF_OPEN_PER_MEMBER, HALF_OPEN_PER_MEMBER_AND_SOURCE, HALF_OPEN_PER_SOURCE,
    HALF_OPEN_UNPROVED, INITIATIONS_REMEMBERED,
};

/// What becomes of a handshake that wants to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// There is a slot.
    Free,
    /// It takes the place of this one, which came from the same source.
    Replaces(usize),
    /// Its sender has to prove its address first.
    WantsCookie,
    /// All slots belong to others.
    Full,
}

/// Decides about a handshake of `member` from `source`, whose address is `proved` or not, and which
/// is `new` or may be a recorded one.
pub(super) fn admit(
    waiting: &VecDeque<HalfOpen>,
    member: &MemberId,
    source: &Source,
    proved: bool,
    new: bool,
) -> Admission {
    // Proved and unproved addresses have halves of their own: a flood of forged ones leaves the
    // others free.
    let alike = || waiting.iter().filter(|half| half.proved == proved);
    let of_member = alike().filter(|half| half.member == *member).count();
    let full = alike().count() >= HALF_OPEN / 2;
    if !proved {
        let asks = !new || full || of_member >= HALF_OPEN_UNPROVED;
        return if asks {
            Admission::WantsCookie
        } else {
            Admission::Free
        };
    }
    let own = |half: &HalfOpen| half.proved && half.source == *source;
    let own_of_member = |half: &HalfOpen| own(half) && half.member == *member;
    let count = |what: &dyn Fn(&HalfOpen) -> bool| waiting.iter().filter(|half| what(half)).count();
    let old = |half: &HalfOpen| new && half.proved && !half.new;
    let replaced = if count(&own_of_member) >= HALF_OPEN_PER_MEMBER_AND_SOURCE {
        waiting.iter().position(own_of_member)
    } else if of_member >= HALF_OPEN_PER_MEMBER {
        let old_of_member = |half: &HalfOpen| old(half) && half.member == *member;
        waiting.iter().position(old_of_member)
    } else if count(&own) >= HALF_OPEN_PER_SOURCE {
        waiting.iter().position(own)
    } else if full {
        waiting.iter().position(old)
    } else {
        return Admission::Free;
    };
    replaced.map_or(Admission::Full, Admission::Replaces)
}

/// Initiations that have become a link, or have waited for one in vain.
#[derive(Debug, Default)]
pub(super) struct UsedInitiations {
    /// The oldest first.
    order: VecDeque<blake3::Hash>,
    known: HashSet<blake3::Hash>,
}

impl UsedInitiations {
    pub(super) fn contains(&self, initiation: &blake3::Hash) -> bool {
        self.known.contains(initiation)
    }

    pub(super) fn add(&mut self, initiation: blake3::Hash) {
        // Without encryption two initiations of one member are the same.
        if cfg!(feature = "insecure") || !self.known.insert(initiation) {
            return;
        }
        self.order.push_back(initiation);
        if self.order.len() > INITIATIONS_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
