//! A leaf's parents: a few routers that it is linked to. They look keys up for it, make it
//! findable, pass packets on to it, and tell it from which address they hear it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use minicbor::bytes::ByteVec;
use rand::seq::SliceRandom as _;
use ringway_transport::{
    Address, AddressDescriptor, Hello, MemberId, Protocol, RelayAddress, limits,
};

use super::mapping::PortMapping;
use super::runtime::Runtime;
use crate::certificate::{Certificate, Role};
use crate::limits::{
    PARENTS, PUNCH_PAUSE, REGISTER_AGAIN, REGISTER_AGAIN_BY_MAIL, REGISTERED_FOR,
    REGISTERED_FOR_BY_MAIL,
};
use crate::link::LinkMessage;

/// What one parent does for us.
#[derive(Debug, Default)]
struct Parent {
    /// When to register with it (again).
    register: Option<Instant>,
    /// Whether it has answered the newest registration.
    confirmed: bool,
    /// Whether it has answered any registration.
    answered: bool,
    /// Whether it passes packets on.
    relays: bool,
    /// Whether only mail leads to it.
    by_mail: bool,
    /// The UDP socket from which it hears us.
    observed: Option<Address>,
}

impl Parent {
    /// How long it has to confirm a registration.
    fn register_again(&self) -> Duration {
        match self.by_mail {
            true => REGISTER_AGAIN_BY_MAIL,
            false => REGISTER_AGAIN,
        }
    }

    /// How long what it has confirmed is enough.
    fn registered_for(&self) -> Duration {
        match self.by_mail {
            true => REGISTERED_FOR_BY_MAIL,
            false => REGISTERED_FOR,
        }
    }
}

/// Addresses of ours that are others' doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lent {
    /// By way of the parents.
    relays: Vec<Address>,
    /// From where the parents hear us.
    observed: Vec<Address>,
    /// A port of our home router.
    mapped: Option<Address>,
}

impl Lent {
    fn all(&self) -> impl Iterator<Item = &Address> {
        let relays = self.relays.iter();
        relays.chain(&self.observed).chain(&self.mapped)
    }
}

/// A leaf's parents, and what a router has told its leaves.
#[derive(Debug)]
pub(super) struct Parents {
    /// Those that others may reach us through. They stay while their link lasts.
    chosen: BTreeMap<MemberId, Parent>,
    mapping: PortMapping,
    /// What we have said of ourselves because of them.
    advertised: Lent,
    /// How often that has changed.
    changes: u64,
    /// When to test the addresses of a peer behind a relay again.
    punches: BTreeMap<MemberId, Instant>,
    /// What each of our own leaves was told.
    told: BTreeMap<MemberId, Option<Address>>,
}

impl Parents {
    /// Keeps those of `candidates` that are chosen, and fills up. `by_mail`: only mail leads to
    /// them, and each registration is one. One is enough then, another one if it does not
    /// confirm.
    fn choose(&mut self, now: Instant, mut candidates: Vec<MemberId>, by_mail: bool) {
        let most = if by_mail { 1 } else { PARENTS };
        let chosen = &mut self.chosen;
        chosen.retain(|member, parent| {
            let waits = parent.register.is_none_or(|due| now < due);
            candidates.contains(member) && (parent.confirmed || waits || !by_mail)
        });
        while chosen.len() > most {
            chosen.pop_last();
        }
        // Who is first among them nobody chooses by its id.
        candidates.shuffle(&mut rand::rng());
        for member in candidates {
            if chosen.len() < most {
                chosen.entry(member).or_default();
            }
        }
        for parent in chosen.values_mut() {
            if std::mem::replace(&mut parent.by_mail, by_mail) && !by_mail && !parent.confirmed {
                // What left by mail may take long, or be lost.
                parent.register = None;
            }
        }
    }

    /// A parent that has restarted has forgotten what we registered.
    pub(super) fn is_linked_anew(&mut self, member: &MemberId) {
        if let Some(parent) = self.chosen.get_mut(member) {
            parent.register = None;
        }
    }

