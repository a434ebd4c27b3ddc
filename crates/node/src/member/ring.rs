//! A router's position in the ring; lookups for ourselves and for leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ringway_overlay::{
    Chord, Config, Event, LookupId, Membership as Position, Message, Proof, RingKey,
};
use ringway_transport::MemberId;
use tokio::sync::oneshot;

use super::echo::answer;
use super::runtime::{Runtime, ring_key_of};
use super::{Found, LookupFailed, Outcome};
use crate::certificate::Certificate;
use crate::credentials::RouterCredentials;
use crate::evidence::Evidence;
use crate::limits::{
    LEAF_LOOKUPS, LOOKUP_TIME, PARENT_TIME, ROUTE_HOPS, UNRESOLVED, UNRESOLVED_MESSAGES,
};
use crate::link::LinkMessage;
use crate::state::StateError;

type Reply = oneshot::Sender<Result<Found, LookupFailed>>;

/// Who wants a lookup's outcome.
#[derive(Debug)]
pub(super) enum Asker {
    Local(Reply),
    /// A leaf, and its number for the lookup.
    Leaf(MemberId, u64),
    /// This leaf's HELLO is to be kept there.
    Registration(MemberId),
    /// This leaf's HELLO is to be had there.
    Search(MemberId),
}

/// A leaf's lookup. One parent is asked after the other until one finds the owner.
#[derive(Debug)]
struct AtParent {
    target: RingKey,
    asked: BTreeSet<MemberId>,
    /// Parents that could not find it.
    failed: usize,
    since: Instant,
    ask_next: Instant,
    asker: Asker,
}

/// Lookups under way.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    askers: BTreeMap<LookupId, Asker>,
    at_parents: BTreeMap<u64, AtParent>,
    next: u64,
}

/// Messages for routers whose certificates are being looked for.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    messages: BTreeMap<RingKey, Vec<LinkMessage>>,
}

/// What a router that is convicted itself is to do.
const OWN_CONVICTION: &str = "either there are two copies of this home, or this program has an error; end all copies but \
                              one, then the ring's owner gives this one a new key: `ringway ring rotate NAME`";

impl Runtime {
    /// Takes up the place in the ring: begins it, joins it, or returns to it.
    pub(super) fn enter_ring(&mut self, now: Instant) -> Result<(), StateError> {
        let known = self.state.routers(&self.membership.ring)?;
        for router in &known {
            // Revoked or expired ones are left out; the others are known without DNS.
            if self.directory.admit(router.as_bytes()).is_err() {
                self.count("known_routers_refused");
            }
        }
        let Some(key) = self.membership.certificate.ring_key() else {
            return Ok(());
        };
        let config = Config {
            successors: self.membership.statement.successors(),
            group: self.membership.statement.group(),
            ..Config::default()
        };
        let incarnation = self.state.next_incarnation()?;
        let credentials = RouterCredentials::new(
            self.identity.clone(),
            self.membership.certificate.clone(),
            std::sync::Arc::clone(&self.directory),
        );
        let chord = match Chord::new(
            key,
            config,
            *blake3::hash(&rand::random::<[u8; 32]>()).as_bytes(),
        ) {
            Ok(chord) => chord,
            Err(error) => {
                tracing::error!(%error, "the ring's parameters cannot be used");
                return Ok(());
            }
        };
        let mut chord = chord.with_credentials(Box::new(credentials), incarnation);
        self.recall_evidence(now, &mut chord);
        let others: Vec<RingKey> = known
            .iter()
            .filter_map(Certificate::ring_key)
            .filter(|k| *k != key)
            .collect();
        if others.is_empty() {
            chord.start_ring(now);
        } else {
            // Also at the first start: a router that was enrolled earlier may never run, and nobody
            // else would begin the ring.
            chord.resume(now, &others);
        }
        self.chord = Some(chord);
        Ok(())
    }

