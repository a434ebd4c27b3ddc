//! A member's own messages: by which ways they go, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rand::Rng;

use super::pass::{Onward, Source};
use super::payload::{Answer, Offer, Proof, Secret, digest};
use super::{Destination, RouteError, RouteFailure};
use crate::chord::Chord;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::{Event, LookupFailure, RouteId};
use crate::key::RingKey;
use crate::limits::{
    MAX_CONFIRMED, MAX_LOOKUPS, MAX_ROUTE_HOPS, MAX_ROUTED_BODY, MAX_ROUTES, MIN_ROUTE_TIME,
    ROUTE_LIFETIME, ROUTE_TIME, ROUTE_WAYS,
};
use crate::lookup::{Around, Asker, Found, Inquiry, Rule};

/// One message whose answer is waited for.
#[derive(Clone, Debug)]
struct Sending {
    to: Destination,
    number: u64,
    digest: [u8; 32],
    payload: Vec<u8>,
    tries: usize,
    /// Those who had it, and the groups that they were drawn from.
    avoid: Vec<RingKey>,
    since: Instant,
    /// The same, Unix time in seconds: a machine that sleeps does not know how long.
    begun: u64,
    sent: Instant,
    /// None while the owner of its point is looked up.
    due: Option<Instant>,
    /// Whether its owner was found by a verified lookup.
    verified: bool,
    /// The owner of its point as a lookup has found it.
    owner: Option<RingKey>,
    /// Whether it went straight to its receiver.
    last: bool,
}

/// What was confirmed to whom: the same is confirmed again, and nothing else.
#[derive(Clone, Debug)]
struct Confirmed {
    author: RingKey,
    proof: Proof,
}

/// All that one member sends. Ids grow, so the oldest is the first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    sending: BTreeMap<RouteId, Sending>,
    due: BTreeSet<(Instant, RouteId)>,
    confirmed: BTreeMap<RouteId, Confirmed>,
    /// By the numbers that receivers know them by.
    numbers: BTreeMap<u64, RouteId>,
    next: u64,
}

impl Outbox {
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(time, _)| *time)
    }

    fn insert(&mut self, sending: Sending) -> RouteId {
        self.next = self.next.wrapping_add(1);
        let id = RouteId(self.next);
        self.numbers.insert(sending.number, id);
        self.sending.insert(id, sending);
        id
    }

    /// The message with this number, also if it has been confirmed.
    pub(super) fn named(&self, number: u64) -> Option<RouteId> {
        self.numbers.get(&number).copied()
    }

    pub(super) fn is_open(&self, id: RouteId) -> bool {
        self.sending.contains_key(&id)
    }

    /// Whether the message is under way and `member` may be who it is for.
    pub(super) fn may_reach(&self, id: RouteId, member: &RingKey) -> bool {
        self.sending
            .get(&id)
            .is_some_and(|sending| match sending.to {
                Destination::Member(meant) => meant == *member,
                Destination::Point(_) => true,
            })
    }

    fn set_due(&mut self, id: RouteId, due: Option<Instant>) {
        if let Some(sending) = self.sending.get_mut(&id) {
            if let Some(time) = sending.due {
                self.due.remove(&(time, id));
            }
            sending.due = due;
            self.due.extend(due.map(|time| (time, id)));
        }
    }

    fn remove(&mut self, id: RouteId) -> Option<Sending> {
        self.set_due(id, None);
        let sending = self.sending.remove(&id)?;
        self.numbers.remove(&sending.number);
        Some(sending)
    }

    fn confirm(&mut self, id: RouteId, confirmed: Confirmed) {
        if self.confirmed.len() >= MAX_CONFIRMED
            && let Some((_, oldest)) = self.confirmed.pop_first()
        {
            self.numbers.remove(&oldest.proof.number);
        }
        self.numbers.insert(confirmed.proof.number, id);
        self.confirmed.insert(id, confirmed);
    }
}