    /// Those that pass packets on.
    pub(super) fn that_relay(&self) -> impl Iterator<Item = &MemberId> {
        // Each packet would be a mail.
        let relays = self.chosen.iter();
        let relays = relays.filter(|(_, parent)| parent.relays && !parent.by_mail);
        relays.map(|(member, _)| member)
    }

    /// None yet. The home router may be asked for another `port`.
    pub(super) fn new(port: Option<u16>) -> Parents {
        Parents {
            chosen: BTreeMap::new(),
            mapping: PortMapping::new(port),
            advertised: Lent::default(),
            changes: 0,
            punches: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }
}

/// To whom a HELLO is said. A later one says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum View {
    /// A router that is linked directly: it needs nobody to reach us.
    Router,
    /// Whoever asks the ring.
    Registered,
    /// As [`View::Router`], at our site.
    RouterAtSite,
    /// A leaf, or a router that reaches us through another: everything, but nothing private.
    Relayed,
    /// As [`View::Relayed`]; what private addresses our parents see leads from there to us.
    RelayedAtSite,
    /// A leaf that is linked directly, at our site.
    AtSite,
}

impl View {
    fn number(self) -> u64 {
        match self {
            View::Router => 0,
            View::Registered => 1,
            View::RouterAtSite => 2,
            View::Relayed => 3,
            View::RelayedAtSite => 4,
            View::AtSite => 5,
        }
    }

    fn names_relays(self) -> bool {
        !matches!(self, View::Router | View::RouterAtSite)
    }

    fn names_observed(self) -> bool {
        matches!(self, View::Relayed | View::RelayedAtSite | View::AtSite)
    }
}

impl Runtime {
    /// A link is up: if it is one with a parent, we are to be found through it at once.
    pub(super) fn parent_linked(&mut self, now: Instant, member: &MemberId) {
        let leaf = self.membership.certificate.role() == Role::Leaf;
        if leaf && self.is_parent(member) {
            self.tell_parents(now);
        }
    }

    /// A leaf keeps links to a few routers.
    pub(super) fn look_after_parents(&mut self, now: Instant) {
        self.choose_parents(now);
        for parent in self.parents.chosen.keys() {
            self.links.keep(now, parent);
        }
        let observed = self
            .parents
            .chosen
            .values()
            .find_map(|p| p.observed.clone());
        if let Some(observed) = observed {
            self.parents.mapping.heard_from(&observed);
        }
        self.tell_parents(now);
        self.look_for_parents(now);
    }

    fn tell_parents(&mut self, now: Instant) {
        self.choose_parents(now);
        self.say_what_has_changed(now);
        self.register(now);
    }

    /// Keeps those that are still there, and fills up with others that can pass packets on. Where
    /// only mail leads to routers, one of them makes us findable.
    fn choose_parents(&mut self, now: Instant) {
        let protocol = |member: &MemberId| Some(self.links.path(member)?.protocol());
        let parents = self.parents().into_iter();
        let parents = parents.filter_map(|member| Some((member, protocol(&member)?)));
        let (mail, direct): (Vec<_>, Vec<_>) =
            parents.partition(|(_, protocol)| *protocol == Protocol::Smtp);
        let by_mail = direct.is_empty();
        let candidates = if by_mail { mail } else { direct };
        let candidates = candidates.into_iter().map(|(member, _)| member).collect();
        self.parents.choose(now, candidates, by_mail);
    }

