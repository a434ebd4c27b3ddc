//! Reunite: find the members that went out of sight, and make two rings one again.
//!
//! Zave's proof assumes that the ring never falls apart; a divided network makes it fall apart all
//! the same, and so does the death of r neighbours at once. So each member looks up its own place
//! now and then, beginning at some member that it knew once, and asks for everybody but itself. In
//! a whole ring the first one after it is its first successor. If it is another member o, then the
//! ring of the one who answered does not know that successor or this member does not know o, and
//! two things are done, both of them ordinary steps of ring maintenance:
//!
//! - o is notified, as a new member would do. Its ring then finds this member by stabilisation.
//! - If o is closer than the present successor, this member stabilises from it, so o is contacted
//!   first.
//!
//! Best successors only ever get closer this way, so the rings grow together like a ring with new
//! members.
//!
//! The lookup is a verified one, from outside: its way begins at one stranger and goes along points
//! that this member computes. No single member's word that all is well is enough: those around the
//! own place have to answer themselves, with signed views, and to stand as dense as the own group
//! and as the groups on the way. Otherwise another stranger is asked as well, up to five. Of the
//! others around, those that have answered are asked into the own group: so a first successor that
//! only a malicious router's list would follow does not replace honest ones. A member without
//! credentials takes a plain lookup, and the first answer.
//!
//! Source: the idea is from Shafaat, Ghodsi and Haridi, "Dealing with Network Partitions in
//! Structured Overlay Networks", 2009; the steps are Zave's.

use rand::seq::IndexedRandom;

use crate::context::Cx;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::LookupFailure;
use crate::group::neighbours::Neighbours;
use crate::key::{RingKey, between};
use crate::limits::{
    JOIN_ATTEMPTS, LOSS_REMEMBERED, REUNITE_INTERVAL, REUNITE_INTERVAL_ALONE,
    REUNITE_INTERVAL_QUIET, REUNITE_INTERVAL_VERIFIED,
};
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, Origin, Rule};
use crate::message::Message;
use crate::ring::{Operation, Ring, own_place_rule};

impl Ring {
    /// Starts a lookup for the own key at some member that is no neighbour.
    pub(super) fn start_probe(&mut self, cx: &mut Cx<'_>) {
        let alone = self.pointers.successors.is_empty();
        let interval = if alone {
            let factor = 1_u32.checked_shl(self.probes_alone.min(8)).unwrap_or(1);
            let longer = REUNITE_INTERVAL_ALONE.saturating_mul(factor);
            self.probes_alone = self.probes_alone.saturating_add(1);
            longer.min(REUNITE_INTERVAL)
        } else {
            self.probes_alone = 0;
            let lost = self.lost;
            let lately =
                lost.is_some_and(|at| cx.now.saturating_duration_since(at) < LOSS_REMEMBERED);
            match cx.trust.credentials() {
                Some(_) if lately => REUNITE_INTERVAL_VERIFIED,
                Some(_) => REUNITE_INTERVAL_QUIET,
                None => REUNITE_INTERVAL,
            }
        };
        let interval = cx.jittered(interval.mul_f64(cx.health_multiplier()));
        self.next_probe = Some(cx.now + interval);
        let neighbour = |key: &RingKey| self.pointers.contains(key);
        // A member that may not be used knows no way to others.
        let usable = |key: &RingKey| cx.standing(key) != Standing::Refused;
        let strangers = cx.peers.known();
        let strangers = strangers.filter(|key| !neighbour(key) && usable(key));
        let strangers: Vec<RingKey> = strangers.collect();
        let some = strangers.sample(cx.rng, JOIN_ATTEMPTS).copied();
        let mut some: Vec<RingKey> = some.collect();
        if some.is_empty() {
            return;
        }
        let rule = own_place_rule(cx);
        if rule == Rule::Plain {
            some.truncate(1);
        }
        let inquiry = Inquiry::new(Asker::Probe, self.me, rule);
        let inquiry = inquiry.from(Origin::Members(some)).at_most(1);
        cx.effect(Effect::LookUp(Box::new(inquiry)));
    }

    /// A neighbour that is gone may be in another part of a divided ring.
    pub(crate) fn neighbour_lost(&mut self, cx: &mut Cx<'_>) {
        self.lost = Some(cx.now);
        let soon = cx.now + cx.jittered(REUNITE_INTERVAL_VERIFIED);
        self.next_probe = self.next_probe.map(|next| next.min(soon));
    }

    /// The lookup of the own key from elsewhere has ended.
    pub(crate) fn probe_looked_up(
        &mut self,
        cx: &mut Cx<'_>,
        neighbours: &Neighbours,
        result: Result<Found, LookupFailure>,
    ) {
        match result {
            Ok(Found {
                around: Around::Views(views),
                ..
            }) => {
                self.around_found(cx, neighbours, &views.group);
            }
            Ok(found) => self.probe_answered(cx, found.owner),
            Err(_) => {}
        }
    }

    /// Those who stand around this member, seen from elsewhere, itself left out. All of them have
    /// answered.
    fn around_found(&mut self, cx: &mut Cx<'_>, neighbours: &Neighbours, group: &[RingKey]) {
        if !self.is_member() {
            return;
        }
        group.iter().for_each(|key| neighbours.consider(cx, *key));
        let others = group.iter().filter(|key| **key != self.me);
        let next = others.min_by_key(|key| self.me.distance_to(key)).copied();
        if let Some(next) = next.filter(|next| *next != self.head()) {
            self.probe_answered(cx, next);
        }
    }

    /// The lookup for the own key found `owner`.
    fn probe_answered(&mut self, cx: &mut Cx<'_>, owner: RingKey) {
        if owner == self.me || !self.is_member() {
            return;
        }
        cx.send(owner, Message::Notify);
        let head = self.head();
        if between(&self.me, &owner, &head) && self.operation == Operation::Idle {
            self.stabilise_from_predecessor(cx, head, owner);
        }
    }
}
