//! Messages that have reached their target, until their sender has confirmed them.

use std::collections::BTreeMap;
use std::time::Instant;

use rand::Rng;

use super::direct::Name;
use super::payload::{Answer, DIGEST_LEN, Digest, Offer, Proof, Secret, digest};
use super::{Hop, Inbound, Routing, Watch};
use crate::context::Cx;
use crate::credentials::Standing;
use crate::event::Event;
use crate::key::RingKey;
use crate::limits::{
    MAX_ARRIVAL_WAYS, MAX_ARRIVALS, MAX_ARRIVALS_OF_PEER, REACHED_AGAIN, REACHED_REPEATS,
};
use crate::message::{Message, RequestId};

/// One message that is not confirmed yet.
#[derive(Clone, Debug)]
struct Arrival {
    origin: RingKey,
    target: RingKey,
    body: Vec<u8>,
    proof: Proof,
    /// The neighbours that it came from, and their numbers for it: the answer goes to all of them.
    ways: Vec<Hop>,
    repeats: u32,
}

impl Arrival {
    fn name(&self) -> (Name, Digest) {
        ((self.origin, self.proof.number), self.proof.digest)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    waiting: BTreeMap<RequestId, Arrival>,
    /// By sender, the sender's number and what is said, so that a second try is no second message,
    /// and no message hides behind another.
    labels: BTreeMap<(Name, Digest), RequestId>,
    /// How many each neighbour has brought.
    brought: BTreeMap<RingKey, usize>,
    again: Watch,
}

impl Arrivals {
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.again.front().map(|(time, _)| *time)
    }

    fn has_room(&self, neighbour: &RingKey) -> bool {
        let brought = self.brought.get(neighbour).copied().unwrap_or(0);
        self.waiting.len() < MAX_ARRIVALS && brought < MAX_ARRIVALS_OF_PEER
    }

    fn insert(&mut self, label: RequestId, neighbour: RingKey, arrival: Arrival) {
        self.labels.insert(arrival.name(), label);
        *self.brought.entry(neighbour).or_default() += 1;
        self.waiting.insert(label, arrival);
    }

    /// The message that is named so is not waited for any more.
    pub(super) fn withdraw(&mut self, name: &Name) {
        let all = (*name, [0; DIGEST_LEN])..=(*name, [u8::MAX; DIGEST_LEN]);
        let labels: Vec<RequestId> = self.labels.range(all).map(|(_, label)| *label).collect();
        for label in labels {
            self.remove(label);
        }
    }

    fn remove(&mut self, label: RequestId) -> Option<Arrival> {
        let arrival = self.waiting.remove(&label)?;
        self.labels.remove(&arrival.name());
        if let Some(first) = arrival.ways.first()
            && let Some(count) = self.brought.get_mut(&first.neighbour)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.brought.remove(&first.neighbour);
            }
        }
        while let Some((_, label)) = self.again.front() {
            if self.waiting.contains_key(label) {
                break;
            }
            self.again.pop_front();
        }
        Some(arrival)
    }
}

impl Routing {
    /// A message for this member.
    pub(super) fn arrived(&mut self, cx: &mut Cx<'_>, inbound: &Inbound) {
        let (previous, target) = (inbound.previous, inbound.target);
        let Ok(offer) = Offer::decode(&inbound.payload) else {
            cx.count_malformed();
            return;
        };
        if !self.is_known(cx, previous.neighbour, &offer) {
            cx.out.counters.routed_unknown += 1;
            return;
        }
        let name = (offer.origin, offer.number);
        if self.delivered.has(&name) {
            return self.confirm_delivery(cx, inbound, &name);
        }
        if let Some(told) = inbound.told
            && self.is_direct(cx, &previous.neighbour, told, &offer)
        {
            return self.deliver_directly(cx, previous, target, offer);
        }
        let digest = digest(&target, &offer.body);
        let known = self.arrivals.labels.get(&(name, digest)).copied();
        let label = match known {
            Some(label) => {
                // A second try, perhaps by another way.
                let arrival = self.arrivals.waiting.get_mut(&label);
                let Some(arrival) = arrival.filter(|a| a.ways.len() < MAX_ARRIVAL_WAYS) else {
                    return;
                };
                arrival.ways.push(previous);
                label
            }
            None => match self.take_in(cx, inbound, digest, offer) {
                Some(label) => label,
                None => return,
            },
        };
        self.send_answer(cx, label, Some(previous));
    }

    /// Whether the sender is a member whose certificate is at hand.
    fn is_known(&mut self, cx: &mut Cx<'_>, previous: RingKey, offer: &Offer) -> bool {
        if cx.trust.is_convicted(&offer.origin) || offer.origin == cx.me {
            return false;
        }
        let Some(credentials) = cx.trust.credentials_mut() else {
            return false;
        };
        match (credentials.standing(&offer.origin), &offer.certificate) {
            (Standing::Certified, _) => true,
            // To check a certificate costs more than to forward a message: the strict limit counts.
            (Standing::Unknown, Some(certificate)) if cx.peers.may_ask(cx.now, previous) => {
                credentials.admit(&offer.origin, certificate) == Standing::Certified
            }
            _ => false,
        }
    }