    /// Makes links to further routers while there are too few.
    fn look_for_parents(&mut self, now: Instant) {
        let parents = self.parents();
        // Those that are no good for relaying, as by mail, are better than none.
        for parent in parents.iter().take(PARENTS) {
            if self.parents.chosen.len() < PARENTS {
                self.links.keep(now, parent);
            }
        }
        if parents.len() >= PARENTS {
            return;
        }
        let Ok(known) = self.state.routers(&self.membership.ring) else {
            return;
        };
        let dialled: BTreeSet<MemberId> = known
            .iter()
            .map(Certificate::member)
            .filter(|member| self.links.is_dialling(member))
            .collect();
        let mut wanted = PARENTS.saturating_sub(parents.len() + dialled.len());
        let mut candidates: Vec<&Certificate> = known
            .iter()
            .filter(|router| {
                let member = router.member();
                !parents.contains(&member) && !dialled.contains(&member)
            })
            .collect();
        let me = self.membership.certificate.member();
        if !self.network.order_parents(&me, &mut candidates, &parents) {
            candidates.shuffle(&mut rand::rng());
        }
        for router in candidates {
            if wanted == 0 {
                break;
            }
            self.network.show_to(router);
            if self.directory.cached(&router.member()).is_some() {
                // Also where there is a link through another: a parent needs nobody in between.
                let addresses = self.network.dial_addresses(router);
                wanted -= usize::from(!addresses.is_empty());
                self.links.connect(now, router, addresses);
            }
        }
    }

    /// Routers that a leaf is linked to without another in between.
    pub(super) fn parents(&self) -> Vec<MemberId> {
        let up = self.links.up().map(|(member, _)| *member);
        up.filter(|member| self.is_parent(member)).collect()
    }

    /// Those that others may reach us through, or, where there is none such, those that are kept
    /// instead.
    pub(super) fn chosen_parents(&self) -> Vec<MemberId> {
        let chosen: Vec<MemberId> = self.parents.chosen.keys().copied().collect();
        if !chosen.is_empty() {
            return chosen;
        }
        self.parents().into_iter().take(PARENTS).collect()
    }

    fn lent_addresses(&self) -> Lent {
        let member = self.membership.certificate.member();
        let relay = |parent: &MemberId| {
            Address::Relay(RelayAddress {
                parent: *parent,
                member,
            })
        };
        let chosen = &self.parents.chosen;
        let direct = chosen.values().filter(|parent| !parent.by_mail);
        let observed: BTreeSet<&Address> = direct.flat_map(|p| &p.observed).collect();
        let relays = self.parents.that_relay().map(relay).collect();
        if self.network.is_hidden() {
            return Lent {
                relays,
                ..Lent::default()
            };
        }
        Lent {
            relays,
            observed: observed.into_iter().cloned().collect(),
            mapped: self.parents.mapping.external(),
        }
    }

    /// When parents or other lent addresses have changed, those who are linked are told.
    fn say_what_has_changed(&mut self, now: Instant) {
        let lent = self.lent_addresses();
        if lent == self.parents.advertised {
            return;
        }
        let own = self.network.addresses().into_iter();
        let own = own.map(|descriptor| descriptor.address);
        self.validator
            .set_own_addresses(own.chain(lent.all().cloned()).collect());
        self.parents.advertised = lent;
        self.parents.changes += 1;
        for parent in self.parents.chosen.values_mut() {
            parent.register = None;
        }
        let members: Vec<MemberId> = self.links.up().map(|(member, _)| *member).collect();
        for member in members {
            self.send_hello(now, &member);
        }
    }

    fn register(&mut self, now: Instant) {
        let due = |parent: &Parent| parent.register.is_none_or(|due| now >= due);
        if !self.parents.chosen.values().any(due) {
            return;
        }
        let hello = match self.hello(View::Registered) {
            Ok(hello) => hello.encoded().to_vec(),
            Err(error) => return tracing::error!(%error, "no HELLO can be registered"),
        };
        for (member, parent) in &mut self.parents.chosen {
            if parent.register.is_none_or(|due| now >= due) {
                parent.register = Some(now + parent.register_again());
                parent.confirmed = false;
                let hello = ByteVec::from(hello.clone());
                let registration = LinkMessage::Register { hello };
                self.links.send(now, member, registration);
            }
        }
    }