    /// Gives the place in the ring up, and tells those whom a link leads to: for anybody else no
    /// link is made any more, and its questions stay unanswered. Where the ring is too small to
    /// be left, the others find out like that, too.
    pub(super) fn leave_ring(&mut self, now: Instant) {
        let Some(mut chord) = self.chord.take() else {
            return;
        };
        match chord.leave(now) {
            Ok(()) => tracing::info!("this router leaves the ring"),
            Err(refused) => tracing::info!(%refused, "this router ends without leaving the ring"),
        }
        while let Some(transmit) = chord.poll_transmit() {
            let linked = self.directory.cached_router(&transmit.to);
            if let Some(to) = linked.map(|certificate| certificate.member())
                && self.links.is_up(&to)
            {
                let message = LinkMessage::Overlay(transmit.message.encode().into());
                self.links.send(now, &to, message);
            }
        }
        self.transmit(now);
    }

    /// Moves messages and events out of the overlay; true if there were any.
    pub(super) fn drain_chord(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.chord.as_mut().and_then(Chord::poll_transmit) {
            let message = LinkMessage::Overlay(transmit.message.encode().into());
            self.joining.sent += 1;
            self.send_to_router(now, transmit.to, message);
            moved = true;
        }
        while let Some(event) = self.chord.as_mut().and_then(Chord::poll_event) {
            self.handle_ring_event(now, event);
            moved = true;
        }
        moved
    }

    pub(super) fn send_to_router(&mut self, now: Instant, to: RingKey, message: LinkMessage) {
        if let Some(certificate) = self.directory.cached_router(&to) {
            self.link_to(now, &certificate);
            self.links.send(now, &certificate.member(), message);
            return;
        }
        let waiting = &mut self.unresolved.messages;
        if let Some(messages) = waiting.get_mut(&to) {
            if messages.len() < UNRESOLVED_MESSAGES {
                messages.push(message);
            }
            return;
        }
        if waiting.len() >= UNRESOLVED {
            self.count("routers_unresolved_dropped");
            return;
        }
        waiting.insert(to, vec![message]);
        let directory = std::sync::Arc::clone(&self.directory);
        let outcomes = self.outcomes.clone();
        tokio::spawn(async move {
            let found = directory.router(to).await;
            if let Err(error) = &found {
                tracing::info!(%error, "a router could not be looked up");
            }
            let outcome = Outcome::Resolved(to, found.ok().map(Box::new));
            if outcomes.send(outcome).await.is_err() {
                tracing::debug!("the member's task has ended");
            }
        });
    }

    pub(super) fn router_resolved(
        &mut self,
        now: Instant,
        key: RingKey,
        certificate: Option<Box<Certificate>>,
    ) {
        let messages = self.unresolved.messages.remove(&key).unwrap_or_default();
        let Some(certificate) = certificate else {
            if let Some(chord) = &mut self.chord {
                chord.handle_unreachable(now, key);
            }
            return;
        };
        self.link_to(now, &certificate);
        for message in messages {
            self.links.send(now, &certificate.member(), message);
        }
    }

    pub(super) fn take_overlay(&mut self, now: Instant, member: MemberId, bytes: &[u8]) {
        // Only routers have a key, and it is the owner's certificate that says which.
        let Some(key) = ring_key_of(&self.directory, &member) else {
            return self.count("overlay_messages_of_leaves");
        };
        let (Some(chord), Ok(message)) = (&mut self.chord, Message::decode(bytes)) else {
            return self.count("overlay_messages_malformed");
        };
        self.joining.received += 1;
        chord.handle_message(now, key, message);
    }