impl Chord {
    /// Sends `body` through the ring. What becomes of it comes as the event `RouteDone` or
    /// `RouteFailed`; the receiver gets the event `Routed`.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring or has no credentials, when the receiver is this member
    /// or its certificate is not at hand, when the body has more than 400 bytes, or when 4 096
    /// messages are under way.
    pub fn route(
        &mut self,
        now: Instant,
        to: Destination,
        body: &[u8],
    ) -> Result<RouteId, RouteError> {
        if body.len() > MAX_ROUTED_BODY {
            return Err(RouteError::TooLong(body.len()));
        }
        if !self.is_member() {
            return Err(RouteError::NotMember);
        }
        let under_way = self.routing.outbox.sending.len();
        if under_way >= MAX_ROUTES {
            return Err(RouteError::TooMany(under_way));
        }
        if to == Destination::Member(self.shared.me) {
            return Err(RouteError::ToOneself);
        }
        let number = self.shared.rng.next_u64();
        let credentials = self
            .shared
            .trust
            .credentials_mut()
            .ok_or(RouteError::NotMember)?;
        let begun = credentials.unix_time(now);
        let (carried, familiar) = match to {
            Destination::Point(_) => (body.to_vec(), false),
            Destination::Member(member) => {
                let secret = Secret::Body(body.to_vec()).encode();
                let sealed = credentials.seal(&member, &secret);
                let familiar = self.routing.is_familiar(&member);
                (sealed.ok_or(RouteError::NoCertificate)?, familiar)
            }
        };
        let certificate = (!familiar).then(|| credentials.certificate(&self.shared.me));
        let digest = digest(&to.key(), &carried);
        let offer = Offer {
            origin: self.shared.me,
            number,
            certificate: certificate.flatten(),
            sealed: matches!(to, Destination::Member(_)),
            body: carried,
        };
        let id = self.routing.outbox.insert(Sending {
            to,
            number,
            digest,
            payload: offer.encode(),
            tries: 0,
            avoid: Vec::new(),
            since: now,
            begun,
            sent: now,
            due: None,
            verified: matches!(to, Destination::Member(_)),
            owner: None,
            last: false,
        });
        if matches!(to, Destination::Point(point) if self.owns(&point)) {
            self.route_to_oneself(now, id, body.to_vec());
        } else {
            self.route_step(now, id);
        }
        Ok(id)
    }

    /// The point is this member's own.
    fn route_to_oneself(&mut self, now: Instant, id: RouteId, body: Vec<u8>) {
        let Some(sending) = self.routing.outbox.remove(id) else {
            return;
        };
        self.emit(Event::Routed {
            from: self.shared.me,
            target: sending.to.key(),
            body,
        });
        self.route_done(now, id, &sending, self.shared.me);
    }

    fn route_done(&mut self, now: Instant, id: RouteId, sending: &Sending, by: RingKey) {
        self.emit(Event::RouteDone {
            id,
            by,
            // Somebody else may have claimed the point before.
            verified: sending.verified && sending.owner.is_none_or(|owner| owner == by),
            tries: u32::try_from(sending.tries).unwrap_or(u32::MAX),
            elapsed: now.saturating_duration_since(sending.since),
        });
    }

    /// The next try: by another way, or straight to the receiver.
    fn route_step(&mut self, now: Instant, id: RouteId) {
        if self.is_too_old(now, id) {
            return self.route_failed(id, RouteFailure::NoAnswer);
        }
        let Some(sending) = self.routing.outbox.sending.get_mut(&id) else {
            return;
        };
        let attempt = sending.tries;
        sending.tries += 1;
        sending.sent = now;
        let (target, avoid) = (sending.to.key(), sending.avoid.clone());
        let known = (attempt == 0).then(|| self.known_owner(now, &target));
        let next = known.flatten().or_else(|| {
            let more = attempt < ROUTE_WAYS;
            more.then(|| self.next_hop(now, &target, &avoid, attempt))?
        });
        let Some(next) = next else {
            return self.route_straight(now, id);
        };
        let groups = self.fingers.entries().iter();
        let group = groups.map(|finger| &finger.group);
        let group = group.filter(|group| group.contains(&next)).flatten();
        let used: Vec<RingKey> = group.copied().chain([next]).collect();
        let Some(sending) = self.routing.outbox.sending.get_mut(&id) else {
            return;
        };
        sending.avoid.extend(used);
        self.route_by(now, id, next, MAX_ROUTE_HOPS);
    }

    fn route_by(&mut self, now: Instant, id: RouteId, next: RingKey, hops_left: u8) {
        let Some(sending) = self.routing.outbox.sending.get(&id) else {
            return;
        };
        let onward = Onward {
            came_from: Source::Own(id),
            next,
            target: sending.to.key(),
            hops_left,
            payload: sending.payload.clone(),
            tried: Vec::new(),
        };
        // Where there is no room the next try comes in time.
        self.hand_on(now, onward);
        let patience = self.routing.answers.time(MIN_ROUTE_TIME, ROUTE_TIME);
        self.routing.outbox.set_due(id, Some(now + patience));
    }

    /// Whether a receiver that has delivered the message may have forgotten so: it is neither sent
    /// again nor confirmed.
    pub(super) fn is_too_old(&self, now: Instant, id: RouteId) -> bool {
        let sending = self.routing.outbox.sending.get(&id);
        let credentials = self.shared.trust.credentials();
        sending
            .zip(credentials)
            .is_some_and(|(sending, credentials)| {
                let lasted = now.saturating_duration_since(sending.since);
                let by_date = credentials.unix_time(now).abs_diff(sending.begun);
                lasted > ROUTE_LIFETIME || by_date > ROUTE_LIFETIME.as_secs()
            })
    }