    fn take_in(
        &mut self,
        cx: &mut Cx<'_>,
        inbound: &Inbound,
        digest: Digest,
        offer: Offer,
    ) -> Option<RequestId> {
        let (previous, target) = (inbound.previous, inbound.target);
        if !self.arrivals.has_room(&previous.neighbour) {
            cx.out.counters.routed_dropped += 1;
            return None;
        }
        let (origin, number) = (offer.origin, offer.number);
        let Some(body) = self.opened(cx, offer) else {
            cx.count_malformed();
            return None;
        };
        // The challenge is new, so that no recorded confirmation fits.
        let proof = Proof {
            number,
            challenge: cx.rng.next_u64(),
            digest,
        };
        let label = cx.requests.next_id();
        let arrival = Arrival {
            origin,
            target,
            body,
            proof,
            ways: vec![previous],
            repeats: 0,
        };
        self.arrivals.insert(label, previous.neighbour, arrival);
        let again = cx.now + REACHED_AGAIN;
        self.arrivals.again.push_back((again, label));
        Some(label)
    }

    /// What is in a message; none if it was not sealed for this member.
    pub(super) fn opened(&self, cx: &mut Cx<'_>, offer: Offer) -> Option<Vec<u8>> {
        if !offer.sealed {
            return Some(offer.body);
        }
        let credentials = cx.trust.credentials_mut()?;
        let opened = credentials.open(&offer.origin, &offer.body)?;
        match Secret::decode(&opened).ok()? {
            Secret::Body(body) => Some(body),
            Secret::Answer(_) | Secret::Confirm(_) => None,
        }
    }

    /// What proves to `origin` that its message is here.
    pub(super) fn answer_to(
        &self,
        cx: &mut Cx<'_>,
        origin: &RingKey,
        proof: Proof,
    ) -> Option<Vec<u8>> {
        let credentials = cx.trust.credentials_mut()?;
        let sealed = credentials.seal(origin, &Secret::Answer(proof).encode())?;
        let stranger = !self.is_known_peer(origin);
        let certificate = stranger.then(|| credentials.certificate(&cx.me));
        let answer = Answer {
            author: cx.me,
            certificate: certificate.flatten(),
            sealed,
        };
        Some(answer.encode())
    }

    /// Tells the sender that its message is here: by this way, or by all.
    fn send_answer(&mut self, cx: &mut Cx<'_>, label: RequestId, way: Option<Hop>) {
        let Some(arrival) = self.arrivals.waiting.get(&label) else {
            return;
        };
        let ways = way.map_or_else(|| arrival.ways.clone(), |way| vec![way]);
        let (origin, proof) = (arrival.origin, arrival.proof.clone());
        let Some(payload) = self.answer_to(cx, &origin, proof) else {
            return;
        };
        let clock = self.clock(cx);
        for hop in ways {
            let message = Message::Reached {
                id: hop.number,
                label,
                clock,
                payload: payload.clone(),
            };
            cx.send(hop.neighbour, message);
        }
    }

    /// The sender has sent it indeed, and now: it is delivered. Or it is somebody else's
    /// confirmation, which goes on.
    pub(super) fn handle_confirm(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        id: RequestId,
        payload: Vec<u8>,
    ) {
        let Some(arrival) = self.arrivals.waiting.get(&id) else {
            return self.confirm_on(cx, from, id, payload);
        };
        let Some(credentials) = cx.trust.credentials_mut() else {
            return;
        };
        let opened = credentials.open(&arrival.origin, &payload);
        let secret = opened.and_then(|bytes| Secret::decode(&bytes).ok());
        // Somebody else's, or an old one: the message goes on waiting.
        if secret != Some(Secret::Confirm(arrival.proof.clone())) {
            cx.count_malformed();
            return;
        }
        if let Some(arrival) = self.arrivals.remove(id) {
            self.remember(arrival.origin);
            let name = (arrival.origin, arrival.proof.number);
            self.delivered.remember(cx.now, name, None);
            cx.emit(Event::Routed {
                from: arrival.origin,
                target: arrival.target,
                body: arrival.body,
            });
        }
    }

    /// Whatever is not confirmed is answered again, a few times, at first by the ways that it came
    /// and then directly: either crossing may have been lost, by accident or on purpose.
    pub(crate) fn arrivals_due(&mut self, cx: &mut Cx<'_>) {
        while let Some((time, label)) = self.arrivals.again.front().copied() {
            if time > cx.now {
                break;
            }
            self.arrivals.again.pop_front();
            let Some(arrival) = self.arrivals.waiting.get_mut(&label) else {
                continue;
            };
            arrival.repeats += 1;
            if arrival.repeats > REACHED_REPEATS {
                self.arrivals.remove(label);
                continue;
            }
            // The routers that carried the message may swallow what belongs to it: the sender is
            // asked directly, too.
            let direct = Hop {
                neighbour: arrival.origin,
                number: arrival.proof.number,
            };
            let last = arrival.repeats > 1;
            let again = cx.now + REACHED_AGAIN;
            self.arrivals.again.push_back((again, label));
            self.send_answer(cx, label, last.then_some(direct));
        }
    }
}
