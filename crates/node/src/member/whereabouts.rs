//! Where leaves are: they register their HELLO with the ring, and whoever wants one asks for it
//! there.
//!
//! ```text
//! leaf ── Register ──▶ parent ── Keep ──▶ the router responsible ── Keep ──▶ its successor
//!                                                 ▲
//! whoever looks for the leaf ── FindLeaf ─────────┘
//! ```
//!
//! The router that is responsible for a leaf is the one for [`key_of`] its id. What it says counts
//! for nothing but the leaf's own signature. It keeps HELLOs in memory; records that survive more
//! than [`WHEREABOUTS_COPIES`] crashes have their place behind the same two questions.

mod handover;
mod kept;

use std::collections::BTreeMap;
use std::time::Instant;

use minicbor::bytes::ByteVec;
use ringway_overlay::{Membership as Position, RingKey};
use ringway_transport::{Address, Hello, MemberId, Protocol, Receipt};

use self::handover::HandOver;
#[cfg(feature = "fuzzing")]
pub(crate) use self::kept::decode_anything;
use self::kept::{KeptHellos, Whereabout};
use super::hidden::why_no_way;
use super::ring::Asker;
use super::runtime::{Runtime, ring_key_of};
use super::{Found, LookupFailed};
use crate::certificate::{Certificate, Role};
use crate::clock::unix_seconds;
use crate::limits::{
    PEER_TIME, REGISTER_AGAIN, REGISTER_PAUSE, SEARCH_AGAIN, SEARCHES, WHEREABOUTS_COPIES,
    WHEREABOUTS_RECEIPTS,
};
use crate::link::LinkMessage;

/// Where the ring keeps what is known of a leaf.
pub(super) fn key_of(member: &MemberId) -> RingKey {
    let mut name = b"ringway leaf".to_vec();
    name.extend_from_slice(member.as_bytes());
    RingKey::point(&name)
}

/// A leaf that is being looked for.
#[derive(Debug)]
struct Search {
    certificate: Certificate,
    since: Instant,
    /// The router that is responsible, once it is known.
    owner: Option<RingKey>,
    /// Number of the question.
    id: u64,
    ask_again: Instant,
}

/// What is known of leaves, and what is being found out.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    kept: KeptHellos,
    /// Registrations whose place in the ring is being looked up.
    registering: BTreeMap<MemberId, Whereabout>,
    /// What leaves of ours have registered, and when the ring is to hear it again.
    registered: BTreeMap<MemberId, (Hello, Instant)>,
    searches: BTreeMap<MemberId, Search>,
    hand_over: HandOver,
    next: u64,
}

impl Whereabouts {
    /// True if this leaf is being looked for.
    pub(super) fn searches(&self, member: &MemberId) -> bool {
        self.searches.contains_key(member)
    }

    /// Leaves whose HELLO is kept here.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }
}

impl Runtime {
    /// A leaf of ours wants to be found.
    pub(super) fn take_registration(&mut self, now: Instant, leaf: MemberId, bytes: &[u8]) {
        if !self.may_check(now, &leaf) {
            return;
        }
        let hello = Hello::decode(bytes).ok();
        if hello.is_none() {
            self.badly_signed(now, &leaf);
        }
        let hello = hello.filter(|hello| hello.member() == leaf);
        let Some(hello) = hello.filter(|_| self.chord.is_some() && self.is_leaf(&leaf)) else {
            return self.count("registrations_refused");
        };
        self.tell_observed(now, &leaf);
        // Bounded by the leaves that are linked.
        self.whereabouts.registered.insert(leaf, (hello, now));
        self.renew_registrations(now);
    }

    /// Tells the ring of our leaves, again and again for as long as they are linked: so an idle
    /// leaf has nothing to say.
    pub(super) fn renew_registrations(&mut self, now: Instant) {
        let links = &self.links;
        let registered = &mut self.whereabouts.registered;
        registered.retain(|leaf, _| links.is_up(leaf));
        let mut due = Vec::new();
        for (leaf, (hello, again)) in registered {
            if now >= *again {
                *again = now + REGISTER_PAUSE;
                due.push((*leaf, hello.clone()));
            }
        }
        for (leaf, hello) in due {
            let Some(whereabout) = self.with_receipts(now, hello) else {
                continue;
            };
            self.count("registrations");
            // One look-up for each.
            let busy = self.whereabouts.registering.insert(leaf, whereabout);
            if busy.is_none() && !self.look_up(now, key_of(&leaf), Asker::Registration(leaf)) {
                self.registration_failed(now, &leaf);
            }
        }
    }

    fn registration_failed(&mut self, now: Instant, leaf: &MemberId) {
        self.whereabouts.registering.remove(leaf);
        if let Some((_, again)) = self.whereabouts.registered.get_mut(leaf) {
            *again = now + REGISTER_AGAIN;
        }
        self.count("registrations_failed");
    }