    /// All ways have failed.
    fn route_straight(&mut self, now: Instant, id: RouteId) {
        let Some(sending) = self.routing.outbox.sending.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut sending.last, true) {
            return self.route_failed(id, RouteFailure::NoAnswer);
        }
        match sending.to {
            Destination::Member(member) => self.route_by(now, id, member, 0),
            Destination::Point(point) => {
                self.routing.outbox.set_due(id, None);
                let inquiry = Inquiry::new(Asker::Route(id), point, Rule::Verified);
                self.shared
                    .out
                    .effects
                    .push(Effect::LookUp(inquiry.at_most(MAX_LOOKUPS)));
                self.settle(now);
            }
        }
    }

    pub(crate) fn route_looked_up(
        &mut self,
        now: Instant,
        id: RouteId,
        result: Result<Found, LookupFailure>,
    ) {
        match result {
            Ok(Found {
                owner,
                around: Around::Views(views),
                ..
            }) => {
                self.route_owner_found(now, id, owner, views.verified);
            }
            Ok(_) => {}
            Err(reason) => self.route_lookup_failed(id, reason),
        }
    }

    /// The owner of a message's point has been looked up.
    pub(crate) fn route_owner_found(
        &mut self,
        now: Instant,
        id: RouteId,
        owner: RingKey,
        verified: bool,
    ) {
        if self.is_too_old(now, id) {
            return self.route_failed(id, RouteFailure::NoAnswer);
        }
        let Some(sending) = self.routing.outbox.sending.get_mut(&id) else {
            return;
        };
        sending.verified = verified;
        sending.owner = Some(owner);
        sending.sent = now;
        if owner != self.shared.me {
            return self.route_by(now, id, owner, 0);
        }
        let body = Offer::decode(&sending.payload).map(|offer| offer.body);
        self.route_to_oneself(now, id, body.unwrap_or_default());
    }

    pub(crate) fn route_failed(&mut self, id: RouteId, reason: RouteFailure) {
        if self.routing.outbox.remove(id).is_some() {
            self.emit(Event::RouteFailed { id, reason });
        }
    }

    pub(crate) fn route_lookup_failed(&mut self, id: RouteId, reason: LookupFailure) {
        let reason = match reason {
            LookupFailure::Left => RouteFailure::Left,
            LookupFailure::TimedOut | LookupFailure::NoRoute => RouteFailure::NoOwner,
        };
        self.route_failed(id, reason);
    }

    pub(super) fn fail_all_routes(&mut self, reason: RouteFailure) {
        let ids: Vec<RouteId> = self.routing.outbox.sending.keys().copied().collect();
        for id in ids {
            self.route_failed(id, reason);
        }
    }

    pub(super) fn sending_due(&mut self, now: Instant) {
        while let Some((time, id)) = self.routing.outbox.due.first().copied() {
            if time > now {
                break;
            }
            self.routing.outbox.set_due(id, None);
            self.routing.answers.missed();
            self.route_step(now, id);
        }
    }

    /// An answer to this member's own message: gives the confirmation if it is genuine and the
    /// first, or the same again.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        from: RingKey,
        id: RouteId,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        if self.is_too_old(now, id) {
            self.route_failed(id, RouteFailure::NoAnswer);
            return None;
        }
        let answer = Answer::decode(payload).ok()?;
        let author = answer.author;
        if self.shared.trust.is_convicted(&author) {
            return None;
        }
        let credentials = self.shared.trust.credentials_mut()?;
        let standing = match (credentials.standing(&author), &answer.certificate) {
            (Standing::Unknown, Some(certificate)) => credentials.admit(&author, certificate),
            (standing, _) => standing,
        };
        if standing != Standing::Certified {
            return None;
        }
        let opened = credentials.open(&author, &answer.sealed)?;
        let Secret::Answer(proof) = Secret::decode(&opened).ok()? else {
            return None;
        };
        let outbox = &mut self.routing.outbox;
        let fits =
            |sending: &Sending| sending.number == proof.number && sending.digest == proof.digest;
        if outbox.sending.get(&id).is_some_and(fits) && outbox.may_reach(id, &author) {
            let proof = proof.clone();
            let sending = outbox.sending.get(&id);
            // What comes straight is sooner there, and says nothing of ways through others.
            match sending.filter(|sending| sending.tries == 1 && from != author) {
                Some(sending) => {
                    let time = now.saturating_duration_since(sending.sent);
                    self.routing.answers.came(time);
                }
                None if from == author => self.routing.answers.restored(),
                None => {}
            }
            self.route_ended(now, id, author);
            let confirmed = Confirmed { author, proof };
            self.routing.outbox.confirm(id, confirmed);
        } else {
            let confirmed = self.routing.outbox.confirmed.get(&id)?;
            if confirmed.author != author || confirmed.proof != proof {
                return None;
            }
        }
        let confirm = Secret::Confirm(proof).encode();
        self.shared.trust.credentials_mut()?.seal(&author, &confirm)
    }

    /// `author` has the message.
    pub(super) fn route_ended(&mut self, now: Instant, id: RouteId, author: RingKey) {
        let Some(sending) = self.routing.outbox.remove(id) else {
            return;
        };
        self.routing.remember(author);
        self.route_done(now, id, &sending, author);
    }
}
