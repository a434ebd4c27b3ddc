//! Messages that have reached their target, until their sender has confirmed them.

use std::collections::BTreeMap;
use std::time::Instant;

use rand::Rng;

use super::Watch;
use super::payload::{Answer, Offer, Proof, Secret, digest};
use crate::chord::Chord;
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
    ways: Vec<(RingKey, RequestId)>,
    repeats: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    waiting: BTreeMap<RequestId, Arrival>,
    /// By sender and the sender's number, so that a second try is no second message.
    labels: BTreeMap<(RingKey, u64), RequestId>,
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
        let name = (arrival.origin, arrival.proof.number);
        self.labels.insert(name, label);
        *self.brought.entry(neighbour).or_default() += 1;
        self.waiting.insert(label, arrival);
    }

    fn remove(&mut self, label: RequestId) -> Option<Arrival> {
        let arrival = self.waiting.remove(&label)?;
        self.labels.remove(&(arrival.origin, arrival.proof.number));
        if let Some((first, _)) = arrival.ways.first()
            && let Some(count) = self.brought.get_mut(first)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.brought.remove(first);
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

impl Chord {
    /// A message for this member.
    pub(super) fn arrived(
        &mut self,
        now: Instant,
        previous: (RingKey, RequestId),
        target: RingKey,
        payload: &[u8],
    ) {
        let Ok(offer) = Offer::decode(payload) else {
            self.counters.malformed += 1;
            return;
        };
        if !self.is_known(now, previous.0, &offer) {
            self.counters.routed_unknown += 1;
            return;
        }
        let name = (offer.origin, offer.number);
        let known = self.routing.arrivals.labels.get(&name).copied();
        let label = match known {
            Some(label) => {
                // A second try, perhaps by another way.
                let arrival = self.routing.arrivals.waiting.get_mut(&label);
                let Some(arrival) = arrival.filter(|a| a.ways.len() < MAX_ARRIVAL_WAYS) else {
                    return;
                };
                arrival.ways.push(previous);
                label
            }
            None => match self.take_in(now, previous, target, offer) {
                Some(label) => label,
                None => return,
            },
        };
        self.send_answer(label, Some(previous));
    }

    /// Whether the sender is a member whose certificate is at hand.
    fn is_known(&mut self, now: Instant, previous: RingKey, offer: &Offer) -> bool {
        if self.is_convicted(&offer.origin) || offer.origin == self.me {
            return false;
        }
        let Some(credentials) = &mut self.credentials else {
            return false;
        };
        match (credentials.standing(&offer.origin), &offer.certificate) {
            (Standing::Certified, _) => true,
            // To check a certificate costs more than to forward a message: the strict limit counts.
            (Standing::Unknown, Some(certificate)) if self.peers.may_ask(now, previous) => {
                credentials.admit(&offer.origin, certificate) == Standing::Certified
            }
            _ => false,
        }
    }

    fn take_in(
        &mut self,
        now: Instant,
        previous: (RingKey, RequestId),
        target: RingKey,
        offer: Offer,
    ) -> Option<RequestId> {
        if !self.routing.arrivals.has_room(&previous.0) {
            self.counters.routed_dropped += 1;
            return None;
        }
        let digest = digest(&target, &offer.body);
        let body = if offer.sealed {
            let credentials = self.credentials.as_mut()?;
            let opened = credentials.open(&offer.origin, &offer.body);
            match opened.and_then(|bytes| Secret::decode(&bytes).ok()) {
                Some(Secret::Body(body)) => body,
                _ => {
                    self.counters.malformed += 1;
                    return None;
                }
            }
        } else {
            offer.body
        };
        let proof = Proof {
            number: offer.number,
            challenge: self.rng.next_u64(),
            digest,
        };
        let label = self.requests.next_id();
        let arrival = Arrival {
            origin: offer.origin,
            target,
            body,
            proof,
            ways: vec![previous],
            repeats: 0,
        };
        self.routing.arrivals.insert(label, previous.0, arrival);
        let again = now + REACHED_AGAIN;
        self.routing.arrivals.again.push_back((again, label));
        Some(label)
    }

    /// Tells the sender that its message is here: by this way, or by all.
    fn send_answer(&mut self, label: RequestId, way: Option<(RingKey, RequestId)>) {
        let (Some(arrival), Some(credentials)) = (
            self.routing.arrivals.waiting.get(&label),
            &mut self.credentials,
        ) else {
            return;
        };
        let secret = Secret::Answer(arrival.proof.clone()).encode();
        let Some(sealed) = credentials.seal(&arrival.origin, &secret) else {
            return;
        };
        let stranger = !self.routing.familiar.contains(&arrival.origin);
        let certificate = stranger.then(|| credentials.certificate(&self.me));
        let answer = Answer {
            author: self.me,
            certificate: certificate.flatten(),
            sealed,
        };
        let payload = answer.encode();
        let ways = way.map_or_else(|| arrival.ways.clone(), |way| vec![way]);
        for (to, id) in ways {
            let payload = payload.clone();
            self.send(to, Message::Reached { id, label, payload });
        }
    }

    /// The sender has sent it indeed, and now: it is delivered. Or it is somebody else's confirmation, which goes on.
    pub(super) fn confirm_came(
        &mut self,
        _now: Instant,
        from: RingKey,
        id: RequestId,
        payload: Vec<u8>,
    ) {
        let Some(arrival) = self.routing.arrivals.waiting.get(&id) else {
            return self.confirm_on(from, id, payload);
        };
        let Some(credentials) = &mut self.credentials else {
            return;
        };
        let opened = credentials.open(&arrival.origin, &payload);
        let secret = opened.and_then(|bytes| Secret::decode(&bytes).ok());
        if secret != Some(Secret::Confirm(arrival.proof.clone())) {
            self.counters.malformed += 1;
            return;
        }
        if let Some(arrival) = self.routing.arrivals.remove(id) {
            self.routing.remember(arrival.origin);
            self.emit(Event::Routed {
                from: arrival.origin,
                target: arrival.target,
                body: arrival.body,
            });
        }
    }

    /// Whatever is not confirmed is answered again, a few times, at first by the ways that it came and then straight: either crossing may have been
    /// lost, by accident or on purpose.
    pub(super) fn arrivals_due(&mut self, now: Instant) {
        while let Some((time, label)) = self.routing.arrivals.again.front().copied() {
            if time > now {
                break;
            }
            self.routing.arrivals.again.pop_front();
            let Some(arrival) = self.routing.arrivals.waiting.get_mut(&label) else {
                continue;
            };
            arrival.repeats += 1;
            if arrival.repeats > REACHED_REPEATS {
                self.routing.arrivals.remove(label);
                continue;
            }
            // Whoever has carried the message may swallow what belongs to it: the sender is asked straight, too.
            let straight = (arrival.origin, arrival.proof.number);
            let last = arrival.repeats > 1;
            let again = now + REACHED_AGAIN;
            self.routing.arrivals.again.push_back((again, label));
            self.send_answer(label, last.then_some(straight));
        }
    }
}
