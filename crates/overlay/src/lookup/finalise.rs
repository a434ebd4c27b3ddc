//! The end of a lookup: all around the target are asked, until none is new.
//!
//! ```text
//!  finalise -> continue_finalising
//!    members not asked -> GetView, Purpose::FinalView, to each. No room for requests -> waits
//!                         until some have ended (handle_room)
//!    answers or certificates are missing -> waits; not for late answers, if all that are missing
//!                                           are a third of a group at most, and not the owner's
//!    none has answered -> attempt_failed; else -> judge
//!  view_answered
//!    a genuine view -> Effect::Said, to be compared (if comparing all, or of a neighbour);
//!                      Effect::LookupGoesOn -> go_on -> request_certificates,
//!                                                       continue_finalising
//!    unchanged since its finger was made: present -> continue_finalising
//!    else: absent -> continue_finalising
//! ```

use crate::context::Cx;
use crate::effect::Effect;
use crate::event::LookupId;
use crate::group::around;
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::MAX_FINAL_ASKED;
use crate::lookup::verified::{Stage, VerifiedLookups};
use crate::message::Message;
use crate::request::Purpose;

impl VerifiedLookups {
    /// Begins to ask all around the target, from `group` and from what earlier attempts found
    /// there.
    pub(super) fn finalise(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        group: &[RingKey],
    ) {
        cx.requests.forget(|purpose| purpose.lookup() == Some(id));
        let me = cx.me;
        let present = self.stands_in(cx, id).then_some(me);
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        // Who named it first is asked for its certificate.
        for key in group {
            let by = lookup.named.get(key).copied().unwrap_or(me);
            lookup.near.entry(*key).or_insert(by);
        }
        lookup.begin_finalising(present);
        self.continue_finalising(cx, known, id);
    }

    /// The group around the target among all that were named and are not known to be absent.
    fn final_group(&self, cx: &Cx<'_>, id: LookupId) -> Vec<RingKey> {
        let Some(lookup) = self.running.get(&id) else {
            return Vec::new();
        };
        let own = self.stands_in(cx, id);
        let keys = lookup.near.keys().copied().filter(|key| *key != cx.me);
        let keys = keys.chain(own.then_some(cx.me));
        let usable = keys.filter(|key| !lookup.absent.contains(key) && cx.trust.is_usable(key));
        around(&lookup.target, cx.config.group, usable)
    }

    /// Asks whom it has not asked yet, and has the attempt judged when all have answered.
    pub(super) fn continue_finalising(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let group = self.final_group(cx, id);
        let Some(lookup) = self.running.get(&id) else {
            return;
        };
        if !matches!(lookup.stage, Stage::Finalise) {
            return;
        }
        let room = MAX_FINAL_ASKED.saturating_sub(lookup.asked.len());
        let unasked = group.iter().filter(|key| !lookup.asked.contains(*key));
        let next: Vec<RingKey> = unasked.take(room).copied().collect();
        for key in next {
            if !cx.requests.has_room() {
                self.without_room.insert(id);
                return;
            }
            if let Some(lookup) = self.running.get_mut(&id) {
                lookup.note_asked(key);
            }
            let known = self.running.get(&id);
            let have = known
                .and_then(|l| l.numbers.get(&key).copied())
                .unwrap_or(0);
            cx.request(key, Purpose::FinalView(id), |id| Message::GetView {
                id,
                have,
            });
        }
        let Some(lookup) = self.running.get(&id) else {
            return;
        };
        // Late answers are not waited for where few are missing, and not the owner's.
        let owner = group
            .iter()
            .min_by_key(|key| lookup.target.distance_to(key));
        let few_missing = lookup.waiting.len() <= cx.config.group / 3
            && owner.is_some_and(|k| !lookup.waiting.contains(k));
        let waits = if few_missing {
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
            self.attempt_failed(cx, known, id);
        } else {
            self.judge(cx, known, id, group);
        }
    }

    /// A member near the target answered with its view, or did not.
    pub(super) fn view_answered(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let unchanged = matches!(answer, Some(Message::Unchanged { .. }));
        let view = match answer {
            Some(Message::ViewIs { view, .. }) if view.author() == from => Some(view),
            _ => None,
        };
        let view = view.filter(|view| cx.trust.accepts(cx.now, view));
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.stop_waiting(&from);
        if unchanged && lookup.numbers.contains_key(&from) {
            lookup.present.insert(from);
        } else if let Some(view) = view {
            lookup.present.insert(from);
            lookup.numbers.insert(from, view.number());
            lookup.note_hop(from);
            lookup.said.push(view.signed);
            let compares_all = lookup.compares_all;
            for key in &view.group {
                lookup.near.entry(*key).or_insert(from);
                lookup.named.entry(*key).or_insert(from);
            }
            // Those next to the author can tell best whether it told them the same.
            if compares_all || known.group.contains(&from) {
                cx.effect(Effect::Said(Box::new(view.signed)));
            }
            // Its author may be convicted by it, and then counts no more.
            cx.effect(Effect::LookupGoesOn(id));
            return;
        } else {
            lookup.absent.insert(from);
        }
        self.continue_finalising(cx, known, id);
    }

    /// Goes on after a view: those that it names have to be proven, and asked.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        self.request_certificates(cx, id);
        self.continue_finalising(cx, known, id);
    }
}