    fn handle_ring_event(&mut self, now: Instant, event: Event) {
        if self.take_record_event(now, &event) || self.take_through_event(&event) {
            return;
        }
        match event {
            Event::Joined => {
                self.tell_joined(now);
                if let Err(error) = self.state.set_was_in_ring() {
                    tracing::error!(%error, "the state could not be stored");
                }
            }
            Event::NeighboursChanged {
                predecessor,
                successors,
            } => {
                self.remember_routers(predecessor.into_iter().chain(successors));
                self.predecessor_changed(now);
            }
            Event::LookupDone {
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
                self.lookup_ended(now, id, Ok(found));
            }
            Event::LookupFailed { id, reason, .. } => {
                self.lookup_ended(now, id, Err(LookupFailed::Overlay(reason.to_string())));
            }
            Event::Convicted { proof, .. } => self.keep_evidence(&proof),
            Event::StartedOver(count) => self.begun_anew(count),
            Event::OwnConviction(proof) => {
                self.convicted = true;
                self.keep_evidence(&proof);
            }
            Event::MemberDead(key) => tracing::info!(%key, "a router does not answer"),
            Event::Isolated => {
                tracing::warn!("all successors are gone: this router looks for the others");
            }
            Event::Statement(statement) => {
                tracing::info!("the ring's owner has stated something new, another router says");
                self.end_revoked();
                self.tell_leaves_statement(now, &statement);
            }
            Event::RecordStored { .. }
            | Event::RecordFound { .. }
            | Event::RecordFailed { .. }
            | Event::RouteDone { .. }
            | Event::RouteFailed { .. }
            | Event::Routed { .. } => {}
        }
    }

    /// DNS has a newer statement of the owner: the others may not have asked yet, or get no answer.
    pub(super) fn spread_statement(&mut self, now: Instant, statement: &[u8]) {
        self.end_revoked();
        if let Some(chord) = &mut self.chord {
            if !chord.spread(statement) {
                self.count("statements_too_long_to_spread");
            }
            self.tell_leaves_statement(now, statement);
        }
    }

    fn tell_leaves_statement(&mut self, now: Instant, statement: &[u8]) {
        for leaf in self.links.members() {
            if self.is_leaf(&leaf) && self.links.is_up(&leaf) {
                let statement = LinkMessage::Statement(statement.to_vec().into());
                self.links.send(now, &leaf, statement);
            }
        }
    }

    /// A router has been proven to lie: the ring's owner may want to see it, and the next start has
    /// to know.
    fn keep_evidence(&self, proof: &Proof) {
        let own = &self.membership.certificate;
        let is_own = own.ring_key() == Some(proof.guilty());
        let certificate = match is_own {
            true => Some(own.clone()),
            false => self.directory.cached_router(&proof.guilty()),
        };
        let Some(certificate) = certificate else {
            return;
        };
        let ring = &self.membership.ring;
        let evidence = match proof {
            Proof::TwoStories { first, second } => Evidence::new(ring, &certificate, first, second),
            Proof::FalseAccusation(accusation) => {
                let accused = accusation.accused();
                let accused = match own.ring_key() == Some(accused) {
                    true => Some(own.clone()),
                    false => self.directory.cached_router(&accused),
                };
                // Without it the file would prove nothing.
                if accusation.contradicts() && accused.is_none() {
                    return;
                }
                Evidence::of_false_accusation(ring, &certificate, accusation, accused.as_ref())
            }
        };
        let state = std::sync::Arc::clone(&self.state);
        tokio::task::spawn_blocking(move || {
            let name = certificate.name();
            match evidence.keep(state.home(), &certificate.member()) {
                Ok(path) if is_own => tracing::error!(
                    %name, file = %path.display(),
                    "other routers hold proof that this router lies, and do not use it: {OWN_CONVICTION}"
                ),
                Ok(path) => tracing::warn!(
                    %name, file = %path.display(),
                    "a router has signed what convicts it of a lie, and is not used any more; the ring's owner can judge the file: `ringway ring judge`"
                ),
                Err(error) => tracing::error!(%name, %error, "evidence could not be kept"),
            }
        });
    }

