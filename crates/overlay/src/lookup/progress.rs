//! How a lookup gets on: the next question, the answers, the owner's confirmation, the end.

use std::collections::VecDeque;
use std::time::Instant;

use crate::chord::Chord;
use crate::event::{Event, LookupFailure, LookupId};
use crate::key::{RingKey, between};
use crate::limits::{LOOKUP_PARALLEL, MAX_HOPS, MAX_RESTARTS};
use crate::lookup::{Kind, Lookup, Towards};
use crate::message::Message;
use crate::request::Purpose;

impl Chord {
    /// Begins a lookup, for the first time or again, from this member's own pointers.
    pub(super) fn begin(&mut self, now: Instant, id: LookupId) {
        let Some(lookup) = self.lookups.running.get(&id) else {
            return;
        };
        let (kind, target) = (lookup.kind, lookup.target);
        let towards = (!kind.is_from_outside()).then(|| self.towards(now, &target));
        let mine = self
            .ring
            .predecessor
            .is_some_and(|p| between(&p, &target, &self.me));
        let me = self.me;
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        lookup.wake = None;
        lookup.asked.clear();
        lookup.candidates.clear();
        lookup.hops.clear();
        lookup.confirming = false;
        lookup.in_flight = 0;
        self.requests.forget(|purpose| purpose.lookup() == Some(id));
        match towards {
            None => self.lookup_step(now, id),
            Some(_) if mine || target == me => self.lookup_done(now, id, me),
            Some(Towards::Owners(owners)) => self.confirm(now, id, owners),
            Some(Towards::Closer(closer)) => {
                lookup.add_candidates(&me, &me, &closer);
                self.lookup_step(now, id);
            }
        }
    }

    /// Asks one more member, if the lookup may. Without anybody to ask or to wait for, the way is
    /// lost.
    pub(crate) fn lookup_step(&mut self, now: Instant, id: LookupId) {
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        if lookup.confirming || lookup.wake.is_some() || lookup.in_flight >= LOOKUP_PARALLEL {
            return;
        }
        let may_ask = lookup.asked.len() < MAX_HOPS && self.requests.has_room();
        let peers = &self.peers;
        let next = if may_ask {
            lookup.next_candidate(|key| peers.is_suspect(now, key))
        } else {
            None
        };
        match next {
            Some(next) => {
                lookup.asked.insert(next);
                lookup.in_flight += 1;
                let target = lookup.target;
                self.request(now, next, Purpose::Hop(id), |id| Message::FindOwner {
                    id,
                    target,
                });
            }
            None if lookup.in_flight == 0 => self.begin_again(now, id),
            None => {}
        }
    }

    pub(crate) fn hop_answered(
        &mut self,
        now: Instant,
        id: LookupId,
        from: RingKey,
        answer: Message,
    ) {
        if !matches!(answer, Message::NotMember { .. }) {
            self.ring_seen(now);
        }
        let me = self.me;
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        lookup.in_flight = lookup.in_flight.saturating_sub(1);
        match answer {
            Message::Closer { candidates, .. } => {
                lookup.hops.push(from);
                if lookup.add_candidates(&me, &from, &candidates) == 0 {
                    self.counters.malformed += 1;
                }
                self.lookup_step(now, id);
            }
            Message::Owner { owners, .. } => self.owners_named(now, id, from, owners),
            _ => {
                self.fingers.remove(&from);
                self.lookup_step(now, id);
            }
        }
    }

    /// The member `from` says that it is the target's predecessor, and who follows it.
    fn owners_named(&mut self, now: Instant, id: LookupId, from: RingKey, owners: Vec<RingKey>) {
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        let claimed = owners.first().copied();
        let Some(owner) = claimed.filter(|owner| may_own(&from, &lookup.target, owner)) else {
            self.counters.malformed += 1;
            return self.lookup_step(now, id);
        };
        lookup.hops.push(from);
        match lookup.kind {
            Kind::Join => {
                self.end_lookup(id);
                self.ask_future_predecessor(now, from);
            }
            Kind::Probe => {
                self.end_lookup(id);
                self.probe_answered(now, owner);
            }
            _ if lookup.confirming => {}
            _ => self.confirm(now, id, owners),
        }
    }

