//! What leaves of ours have registered. The ring hears of it again and again for as long as they
//! are linked: so an idle leaf has nothing to say.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_overlay::RingKey;
use ringway_transport::{Address, Hello, MemberId, Protocol, Receipt};

use super::kept::{LeafEntry, key_of};
use crate::clock::unix_seconds;
use crate::limits::{LEAF_ENTRY_RECEIPTS, REGISTER_AGAIN, REGISTER_PAUSE};
use crate::link::LinkMessage;
use crate::member::core::{Core, LookupNumber};
use crate::member::counters::counters;

counters! {
    /// What has become of registrations.
    RegistrationCounters {
        registrations,
        registrations_failed,
        registrations_refused,
    }
}

#[derive(Debug)]
struct Registered {
    hello: Hello,
    /// When the ring is to hear it again.
    again: Instant,
}

/// The registrations of our leaves. Bounded by the leaves that are linked.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    registered: BTreeMap<MemberId, Registered>,
    /// Those whose place in the ring is being looked up.
    placing: BTreeMap<MemberId, LeafEntry>,
    lookups: BTreeMap<LookupNumber, MemberId>,
    /// From which address each leaf was last heard, as it was reported to it.
    reported: BTreeMap<MemberId, Option<Address>>,
    /// When to look after them; none while there are none.
    look_at: Option<Instant>,
    pub(super) counted: RegistrationCounters,
}

impl Registrations {
    /// A leaf of ours wants to be found.
    pub(super) fn take(&mut self, core: &mut Core, leaf: MemberId, bytes: &[u8]) {
        if !core.may_check(&leaf) {
            return;
        }
        let hello = Hello::decode(bytes).ok();
        if hello.is_none() {
            core.badly_signed(&leaf);
        }
        let hello = hello.filter(|hello| hello.member() == leaf);
        let Some(hello) = hello.filter(|_| core.chord.is_some() && core.is_leaf(&leaf)) else {
            self.counted.registrations_refused += 1;
            return;
        };
        self.report_observed(core, leaf);
        let again = core.now;
        self.registered.insert(leaf, Registered { hello, again });
        self.renew(core);
        self.look_at.get_or_insert(core.next_look());
    }

    /// Tells a leaf from where it is heard.
    fn report_observed(&mut self, core: &mut Core, leaf: MemberId) {
        let path = udp_path(core, &leaf).cloned();
        let address = path.as_ref().map(ToString::to_string);
        let relays = core.network.relay_rate() > 0;
        core.send(&leaf, LinkMessage::Observed { address, relays });
        self.reported.insert(leaf, path);
    }

    /// Tells leaves that have moved. Only those that registered are asked about.
    fn report_moved(&mut self, core: &mut Core) {
        self.reported.retain(|leaf, _| core.links.is_up(leaf));
        let reported = self.reported.iter();
        let moved: Vec<MemberId> = reported
            .filter(|(leaf, path)| udp_path(core, leaf) != path.as_ref())
            .map(|(leaf, _)| *leaf)
            .collect();
        for leaf in moved {
            self.report_observed(core, leaf);
        }
    }

    /// Tells the ring of those leaves that are due.
    fn renew(&mut self, core: &mut Core) {
        let now = core.now;
        self.registered.retain(|leaf, _| core.links.is_up(leaf));
        let mut due = Vec::new();
        for (leaf, registered) in &mut self.registered {
            if now >= registered.again {
                registered.again = now + REGISTER_PAUSE;
                due.push((*leaf, registered.hello.clone()));
            }
        }
        for (leaf, hello) in due {
            let Some(entry) = with_receipts(core, hello) else {
                continue;
            };
            self.counted.registrations += 1;
            // One look-up for each.
            if self.placing.insert(leaf, entry).is_some() {
                continue;
            }
            match core.look_up(key_of(&leaf)) {
                Ok(number) => drop(self.lookups.insert(number, leaf)),
                Err(_) => self.failed(core, &leaf),
            }
        }
    }

    fn failed(&mut self, core: &Core, leaf: &MemberId) {
        self.placing.remove(leaf);
        if let Some(registered) = self.registered.get_mut(leaf) {
            registered.again = core.now + REGISTER_AGAIN;
        }
        self.counted.registrations_failed += 1;
    }

    /// A lookup has ended; gives the HELLO whose place in the ring is known by that.
    pub(super) fn placed(
        &mut self,
        core: &Core,
        number: LookupNumber,
        owner: Option<RingKey>,
    ) -> Option<LeafEntry> {
        let leaf = self.lookups.remove(&number)?;
        let entry = self.placing.remove(&leaf);
        if entry.is_none() || owner.is_none() {
            self.failed(core, &leaf);
            return None;
        }
        entry
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.look_at
    }

    pub(super) fn on_deadline(&mut self, core: &mut Core) {
        self.report_moved(core);
        self.renew(core);
        let some = !(self.reported.is_empty() && self.registered.is_empty());
        self.look_at = some.then(|| core.next_look());
    }
}

fn udp_path<'a>(core: &'a Core, leaf: &MemberId) -> Option<&'a Address> {
    let path = core.links.path(leaf)?;
    (path.protocol() == Protocol::Udp).then_some(path)
}

/// The leaf's HELLO, with our word for what of it we have proved.
fn with_receipts(core: &Core, hello: Hello) -> Option<LeafEntry> {
    let member = hello.member();
    let receipts = core
        .validator
        .receipts(core.now, unix_seconds(), &member, &core.identity);
    let named = |receipt: &&Receipt| {
        let mut named = hello.addresses().iter();
        named.any(|descriptor| descriptor.address == *receipt.address())
    };
    let receipts = receipts.iter().filter(named).take(LEAF_ENTRY_RECEIPTS);
    let receipts = receipts.map(|receipt| receipt.encoded().clone()).collect();
    LeafEntry::new(hello, receipts)
}
