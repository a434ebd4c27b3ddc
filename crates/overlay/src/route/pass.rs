//! Messages on their way through this member, its own among them.
//!
//! Each hop gives a message a number of its own, remembers whom it came from and whom it went to,
//! and so the answer finds its way back and the confirmation its way there without a further
//! choice. Whoever has taken a message on says so only if no answer comes through it soon, for
//! several messages at once: on a fast network that costs nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use super::hop::Conduct;
use super::{Came, Routing, Watch};
use crate::context::Cx;
use crate::event::RouteId;
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::{
    HOP_TIME, HOP_TRIES, MAX_PASSAGE_REPEATS, MAX_PASSAGES, MAX_TAKEN_ON, MAX_WAITING,
    MAX_WAITING_OF_PEER, PASSAGE_TIME, TAKEN_ON_DELAY,
};
use crate::message::{Message, RequestId};

/// How far a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The next one has not said anything.
    Sent,
    /// It has the message.
    Taken,
    /// It did not say anything in time, and somebody else has the message now. Its answer still
    /// counts.
    Passed,
    /// An answer came back.
    Answered,
}

/// One message, from one neighbour to another.
#[derive(Clone, Debug)]
struct Passage {
    came_from: Source,
    next: RingKey,
    /// The next one's number, which the confirmation carries.
    label: Option<RequestId>,
    target: RingKey,
    hops_left: u8,
    /// Empty once nobody needs it any more.
    payload: Vec<u8>,
    tried: Vec<RingKey>,
    sent: Instant,
    progress: Progress,
    repeats: u8,
}

/// Whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Of this member.
    Own(RouteId),
    /// A neighbour's, by its own number.
    Hop(RingKey, RequestId),
}

impl Source {
    fn neighbour(&self) -> Option<RingKey> {
        match self {
            Source::Own(_) => None,
            Source::Hop(key, _) => Some(*key),
        }
    }
}

/// A message that is to go on.
#[derive(Clone, Debug)]
pub(super) struct Onward {
    pub(super) came_from: Source,
    pub(super) next: RingKey,
    pub(super) target: RingKey,
    pub(super) hops_left: u8,
    pub(super) payload: Vec<u8>,
    /// Who had it already.
    pub(super) tried: Vec<RingKey>,
}

/// All that are remembered. Numbers grow, so the oldest is the first.
#[derive(Debug, Default)]
pub(super) struct Passages {
    open: BTreeMap<RequestId, Passage>,
    /// Those without an answer, by the neighbour they came from.
    waiting: BTreeMap<Option<RingKey>, usize>,
    without_answer: usize,
    /// When a neighbour is to be told that its message has been taken on.
    tell: Watch,
    /// When the next hop is taken for silent.
    silent: Watch,
}

impl Passages {
    pub(super) fn next_due(&self) -> Option<Instant> {
        let fronts = [self.tell.front(), self.silent.front()];
        let fronts = fronts.into_iter().flatten().map(|(time, _)| *time);
        // Twice a second is often enough to forget.
        let oldest = self.open.first_key_value();
        let oldest = oldest.map(|(_, passage)| passage.sent + PASSAGE_TIME + HOP_TIME);
        fronts.chain(oldest).min()
    }

    /// Whether one more from there may wait for its answer. Makes room for it.
    fn has_room(&mut self, neighbour: Option<RingKey>) -> bool {
        let of_peer = self.waiting.get(&neighbour).copied().unwrap_or(0);
        if self.without_answer >= MAX_WAITING || of_peer >= MAX_WAITING_OF_PEER {
            return false;
        }
        while self.open.len() >= MAX_PASSAGES {
            match self.open.first_entry() {
                Some(oldest) if oldest.get().is_done() => drop(oldest.remove()),
                _ => return false,
            }
        }
        true
    }

    fn insert(&mut self, id: RequestId, passage: Passage) {
        let neighbour = passage.came_from.neighbour();
        *self.waiting.entry(neighbour).or_default() += 1;
        self.without_answer += 1;
        self.open.insert(id, passage);
    }

    /// An answer to it came, or is not waited for any more.
    fn done(&mut self, neighbour: Option<RingKey>) {
        self.without_answer = self.without_answer.saturating_sub(1);
        if let Some(count) = self.waiting.get_mut(&neighbour) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.waiting.remove(&neighbour);
            }
        }
    }

    /// The member's own message that `next` was handed as `id`.
    pub(super) fn own(&self, next: RingKey, id: RequestId) -> Option<RouteId> {
        let passage = self.open.get(&id).filter(|passage| passage.next == next);
        match passage?.came_from {
            Source::Own(route) => Some(route),
            Source::Hop(..) => None,
        }
    }

    /// Drops those from the fronts of the watches about whom there is nothing to do any more.
    fn trim(&mut self) {
        for watch in [&mut self.tell, &mut self.silent] {
            while let Some((_, id)) = watch.front() {
                if self.open.get(id).is_some_and(|passage| !passage.is_done()) {
                    break;
                }
                watch.pop_front();
            }
        }
    }
}

