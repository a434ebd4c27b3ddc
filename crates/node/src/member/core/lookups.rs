//! Lookups in the ring. A router has its overlay do them; a leaf asks one parent after the other
//! until one finds the owner. A lookup does not know who wants it: its end is a signal with the
//! number that [`Core::look_up`] has given.
//!
//! [`Lookups`] is sans-IO: after each call its questions are sent with [`Core::send_questions`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use rand::seq::IteratorRandom as _;
use ringway_overlay::{Event as RingEvent, LookupError, LookupId, RingKey};
use ringway_transport::MemberId;

use super::{Core, Signal, since};
use crate::limits::{LOOKUP_TIME, PARENT_TIME};
use crate::link::LinkMessage;
use crate::member::answer::{Found, LookupFailed};

/// Which lookup of this member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::member) struct LookupNumber(u64);

/// A leaf's lookup.
#[derive(Debug)]
struct AtParent {
    target: RingKey,
    asked: BTreeSet<MemberId>,
    /// Parents that could not find it.
    failed: usize,
    since: Instant,
    ask_next: Instant,
}

/// What a parent has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::member) struct ParentAnswer {
    /// None if it could not find the owner.
    pub(in crate::member) owner: Option<RingKey>,
    /// Whether the parent has verified it.
    pub(in crate::member) verified: bool,
    /// The routers that it has asked, in order.
    pub(in crate::member) hops: Vec<RingKey>,
}

/// A question to a parent.
#[derive(Debug)]
struct Question {
    parent: MemberId,
    id: u64,
    target: RingKey,
}

/// Lookups under way.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    in_ring: BTreeMap<LookupId, LookupNumber>,
    /// By the number that the parents are asked with.
    at_parents: BTreeMap<u64, AtParent>,
    last: u64,
    /// Both are empty once an input has been handled.
    questions: VecDeque<Question>,
    ended: VecDeque<Ended>,
}

/// A lookup's end.
#[derive(Debug)]
struct Ended {
    number: LookupNumber,
    outcome: Result<Found, LookupFailed>,
}

impl Lookups {
    fn next(&mut self) -> LookupNumber {
        self.last += 1;
        LookupNumber(self.last)
    }

    /// Begins one at these parents. Further parents are asked when the first does not answer, or
    /// cannot find the owner.
    fn begin(&mut self, now: Instant, parents: &[MemberId], target: RingKey) -> LookupNumber {
        let number = self.next();
        let at_parent = AtParent {
            target,
            asked: BTreeSet::new(),
            failed: 0,
            since: now,
            ask_next: now,
        };
        self.at_parents.insert(number.0, at_parent);
        self.ask_a_parent(now, parents, number.0);
        number
    }

    /// Asks a parent that has not been asked, at random.
    fn ask_a_parent(&mut self, now: Instant, parents: &[MemberId], id: u64) {
        let Some(lookup) = self.at_parents.get_mut(&id) else {
            return;
        };
        lookup.ask_next = now + PARENT_TIME;
        let unasked = parents
            .iter()
            .filter(|parent| !lookup.asked.contains(parent));
        let Some(parent) = unasked.choose(&mut rand::rng()) else {
            return;
        };
        lookup.asked.insert(*parent);
        self.questions.push_back(Question {
            parent: *parent,
            id,
            target: lookup.target,
        });
    }

    /// When to call [`Lookups::proceed`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let lookups = self.at_parents.values();
        lookups.map(|lookup| lookup.ask_next).min()
    }

    /// Asks further parents for what is unanswered, and ends what has waited for too long.
    pub(super) fn proceed(&mut self, now: Instant, parents: &[MemberId]) {
        let lookups = self.at_parents.iter();
        let late = lookups.filter(|(_, lookup)| now >= lookup.ask_next);
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        for id in late {
            let lookup = self.at_parents.get(&id);
            if lookup.is_some_and(|lookup| now < lookup.since + LOOKUP_TIME) {
                self.ask_a_parent(now, parents, id);
            } else {
                self.at_parents.remove(&id);
                self.end(LookupNumber(id), Err(LookupFailed::TimedOut));
            }
        }
    }

    /// The router `by` has found the owner for a leaf.
    fn found_by(&mut self, now: Instant, by: Option<RingKey>, id: u64, answer: ParentAnswer) {
        let (Some(owner), Some(lookup)) = (answer.owner, self.at_parents.remove(&id)) else {
            return;
        };
        // The parent itself is the first that was asked.
        let found = Found {
            owner,
            verified: answer.verified,
            hops: by.into_iter().chain(answer.hops).collect(),
            questions: u32::try_from(lookup.asked.len()).unwrap_or(u32::MAX),
            elapsed: since(now, lookup.since),
        };
        self.end(LookupNumber(id), Ok(found));
    }

    /// A parent could not find the owner; another may.
    fn parent_failed(&mut self, now: Instant, parents: &[MemberId], id: u64) {
        self.ask_a_parent(now, parents, id);
        let Some(lookup) = self.at_parents.get_mut(&id) else {
            return;
        };
        lookup.failed += 1;
        if lookup.failed < lookup.asked.len() {
            return;
        }
        self.at_parents.remove(&id);
        let reason = "no parent could find the owner".to_owned();
        self.end(LookupNumber(id), Err(LookupFailed::Overlay(reason)));
    }

    /// Takes the ends of lookups out of what the overlay reports; gives back all else.
    pub(super) fn take_event(&mut self, event: RingEvent) -> Option<RingEvent> {
        let (id, outcome) = match event {
            RingEvent::LookupDone {
                id,
                owner,
                verified,
                hops,
                questions,
                elapsed,
                ..
            } => {
                let found = Found {
                    owner,
                    verified,
                    hops,
                    questions,
                    elapsed,
                };
                (id, Ok(found))
            }
            RingEvent::LookupFailed { id, reason, .. } => {
                (id, Err(LookupFailed::Overlay(reason.to_string())))
            }
            other => return Some(other),
        };
        // Those that the overlay begins for itself have no number here.
        if let Some(number) = self.in_ring.remove(&id) {
            self.end(number, outcome);
        }
        None
    }

    fn end(&mut self, number: LookupNumber, outcome: Result<Found, LookupFailed>) {
        self.ended.push_back(Ended { number, outcome });
    }

    /// The next end to tell all services.
    pub(super) fn poll_end(&mut self) -> Option<Signal> {
        let Ended { number, outcome } = self.ended.pop_front()?;
        Some(Signal::LookupEnded { number, outcome })
    }
}