    /// A parent has heard us, from this address.
    pub(super) fn take_observed(
        &mut self,
        now: Instant,
        from: MemberId,
        address: Option<String>,
        relays: bool,
    ) {
        let Some(parent) = self.parents.chosen.get_mut(&from) else {
            return self.count("observed_unwanted");
        };
        let address = address.and_then(|text| text.parse::<Address>().ok());
        let address = address.filter(|a| a.protocol() == Protocol::Udp && a.is_dialable());
        parent.observed = address;
        parent.relays = relays;
        if !parent.confirmed {
            parent.confirmed = true;
            parent.register = Some(now + parent.registered_for());
        }
        // Others hear at once that there is a way through it; of all else with the next look at the
        // parents: not more often, whatever a parent says.
        if !std::mem::replace(&mut parent.answered, true) {
            self.tell_parents(now);
        }
    }

    /// Tells a leaf from where it is heard.
    pub(super) fn tell_observed(&mut self, now: Instant, leaf: &MemberId) {
        let path = self.links.path(leaf);
        let path = path
            .filter(|path| path.protocol() == Protocol::Udp)
            .cloned();
        let address = path.as_ref().map(ToString::to_string);
        let relays = self.network.relay_rate() > 0;
        self.links
            .send(now, leaf, LinkMessage::Observed { address, relays });
        self.parents.told.insert(*leaf, path);
    }

    /// Tells leaves that have moved. Only those that registered are asked about.
    pub(super) fn tell_leaves(&mut self, now: Instant) {
        let links = &self.links;
        self.parents.told.retain(|leaf, _| links.is_up(leaf));
        let moved = |leaf: &MemberId, told: &Option<Address>| {
            let path = links.path(leaf);
            path.filter(|path| path.protocol() == Protocol::Udp) != told.as_ref()
        };
        let told = self.parents.told.iter();
        let moved: Vec<MemberId> = told
            .filter(|(leaf, told)| moved(leaf, told))
            .map(|(leaf, _)| *leaf)
            .collect();
        for leaf in moved {
            self.tell_observed(now, &leaf);
        }
    }

    /// Links that go through a relay look for a way of their own. Both sides do, at about the same
    /// time: each PING that leaves a NAT lets the other side's in.
    pub(super) fn punch(&mut self, now: Instant) {
        let up = self.links.up();
        let relayed: BTreeSet<MemberId> = up
            .filter(|(_, peer)| peer.is_relayed() && peer.is_wanted(now))
            .map(|(member, _)| *member)
            .collect();
        self.parents
            .punches
            .retain(|member, _| relayed.contains(member));
        for member in relayed {
            let due = self.parents.punches.entry(member).or_insert(now);
            if now < *due {
                continue;
            }
            *due = now + PUNCH_PAUSE;
            if self.validator.has_heard_of(&member) {
                self.validator.retry(now, &member);
            } else {
                self.links.send(now, &member, LinkMessage::HelloWanted);
            }
        }
    }

    fn view_of(&self, member: &MemberId) -> View {
        let direct = self.links.is_direct(member);
        let at_site = self.is_at_our_site(member);
        match (self.is_leaf(member) || !direct, at_site) {
            (false, false) => View::Router,
            (false, true) => View::RouterAtSite,
            (true, true) => View::AtSite,
            (true, false) if self.shares_our_site(member) => View::RelayedAtSite,
            (true, false) => View::Relayed,
        }
    }

    /// Our HELLO for one who is linked.
    pub(super) fn hello_for(
        &self,
        member: &MemberId,
    ) -> Result<Hello, ringway_transport::HelloError> {
        self.hello(self.view_of(member))
    }

    /// Private addresses are told only to members of the same site: elsewhere they lead nowhere, or
    /// to somebody else. Where we are heard from is told only to those who could not reach us
    /// otherwise. What has changed and what says more has the higher number.
    fn hello(&self, view: View) -> Result<Hello, ringway_transport::HelloError> {
        let mut addresses = self.network.addresses();
        let at_site = matches!(view, View::RouterAtSite | View::AtSite);
        addresses.retain(|descriptor| at_site || !descriptor.address.is_private());
        let Lent {
            relays,
            observed,
            mapped,
        } = &self.parents.advertised;
        let relays = relays.iter().filter(|_| view.names_relays());
        let heard = at_site || view == View::RelayedAtSite;
        let observed = observed.iter();
        let observed = observed.filter(|a| view.names_observed() && (heard || !a.is_private()));
        let mapped = mapped.iter().filter(|a| at_site || !a.is_private());
        for address in mapped.chain(observed).chain(relays) {
            if addresses.len() < limits::HELLO_ADDRESSES {
                addresses.push(AddressDescriptor::observed(address.clone()));
            }
        }
        let changes = self.parents.changes.min((1 << 28) - 1);
        let sequence = (self.hello_sequence << 31) | (changes << 3) | view.number();
        Hello::sign(&self.identity, sequence, addresses)
    }

