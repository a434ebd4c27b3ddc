//! Members that are heard again: what waits for them need not wait for its own timer.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::MemberId;
use tokio::sync::broadcast;

use super::runtime::Runtime;
use crate::limits::SILENT;

/// Reports that wait to be read. Who reads too slowly misses the oldest, and finds the members by
/// its own timers.
const WAITING: usize = 256;

/// When each linked member was last heard.
#[derive(Debug)]
pub(super) struct Returns {
    heard: BTreeMap<MemberId, Instant>,
    reports: broadcast::Sender<MemberId>,
}

impl Returns {
    pub(super) fn new() -> Returns {
        Returns {
            heard: BTreeMap::new(),
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

impl Runtime {
    /// Reports members that are back, from now on.
    pub(crate) fn returns(&self) -> broadcast::Receiver<MemberId> {
        self.returns.reports.subscribe()
    }

    pub(super) fn report_returns(&mut self) {
        let linked = self.links.up();
        let linked = linked.map(|(member, peer)| (*member, peer.last_heard()));
        for member in self.returns.look(linked.collect()) {
            // Whether somebody listens does not matter here.
            self.returns.reports.send(member).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn members_are_back_after_a_silence_or_with_a_new_link() {
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
