//! A member's own messages: by which ways they go, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rand::Rng;

use super::pass::{Forward, Source};
use super::payload::{Answer, Offer, Proof, Secret, digest};
use super::{Destination, RouteError, RouteFailure, Routing};
use crate::context::Cx;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::{Event, LookupFailure, RouteId};
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::{
    MAX_CONFIRMED, MAX_LOOKUPS, MAX_ROUTE_HOPS, MAX_ROUTED_BODY, MAX_ROUTES, MIN_ROUTE_TIME,
    ROUTE_LIFETIME, ROUTE_TIME, ROUTE_WAYS,
};
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, Rule};

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
    /// Whether it went directly to its receiver.
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

impl Routing {
    /// Sends `body` to `to`. What becomes of it comes as an event.
    pub(crate) fn route(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        to: Destination,
        body: &[u8],
    ) -> Result<RouteId, RouteError> {
        if body.len() > MAX_ROUTED_BODY {
            return Err(RouteError::TooLong(body.len()));
        }
        if !cx.member {
            return Err(RouteError::NotMember);
        }
        let under_way = self.outbox.sending.len();
        if under_way >= MAX_ROUTES {
            return Err(RouteError::TooMany(under_way));
        }
        if to == Destination::Member(cx.me) {
            return Err(RouteError::ToOneself);
        }
        let number = cx.rng.next_u64();
        let credentials = cx.trust.credentials_mut().ok_or(RouteError::NotMember)?;
        let begun = credentials.unix_time(cx.now);
        let (carried, known_peers) = match to {
            Destination::Point(_) => (body.to_vec(), false),
            Destination::Member(member) => {
                let secret = Secret::Body(body.to_vec()).encode();
                let sealed = credentials.seal(&member, &secret);
                let known_peers = self.is_known_peer(&member);
                (sealed.ok_or(RouteError::NoCertificate)?, known_peers)
            }
        };
        // Who has it already need not get it again: the message stays short.
        let certificate = (!known_peers).then(|| credentials.certificate(&cx.me));
        let digest = digest(&to.key(), &carried);
        let offer = Offer {
            origin: cx.me,
            number,
            certificate: certificate.flatten(),
            sealed: matches!(to, Destination::Member(_)),
            body: carried,
        };
        let id = self.outbox.insert(Sending {
            to,
            number,
            digest,
            payload: offer.encode(),
            tries: 0,
            avoid: Vec::new(),
            since: cx.now,
            begun,
            sent: cx.now,
            due: None,
            verified: matches!(to, Destination::Member(_)),
            owner: None,
            last: false,
        });
        if matches!(to, Destination::Point(point) if known.owns(&point)) {
            self.route_to_oneself(cx, id, body.to_vec());
        } else {
            self.route_step(cx, known, id);
        }
        Ok(id)
    }

    /// The point is this member's own.
    fn route_to_oneself(&mut self, cx: &mut Cx<'_>, id: RouteId, body: Vec<u8>) {
        let Some(sending) = self.outbox.remove(id) else {
            return;
        };
        cx.emit(Event::Routed {
            from: cx.me,
            target: sending.to.key(),
            body,
        });
        self.route_done(cx, id, &sending, cx.me);
    }

    fn route_done(&mut self, cx: &mut Cx<'_>, id: RouteId, sending: &Sending, by: RingKey) {
        cx.emit(Event::RouteDone {
            id,
            by,
            // Somebody else may have claimed the point before.
            verified: sending.verified && sending.owner.is_none_or(|owner| owner == by),
            tries: u32::try_from(sending.tries).unwrap_or(u32::MAX),
            elapsed: cx.now.saturating_duration_since(sending.since),
        });
    }

    /// The next try: by another way, or directly to the receiver.
    fn route_step(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: RouteId) {
        if self.is_too_old(cx, id) {
            return self.route_failed(cx, id, RouteFailure::NoAnswer);
        }
        let Some(sending) = self.outbox.sending.get_mut(&id) else {
            return;
        };
        let attempt = sending.tries;
        sending.tries += 1;
        sending.sent = cx.now;
        let (target, avoid) = (sending.to.key(), sending.avoid.clone());
        let met = (attempt == 0).then(|| self.known_owner(cx, known, &target));
        let next = met.flatten().or_else(|| {
            let more = attempt < ROUTE_WAYS;
            more.then(|| self.next_hop(cx, known, &target, &avoid, attempt))?
        });
        let Some(next) = next else {
            return self.send_directly(cx, id);
        };
        let groups = known.fingers.entries().iter();
        let group = groups.map(|finger| &finger.group);
        let group = group.filter(|group| group.contains(&next)).flatten();
        let used: Vec<RingKey> = group.copied().chain([next]).collect();
        let Some(sending) = self.outbox.sending.get_mut(&id) else {
            return;
        };
        // The next try leaves out the whole group: its members may collude.
        sending.avoid.extend(used);
        self.route_by(cx, id, next, MAX_ROUTE_HOPS);
    }

    fn route_by(&mut self, cx: &mut Cx<'_>, id: RouteId, next: RingKey, hops_left: u8) {
        let Some(sending) = self.outbox.sending.get(&id) else {
            return;
        };
        let forward = Forward {
            came_from: Source::Own(id),
            next,
            target: sending.to.key(),
            hops_left,
            payload: sending.payload.clone(),
            tried: Vec::new(),
        };
        // Where there is no room the next try comes in time.
        self.send_forward(cx, forward);
        let patience = self.answers.time(MIN_ROUTE_TIME, ROUTE_TIME);
        self.outbox.set_due(id, Some(cx.now + patience));
    }