    /// Which of a member's addresses are worth a PING. Each relay costs a link: a leaf has as many
    /// as it has parents.
    pub(super) fn believed(&self, hello: &Hello) -> Vec<Address> {
        let member = hello.member();
        let addresses = hello.addresses().iter().map(|d| &d.address);
        let believed = addresses.filter(|address| self.believes(&member, address));
        let (relays, others): (Vec<Address>, Vec<Address>) = believed
            .cloned()
            .partition(|address| address.protocol() == Protocol::Relay);
        others
            .into_iter()
            .chain(relays.into_iter().take(PARENTS))
            .collect()
    }

    fn believes(&self, member: &MemberId, address: &Address) -> bool {
        match address {
            // A router is dialled directly, or through a parent of ours.
            Address::Relay(relay) => self.is_leaf(member) && self.may_use_relay(member, relay),
            address if !address.is_private() || self.is_at_our_site(member) => true,
            // From where a common parent hears it.
            address => address.protocol() == Protocol::Udp && self.shares_our_site(member),
        }
    }

    /// True if the member is reached through a router at our own site, where it may be as well.
    fn shares_our_site(&self, member: &MemberId) -> bool {
        match self.links.path(member) {
            Some(Address::Relay(relay)) => self.is_at_our_site(&relay.parent),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(numbers: [u8; 4]) -> Vec<MemberId> {
        numbers.map(|n| MemberId::new([n; 32])).to_vec()
    }

    #[test]
    fn by_mail_one_parent_is_kept_and_another_taken_if_it_does_not_confirm() {
        let now = Instant::now();
        let mut parents = Parents::new(None);
        let all = members([1, 2, 3, 4]);
        parents.choose(now, all.clone(), false);
        assert_eq!(parents.chosen.len(), PARENTS);
        parents.choose(now, all.clone(), true);
        assert_eq!(parents.chosen.len(), 1);
        let mut chosen = BTreeSet::new();
        for n in 0..200 {
            let now = now + REGISTER_AGAIN_BY_MAIL * n;
            parents.choose(now, all.clone(), true);
            let (member, parent) = parents.chosen.first_key_value().unwrap();
            assert!(parent.by_mail && parents.chosen.len() == 1);
            chosen.insert(*member);
            let parent = parents.chosen.values_mut().next().unwrap();
            parent.register = Some(now + parent.register_again());
        }
        assert_eq!(chosen.len(), all.len(), "any of them");
        let kept = *parents.chosen.keys().next().unwrap();
        parents.chosen.values_mut().for_each(|p| p.confirmed = true);
        parents.choose(now + REGISTER_AGAIN_BY_MAIL * 1_000, all, true);
        assert!(parents.chosen.contains_key(&kept), "it has confirmed");
    }

    #[test]
    fn what_left_by_mail_is_said_again_once_another_way_is_there() {
        let now = Instant::now();
        let mut parents = Parents::new(None);
        let one = members([1; 4]);
        for (confirmed, again) in [(false, true), (true, false)] {
            parents.choose(now, one.clone(), true);
            let parent = parents.chosen.values_mut().next().unwrap();
            let due = Some(now + parent.register_again());
            (parent.register, parent.confirmed, parent.relays) = (due, confirmed, true);
            assert_eq!(
                parents.that_relay().count(),
                0,
                "each packet would be a mail"
            );
            parents.choose(now, one.clone(), false);
            let parent = parents.chosen.values().next().unwrap();
            assert_eq!(parent.register.is_none(), again);
            assert_eq!(parents.that_relay().count(), 1);
        }
    }
}
