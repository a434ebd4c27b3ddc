//! What a step of one machine leaves to others, and who does it.

use std::time::Instant;

use super::Chord;
use crate::effect::Effect;
use crate::event::LookupFailure;
use crate::group::audit::pass_to_neighbours;
use crate::key::RingKey;
use crate::known::Known;
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, LookupEnd};
use crate::tally::Own;

impl Chord {
    /// Does what the last step of a machine has left for others, and what follows from that: each
    /// effect with all that follows from it before the next one. Then lookups go on that had no
    /// room for requests, if the step has made some.
    pub(super) fn settle(&mut self, now: Instant) {
        let mut open = Vec::new();
        loop {
            open.extend(self.shared.out.effects.drain(..).rev());
            match open.pop() {
                Some(effect) => self.apply(now, effect),
                None if self.lookups.handle_room(&mut cx!(self, now), known!(self)) => {}
                None => return,
            }
        }
    }

    fn apply(&mut self, now: Instant, effect: Effect) {
        match effect {
            Effect::LookUp(inquiry) => self.look_up(now, *inquiry),
            Effect::Joined(around) => self.joined(now, around),
            Effect::Said(said) => {
                self.witness
                    .compare(&mut cx!(self, now), &self.neighbours, &said);
            }
            Effect::LookupEnded(end) => self.lookup_ended(now, *end),
            Effect::LookupGoesOn(id) => {
                self.lookups.go_on(&mut cx!(self, now), known!(self), id);
            }
            Effect::RingSeen => self.ring.ring_seen(now),
            // The lookup of the own place would only end after this member has one.
            Effect::FoundRing => {
                self.lookups.cancel(&mut cx!(self, now), Asker::Place);
                self.ring.found_alone(&mut cx!(self, now));
            }
            Effect::NotInRing(key) => self.fingers.remove(&key),
            Effect::NeighbourLost => self.ring.neighbour_lost(&mut cx!(self, now)),
            Effect::Convicted(member) => self.convicted_now(now, member),
        }
    }

    /// Starts a lookup. Where too many run, a message that waits for it fails; others ask again by
    /// themselves.
    pub(super) fn look_up(&mut self, now: Instant, inquiry: Inquiry) {
        let asker = inquiry.asker;
        let started = self
            .lookups
            .start(&mut cx!(self, now), known!(self), inquiry);
        if let (Err(_), Asker::Route(id)) = (started, asker) {
            let cx = &mut cx!(self, now);
            self.routing.looked_up(cx, id, Err(LookupFailure::NoRoute));
        }
        self.settle(now);
    }

    /// Takes what a lookup has found to the part that asked.
    fn lookup_ended(&mut self, now: Instant, end: LookupEnd) {
        let cx = &mut cx!(self, now);
        // Before its asker acts on it: the views are evidence whatever it was for.
        if let Ok(Found {
            around: Around::Views(views),
            ..
        }) = &end.result
        {
            pass_to_neighbours(cx, &views.group, &views.said, end.asker == Asker::Audit);
        }
        match end.asker {
            Asker::Caller => cx.emit(end.into_event()),
            Asker::Finger(offset) => self.fingers.looked_up(cx, offset, end.result),
            Asker::OwnGroup => self.neighbours.group_looked_up(cx, end.result),
            Asker::Place => self.ring.place_looked_up(cx, end.result),
            Asker::Probe => self.ring.probe_looked_up(cx, &self.neighbours, end.result),
            Asker::Record(id) => {
                let (keeping, neighbours) = (&mut self.keeping, &self.neighbours);
                self.operations
                    .looked_up(cx, keeping, neighbours, id, end.result);
            }
            Asker::Tally(id) => {
                let own = Own {
                    keeping: &mut self.counts,
                    neighbours: &self.neighbours,
                };
                self.tallies.looked_up(cx, own, id, end.result);
            }
            Asker::Route(id) => self.routing.looked_up(cx, id, end.result),
            Asker::Audit => {}
        }
    }

    fn joined(&mut self, now: Instant, around: Vec<RingKey>) {
        self.fingers.start(&mut cx!(self, now));
        if !self.shared.trust.has_credentials() {
            return;
        }
        self.shared.trust.forget_ended_views();
        self.neighbours.begin(now);
        self.keeping.start(now);
        self.audits.plan(&mut cx!(self, now));
        // They do not know this member before it speaks to them, if those in between hide it.
        let cx = &mut cx!(self, now);
        around
            .into_iter()
            .for_each(|key| self.neighbours.consider(cx, key));
    }

    /// Treats a convicted member as if it were not there, and tells others why.
    fn convicted_now(&mut self, now: Instant, member: RingKey) {
        self.gone(now, member);
        self.routing.forget(&member);
        self.fingers.remove(&member);
        self.neighbour_gone(now, &member);
        self.ring.forget_pointer(&mut cx!(self, now), &member);
        let receivers = known!(self).near_and_far(&mut self.shared.rng);
        let conviction = self.shared.trust.conviction_mut(&member);
        let Some(message) = conviction.map(|conviction| conviction.notice.clone()) else {
            return;
        };
        for key in receivers.into_iter().filter(|key| *key != member) {
            self.shared.out.send(key, message.clone());
        }
    }
}
