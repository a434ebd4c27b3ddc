//! Members that are heard again: what waits for them need not wait for its own timer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Instant;

use ringway_transport::MemberId;
use tokio::sync::broadcast;

use crate::limits::SILENT;
use crate::member::core::Core;
use crate::member::service::{LinkEvent, Service};
use crate::state::StateError;

/// Reports that wait to be read. Who reads too slowly misses the oldest, and finds the members by
/// its own timers.
const WAITING: usize = 256;

/// When each linked member was last heard.
#[derive(Debug)]
pub(in crate::member) struct Returns {
    heard: BTreeMap<MemberId, Instant>,
    /// When to look again; none while no member is linked.
    look_at: Option<Instant>,
    reports: broadcast::Sender<MemberId>,
}

impl Returns {
    fn new() -> Returns {
        Returns {
            heard: BTreeMap::new(),
            look_at: None,
            reports: broadcast::Sender::new(WAITING),
        }
    }

    /// Takes in who is linked and when each was last heard; gives those that are back: linked
    /// again, or heard after a silence.
    fn look(&mut self, linked: BTreeMap<MemberId, Instant>) -> Vec<MemberId> {
        let before = std::mem::replace(&mut self.heard, linked);
        let is_back = |(member, heard): (&MemberId, &Instant)| {
            let earlier = before.get(member);
            let back = earlier.is_none_or(|earlier| *heard > *earlier + SILENT);
            back.then_some(*member)
        };
        self.heard.iter().filter_map(is_back).collect()
    }
}

impl Returns {
    /// Reports members that are back, from now on.
    pub(in crate::member) fn subscribe(&self) -> broadcast::Receiver<MemberId> {
        self.reports.subscribe()
    }
}

impl Service for Returns {
    type Command = Infallible;

    fn start(_core: &mut Core) -> Result<Returns, StateError> {
        Ok(Returns::new())
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        if let LinkEvent::Up(_) = event {
            self.look_at.get_or_insert(core.next_look());
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.look_at
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let linked = core.links.up();
        let linked = linked.map(|(member, peer)| (*member, peer.last_heard()));
        for member in self.look(linked.collect()) {
            // Whether somebody listens does not matter here.
            self.reports.send(member).ok();
        }
        self.look_at = (!self.heard.is_empty()).then(|| core.next_look());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Members are back after a silence or with a new link.
    #[test]
    fn members_are_back_after_silence_or_new_link() {
        let mut returns = Returns::new();
        let [a, b] = [1, 2].map(|id| MemberId::new([id; 32]));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut look = |heard: &[(MemberId, u64)]| {
            let heard = heard.iter().map(|(member, second)| (*member, at(*second)));
            returns.look(heard.collect())
        };
        assert_eq!(look(&[(a, 1), (b, 1)]), [a, b]);
        assert_eq!(look(&[(a, 3), (b, 1)]), []);
        assert_eq!(look(&[(a, 5), (b, 1)]), []);
        assert_eq!(look(&[(a, 7), (b, 7)]), [b]);
        assert_eq!(look(&[(a, 9)]), []);
        assert_eq!(look(&[(a, 9), (b, 9)]), [b]);
    }
}
