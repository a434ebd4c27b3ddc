//! Lookups that others ask for: by the handle, and leaves of a router. The core does them.

use std::collections::BTreeMap;

use ringway_overlay::RingKey;
use ringway_transport::MemberId;
use tokio::sync::oneshot;

use crate::limits::{LEAF_LOOKUPS, ROUTE_HOPS};
use crate::link::LinkMessage;
use crate::member::answer::{Found, LookupFailed, answer};
use crate::member::core::{Core, LookupNumber, ParentAnswer, Signal};
use crate::member::counters::counters;
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, Service};
use crate::state::StateError;

type Reply = oneshot::Sender<Result<Found, LookupFailed>>;

/// A key is to be looked up.
#[derive(Debug)]
pub(in crate::member) struct Command {
    target: RingKey,
    reply: Reply,
}

impl MemberHandle {
    /// Finds the router responsible for `target`.
    pub(crate) async fn lookup(&self, target: RingKey) -> Result<Found, LookupFailed> {
        let answer = self.ask(|reply| Command { target, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }
}

/// Who wants a lookup's outcome.
#[derive(Debug)]
enum Asker {
    Local(Reply),
    /// A leaf, and its number for the lookup.
    Leaf(MemberId, u64),
}

counters! {
    /// What this service counts.
    Counters {
        leaf_lookups_refused,
    }
}

/// Lookups under way, by whom they are for.
#[derive(Debug, Default)]
pub(in crate::member) struct Lookups {
    askers: BTreeMap<LookupNumber, Asker>,
    counted: Counters,
}

impl Lookups {
    /// A leaf asks us; it gets an answer in any case.
    fn begin_for_leaf(&mut self, core: &mut Core, leaf: MemberId, id: u64, target: RingKey) {
        let of_this_leaf =
            |asker: &&Asker| matches!(asker, Asker::Leaf(member, _) if *member == leaf);
        let running = self.askers.values().filter(of_this_leaf).count();
        // Who is no router would only ask its own parents.
        let may = core.chord.is_some() && running < LEAF_LOOKUPS;
        let begun = may.then(|| core.look_up(target).ok()).flatten();
        if let Some(number) = begun {
            self.askers.insert(number, Asker::Leaf(leaf, id));
        } else {
            self.counted.leaf_lookups_refused += 1;
            core.send(&leaf, reply_to_leaf(id, None));
        }
    }
}

fn reply_to_leaf(id: u64, found: Option<Found>) -> LinkMessage {
    let hops = found.iter().flat_map(|found| &found.hops);
    LinkMessage::LookupReply {
        id,
        owner: found.as_ref().map(|found| (*found.owner.as_bytes()).into()),
        verified: found.as_ref().is_some_and(|found| found.verified),
        hops: hops
            .take(ROUTE_HOPS)
            .map(|hop| (*hop.as_bytes()).into())
            .collect(),
    }
}

impl Service for Lookups {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<Lookups, StateError> {
        Ok(Lookups::default())
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        let Command { target, reply } = command;
        match core.look_up(target) {
            Ok(number) => drop(self.askers.insert(number, Asker::Local(reply))),
            Err(failed) => answer(reply, Err(failed)),
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        match message {
            LinkMessage::Lookup { id, target } => {
                self.begin_for_leaf(core, member, *id, RingKey::from_bytes(**target));
            }
            LinkMessage::LookupReply {
                id,
                owner,
                verified,
                hops,
            } => {
                // More hops than any lookup takes are a lie, and would only be shown.
                let hops = hops.iter().take(ROUTE_HOPS);
                let answer = ParentAnswer {
                    owner: owner.map(|owner| RingKey::from_bytes(*owner)),
                    verified: *verified,
                    hops: hops.map(|hop| RingKey::from_bytes(**hop)).collect(),
                };
                core.parent_answered(&member, *id, answer);
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }

    fn on_signal(&mut self, core: &mut Core, signal: &Signal) {
        let Signal::LookupEnded { number, outcome } = signal else {
            return;
        };
        match self.askers.remove(number) {
            Some(Asker::Local(reply)) => answer(reply, outcome.clone()),
            Some(Asker::Leaf(leaf, id)) => {
                core.send(&leaf, reply_to_leaf(id, outcome.clone().ok()));
            }
            None => {}
        }
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