    /// Those who were proven to lie before this start.
    fn recall_evidence(&self, now: Instant, chord: &mut Chord) {
        for evidence in Evidence::kept(self.state.home()) {
            if let Ok(guilty) = evidence.judge(&self.membership.ring)
                && self.directory.admit(guilty.certificate.as_bytes()).is_ok()
            {
                if let Some(accused) = &guilty.accused {
                    // Where it has ended nobody can say any more what its holder has signed: its
                    // accuser is forgotten.
                    self.directory.admit(accused.as_bytes()).ok();
                }
                chord.recall(now, guilty.proof);
            }
        }
    }

    /// The overlay signs with a new start: the machine was set back, its date moved, or there is
    /// another copy of this home.
    fn begun_anew(&self, count: u32) {
        tracing::warn!(
            "this machine's date has moved, or others know statements of this router that it does \
             not: it was set back, or there is a second copy of its home"
        );
        let state = std::sync::Arc::clone(&self.state);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = state.raise_incarnation(count) {
                tracing::error!(%error, "the count of starts could not be stored");
            }
        });
    }

    /// For the next start. The disk may be slow, and this task has links to look after.
    fn remember_routers(&mut self, keys: impl Iterator<Item = RingKey>) {
        let certificates: Vec<Certificate> = keys
            .filter_map(|key| self.directory.cached_router(&key))
            .collect();
        let state = std::sync::Arc::clone(&self.state);
        tokio::task::spawn_blocking(move || {
            for certificate in certificates {
                if let Err(error) = state.remember_router(&certificate) {
                    tracing::error!(%error, "a router could not be remembered");
                }
            }
        });
    }

    pub(super) fn begin_lookup(&mut self, now: Instant, target: RingKey, asker: Asker) {
        if let Some(chord) = &mut self.chord {
            let failed = match chord.lookup(now, target) {
                Ok(id) => {
                    self.lookups.askers.insert(id, asker);
                    return;
                }
                Err(ringway_overlay::LookupError::NotMember) => LookupFailed::NotInRing,
                Err(error) => LookupFailed::Overlay(error.to_string()),
            };
            return self.answer_lookup(now, asker, Err(failed));
        }
        if self.parents().is_empty() {
            return self.answer_lookup(now, asker, Err(LookupFailed::NoParent));
        }
        self.lookups.next += 1;
        let id = self.lookups.next;
        let at_parent = AtParent {
            target,
            asked: BTreeSet::new(),
            failed: 0,
            since: now,
            ask_next: now,
            asker,
        };
        self.lookups.at_parents.insert(id, at_parent);
        self.ask_a_parent(now, id);
    }

    /// Asks a parent that has not been asked, at random.
    fn ask_a_parent(&mut self, now: Instant, id: u64) {
        use rand::seq::IteratorRandom as _;
        let parents = self.parents();
        let Some(lookup) = self.lookups.at_parents.get_mut(&id) else {
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
        let target = (*lookup.target.as_bytes()).into();
        let question = LinkMessage::Lookup { id, target };
        self.links.send(now, parent, question);
    }

    /// A leaf asks us; it gets an answer in any case.
    pub(super) fn lookup_for_leaf(
        &mut self,
        now: Instant,
        leaf: MemberId,
        id: u64,
        target: RingKey,
    ) {
        let of_this_leaf =
            |asker: &&Asker| matches!(asker, Asker::Leaf(member, _) if *member == leaf);
        let busy = self.lookups.askers.values().filter(of_this_leaf).count() >= LEAF_LOOKUPS;
        let begun = match &mut self.chord {
            Some(chord) if !busy => chord.lookup(now, target).ok(),
            _ => None,
        };
        match begun {
            Some(lookup) => {
                self.lookups.askers.insert(lookup, Asker::Leaf(leaf, id));
            }
            None => {
                self.count("leaf_lookups_refused");
                let hops = Vec::new();
                self.links.send(
                    now,
                    &leaf,
                    LinkMessage::LookupReply {
                        id,
                        owner: None,
                        verified: false,
                        hops,
                    },
                );
            }
        }
    }

    fn lookup_ended(&mut self, now: Instant, id: LookupId, outcome: Result<Found, LookupFailed>) {
        if let Some(asker) = self.lookups.askers.remove(&id) {
            self.answer_lookup(now, asker, outcome);
        }
    }

    fn answer_lookup(&mut self, now: Instant, asker: Asker, outcome: Result<Found, LookupFailed>) {
        match asker {
            Asker::Local(reply) => answer(reply, outcome),
            Asker::Registration(leaf) => self.registration_placed(now, &leaf, outcome),
            Asker::Search(leaf) => self.search_placed(now, leaf, outcome),
            Asker::Leaf(leaf, id) => {
                let (owner, verified, hops) = match outcome {
                    Ok(found) => {
                        let owner = Some((*found.owner.as_bytes()).into());
                        (owner, found.verified, found.hops)
                    }
                    Err(_) => (None, false, Vec::new()),
                };
                let hops = hops
                    .iter()
                    .take(ROUTE_HOPS)
                    .map(|hop| (*hop.as_bytes()).into())
                    .collect();
                self.links.send(
                    now,
                    &leaf,
                    LinkMessage::LookupReply {
                        id,
                        owner,
                        verified,
                        hops,
                    },
                );
            }
        }
    }

    pub(super) fn parent_answered(
        &mut self,
        now: Instant,
        parent: MemberId,
        id: u64,
        outcome: (Option<RingKey>, bool, Vec<RingKey>),
    ) {
        let asked = self.lookups.at_parents.get(&id);
        if !asked.is_some_and(|lookup| lookup.asked.contains(&parent)) {
            return self.count("lookup_replies_unwanted");
        }
        let (Some(owner), verified, hops) = outcome else {
            return self.parent_failed(now, id);
        };
        let Some(lookup) = self.lookups.at_parents.remove(&id) else {
            return;
        };
        let own_hop = ring_key_of(&self.directory, &parent);
        let hops = own_hop.into_iter().chain(hops).collect();
        let elapsed = since(now, lookup.since);
        let found = Found {
            owner,
            verified,
            hops,
            questions: u32::try_from(lookup.asked.len()).unwrap_or(u32::MAX),
            elapsed,
        };
        self.answer_lookup(now, lookup.asker, Ok(found));
    }

    /// A parent could not find the owner; another may.
    fn parent_failed(&mut self, now: Instant, id: u64) {
        self.ask_a_parent(now, id);
        let Some(lookup) = self.lookups.at_parents.get_mut(&id) else {
            return;
        };
        lookup.failed += 1;
        if lookup.failed < lookup.asked.len() {
            return;
        }
        if let Some(lookup) = self.lookups.at_parents.remove(&id) {
            let reason = "no parent could find the owner".to_owned();
            self.answer_lookup(now, lookup.asker, Err(LookupFailed::Overlay(reason)));
        }
    }

    /// Asks further parents for what is unanswered, and ends what has waited for too long.
    pub(super) fn look_after_lookups(&mut self, now: Instant) {
        let lookups = self.lookups.at_parents.iter();
        let late: Vec<(u64, bool)> = lookups
            .filter(|(_, lookup)| now >= lookup.ask_next)
            .map(|(id, lookup)| (*id, now >= lookup.since + LOOKUP_TIME))
            .collect();
        for (id, over) in late {
            if !over {
                self.ask_a_parent(now, id);
            } else if let Some(lookup) = self.lookups.at_parents.remove(&id) {
                self.answer_lookup(now, lookup.asker, Err(LookupFailed::TimedOut));
            }
        }
    }
}

/// Says in one word how far a member is.
pub(super) fn position(chord: Option<&Chord>, has_parent: bool) -> &'static str {
    match chord.map(Chord::state) {
        Some(Position::Member) => "member",
        Some(Position::Joining) => "joining",
        Some(Position::Outside) => "outside",
        None if has_parent => "member",
        None => "joining",
    }
}

/// Zero where a duration cannot be told.
pub(super) fn since(now: Instant, then: Instant) -> Duration {
    now.saturating_duration_since(then)
}
