//! Links that go through a relay look for a way of their own. Both sides do, at about the same
//! time: each PING that leaves a NAT lets the other side's in.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Instant;

use ringway_transport::MemberId;

use crate::limits::PUNCH_PAUSE;
use crate::link::LinkMessage;
use crate::member::core::Core;
use crate::member::service::{LinkEvent, Service};
use crate::state::StateError;

/// Peers behind a relay.
#[derive(Debug, Default)]
pub(in crate::member) struct Punch {
    /// When to test the addresses of each again.
    due: BTreeMap<MemberId, Instant>,
    /// When to look which links go through a relay; none while there are no links.
    look: Option<Instant>,
}

impl Service for Punch {
    type Command = Infallible;

    fn start(_core: &mut Core) -> Result<Punch, StateError> {
        Ok(Punch::default())
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        if let LinkEvent::Up(_) = event {
            self.look.get_or_insert(core.next_look());
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.look
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let now = core.now;
        let up = core.links.up();
        let relayed: BTreeSet<MemberId> = up
            .filter(|(_, peer)| peer.is_relayed() && peer.is_wanted(now))
            .map(|(member, _)| *member)
            .collect();
        self.due.retain(|member, _| relayed.contains(member));
        for member in relayed {
            let due = self.due.entry(member).or_insert(now);
            if now < *due {
                continue;
            }
            *due = now + PUNCH_PAUSE;
            // Without its HELLO there is no address to try.
            if core.validator.has_heard_of(&member) {
                core.validator.retry(now, &member);
            } else {
                core.send(&member, LinkMessage::HelloWanted);
            }
        }
        let linked = core.links.up().next().is_some();
        self.look = linked.then(|| core.next_look());
    }
}
