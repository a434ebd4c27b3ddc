//! What a router answers those who leave counts with it, and those who read tallies.

use std::time::Instant;

use super::Count;
use super::store::Store;
use crate::context::Cx;
use crate::credentials::Standing;
use crate::group::neighbours::Neighbours;
use crate::key::RingKey;
use crate::limits::{MAX_COUNTS, TALLY_ROUND};
use crate::message::{Message, RequestId};
use crate::record::Vicinity;

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    store: Store,
    /// When to look for what has expired; none while there is nothing.
    next_round: Option<Instant>,
}

impl Keeping {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next_round
    }

    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    /// Keeps a count, if this router should. Gives what it has of its author then; 0 if nothing.
    pub(super) fn keep(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        point: RingKey,
        count: Count,
    ) -> u64 {
        let Some(credentials) = cx.trust.credentials() else {
            return 0;
        };
        if !cx.member || !count.is_current(credentials.unix_time(cx.now)) {
            return 0;
        }
        let known = self.store.get(&point, &count.author);
        // Signatures are checked only where the count would be kept.
        if known.is_none_or(|known| count.is_newer_than(known))
            && Vicinity::new(cx, group).takes(&point)
        {
            if !count.is_genuine(credentials, &point) {
                cx.count_malformed();
                return 0;
            }
            self.store.keep(point, count);
            self.next_round.get_or_insert(cx.now + TALLY_ROUND);
        }
        let kept = self.store.get(&point, &count.author);
        kept.map_or(0, |kept| kept.count)
    }

    /// `from` leaves what it has counted itself.
    pub(crate) fn answer_count(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        from: RingKey,
        message: Message,
    ) {
        let Message::Count { id, point, count } = message else {
            return;
        };
        // A count of another's would be an old one, or none that it has signed.
        let number = if count.author == from {
            self.keep(cx, group, point, count)
        } else {
            cx.count_malformed();
            0
        };
        cx.send(from, Message::Stored { id, number });
    }

    pub(crate) fn answer_tally(
        &self,
        cx: &mut Cx<'_>,
        from: RingKey,
        id: RequestId,
        point: &RingKey,
        after: Option<RingKey>,
    ) {
        let unix = cx.trust.unix_time(cx.now).unwrap_or(u64::MAX);
        let counts = self.store.page(point, after, unix);
        cx.send(from, Message::Tally { id, counts });
    }

    /// All that this router keeps at a point.
    pub(super) fn at(&self, point: &RingKey) -> Vec<Count> {
        self.store.at(point).copied().collect()
    }

    /// Forgets what has expired, whose author is no router any more or is convicted, or what is
    /// others' to keep once there is much.
    pub(crate) fn due(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        if self.next_round.is_none_or(|at| at > cx.now) {
            return;
        }
        let unix = cx.trust.unix_time(cx.now).unwrap_or_default();
        let vicinity = Vicinity::new(cx, group);
        // While there is room, those whom a change of neighbours makes keepers again have them.
        let much = self.len() > MAX_COUNTS / 2;
        let far: Vec<RingKey> = if much {
            let points = self.store.points();
            points.filter(|point| !vicinity.takes(point)).collect()
        } else {
            Vec::new()
        };
        let unwanted = |point: &RingKey, count: &Count| {
            !count.is_current(unix)
                || far.binary_search(point).is_ok()
                || cx.standing(&count.author) == Standing::Refused
        };
        self.store.forget(unwanted);
        self.next_round = (self.len() > 0).then(|| cx.now + TALLY_ROUND);
    }
}
