//! Who keeps the names that are counted all the time: without this each count would take a lookup.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::key::RingKey;
use crate::limits::{MAX_TALLY_GROUPS, TALLY_GROUP_TIME};

/// The groups around some points, by verified lookups.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<RingKey, (Instant, Vec<RingKey>)>);

impl Groups {
    /// The group around a point, if it was looked up not long ago.
    pub(super) fn get(&self, now: Instant, point: &RingKey) -> Option<&[RingKey]> {
        let (until, group) = self.0.get(point)?;
        (*until > now).then_some(group.as_slice())
    }

    pub(super) fn learn(&mut self, now: Instant, point: RingKey, group: Vec<RingKey>) {
        if self.0.len() >= MAX_TALLY_GROUPS {
            self.0.retain(|_, (until, _)| *until > now);
        }
        if self.0.len() >= MAX_TALLY_GROUPS {
            self.0.clear();
        }
        self.0.insert(point, (now + TALLY_GROUP_TIME, group));
    }

    /// One of the group around this point does not answer: it is looked up again.
    pub(super) fn forget(&mut self, point: &RingKey) {
        self.0.remove(point);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
