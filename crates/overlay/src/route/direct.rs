//! Messages that come directly from their sender.
//!
//! A member that gets a message over a link with its sender, who says that it is its own
//! ([`Message::Own`]), needs no word of others: the link says whose it is, and takes no packet
//! twice. Such a message is delivered at once, and a few bytes say so to its sender. Two crossings
//! are enough then.
//!
//! What a link does not say is whether a packet was held back on the way, and whether the same
//! message has come by another way meanwhile. So the receiver tells its clock with each answer, and
//! the sender gives back what it was told last: whatever brings a time of long ago, or none,
//! crosses three times, as what comes through others does. And what was delivered is remembered for
//! as long as any copy of it may be delivered: a sender gives up before, so it confirms none later.
//!
//! A receiver that starts again between a delivery and its word of it may get the message again.
//! And of two routers that both take a point for their own each may.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use rand::Rng;

use super::hop::Conduct;
use super::payload::Offer;
use super::{Hop, Inbound, Routing};
use crate::context::Cx;
use crate::credentials::Standing;
use crate::event::{Event, RouteId};
use crate::key::RingKey;
use crate::limits::{DIRECT_TIME, MAX_DELIVERED, MAX_DELIVERED_OF_MEMBER, REMEMBERED};
use crate::message::{Message, RequestId};

/// A message, by its sender and the sender's number for it.
pub(super) type Name = (RingKey, u64);

/// What was delivered lately.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// Of what came directly with the sender's number for that, by which it can still be told.
    names: HashMap<Name, Option<RequestId>>,
    /// The same, the oldest first, with the time until which they are remembered.
    order: VecDeque<(Instant, Name)>,
    of: HashMap<RingKey, Share>,
    /// Until then something of anybody may have been delivered that there was no room to remember.
    unsure_until: Option<Instant>,
}

/// What is remembered of one sender's.
#[derive(Debug, Default)]
struct Share {
    count: usize,
    unsure_until: Option<Instant>,
}

impl Share {
    fn is_sure(&self, now: Instant) -> bool {
        self.unsure_until.is_none_or(|until| until <= now)
    }
}

impl Delivered {
    pub(super) fn has(&self, name: &Name) -> bool {
        self.names.contains_key(name)
    }

    /// Whether what `origin` sends and is not among these is new, and there is room to remember it.
    fn is_sure(&mut self, now: Instant, origin: &RingKey) -> bool {
        self.forget(now);
        let room = |share: &Share| share.count < MAX_DELIVERED_OF_MEMBER && share.is_sure(now);
        self.names.len() < MAX_DELIVERED
            && self.unsure_until.is_none_or(|until| until <= now)
            && self.of.get(origin).is_none_or(room)
    }

    pub(super) fn remember(&mut self, now: Instant, name: Name, id: Option<RequestId>) {
        self.forget(now);
        let until = now + REMEMBERED;
        if self.names.len() >= MAX_DELIVERED {
            self.unsure_until = Some(until);
            return;
        }
        let share = self.of.entry(name.0).or_default();
        if share.count >= MAX_DELIVERED_OF_MEMBER {
            share.unsure_until = Some(until);
        } else if let Entry::Vacant(place) = self.names.entry(name) {
            place.insert(id);
            share.count = share.count.saturating_add(1);
            self.order.push_back((until, name));
        }
    }

    pub(super) fn forget(&mut self, now: Instant) {
        while let Some((until, name)) = self.order.front()
            && *until <= now
        {
            self.names.remove(name);
            if let Some(share) = self.of.get_mut(&name.0) {
                share.count = share.count.saturating_sub(1);
                if share.count == 0 && share.is_sure(now) {
                    self.of.remove(&name.0);
                }
            }
            self.order.pop_front();
        }
        // Of whom nothing is remembered any more it may be unsure for a while yet.
        if self.order.is_empty() && !self.of.is_empty() {
            self.of.retain(|_, share| !share.is_sure(now));
        }
    }
}

/// What a member tells of its time: seconds from a random beginning, so that nothing that was told
/// before a start counts after it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    began: Option<(Instant, u64)>,
}

impl Clock {
    pub(super) fn at(&mut self, now: Instant, rng: &mut impl Rng) -> u64 {
        // 0 says that nothing was told.
        let begin = || (now, u64::from(rng.next_u32()).saturating_add(1) << 24);
        let (began, first) = *self.began.get_or_insert_with(begin);
        first.saturating_add(now.saturating_duration_since(began).as_secs())
    }
}

impl Routing {
    /// What this member tells others of its time.
    pub(super) fn clock(&mut self, cx: &mut Cx<'_>) -> u64 {
        self.clock.at(cx.now, cx.rng)
    }

    /// Whether `from`, whose own message this is as it says, has sent it just now, and it is
    /// certain that it has not been delivered.
    pub(super) fn is_direct(
        &mut self,
        cx: &mut Cx<'_>,
        from: &RingKey,
        told: u64,
        offer: &Offer,
    ) -> bool {
        let age = self.clock(cx).checked_sub(told);
        *from == offer.origin
            && age.is_some_and(|age| age <= DIRECT_TIME.as_secs())
            && self.delivered.is_sure(cx.now, from)
    }