impl Passage {
    fn is_done(&self) -> bool {
        matches!(self.progress, Progress::Answered | Progress::Passed)
    }
}

/// The numbers at the front of `watch` whose time has come.
fn take_due(watch: &mut Watch, now: Instant) -> Vec<RequestId> {
    let count = watch.iter().take_while(|(time, _)| *time <= now).count();
    watch.drain(..count).map(|(_, id)| id).collect()
}

impl Routing {
    /// Hands a neighbour's message on.
    pub(super) fn pass_on(&mut self, cx: &mut Cx<'_>, known: Known<'_>, came: Came) {
        let (from, number) = came.previous;
        let tried = vec![from];
        let next = self.next_hop(cx, known, &came.target, &tried, 0);
        let (Some(next), Some(hops_left)) = (next, came.hops_left.checked_sub(1)) else {
            cx.out.counters.routed_dropped += 1;
            return;
        };
        let onward = Onward {
            came_from: Source::Hop(from, number),
            next,
            target: came.target,
            hops_left,
            payload: came.payload,
            tried,
        };
        if self.hand_on(cx, onward) {
            cx.out.counters.routed_on += 1;
        }
    }

    /// Sends a message to the next hop. False if there is no room to remember it.
    pub(super) fn hand_on(&mut self, cx: &mut Cx<'_>, onward: Onward) -> bool {
        let neighbour = onward.came_from.neighbour();
        if !self.passages.has_room(neighbour) {
            cx.out.counters.routed_dropped += 1;
            return false;
        }
        let id = cx.requests.next_id();
        let least = TAKEN_ON_DELAY.saturating_mul(3);
        let patience = self.hops.time(least, HOP_TIME);
        let passages = &mut self.passages;
        passages.silent.push_back((cx.now + patience, id));
        if neighbour.is_some() {
            passages.tell.push_back((cx.now + TAKEN_ON_DELAY, id));
        }
        let mut tried = onward.tried;
        tried.push(onward.next);
        let passage = Passage {
            came_from: onward.came_from,
            next: onward.next,
            label: None,
            target: onward.target,
            hops_left: onward.hops_left,
            payload: onward.payload.clone(),
            tried,
            sent: cx.now,
            progress: Progress::Sent,
            repeats: 0,
        };
        passages.insert(id, passage);
        let (target, hops_left, payload) = (onward.target, onward.hops_left, onward.payload);
        let message = match onward.came_from {
            // Nobody says of what it carries for others that it is its own.
            Source::Hop(..) => Message::Route {
                id,
                target,
                hops_left,
                payload,
            },
            Source::Own(_) => Message::Own {
                id,
                target,
                hops_left,
                clock: self.told_by(&onward.next),
                payload,
            },
        };
        cx.send(onward.next, message);
        true
    }

    /// The next hop has these.
    pub(super) fn taken_on(&mut self, cx: &mut Cx<'_>, from: RingKey, ids: &[RequestId]) {
        for id in ids {
            let passage = self.passages.open.get_mut(id);
            let Some(passage) = passage.filter(|passage| passage.next == from) else {
                cx.out.counters.unsolicited += 1;
                continue;
            };
            if passage.progress == Progress::Sent {
                passage.progress = Progress::Taken;
                let time = cx.now.saturating_duration_since(passage.sent);
                self.hops.came(time);
            }
        }
    }

    /// An answer comes back.
    pub(super) fn reached(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        id: RequestId,
        (label, clock): (RequestId, u64),
        payload: Vec<u8>,
    ) {
        let passages = &mut self.passages;
        let passage = passages.open.get_mut(&id);
        let expected =
            |passage: &&mut Passage| passage.next == from && passage.repeats < MAX_PASSAGE_REPEATS;
        let Some(passage) = passage.filter(expected) else {
            if self.asked_straight(cx, from, (id, label), &payload) {
                self.heard_straight(from, clock);
            }
            return;
        };
        passage.repeats += 1;
        passage.label = Some(label);
        let came_from = passage.came_from;
        self.answer_came(cx, from, id);
        self.heard_straight(from, clock);
        match came_from {
            Source::Hop(previous, number) => {
                let message = Message::Reached {
                    id: number,
                    label: id,
                    clock: self.clock(cx),
                    payload,
                };
                cx.send(previous, message);
            }
            Source::Own(route) => {
                if let Some(confirm) = self.answered(cx, from, route, &payload) {
                    let message = Message::Confirm {
                        id: label,
                        payload: confirm,
                    };
                    cx.send(from, message);
                } else {
                    if self.outbox.is_open(route) {
                        // Somebody on that way makes answers up, and nobody can tell who.
                        self.preferences.note(from, Conduct::NoAnswer);
                    }
                    cx.out.counters.unsolicited += 1;
                }
            }
        }
    }

