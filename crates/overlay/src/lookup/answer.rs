//! What this member answers to others that look something up.

use crate::context::Cx;
use crate::group::around;
use crate::key::{RingKey, between};
use crate::known::Known;
use crate::limits::{MAX_CERTIFICATES, MAX_CLOSER, MAX_LIST};
use crate::message::{Message, RequestId};

/// What one member can say about the way to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    /// The owner, and who owns the target if it is dead, and so on.
    Owners(Vec<RingKey>),
    /// Members closer before the target, the closest first.
    Closer(Vec<RingKey>),
}

/// What this member, being in the ring, knows about the way to `target`.
pub(super) fn towards(cx: &Cx<'_>, known: Known<'_>, target: &RingKey) -> Towards {
    let me = known.me();
    let Some(head) = known.pointers.head() else {
        return Towards::Owners(vec![me]);
    };
    if *target == me {
        return Towards::Owners(vec![me]);
    }
    let successors = &known.pointers.successors;
    if *target == head || between(&me, target, &head) {
        return Towards::Owners(successors.clone());
    }
    let pointers = successors.iter().copied().chain(known.fingers.keys());
    let closer = pointers.filter(|key| between(&me, key, target));
    let mut closer: Vec<RingKey> = closer.collect();
    closer.sort_by_key(|key| (cx.is_suspect(key), key.distance_to(target)));
    closer.dedup();
    Towards::Closer(closer)
}

/// Says who owns `target`, or who is closer.
pub(crate) fn answer_owner(
    cx: &mut Cx<'_>,
    known: Known<'_>,
    from: RingKey,
    id: RequestId,
    target: RingKey,
) {
    let answer = if !cx.member {
        Message::NotMember { id }
    } else {
        match towards(cx, known, &target) {
            Towards::Owners(owners) => Message::Owner { id, owners },
            // More would not fit the message, and the asker keeps no more.
            Towards::Closer(mut candidates) => {
                candidates.truncate(MAX_CLOSER);
                Message::Closer { id, candidates }
            }
        }
    };
    cx.send(from, answer);
}

/// Names the members that this one knows around `point`: of its own group and of the fingers next
/// to it.
pub(crate) fn answer_near(
    cx: &mut Cx<'_>,
    known: Known<'_>,
    from: RingKey,
    id: RequestId,
    point: RingKey,
) {
    if !cx.member {
        return cx.send(from, Message::NotMember { id });
    }
    let share = cx.me.share_to(&point);
    let fingers = known.fingers.beside(share);
    let keys = fingers.flat_map(|finger| finger.group.iter());
    let keys = keys.chain(known.own_group()).copied();
    let usable = keys.filter(|key| cx.trust.is_usable(key));
    let mut members = around(&point, cx.config.group, usable);
    members.truncate(MAX_LIST);
    // Where no other may be named this member is the nearest that it knows.
    if members.is_empty() {
        members.push(cx.me);
    }
    cx.send(from, Message::Near { id, members });
}

/// Gives the certificates of `keys`, as far as they are at hand.
pub(crate) fn answer_certificates(cx: &mut Cx<'_>, from: RingKey, id: RequestId, keys: &[RingKey]) {
    let Some(credentials) = cx.trust.credentials() else {
        return;
    };
    let found = keys.iter();
    let found = found.filter_map(|key| Some((*key, credentials.certificate(key)?)));
    let certificates = found.take(MAX_CERTIFICATES).collect();
    cx.send(from, Message::Certificates { id, certificates });
}