    /// The leaf's HELLO, with our word for what of it we have proved.
    fn with_receipts(&self, now: Instant, hello: Hello) -> Option<Whereabout> {
        let member = hello.member();
        let receipts = self
            .validator
            .receipts(now, unix_seconds(), &member, &self.identity);
        let named = |receipt: &&Receipt| {
            let mut named = hello.addresses().iter();
            named.any(|descriptor| descriptor.address == *receipt.address())
        };
        let receipts = receipts.iter().filter(named).take(WHEREABOUTS_RECEIPTS);
        let receipts = receipts.map(|receipt| receipt.encoded().clone()).collect();
        Whereabout::new(hello, receipts)
    }

    /// The place in the ring of a leaf's HELLO is known.
    pub(super) fn registration_placed(
        &mut self,
        now: Instant,
        leaf: &MemberId,
        outcome: Result<Found, LookupFailed>,
    ) {
        let whereabout = self.whereabouts.registering.remove(leaf);
        let (Some(whereabout), Ok(found)) = (whereabout, outcome) else {
            return self.registration_failed(now, leaf);
        };
        let own = self.membership.certificate.member();
        if self.own_key() == Some(found.owner) {
            return self.keep_hello(now, own, whereabout, WHEREABOUTS_COPIES);
        }
        let referral = ByteVec::from(whereabout.encode());
        let copies = WHEREABOUTS_COPIES;
        self.send_to_router(now, found.owner, LinkMessage::Keep { referral, copies });
    }

    fn own_key(&self) -> Option<RingKey> {
        self.membership.certificate.ring_key()
    }

    /// A router asks us to keep a leaf's HELLO.
    pub(super) fn take_hello_to_keep(
        &mut self,
        now: Instant,
        by: MemberId,
        bytes: &[u8],
        copies: u8,
    ) {
        let from_router = self.chord.is_some() && self.has_role(&by, Role::Router);
        if !from_router {
            return self.count("hellos_to_keep_refused");
        }
        if !self.may_check(now, &by) {
            return;
        }
        match Whereabout::decode(bytes) {
            Some(found) => self.keep_hello(now, by, found, copies.min(WHEREABOUTS_COPIES)),
            None => {
                self.count("hellos_to_keep_refused");
                self.badly_signed(now, &by);
            }
        }
    }

    fn keep_hello(&mut self, now: Instant, by: MemberId, whereabout: Whereabout, copies: u8) {
        let encoded = ByteVec::from(whereabout.encode());
        let ended = self.directory.has_ended(&whereabout.hello.member());
        if ended || !self.whereabouts.kept.put(now, by, whereabout) {
            return self.count("hellos_to_keep_refused");
        }
        let successor = self.chord.as_ref().and_then(|c| c.successors().first());
        let successor = successor
            .copied()
            .filter(|key| Some(*key) != self.own_key());
        if let (Some(key), Some(copies)) = (successor, copies.checked_sub(1)) {
            let referral = encoded;
            self.send_to_router(now, key, LinkMessage::Keep { referral, copies });
        }
    }

    /// Somebody looks for a leaf.
    pub(super) fn answer_search(&mut self, now: Instant, asker: MemberId, id: u64, leaf: MemberId) {
        let kept = self.whereabouts.kept.get(now, &leaf);
        let referral = kept.map(|found| ByteVec::from(found.encode()));
        self.links
            .send(now, &asker, LinkMessage::LeafFound { id, referral });
    }

    /// Begins to look for a leaf, unless that is under way; true if it is.
    pub(super) fn search(&mut self, now: Instant, certificate: &Certificate) -> bool {
        let member = certificate.member();
        let searches = &mut self.whereabouts.searches;
        if searches.contains_key(&member) {
            return true;
        }
        if searches.len() >= SEARCHES {
            return false;
        }
        let search = Search {
            certificate: certificate.clone(),
            since: now,
            owner: None,
            id: 0,
            ask_again: now,
        };
        searches.insert(member, search);
        if !self.look_up(now, key_of(&member), Asker::Search(member)) {
            self.whereabouts.searches.remove(&member);
            return false;
        }
        self.whereabouts.searches.contains_key(&member)
    }

    /// The router that knows where the leaf is has been found, or cannot be.
    pub(super) fn search_placed(
        &mut self,
        now: Instant,
        leaf: MemberId,
        outcome: Result<Found, LookupFailed>,
    ) {
        let Ok(found) = outcome else {
            return self.search_ended(now, leaf, None);
        };
        if self.own_key() == Some(found.owner) {
            let found = self.whereabouts.kept.get(now, &leaf).cloned();
            return self.search_ended(now, leaf, found);
        }
        self.whereabouts.next += 1;
        let id = self.whereabouts.next;
        if let Some(search) = self.whereabouts.searches.get_mut(&leaf) {
            search.owner = Some(found.owner);
            search.id = id;
            search.ask_again = now;
        }
        self.look_after_searches(now);
    }

