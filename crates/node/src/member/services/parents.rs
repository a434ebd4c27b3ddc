//! A leaf's parents: a few routers that it is linked to. They look keys up for it, make it
//! findable, pass packets on to it, and tell it from which address they hear it.
//!
//! On a router this service has nothing to do.

mod mapping;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use minicbor::bytes::ByteVec;
use rand::seq::SliceRandom as _;
use ringway_transport::{Address, MemberId, Protocol, RelayAddress};

use self::mapping::PortMapping;
use crate::certificate::Certificate;
use crate::control::{NatStatus, Status};
use crate::limits::{
    PARENTS, REGISTER_AGAIN, REGISTER_AGAIN_BY_MAIL, REGISTERED_FOR, REGISTERED_FOR_BY_MAIL,
};
use crate::link::LinkMessage;
use crate::member::core::{Core, Lent, View};
use crate::member::counters::counters;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;

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
        if self.by_mail {
            REGISTER_AGAIN_BY_MAIL
        } else {
            REGISTER_AGAIN
        }
    }

    /// How long what it has confirmed is enough.
    fn registered_for(&self) -> Duration {
        if self.by_mail {
            REGISTERED_FOR_BY_MAIL
        } else {
            REGISTERED_FOR
        }
    }
}

counters! {
    /// What this service counts.
    Counters {
        observed_unwanted,
    }
}

/// A leaf's parents.
#[derive(Debug)]
pub(in crate::member) struct Parents {
    /// Those that others may reach us through. They stay while their link lasts.
    chosen: BTreeMap<MemberId, Parent>,
    mapping: PortMapping,
    /// When to look after them; none on a router.
    look_at: Option<Instant>,
    counted: Counters,
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
        // No router chooses by its id to be the first.
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
    fn forget_registration(&mut self, member: &MemberId) {
        if let Some(parent) = self.chosen.get_mut(member) {
            parent.register = None;
        }
    }

    /// Those that pass packets on.
    fn that_relay(&self) -> impl Iterator<Item = &MemberId> {
        // Each packet would be a mail.
        let relays = self.chosen.iter();
        let relays = relays.filter(|(_, parent)| parent.relays && !parent.by_mail);
        relays.map(|(member, _)| member)
    }

    /// None yet. The home router may be asked for another `port`.
    fn new(port: Option<u16>) -> Parents {
        Parents {
            chosen: BTreeMap::new(),
            mapping: PortMapping::new(port),
            look_at: None,
            counted: Counters::default(),
        }
    }
}

impl Parents {
    /// A leaf keeps links to a few routers.
    fn look_after(&mut self, core: &mut Core) {
        self.choose_linked(core);
        for parent in self.chosen.keys() {
            core.links.keep(core.now, parent);
        }
        let observed = self.chosen.values().find_map(|p| p.observed.clone());
        if let Some(observed) = observed {
            self.mapping.heard_from(&observed);
        }
        self.update(core);
        self.look_for_more(core);
    }

    fn update(&mut self, core: &mut Core) {
        self.choose_linked(core);
        self.announce_changes(core);
        self.register(core);
    }

    /// Keeps those that are still there, and fills up with others that can pass packets on. Where
    /// only mail leads to routers, one of them makes us findable.
    fn choose_linked(&mut self, core: &mut Core) {
        let protocol = |member: &MemberId| Some(core.links.path(member)?.protocol());
        let parents = core.parents().into_iter();
        let parents = parents.filter_map(|member| Some((member, protocol(&member)?)));
        let (mail, direct): (Vec<_>, Vec<_>) =
            parents.partition(|(_, protocol)| *protocol == Protocol::Smtp);
        let by_mail = direct.is_empty();
        let candidates = if by_mail { mail } else { direct };
        let candidates = candidates.into_iter().map(|(member, _)| member).collect();
        self.choose(core.now, candidates, by_mail);
        self.publish_relays(core);
    }

    /// Others of the core's users reach routers through those that pass packets on.
    fn publish_relays(&self, core: &mut Core) {
        core.relays = self.that_relay().copied().collect();
    }

    /// Makes links to further routers while there are too few.
    fn look_for_more(&mut self, core: &mut Core) {
        let now = core.now;
        let parents = core.parents();
        // Those that are no good for relaying, as by mail, are better than none.
        for parent in parents.iter().take(PARENTS) {
            if self.chosen.len() < PARENTS {
                core.links.keep(now, parent);
            }
        }
        if parents.len() >= PARENTS {
            return;
        }
        let Ok(known) = core.state.routers(&core.membership.ring) else {
            return;
        };
        let dialled: BTreeSet<MemberId> = known
            .iter()
            .map(Certificate::member)
            .filter(|member| core.links.is_dialling(member))
            .collect();
        let mut wanted = PARENTS.saturating_sub(parents.len() + dialled.len());
        let mut candidates: Vec<&Certificate> = known
            .iter()
            .filter(|router| {
                let member = router.member();
                !parents.contains(&member) && !dialled.contains(&member)
            })
            .collect();
        let me = core.me();
        if !core.network.order_parents(&me, &mut candidates, &parents) {
            candidates.shuffle(&mut rand::rng());
        }
        for router in candidates {
            if wanted == 0 {
                break;
            }
            core.network.show_to(router);
            if core.directory.cached(&router.member()).is_some() {
                // Also where there is a link through another: a parent needs no member in between.
                let addresses = core.network.dial_addresses(router);
                wanted -= usize::from(!addresses.is_empty());
                core.links.connect(now, router, addresses);
            }
        }
    }