    /// Whether a receiver that has delivered the message may have forgotten so: it is neither sent
    /// again nor confirmed.
    pub(super) fn is_too_old(&self, cx: &Cx<'_>, id: RouteId) -> bool {
        let sending = self.outbox.sending.get(&id);
        let credentials = cx.trust.credentials();
        sending
            .zip(credentials)
            .is_some_and(|(sending, credentials)| {
                let lasted = cx.now.saturating_duration_since(sending.since);
                let by_date = credentials.unix_time(cx.now).abs_diff(sending.begun);
                lasted > ROUTE_LIFETIME || by_date > ROUTE_LIFETIME.as_secs()
            })
    }

    /// All ways have failed.
    fn send_directly(&mut self, cx: &mut Cx<'_>, id: RouteId) {
        let Some(sending) = self.outbox.sending.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut sending.last, true) {
            return self.route_failed(cx, id, RouteFailure::NoAnswer);
        }
        match sending.to {
            Destination::Member(member) => self.route_by(cx, id, member, 0),
            Destination::Point(point) => {
                self.outbox.set_due(id, None);
                let inquiry = Inquiry::new(Asker::Route(id), point, Rule::Verified);
                cx.effect(Effect::LookUp(Box::new(inquiry.at_most(MAX_LOOKUPS))));
            }
        }
    }

    pub(crate) fn looked_up(
        &mut self,
        cx: &mut Cx<'_>,
        id: RouteId,
        result: Result<Found, LookupFailure>,
    ) {
        match result {
            Ok(Found {
                owner,
                around: Around::Views(views),
                ..
            }) => {
                self.route_owner_found(cx, id, owner, views.verified);
            }
            Ok(_) => {}
            Err(reason) => self.route_lookup_failed(cx, id, reason),
        }
    }

    /// The owner of a message's point has been looked up.
    fn route_owner_found(&mut self, cx: &mut Cx<'_>, id: RouteId, owner: RingKey, verified: bool) {
        if self.is_too_old(cx, id) {
            return self.route_failed(cx, id, RouteFailure::NoAnswer);
        }
        let Some(sending) = self.outbox.sending.get_mut(&id) else {
            return;
        };
        sending.verified = verified;
        sending.owner = Some(owner);
        sending.sent = cx.now;
        if owner != cx.me {
            return self.route_by(cx, id, owner, 0);
        }
        let body = Offer::decode(&sending.payload).map(|offer| offer.body);
        self.route_to_oneself(cx, id, body.unwrap_or_default());
    }

    fn route_failed(&mut self, cx: &mut Cx<'_>, id: RouteId, reason: RouteFailure) {
        if self.outbox.remove(id).is_some() {
            cx.emit(Event::RouteFailed { id, reason });
        }
    }

    fn route_lookup_failed(&mut self, cx: &mut Cx<'_>, id: RouteId, reason: LookupFailure) {
        let reason = match reason {
            LookupFailure::Left => RouteFailure::Left,
            LookupFailure::TimedOut | LookupFailure::NoRoute => RouteFailure::NoOwner,
        };
        self.route_failed(cx, id, reason);
    }

    pub(super) fn fail_all_routes(&mut self, cx: &mut Cx<'_>, reason: RouteFailure) {
        let ids: Vec<RouteId> = self.outbox.sending.keys().copied().collect();
        for id in ids {
            self.route_failed(cx, id, reason);
        }
    }

    /// Takes the next step of one message that is due. False if none is.
    pub(crate) fn send_next_due(&mut self, cx: &mut Cx<'_>, known: Known<'_>) -> bool {
        let Some((time, id)) = self.outbox.due.first().copied() else {
            return false;
        };
        if time > cx.now {
            return false;
        }
        self.outbox.set_due(id, None);
        self.answers.missed();
        self.route_step(cx, known, id);
        true
    }

    /// An answer to this member's own message: gives the confirmation if it is genuine and the
    /// first, or the same again.
    pub(super) fn answered(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        id: RouteId,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        if self.is_too_old(cx, id) {
            self.route_failed(cx, id, RouteFailure::NoAnswer);
            return None;
        }
        let answer = Answer::decode(payload).ok()?;
        let author = answer.author;
        if cx.trust.is_convicted(&author) {
            return None;
        }
        let credentials = cx.trust.credentials_mut()?;
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
        let outbox = &mut self.outbox;
        let fits =
            |sending: &Sending| sending.number == proof.number && sending.digest == proof.digest;
        if outbox.sending.get(&id).is_some_and(fits) && outbox.may_reach(id, &author) {
            let proof = proof.clone();
            let sending = outbox.sending.get(&id);
            // What comes directly is sooner there, and says nothing of ways through others.
            match sending.filter(|sending| sending.tries == 1 && from != author) {
                Some(sending) => {
                    let time = cx.now.saturating_duration_since(sending.sent);
                    self.answers.came(time);
                }
                None if from == author => self.answers.restored(),
                None => {}
            }
            self.route_ended(cx, id, author);
            let confirmed = Confirmed { author, proof };
            self.outbox.confirm(id, confirmed);
        } else {
            let confirmed = self.outbox.confirmed.get(&id)?;
            if confirmed.author != author || confirmed.proof != proof {
                return None;
            }
        }
        let confirm = Secret::Confirm(proof).encode();
        cx.trust.credentials_mut()?.seal(&author, &confirm)
    }

    /// `author` has the message.
    pub(super) fn route_ended(&mut self, cx: &mut Cx<'_>, id: RouteId, author: RingKey) {
        let Some(sending) = self.outbox.remove(id) else {
            return;
        };
        self.remember(author);
        self.route_done(cx, id, &sending, author);
    }
}
