//! The end of a lookup: everybody around the target is asked, until nobody new appears.

use std::time::Instant;

use crate::chord::Chord;
use crate::event::LookupId;
use crate::group::around;
use crate::key::RingKey;
use crate::limits::MAX_CLOSURE;
use crate::lookup::Kind;
use crate::lookup::verified::Stage;
use crate::message::Message;
use crate::request::Purpose;

impl Chord {
    /// Begins to close the neighbourhood of the target, from `group` and from what earlier ways
    /// found there.
    pub(super) fn close(&mut self, now: Instant, id: LookupId, group: &[RingKey]) {
        self.requests.forget(|purpose| purpose.lookup() == Some(id));
        let me = self.me;
        let present = self.stands_in(id).then_some(me);
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        for key in group {
            let by = lookup.named.get(key).copied().unwrap_or(me);
            lookup.near.entry(*key).or_insert(by);
        }
        lookup.begins_to_close(present);
        self.close_on(now, id);
    }

    /// The group around the target among all that were named and are not known to be absent.
    fn closing_group(&self, id: LookupId) -> Vec<RingKey> {
        let Some(lookup) = self.lookups.verified.get(&id) else {
            return Vec::new();
        };
        let own = self.stands_in(id);
        let keys = lookup.near.keys().copied().filter(|key| *key != self.me);
        let keys = keys.chain(own.then_some(self.me));
        let usable = keys.filter(|key| !lookup.absent.contains(key) && self.is_usable(key));
        around(&lookup.target, self.config.group, usable)
    }

    /// Asks whom it has not asked yet, and ends the way when all have answered.
    pub(super) fn close_on(&mut self, now: Instant, id: LookupId) {
        let group = self.closing_group(id);
        let Some(lookup) = self.lookups.verified.get(&id) else {
            return;
        };
        if !matches!(lookup.stage, Stage::Close) {
            return;
        }
        let room = MAX_CLOSURE.saturating_sub(lookup.asked.len());
        let unasked = group.iter().filter(|key| !lookup.asked.contains(*key));
        let next: Vec<RingKey> = unasked.take(room).copied().collect();
        for key in next {
            if !self.requests.has_room() {
                return;
            }
            if let Some(lookup) = self.lookups.verified.get_mut(&id) {
                lookup.asks(key);
            }
            let known = self.lookups.verified.get(&id);
            let have = known
                .and_then(|l| l.numbers.get(&key).copied())
                .unwrap_or(0);
            self.request(now, key, Purpose::Closing(id), |id| Message::GetView {
                id,
                have,
            });
        }
        let Some(lookup) = self.lookups.verified.get(&id) else {
            return;
        };
        // A few that are slow are not waited for, unless the owner is among them.
        let owner = group
            .iter()
            .min_by_key(|key| lookup.target.distance_to(key));
        let late = lookup.waiting.len() <= self.config.group / 3
            && owner.is_some_and(|k| !lookup.waiting.contains(k));
        let waits = if late {
            lookup.expected()
        } else {
            lookup.waiting.len()
        };
        if waits > 0 || !lookup.unproven.is_empty() {
            return;
        }
        let group: Vec<RingKey> = group
            .into_iter()
            .filter(|key| lookup.present.contains(key))
            .collect();
        if group.is_empty() {
            self.way_lost(now, id);
        } else {
            self.judge(now, id, group);
        }
    }

    /// A member near the target answered with its view, or did not.
    pub(crate) fn closing_answered(
        &mut self,
        now: Instant,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let unchanged = matches!(answer, Some(Message::Unchanged { .. }));
        let view = match answer {
            Some(Message::ViewIs { view, .. }) if view.author() == from => Some(view),
            _ => None,
        };
        let view = view.filter(|view| self.holds(now, view));
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        lookup.waits_no_more(&from);
        if unchanged && lookup.numbers.contains_key(&from) {
            lookup.present.insert(from);
        } else if let Some(view) = view {
            lookup.present.insert(from);
            lookup.numbers.insert(from, view.number());
            lookup.answered(from);
            lookup.said.push(view.signed);
            let audit = lookup.kind == Kind::Audit;
            for key in &view.group {
                lookup.near.entry(*key).or_insert(from);
                lookup.named.entry(*key).or_insert(from);
            }
            // Those next to the author can tell best whether it told them the same.
            if audit || self.neighbours.contains(&from) {
                self.compare(now, &view.signed);
            }
            self.have_proven(now, id);
        } else {
            lookup.absent.insert(from);
        }
        self.close_on(now, id);
    }
}
