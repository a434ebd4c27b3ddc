//! Where leaves are: they register their HELLO with the ring, and those who want one ask for it
//! there.
//!
//! ```text
//! leaf ── Register ──▶ parent ── Keep ──▶ the router responsible ── Keep ──▶ its successor
//!                                                 ▲
//! who looks for the leaf ── FindLeaf ─────────────┘
//! ```
//!
//! The router that is responsible for a leaf is the one for [`kept::key_of`] its id. What it says
//! counts for nothing but the leaf's own signature. It keeps HELLOs in memory; records that
//! survive more than [`LEAF_ENTRY_COPIES`] crashes have their place behind the same two questions.

mod handover;
mod kept;
mod registrations;
mod searches;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Instant;

use minicbor::bytes::ByteVec;
use ringway_overlay::{Event as RingEvent, RingKey};
use ringway_transport::MemberId;

use self::handover::HandOver;
#[cfg(feature = "fuzzing")]
pub(crate) use self::kept::decode_anything;
#[cfg(test)]
pub(in crate::member) use self::kept::key_of;
use self::kept::{KeptHellos, LeafEntry};
use self::registrations::Registrations;
use self::searches::Searches;
use crate::certificate::Role;
use crate::limits::LEAF_ENTRY_COPIES;
use crate::link::LinkMessage;
use crate::member::core::{Core, LookupNumber, Signal};
use crate::member::counters::counters;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;

counters! {
    /// What this service counts itself.
    Counters {
        hellos_handed_over,
        hellos_to_keep_refused,
    }
}

/// What is known of leaves, and what is being found out.
#[derive(Debug, Default)]
pub(in crate::member) struct LeafRegistry {
    kept: KeptHellos,
    registrations: Registrations,
    searches: Searches,
    hand_over: HandOver,
    counted: Counters,
}

impl LeafRegistry {
    /// A router asks us to keep a leaf's HELLO.
    fn take_hello_to_keep(&mut self, core: &mut Core, by: MemberId, bytes: &[u8], copies: u8) {
        let from_router = core.chord.is_some() && core.has_role(&by, Role::Router);
        if !from_router {
            self.counted.hellos_to_keep_refused += 1;
            return;
        }
        if !core.may_check(&by) {
            return;
        }
        if let Some(found) = LeafEntry::decode(bytes) {
            self.keep_hello(core, by, found, copies.min(LEAF_ENTRY_COPIES));
        } else {
            self.counted.hellos_to_keep_refused += 1;
            core.badly_signed(&by);
        }
    }

    fn keep_hello(&mut self, core: &mut Core, by: MemberId, entry: LeafEntry, copies: u8) {
        let referral = ByteVec::from(entry.encode());
        let ended = core.directory.has_ended(&entry.hello.member());
        if ended || !self.kept.put(core.now, by, entry) {
            self.counted.hellos_to_keep_refused += 1;
            return;
        }
        let successor = core.chord.as_ref().and_then(|c| c.successors().first());
        let successor = successor
            .copied()
            .filter(|key| Some(*key) != core.own_key());
        if let (Some(key), Some(copies)) = (successor, copies.checked_sub(1)) {
            core.send_to_router(key, LinkMessage::Keep { referral, copies });
        }
    }

    /// Somebody looks for a leaf.
    fn answer_search(&self, core: &mut Core, asker: &MemberId, id: u64, leaf: &MemberId) {
        let kept = self.kept.get(core.now, leaf);
        let referral = kept.map(|found| ByteVec::from(found.encode()));
        core.send(asker, LinkMessage::LeafFound { id, referral });
    }

    /// The router that is responsible for a leaf has been found, or cannot be.
    fn lookup_ended(&mut self, core: &mut Core, number: LookupNumber, owner: Option<RingKey>) {
        let own = owner.is_some() && owner == core.own_key();
        let placed = self.registrations.placed(core, number, owner);
        match (placed, owner) {
            // This router is responsible itself.
            (Some(entry), _) if own => {
                let me = core.me();
                self.keep_hello(core, me, entry, LEAF_ENTRY_COPIES);
            }
            (Some(entry), Some(owner)) => {
                let referral = ByteVec::from(entry.encode());
                let copies = LEAF_ENTRY_COPIES;
                core.send_to_router(owner, LinkMessage::Keep { referral, copies });
            }
            _ => {}
        }
        let Some(leaf) = self.searches.looked_up(number) else {
            return;
        };
        match owner {
            Some(_) if own => {
                let found = self.kept.get(core.now, &leaf).cloned();
                self.searches.end(core, leaf, found);
            }
            Some(owner) => self.searches.ask(core, leaf, owner),
            None => self.searches.end(core, leaf, None),
        }
    }

    fn hand_over(&mut self, core: &mut Core) {
        self.counted.hellos_handed_over += self.hand_over.proceed(core, &self.kept);
    }
}

impl Service for LeafRegistry {
    type Command = Infallible;

    fn start(_core: &mut Core) -> Result<LeafRegistry, StateError> {
        Ok(LeafRegistry::default())
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        if let LinkEvent::Up(member) = event {
            self.searches.linked(core, &member);
            self.hand_over.linked(core, &member);
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        match message {
            LinkMessage::Register { hello } => self.registrations.take(core, member, hello),
            LinkMessage::Keep { referral, copies } => {
                self.take_hello_to_keep(core, member, referral, *copies);
            }
            LinkMessage::FindLeaf { id, member: leaf } => {
                self.answer_search(core, &member, *id, &MemberId::new(**leaf));
            }
            LinkMessage::LeafFound { id, referral } => {
                let found = referral.as_ref().map(|bytes| bytes.as_slice());
                self.searches.answered(core, &member, *id, found);
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }

    fn on_ring(&mut self, core: &mut Core, event: &RingEvent) {
        if let RingEvent::NeighboursChanged { predecessor, .. } = event
            && self.hand_over.begin(core, *predecessor)
        {
            self.hand_over(core);
        }
    }

    fn on_signal(&mut self, core: &mut Core, signal: &Signal) {
        match signal {
            Signal::FindLeaf {
                certificate,
                otherwise,
            } => self.searches.find(core, certificate, *otherwise),
            Signal::LookupEnded { number, outcome } => {
                let owner = outcome.as_ref().ok().map(|found| found.owner);
                self.lookup_ended(core, *number, owner);
            }
            Signal::MembershipsChanged => {
                let directory = &core.directory;
                self.kept
                    .tidy(core.now, |member| directory.has_ended(member));
            }
            _ => {}
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        let deadlines = [
            self.registrations.next_deadline(),
            self.searches.next_deadline(),
            self.hand_over.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let is_due = |due: Option<Instant>, core: &Core| due.is_some_and(|due| due <= core.now);
        self.searches.on_deadline(core);
        if is_due(self.registrations.next_deadline(), core) {
            self.registrations.on_deadline(core);
        }
        if is_due(self.hand_over.next_deadline(), core) {
            self.hand_over(core);
        }
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
        self.registrations.counted.show(shown);
        self.searches.counted.show(shown);
        let kept = u64::try_from(self.kept.len()).unwrap_or(u64::MAX);
        shown.insert("leaves_kept".to_owned(), kept);
    }
}