    /// The next hop, `from`, has brought an answer to what it was handed as `id`.
    pub(super) fn answer_came(&mut self, cx: &mut Cx<'_>, from: RingKey, id: RequestId) {
        let passages = &mut self.passages;
        let Some(passage) = passages.open.get_mut(&id) else {
            return;
        };
        let (came_from, before) = (passage.came_from, passage.progress);
        if before == Progress::Sent {
            let time = cx.now.saturating_duration_since(passage.sent);
            self.hops.came(time);
        }
        if before != Progress::Answered {
            passage.progress = Progress::Answered;
            passage.payload = Vec::new();
            passage.tried = Vec::new();
            if before != Progress::Passed {
                passages.done(came_from.neighbour());
            }
            passages.trim();
            self.preferences.note(from, Conduct::Answered);
        }
    }

    /// The receiver of a message itself, by the sender's number for it: it has not been confirmed
    /// there. False if it is not.
    fn asked_straight(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        (number, label): (u64, RequestId),
        payload: &[u8],
    ) -> bool {
        let route = self.outbox.named(number);
        let confirm = route.and_then(|route| self.answered(cx, from, route, payload));
        let Some(payload) = confirm else {
            cx.out.counters.unsolicited += 1;
            return false;
        };
        cx.send(from, Message::Confirm { id: label, payload });
        true
    }

    /// A confirmation goes on the way that the message has taken.
    pub(super) fn confirm_on(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        id: RequestId,
        payload: Vec<u8>,
    ) {
        let passage = self.passages.open.get_mut(&id);
        let expected = |passage: &&mut Passage| {
            passage.came_from.neighbour() == Some(from) && passage.repeats < MAX_PASSAGE_REPEATS
        };
        let Some(passage) = passage.filter(expected) else {
            cx.out.counters.unsolicited += 1;
            return;
        };
        passage.repeats += 1;
        if let Some(label) = passage.label {
            let next = passage.next;
            cx.send(next, Message::Confirm { id: label, payload });
        }
    }

    pub(crate) fn passages_due(&mut self, cx: &mut Cx<'_>, known: Known<'_>) {
        self.delivered.forget(cx.now);
        self.tell_taken_on(cx);
        for id in take_due(&mut self.passages.silent, cx.now) {
            self.next_is_silent(cx, known, id);
        }
        self.forget_passages(cx);
        self.passages.trim();
    }

    /// Tells neighbours what of theirs is under way still.
    fn tell_taken_on(&mut self, cx: &mut Cx<'_>) {
        let passages = &mut self.passages;
        let mut ids: BTreeMap<RingKey, Vec<RequestId>> = BTreeMap::new();
        for id in take_due(&mut passages.tell, cx.now) {
            let passage = passages.open.get(&id).filter(|passage| !passage.is_done());
            if let Some(Source::Hop(previous, number)) = passage.map(|passage| passage.came_from) {
                ids.entry(previous).or_default().push(number);
            }
        }
        for (previous, ids) in ids {
            for ids in ids.chunks(MAX_TAKEN_ON) {
                let ids = ids.to_vec();
                cx.send(previous, Message::TakenOn { ids });
            }
        }
    }

    /// The next hop has not said anything: somebody else gets the message, too.
    fn next_is_silent(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: RequestId) {
        let passages = &mut self.passages;
        let Some(passage) = passages.open.get_mut(&id) else {
            return;
        };
        if passage.progress != Progress::Sent {
            return;
        }
        self.preferences.note(passage.next, Conduct::Silent);
        self.hops.missed();
        let (came_from, next) = (passage.came_from, passage.next);
        if let Source::Own(route) = came_from {
            // Where everything is late it is not the others who are silent. What is carried says
            // nothing: others may have chosen it so.
            if cx.doubt() < 2.0 {
                self.was_silent(cx.now, &next);
            }
            if !self.outbox.is_open(route) || self.is_too_old(cx, route) {
                return;
            }
        }
        let passages = &mut self.passages;
        let Some(passage) = passages.open.get_mut(&id) else {
            return;
        };
        if passage.tried.len() > HOP_TRIES {
            return;
        }
        let (target, tried) = (passage.target, passage.tried.clone());
        let Some(next) = self.next_hop(cx, known, &target, &tried, 0) else {
            return;
        };
        let passages = &mut self.passages;
        let Some(passage) = passages.open.get_mut(&id) else {
            return;
        };
        passage.progress = Progress::Passed;
        let onward = Onward {
            came_from: passage.came_from,
            next,
            target,
            hops_left: passage.hops_left,
            payload: std::mem::take(&mut passage.payload),
            tried,
        };
        passages.done(onward.came_from.neighbour());
        self.hand_on(cx, onward);
    }

    /// Forgets what is too old. Whoever took such a message on and brought no answer has lost it,
    /// or somebody behind it has.
    fn forget_passages(&mut self, cx: &mut Cx<'_>) {
        while let Some(oldest) = self.passages.open.first_entry() {
            if cx.now < oldest.get().sent + PASSAGE_TIME {
                break;
            }
            let passage = oldest.remove();
            if passage.progress == Progress::Taken {
                let next = passage.next;
                self.preferences.note(next, Conduct::NoAnswer);
                if passage.came_from.neighbour().is_none() {
                    self.was_silent(cx.now, &next);
                }
            }
            if !passage.is_done() {
                self.passages.done(passage.came_from.neighbour());
            }
        }
    }
}