    /// Delivers a message that has come directly from its sender. A copy that came through others
    /// waits no more.
    pub(super) fn deliver_directly(
        &mut self,
        cx: &mut Cx<'_>,
        hop: Hop,
        target: RingKey,
        offer: Offer,
    ) {
        let name = (offer.origin, offer.number);
        let Some(body) = self.opened(cx, offer) else {
            cx.count_malformed();
            return;
        };
        self.arrivals.withdraw(&name);
        self.delivered.remember(cx.now, name, Some(hop.number));
        let (from, id) = (hop.neighbour, hop.number);
        cx.emit(Event::Routed { from, target, body });
        let clock = self.clock(cx);
        cx.send(from, Message::Delivered { id, clock });
    }

    /// A further copy of what was delivered: its sender may not know yet, and is told directly.
    pub(super) fn confirm_delivery(&mut self, cx: &mut Cx<'_>, inbound: &Inbound, name: &Name) {
        let clock = self.clock(cx);
        let Hop {
            neighbour: from,
            number: id,
        } = inbound.previous;
        if from == name.0 {
            cx.send(from, Message::Delivered { id, clock });
        } else if let Some(Some(id)) = self.delivered.names.get(name).copied() {
            cx.send(name.0, Message::Delivered { id, clock });
        }
    }

    /// The next hop was the receiver itself, and has delivered what came directly from here.
    pub(super) fn delivered(&mut self, cx: &mut Cx<'_>, from: RingKey, id: RequestId, clock: u64) {
        let Some(route) = self.forwards.own(from, id) else {
            cx.out.counters.unsolicited += 1;
            return;
        };
        if self.outbox.is_open(route) && !self.is_meant(cx, route, &from) {
            // It is somebody else's.
            cx.out.counters.unsolicited += 1;
            self.preferences.note(from, Conduct::NoAnswer);
            return;
        }
        self.note_answer(cx, from, id);
        self.answers.restored();
        self.route_ended(cx, route, from);
        self.note_direct_answer(from, clock);
    }

    /// Whether `member` may be who has the message `id`.
    fn is_meant(&self, cx: &Cx<'_>, id: RouteId, member: &RingKey) -> bool {
        cx.trust.standing(member) == Standing::Certified && self.outbox.may_reach(id, member)
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test needs some moment to begin at"
)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn name(n: u64) -> Name {
        (RingKey::ZERO, n)
    }

    fn member(n: u16) -> RingKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        RingKey::from_bytes(bytes)
    }

    #[test]
    fn what_was_delivered_is_remembered_for_its_time() {
        let (mut delivered, now) = (Delivered::default(), Instant::now());
        delivered.remember(now, name(1), None);
        delivered.remember(now, name(1), None);
        let nearly = now + REMEMBERED - Duration::from_millis(1);
        delivered.remember(nearly, name(2), None);
        assert!(delivered.has(&name(1)) && delivered.has(&name(2)));
        delivered.forget(now + REMEMBERED);
        assert!(!delivered.has(&name(1)) && delivered.has(&name(2)));
        assert_eq!(delivered.order.len(), delivered.names.len());
        delivered.forget(nearly + REMEMBERED);
        assert!(delivered.order.is_empty() && delivered.of.is_empty());
    }

    #[test]
    fn one_sender_fills_its_own_part_only() {
        let (mut delivered, now) = (Delivered::default(), Instant::now());
        let most = u64::try_from(MAX_DELIVERED_OF_MEMBER).unwrap();
        (0..most).for_each(|n| delivered.remember(now, name(n), None));
        assert!(!delivered.is_sure(now, &RingKey::ZERO));
        assert!(delivered.is_sure(now, &member(1)));
        // One that is not remembered makes those after it unsure for as long.
        let later = now + REMEMBERED / 2;
        delivered.remember(later, name(most), None);
        assert!(!delivered.has(&name(most)));
        assert!(!delivered.is_sure(now + REMEMBERED, &RingKey::ZERO));
        assert_eq!(delivered.names.len(), 0);
        assert!(delivered.is_sure(later + REMEMBERED, &RingKey::ZERO));
        assert!(delivered.of.is_empty());
    }

    #[test]
    fn a_full_memory_makes_new_messages_unsure() {
        let (mut delivered, now) = (Delivered::default(), Instant::now());
        let senders = u16::try_from(MAX_DELIVERED / MAX_DELIVERED_OF_MEMBER).unwrap();
        let most = u64::try_from(MAX_DELIVERED_OF_MEMBER).unwrap();
        for sender in 0..senders {
            (0..most).for_each(|n| delivered.remember(now, (member(sender), n), None));
        }
        let other = member(senders);
        assert!(!delivered.is_sure(now, &other), "there is no room");
        let later = now + REMEMBERED / 2;
        delivered.remember(later, (other, 0), None);
        assert!(!delivered.is_sure(now + REMEMBERED, &member(0)));
        assert!(delivered.is_sure(later + REMEMBERED, &member(0)));
    }

    #[test]
    fn a_clock_advances_and_restarts_elsewhere() {
        let (mut rng, now) = (StdRng::seed_from_u64(1), Instant::now());
        let mut clock = Clock::default();
        let first = clock.at(now, &mut rng);
        assert_ne!(first, 0);
        let later = now + Duration::from_secs(7);
        assert_eq!(clock.at(later, &mut rng), first + 7);
        let restarted = Clock::default().at(later, &mut rng);
        assert!(restarted.abs_diff(first) > 1_000, "{first} {restarted}");
    }
}