    pub(crate) fn hop_failed(&mut self, now: Instant, id: LookupId) {
        if let Some(lookup) = self.lookups.running.get_mut(&id) {
            lookup.in_flight = lookup.in_flight.saturating_sub(1);
            self.lookup_step(now, id);
        }
    }

    /// Takes the first of `owners` that lives as the owner.
    fn confirm(&mut self, now: Instant, id: LookupId, owners: Vec<RingKey>) {
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        lookup.owners = VecDeque::from(owners);
        lookup.confirming = true;
        lookup.wake = None;
        self.confirm_next(now, id);
    }

    fn confirm_next(&mut self, now: Instant, id: LookupId) {
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        match lookup.owners.pop_front() {
            Some(owner) if owner == self.me => self.lookup_done(now, id, owner),
            Some(owner) => {
                self.request(now, owner, Purpose::Confirm(id), |id| Message::Ping { id });
            }
            None => self.begin_again(now, id),
        }
    }

    pub(crate) fn owner_answered(
        &mut self,
        now: Instant,
        id: LookupId,
        from: RingKey,
        answer: &Message,
    ) {
        match answer {
            Message::Pong { member: true, .. } => self.lookup_done(now, id, from),
            _ => self.confirm_next(now, id),
        }
    }

    /// The owner did not answer. It may be dead, or its messages lost: the way is asked once more,
    /// since the ring finds out about the dead meanwhile. Silent for the second time, it counts
    /// as dead.
    pub(crate) fn owner_silent(&mut self, now: Instant, id: LookupId, silent: RingKey) {
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        if lookup.silent.insert(silent) {
            self.begin(now, id);
        } else {
            self.confirm_next(now, id);
        }
    }

    fn begin_again(&mut self, now: Instant, id: LookupId) {
        let pause = self.jittered(self.timeout());
        let Some(lookup) = self.lookups.running.get_mut(&id) else {
            return;
        };
        lookup.restarts = lookup.restarts.saturating_add(1);
        if lookup.kind.is_from_outside() || lookup.restarts > MAX_RESTARTS {
            return self.fail_lookup(now, id, LookupFailure::NoRoute);
        }
        lookup.wake = Some(now + pause);
    }

    fn lookup_done(&mut self, now: Instant, id: LookupId, owner: RingKey) {
        let Some(lookup) = self.end_lookup(id) else {
            return;
        };
        match lookup.kind {
            Kind::Finger(offset) => self.finger_owner_found(offset, owner),
            Kind::Caller => {
                let Lookup {
                    target,
                    hops,
                    started,
                    ..
                } = lookup;
                let elapsed = now.saturating_duration_since(started);
                let questions = u32::try_from(hops.len()).unwrap_or(u32::MAX);
                self.emit(Event::LookupDone {
                    id,
                    target,
                    owner,
                    group: vec![owner],
                    verified: false,
                    questions,
                    hops,
                    elapsed,
                });
            }
            Kind::Own
            | Kind::Join
            | Kind::Probe
            | Kind::Audit
            | Kind::Record(_)
            | Kind::Route(_) => {}
        }
    }

    pub(super) fn fail_lookup(&mut self, now: Instant, id: LookupId, reason: LookupFailure) {
        let Some(lookup) = self.end_lookup(id) else {
            return;
        };
        match lookup.kind {
            Kind::Finger(offset) => self.finger_not_found(offset),
            Kind::Join => self.join_failed(now),
            Kind::Own | Kind::Probe | Kind::Audit | Kind::Record(_) | Kind::Route(_) => {}
            Kind::Caller => {
                self.emit(Event::LookupFailed {
                    id,
                    target: lookup.target,
                    reason,
                });
            }
        }
    }

    /// Forgets a lookup and its open requests.
    pub(super) fn end_lookup(&mut self, id: LookupId) -> Option<Lookup> {
        self.requests.forget(|purpose| purpose.lookup() == Some(id));
        self.lookups.running.remove(&id)
    }
}

/// Whether `from` can be the predecessor of `target` and `owner` its successor: the target lies
/// after the one, up to the other. A member that names itself says that it is alone, or the target.
fn may_own(from: &RingKey, target: &RingKey, owner: &RingKey) -> bool {
    target == owner || between(from, target, owner)
}
