//! Leaves that are being looked for: the ring names the router that is responsible, which has the
//! leaf's HELLO.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_overlay::RingKey;
use ringway_transport::{Address, MemberId, Protocol};

use super::kept::{LeafEntry, key_of};
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::limits::{PEER_TIME, SEARCH_AGAIN, SEARCHES};
use crate::link::LinkMessage;
use crate::member::answer::Reason;
use crate::member::core::{Core, LookupNumber, Signal, why_no_way};
use crate::member::counters::counters;

counters! {
    /// What has become of searches.
    SearchCounters {
        found_leaves_unwanted,
    }
}

/// A leaf that is being looked for.
#[derive(Debug)]
struct Search {
    certificate: Certificate,
    since: Instant,
    /// The router that is responsible, once it is known.
    asked: Option<Asked>,
}

/// Whom the leaf's HELLO is asked of.
#[derive(Debug)]
struct Asked {
    owner: RingKey,
    /// Number of the question.
    id: u64,
    ask_again: Instant,
}

impl Search {
    fn ends(&self) -> Instant {
        self.since + PEER_TIME
    }
}

/// All of them. Keeps [`Core::sought`] up to date.
#[derive(Debug, Default)]
pub(super) struct Searches {
    searches: BTreeMap<MemberId, Search>,
    lookups: BTreeMap<LookupNumber, MemberId>,
    last: u64,
    pub(super) counted: SearchCounters,
}

/// Where a leaf may be dialled.
#[derive(Debug, Default)]
struct Addresses {
    /// Where it has answered us, and through its parents.
    known: Vec<Address>,
    /// Where members of the ring have signed that it answered them.
    vouched: Vec<Address>,
}

impl Searches {
    /// Begins to look for a leaf, unless that is under way.
    pub(super) fn find(
        &mut self,
        core: &mut Core,
        certificate: &Certificate,
        otherwise: Option<Reason>,
    ) {
        if self.begin(core, certificate) {
            return;
        }
        let leaf = certificate.member();
        core.sought.remove(&leaf);
        if let Some(reason) = otherwise
            && !core.links.knows(&leaf)
        {
            core.signal(Signal::NoWay { leaf, reason });
        }
    }

    /// True if the search is under way.
    fn begin(&mut self, core: &mut Core, certificate: &Certificate) -> bool {
        let leaf = certificate.member();
        if self.searches.contains_key(&leaf) {
            return true;
        }
        if self.searches.len() >= SEARCHES {
            return false;
        }
        let Ok(number) = core.look_up(key_of(&leaf)) else {
            return false;
        };
        // Its number outlives the search if that ends by a link.
        self.lookups.insert(number, leaf);
        let search = Search {
            certificate: certificate.clone(),
            since: core.now,
            asked: None,
        };
        self.searches.insert(leaf, search);
        true
    }

    /// A lookup has ended; gives the leaf for which it was.
    pub(super) fn looked_up(&mut self, number: LookupNumber) -> Option<MemberId> {
        self.lookups.remove(&number)
    }

    /// The router that knows where the leaf is has been found: it is asked.
    pub(super) fn ask(&mut self, core: &mut Core, leaf: MemberId, owner: RingKey) {
        self.last += 1;
        if let Some(search) = self.searches.get_mut(&leaf) {
            search.asked = Some(Asked {
                owner,
                id: self.last,
                ask_again: core.now,
            });
        }
        self.on_deadline(core);
    }

    /// The router that is responsible has answered.
    pub(super) fn answered(
        &mut self,
        core: &mut Core,
        router: &MemberId,
        id: u64,
        referral: Option<&[u8]>,
    ) {
        // An answer of any other router than the one that was asked may be a lie.
        let key = core.ring_key_of(router);
        let is_it = |asked: &Asked| asked.id == id && Some(asked.owner) == key;
        let mut searches = self.searches.iter();
        let asked = searches.find(|(_, search)| search.asked.as_ref().is_some_and(is_it));
        let Some(leaf) = asked.map(|(leaf, _)| *leaf) else {
            self.counted.found_leaves_unwanted += 1;
            return;
        };
        let found = referral.and_then(LeafEntry::decode);
        self.end(
            core,
            leaf,
            found.filter(|found| found.hello.member() == leaf),
        );
    }