impl Core {
    /// Begins to look up who is responsible for `target`. The outcome is a
    /// [`Signal::LookupEnded`] with the number that this returns.
    ///
    /// # Errors
    /// Why no lookup can begin; no signal follows.
    pub(in crate::member) fn look_up(
        &mut self,
        target: RingKey,
    ) -> Result<LookupNumber, LookupFailed> {
        if let Some(chord) = &mut self.chord {
            return match chord.lookup(self.now, target) {
                Ok(id) => {
                    let number = self.lookups.next();
                    self.lookups.in_ring.insert(id, number);
                    Ok(number)
                }
                Err(LookupError::NotMember) => Err(LookupFailed::NotInRing),
                Err(error) => Err(LookupFailed::Overlay(error.to_string())),
            };
        }
        // A leaf has no overlay: its parents have.
        let parents = self.parents();
        if parents.is_empty() {
            return Err(LookupFailed::NoParent);
        }
        let number = self.lookups.begin(self.now, &parents, target);
        self.send_questions();
        Ok(number)
    }

    /// Asks the parents what lookups have for them.
    pub(super) fn send_questions(&mut self) {
        while let Some(Question { parent, id, target }) = self.lookups.questions.pop_front() {
            let target = (*target.as_bytes()).into();
            self.send(&parent, LinkMessage::Lookup { id, target });
        }
    }

    /// A parent answers.
    pub(in crate::member) fn parent_answered(
        &mut self,
        parent: &MemberId,
        id: u64,
        answer: ParentAnswer,
    ) {
        let asked = self.lookups.at_parents.get(&id);
        if !asked.is_some_and(|lookup| lookup.asked.contains(parent)) {
            self.counted.lookup_replies_unwanted += 1;
        } else if answer.owner.is_some() {
            let by = self.ring_key_of(parent);
            self.lookups.found_by(self.now, by, id, answer);
        } else {
            let parents = self.parents();
            self.lookups.parent_failed(self.now, &parents, id);
            self.send_questions();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<MemberId> {
        [1, 2, 3].map(|n| MemberId::new([n; 32])).to_vec()
    }

    fn target() -> RingKey {
        RingKey::from_bytes([7; 32])
    }

    fn asked(lookups: &mut Lookups) -> Option<MemberId> {
        Some(lookups.questions.pop_front()?.parent)
    }

    /// Each parent is asked once until all have failed.
    #[test]
    fn each_parent_is_asked_once_until_all_fail() {
        let (now, parents) = (Instant::now(), members());
        let mut lookups = Lookups::default();
        let number = lookups.begin(now, &parents, target());
        let mut all = BTreeSet::new();
        while let Some(parent) = asked(&mut lookups) {
            assert!(all.insert(parent), "asked twice");
            assert!(lookups.ended.is_empty());
            lookups.parent_failed(now, &parents, number.0);
        }
        assert_eq!(all.len(), parents.len());
        let end = lookups.ended.pop_front().unwrap();
        assert_eq!(end.number, number);
        assert!(matches!(end.outcome, Err(LookupFailed::Overlay(_))));
    }

    /// Silent parents are followed by others until the time is over.
    #[test]
    fn silent_parents_are_followed_by_others_until_timeout() {
        let (start, parents) = (Instant::now(), members());
        let mut lookups = Lookups::default();
        lookups.begin(start, &parents, target());
        let first = asked(&mut lookups).unwrap();
        lookups.proceed(start, &parents);
        assert!(asked(&mut lookups).is_none(), "it has time to answer");
        let due = lookups.poll_timeout().unwrap();
        lookups.proceed(due, &parents);
        assert_ne!(asked(&mut lookups).unwrap(), first);
        while let Some(due) = lookups.poll_timeout() {
            assert!(due < start + LOOKUP_TIME + PARENT_TIME);
            lookups.proceed(due, &parents);
        }
        let end = lookups.ended.pop_front().unwrap();
        assert_eq!(end.outcome.unwrap_err(), LookupFailed::TimedOut);
    }

    /// What a parent has found names it as the first hop.
    #[test]
    fn answering_parent_is_the_first_hop() {
        let (now, parents) = (Instant::now(), members());
        let mut lookups = Lookups::default();
        let number = lookups.begin(now, &parents, target());
        let [by, hop, owner] = [1, 2, 3].map(|n| RingKey::from_bytes([n; 32]));
        let answer = ParentAnswer {
            owner: Some(owner),
            verified: true,
            hops: vec![hop],
        };
        lookups.found_by(now, Some(by), number.0, answer);
        let found = lookups.ended.pop_front().unwrap().outcome.unwrap();
        assert_eq!((found.owner, found.hops), (owner, vec![by, hop]));
        assert!(lookups.poll_timeout().is_none());
    }
}