    /// Those that others may reach us through, or, where there is none such, those that are kept
    /// instead.
    fn shown(&self, core: &Core) -> Vec<MemberId> {
        let chosen: Vec<MemberId> = self.chosen.keys().copied().collect();
        if !chosen.is_empty() {
            return chosen;
        }
        core.parents().into_iter().take(PARENTS).collect()
    }

    /// What is known of a NAT before us.
    fn nat(&self) -> Option<NatStatus> {
        let observed: BTreeSet<String> = self
            .chosen
            .values()
            .filter_map(|parent| Some(parent.observed.as_ref()?.to_string()))
            .collect();
        (!observed.is_empty()).then(|| NatStatus {
            heard_from: observed.into_iter().collect(),
            mapped: self.mapping.external().map(|address| address.to_string()),
            asked: self.mapping.is_asked(),
        })
    }

    fn lent_addresses(&self, core: &Core) -> Lent {
        let member = core.me();
        let relay = |parent: &MemberId| {
            Address::Relay(RelayAddress {
                parent: *parent,
                member,
            })
        };
        let direct = self.chosen.values();
        let direct = direct.filter(|parent| !parent.by_mail);
        let observed: BTreeSet<&Address> = direct.flat_map(|p| &p.observed).collect();
        let relays = self.that_relay().map(relay).collect();
        // From where we are heard is what a hidden leaf hides.
        if core.network.is_hidden() {
            return Lent {
                relays,
                ..Lent::default()
            };
        }
        Lent {
            relays,
            observed: observed.into_iter().cloned().collect(),
            mapped: self.mapping.external(),
        }
    }

    /// When parents or other lent addresses have changed, those who are linked are told.
    fn announce_changes(&mut self, core: &mut Core) {
        if !core.lend(self.lent_addresses(core)) {
            return;
        }
        for parent in self.chosen.values_mut() {
            parent.register = None;
        }
        let members: Vec<MemberId> = core.links.up().map(|(member, _)| *member).collect();
        for member in members {
            core.send_hello(&member);
        }
    }

    fn register(&mut self, core: &mut Core) {
        let now = core.now;
        let due = |parent: &Parent| parent.register.is_none_or(|due| now >= due);
        if !self.chosen.values().any(due) {
            return;
        }
        let hello = match core.hello(View::Registered) {
            Ok(hello) => hello.encoded().to_vec(),
            Err(error) => return tracing::error!(%error, "no HELLO can be registered"),
        };
        // One signature for all of them.
        for (member, parent) in self.chosen.iter_mut().filter(|(_, parent)| due(parent)) {
            parent.register = Some(now + parent.register_again());
            parent.confirmed = false;
            let hello = ByteVec::from(hello.clone());
            core.send(member, LinkMessage::Register { hello });
        }
    }

    /// A parent has heard us, from this address.
    fn take_observed(
        &mut self,
        core: &mut Core,
        from: &MemberId,
        address: Option<&str>,
        relays: bool,
    ) {
        let now = core.now;
        let Some(parent) = self.chosen.get_mut(from) else {
            self.counted.observed_unwanted += 1;
            return;
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
        let first = !std::mem::replace(&mut parent.answered, true);
        self.publish_relays(core);
        if first {
            self.update(core);
        }
    }
}

impl Service for Parents {
    type Command = Infallible;

    fn start(core: &mut Core) -> Result<Parents, StateError> {
        let mut parents = Parents::new(core.network.mapped_port());
        parents.look_at = core.is_leaf_itself().then_some(core.now);
        Ok(parents)
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        let LinkEvent::Up(member) = event else {
            return;
        };
        self.forget_registration(&member);
        // We are to be found through it at once.
        if core.is_leaf_itself() && core.is_parent(&member) {
            self.update(core);
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        let LinkMessage::Observed { address, relays } = message else {
            return Handled::No;
        };
        self.take_observed(core, &member, address.as_deref(), *relays);
        Handled::Yes
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.look_at
    }

    fn on_deadline(&mut self, core: &mut Core) {
        self.look_after(core);
        self.look_at = Some(core.next_look());
    }

    fn report(&self, core: &Core, status: &mut Status) {
        if core.chord.is_some() {
            return;
        }
        let shown = self.shown(core).into_iter();
        let keys = shown.filter_map(|member| core.ring_key_of(&member));
        status.parents = keys.map(|key| core.router_ref(&key)).collect();
        if !status.parents.is_empty() {
            status.state = "member".to_owned();
        }
        status.nat = self.nat();
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(numbers: [u8; 4]) -> Vec<MemberId> {
        numbers.map(|n| MemberId::new([n; 32])).to_vec()
    }

    /// By mail another parent follows one that does not confirm.
    #[test]
    fn by_mail_unconfirmed_parent_is_replaced() {
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

    /// Registration by mail is repeated once another way is there.
    #[test]
    fn registration_by_mail_is_repeated_by_better_way() {
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