    /// The router that is responsible has answered.
    pub(super) fn take_found_leaf(
        &mut self,
        now: Instant,
        router: MemberId,
        id: u64,
        referral: Option<&[u8]>,
    ) {
        let key = ring_key_of(&self.directory, &router);
        let searches = self.whereabouts.searches.iter();
        let mut asked = searches
            .filter(|(_, search)| search.id == id && search.owner.is_some() && search.owner == key);
        let Some(leaf) = asked.next().map(|(leaf, _)| *leaf) else {
            return self.count("found_leaves_unwanted");
        };
        let found = referral.and_then(Whereabout::decode);
        self.search_ended(
            now,
            leaf,
            found.filter(|found| found.hello.member() == leaf),
        );
    }

    /// Dials the leaf wherever it may be: where it has answered us, through its parents, and once
    /// where members of the ring have signed that it answered them. Whatever else its HELLO
    /// names may be a stranger's, and waits for a PING over the link.
    fn search_ended(&mut self, now: Instant, leaf: MemberId, found: Option<Whereabout>) {
        let Some(search) = self.whereabouts.searches.remove(&leaf) else {
            return;
        };
        let proved = self.validator.usable(now, &leaf).into_iter();
        let proved = proved.map(|(descriptor, _)| descriptor.address.clone());
        let mut addresses: Vec<Address> = proved.collect();
        let mut vouched = Vec::new();
        if let Some(found) = &found {
            let admitted = |member: &MemberId| self.directory.cached(member).is_some();
            let spoken_for = found
                .referral
                .vouched_for(&found.hello, unix_seconds(), &admitted);
            vouched.extend(spoken_for.into_iter().filter(|a| !a.is_private()));
            let named = found.hello.addresses().iter().map(|d| &d.address);
            let relays = named.filter(|address| address.protocol() == Protocol::Relay);
            addresses.extend(relays.cloned());
        }
        let usable = |address: &Address| address.is_dialable() && self.carries(&leaf, address);
        addresses.retain(usable);
        addresses.sort_by_key(|address| (address.protocol().usual_cost(), address.clone()));
        addresses.dedup();
        vouched.retain(|address| usable(address) && !addresses.contains(address));
        let ways = addresses.len() + vouched.len();
        tracing::debug!(member = %leaf, found = found.is_some(), ways, "a search has ended");
        if found.is_none() && self.links.is_up(&leaf) {
            return;
        }
        self.links
            .connect_vouched(now, &search.certificate, addresses, vouched);
        if !self.links.knows(&leaf) {
            let hello = found.as_ref().map(|found| &found.hello);
            let reason = why_no_way(self.network.is_hidden(), hello);
            self.leaf_not_found(&leaf, reason);
        }
    }

    /// Asks again where no answer came, and gives up what has taken too long.
    pub(super) fn look_after_searches(&mut self, now: Instant) {
        let searches = self.whereabouts.searches.iter();
        let late: Vec<MemberId> = searches
            .filter(|(_, search)| now >= search.since + PEER_TIME)
            .map(|(leaf, _)| *leaf)
            .collect();
        for leaf in late {
            self.search_ended(now, leaf, None);
        }
        let mut questions = Vec::new();
        for (leaf, search) in &mut self.whereabouts.searches {
            if let Some(owner) = search.owner.filter(|_| now >= search.ask_again) {
                search.ask_again = now + SEARCH_AGAIN;
                questions.push((owner, search.id, *leaf));
            }
        }
        for (owner, id, leaf) in questions {
            let member = (*leaf.as_bytes()).into();
            self.send_to_router(now, owner, LinkMessage::FindLeaf { id, member });
        }
    }

    /// A link has come up: there is nothing more to look for.
    pub(super) fn end_search(&mut self, member: &MemberId) {
        self.whereabouts.searches.remove(member);
    }

    /// Forgets what is too old or of members that have ended.
    pub(super) fn tidy_whereabouts(&mut self, now: Instant) {
        let directory = &self.directory;
        self.whereabouts
            .kept
            .tidy(now, |member| directory.has_ended(member));
    }

    /// Begins a look-up on our own behalf; false if there is no way to.
    fn look_up(&mut self, now: Instant, target: RingKey, asker: Asker) -> bool {
        let in_ring = self
            .chord
            .as_ref()
            .map(|chord| chord.state() == Position::Member);
        if !in_ring.unwrap_or_else(|| !self.parents().is_empty()) {
            return false;
        }
        self.begin_lookup(now, target, asker);
        true
    }
}