    /// Dials the leaf wherever it may be: where it has answered us, through its parents, and once
    /// where members of the ring have signed that it answered them. Whatever else its HELLO
    /// names may be a stranger's, and waits for a PING over the link.
    pub(super) fn end(&mut self, core: &mut Core, leaf: MemberId, found: Option<LeafEntry>) {
        let Some(search) = self.searches.remove(&leaf) else {
            return;
        };
        core.sought.remove(&leaf);
        let Addresses { known, vouched } = addresses_of(core, &leaf, found.as_ref());
        let ways = known.len() + vouched.len();
        tracing::debug!(member = %leaf, found = found.is_some(), ways, "a search has ended");
        if found.is_none() && core.links.is_up(&leaf) {
            return;
        }
        core.links
            .connect_vouched(core.now, &search.certificate, known, vouched);
        if !core.links.knows(&leaf) {
            let hello = found.as_ref().map(|found| &found.hello);
            let reason = why_no_way(core.network.is_hidden(), hello);
            core.signal(Signal::NotFound { leaf, reason });
        }
    }

    /// A link has come up: there is nothing more to look for.
    pub(super) fn linked(&mut self, core: &mut Core, member: &MemberId) {
        self.searches.remove(member);
        core.sought.remove(member);
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let searches = self.searches.values();
        let deadlines = searches.map(|search| {
            let asked = search.asked.as_ref();
            asked.map_or(search.ends(), |asked| asked.ask_again.min(search.ends()))
        });
        deadlines.min()
    }

    /// Gives up what has taken too long, and asks again where no answer came.
    pub(super) fn on_deadline(&mut self, core: &mut Core) {
        let now = core.now;
        let searches = self.searches.iter();
        let late = searches.filter(|(_, search)| now >= search.ends());
        let late: Vec<MemberId> = late.map(|(leaf, _)| *leaf).collect();
        for leaf in late {
            self.end(core, leaf, None);
        }
        for (leaf, search) in &mut self.searches {
            let asked = search.asked.as_mut();
            if let Some(asked) = asked.filter(|asked| now >= asked.ask_again) {
                asked.ask_again = now + SEARCH_AGAIN;
                let member = (*leaf.as_bytes()).into();
                let id = asked.id;
                core.send_to_router(asked.owner, LinkMessage::FindLeaf { id, member });
            }
        }
    }
}

fn addresses_of(core: &Core, leaf: &MemberId, found: Option<&LeafEntry>) -> Addresses {
    let proved = core.validator.usable(core.now, leaf).into_iter();
    let proved = proved.map(|(descriptor, _)| descriptor.address.clone());
    let mut known: Vec<Address> = proved.collect();
    let mut vouched = Vec::new();
    if let Some(found) = found {
        let admitted = |member: &MemberId| core.directory.cached(member).is_some();
        let spoken_for = found
            .referral
            .vouched_for(&found.hello, unix_seconds(), &admitted);
        vouched.extend(spoken_for.into_iter().filter(|a| !a.is_private()));
        let named = found.hello.addresses().iter().map(|d| &d.address);
        let relays = named.filter(|address| address.protocol() == Protocol::Relay);
        known.extend(relays.cloned());
    }
    let usable = |address: &Address| address.is_dialable() && core.carries(leaf, address);
    known.retain(usable);
    // Cheapest first; what is known needs no other member's word.
    known.sort_by_key(|address| (address.protocol().usual_cost(), address.clone()));
    known.dedup();
    vouched.retain(|address| usable(address) && !known.contains(address));
    Addresses { known, vouched }
}
