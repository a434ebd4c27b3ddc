//! Messages on their way through this member, its own among them.
//!
//! Each hop gives a message a number of its own, remembers whom it came from and whom it went to,
//! and so the answer finds its way back and the confirmation its way there without a further
//! choice. A router that has taken a message on says so only if no answer comes through it soon,
//! for several messages at once: on a fast network that costs nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use super::hop::Conduct;
use super::{Hop, Inbound, Reached, Routing, Watch};
use crate::context::Cx;
use crate::event::RouteId;
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::{
    ACCEPTED_DELAY, FORWARD_TIME, HOP_TIME, HOP_TRIES, MAX_ACCEPTED, MAX_FORWARD_REPEATS,
    MAX_FORWARDS, MAX_WAITING, MAX_WAITING_OF_PEER,
};
use crate::message::{Message, RequestId};

/// How far a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The next one has not said anything.
    Sent,
    /// It has the message.
    Accepted,
    /// It did not say anything in time, and somebody else has the message now. Its answer still
    /// counts.
    Passed,
    /// An answer came back.
    Answered,
}

/// One message, from one neighbour to another.
#[derive(Clone, Debug)]
struct ForwardEntry {
    came_from: Source,
    next: RingKey,
    /// The next one's number, which the confirmation carries.
    label: Option<RequestId>,
    target: RingKey,
    hops_left: u8,
    /// Empty once it is not needed any more.
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
    Hop(Hop),
}

impl Source {
    fn neighbour(&self) -> Option<RingKey> {
        match self {
            Source::Own(_) => None,
            Source::Hop(hop) => Some(hop.neighbour),
        }
    }
}

/// A message that is to go on.
#[derive(Clone, Debug)]
pub(super) struct Forward {
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
pub(super) struct Forwards {
    open: BTreeMap<RequestId, ForwardEntry>,
    /// Those without an answer, by the neighbour they came from.
    waiting: BTreeMap<Option<RingKey>, usize>,
    without_answer: usize,
    /// When a neighbour is to be told that its message has been taken on.
    tell: Watch,
    /// When the next hop is taken for silent.
    silent: Watch,
}

impl Forwards {
    pub(super) fn next_due(&self) -> Option<Instant> {
        let fronts = [self.tell.front(), self.silent.front()];
        let fronts = fronts.into_iter().flatten().map(|(time, _)| *time);
        // Twice a second is often enough to forget.
        let oldest = self.open.first_key_value();
        let oldest = oldest.map(|(_, entry)| entry.sent + FORWARD_TIME + HOP_TIME);
        fronts.chain(oldest).min()
    }

    /// Whether one more from there may wait for its answer. Makes room for it.
    fn has_room(&mut self, neighbour: Option<RingKey>) -> bool {
        let of_peer = self.waiting.get(&neighbour).copied().unwrap_or(0);
        if self.without_answer >= MAX_WAITING || of_peer >= MAX_WAITING_OF_PEER {
            return false;
        }
        while self.open.len() >= MAX_FORWARDS {
            match self.open.first_entry() {
                Some(oldest) if oldest.get().is_done() => drop(oldest.remove()),
                _ => return false,
            }
        }
        true
    }

    fn insert(&mut self, id: RequestId, entry: ForwardEntry) {
        let neighbour = entry.came_from.neighbour();
        *self.waiting.entry(neighbour).or_default() += 1;
        self.without_answer += 1;
        self.open.insert(id, entry);
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
        let entry = self.open.get(&id).filter(|entry| entry.next == next);
        match entry?.came_from {
            Source::Own(route) => Some(route),
            Source::Hop(..) => None,
        }
    }

    /// Drops those from the fronts of the watches about whom there is nothing to do any more.
    fn trim(&mut self) {
        for watch in [&mut self.tell, &mut self.silent] {
            while let Some((_, id)) = watch.front() {
                if self.open.get(id).is_some_and(|entry| !entry.is_done()) {
                    break;
                }
                watch.pop_front();
            }
        }
    }
}

impl ForwardEntry {
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
    pub(super) fn forward_inbound(&mut self, cx: &mut Cx<'_>, known: Known<'_>, inbound: Inbound) {
        let tried = vec![inbound.previous.neighbour];
        let next = self.next_hop(cx, known, &inbound.target, &tried, 0);
        let (Some(next), Some(hops_left)) = (next, inbound.hops_left.checked_sub(1)) else {
            cx.out.counters.routed_dropped += 1;
            return;
        };
        let forward = Forward {
            came_from: Source::Hop(inbound.previous),
            next,
            target: inbound.target,
            hops_left,
            payload: inbound.payload,
            tried,
        };
        if self.send_forward(cx, forward) {
            cx.out.counters.routed_on += 1;
        }
    }

    /// Sends a message to the next hop. False if there is no room to remember it.
    pub(super) fn send_forward(&mut self, cx: &mut Cx<'_>, forward: Forward) -> bool {
        let neighbour = forward.came_from.neighbour();
        if !self.forwards.has_room(neighbour) {
            cx.out.counters.routed_dropped += 1;
            return false;
        }
        let id = cx.requests.next_id();
        let least = ACCEPTED_DELAY.saturating_mul(3);
        let patience = self.hops.time(least, HOP_TIME);
        let forwards = &mut self.forwards;
        forwards.silent.push_back((cx.now + patience, id));
        if neighbour.is_some() {
            forwards.tell.push_back((cx.now + ACCEPTED_DELAY, id));
        }
        let mut tried = forward.tried;
        tried.push(forward.next);
        let entry = ForwardEntry {
            came_from: forward.came_from,
            next: forward.next,
            label: None,
            target: forward.target,
            hops_left: forward.hops_left,
            payload: forward.payload.clone(),
            tried,
            sent: cx.now,
            progress: Progress::Sent,
            repeats: 0,
        };
        forwards.insert(id, entry);
        let (target, hops_left, payload) = (forward.target, forward.hops_left, forward.payload);
        let message = match forward.came_from {
            // No router says of what it carries for others that it is its own.
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
                clock: self.clock_of(&forward.next),
                payload,
            },
        };
        cx.send(forward.next, message);
        true
    }

    /// The next hop has these.
    pub(super) fn handle_accepted(&mut self, cx: &mut Cx<'_>, from: RingKey, ids: &[RequestId]) {
        for id in ids {
            let entry = self.forwards.open.get_mut(id);
            let Some(entry) = entry.filter(|entry| entry.next == from) else {
                cx.out.counters.unsolicited += 1;
                continue;
            };
            if entry.progress == Progress::Sent {
                entry.progress = Progress::Accepted;
                let time = cx.now.saturating_duration_since(entry.sent);
                self.hops.came(time);
            }
        }
    }

    /// An answer comes back.
    pub(super) fn handle_reached(&mut self, cx: &mut Cx<'_>, from: RingKey, reached: Reached) {
        let entry = self.forwards.open.get_mut(&reached.id);
        let expected =
            |entry: &&mut ForwardEntry| entry.next == from && entry.repeats < MAX_FORWARD_REPEATS;
        let Some(entry) = entry.filter(expected) else {
            // The receiver itself may ask for the confirmation, by the sender's number.
            if self.answer_directly(cx, from, &reached) {
                self.note_direct_answer(from, reached.clock);
            }
            return;
        };
        entry.repeats += 1;
        entry.label = Some(reached.label);
        let came_from = entry.came_from;
        self.note_answer(cx, from, reached.id);
        self.note_direct_answer(from, reached.clock);
        match came_from {
            Source::Hop(hop) => {
                let message = Message::Reached {
                    id: hop.number,
                    label: reached.id,
                    clock: self.clock(cx),
                    payload: reached.payload,
                };
                cx.send(hop.neighbour, message);
            }
            Source::Own(route) => self.own_reached(cx, from, route, &reached),
        }
    }

    /// An answer to this member's own message came by the way that it went.
    fn own_reached(&mut self, cx: &mut Cx<'_>, from: RingKey, route: RouteId, reached: &Reached) {
        if let Some(payload) = self.answered(cx, from, route, &reached.payload) {
            let id = reached.label;
            return cx.send(from, Message::Confirm { id, payload });
        }
        if self.outbox.is_open(route) {
            // Some router on that way makes answers up, and it cannot be told which.
            self.preferences.note(from, Conduct::NoAnswer);
        }
        cx.out.counters.unsolicited += 1;
    }

    /// The next hop, `from`, has brought an answer to what it was handed as `id`.
    pub(super) fn note_answer(&mut self, cx: &mut Cx<'_>, from: RingKey, id: RequestId) {
        let forwards = &mut self.forwards;
        let Some(entry) = forwards.open.get_mut(&id) else {
            return;
        };
        let (came_from, before) = (entry.came_from, entry.progress);
        // Nothing came before, so this answer shows how long the hop takes.
        if before == Progress::Sent {
            let time = cx.now.saturating_duration_since(entry.sent);
            self.hops.came(time);
        }
        if before != Progress::Answered {
            entry.progress = Progress::Answered;
            entry.payload = Vec::new();
            entry.tried = Vec::new();
            if before != Progress::Passed {
                forwards.done(came_from.neighbour());
            }
            forwards.trim();
            self.preferences.note(from, Conduct::Answered);
        }
    }

    /// The receiver of a message itself, by the sender's number for it: it has not been confirmed
    /// there. False if it is not.
    fn answer_directly(&mut self, cx: &mut Cx<'_>, from: RingKey, reached: &Reached) -> bool {
        let route = self.outbox.named(reached.id);
        let confirm = route.and_then(|route| self.answered(cx, from, route, &reached.payload));
        let Some(payload) = confirm else {
            cx.out.counters.unsolicited += 1;
            return false;
        };
        let id = reached.label;
        cx.send(from, Message::Confirm { id, payload });
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
        let entry = self.forwards.open.get_mut(&id);
        let expected = |entry: &&mut ForwardEntry| {
            entry.came_from.neighbour() == Some(from) && entry.repeats < MAX_FORWARD_REPEATS
        };
        let Some(entry) = entry.filter(expected) else {
            cx.out.counters.unsolicited += 1;
            return;
        };
        // Bounded, because each is passed on to the next.
        entry.repeats += 1;
        if let Some(label) = entry.label {
            let next = entry.next;
            cx.send(next, Message::Confirm { id: label, payload });
        }
    }

    pub(crate) fn forwards_due(&mut self, cx: &mut Cx<'_>, known: Known<'_>) {
        self.delivered.forget(cx.now);
        self.notify_accepted(cx);
        for id in take_due(&mut self.forwards.silent, cx.now) {
            self.next_is_silent(cx, known, id);
        }
        self.forget_forwards(cx);
        self.forwards.trim();
    }

    /// Tells neighbours what of theirs is under way still.
    fn notify_accepted(&mut self, cx: &mut Cx<'_>) {
        let forwards = &mut self.forwards;
        let mut ids: BTreeMap<RingKey, Vec<RequestId>> = BTreeMap::new();
        for id in take_due(&mut forwards.tell, cx.now) {
            let entry = forwards.open.get(&id).filter(|entry| !entry.is_done());
            if let Some(Source::Hop(hop)) = entry.map(|entry| entry.came_from) {
                ids.entry(hop.neighbour).or_default().push(hop.number);
            }
        }
        for (previous, ids) in ids {
            for ids in ids.chunks(MAX_ACCEPTED) {
                let ids = ids.to_vec();
                cx.send(previous, Message::TakenOn { ids });
            }
        }
    }

    /// The next hop has not said anything: somebody else gets the message, too.
    fn next_is_silent(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: RequestId) {
        let forwards = &mut self.forwards;
        let Some(entry) = forwards.open.get_mut(&id) else {
            return;
        };
        if entry.progress != Progress::Sent {
            return;
        }
        self.preferences.note(entry.next, Conduct::Silent);
        self.hops.missed();
        let (came_from, next) = (entry.came_from, entry.next);
        if let Source::Own(route) = came_from {
            // Where everything is late it is not the others who are silent. What is carried says
            // nothing: others may have chosen it so.
            if cx.health_multiplier() < 2.0 {
                self.was_silent(cx.now, &next);
            }
            if !self.outbox.is_open(route) || self.is_too_old(cx, route) {
                return;
            }
        }
        let forwards = &mut self.forwards;
        let Some(entry) = forwards.open.get_mut(&id) else {
            return;
        };
        if entry.tried.len() > HOP_TRIES {
            return;
        }
        let (target, tried) = (entry.target, entry.tried.clone());
        let Some(next) = self.next_hop(cx, known, &target, &tried, 0) else {
            return;
        };
        let forwards = &mut self.forwards;
        let Some(entry) = forwards.open.get_mut(&id) else {
            return;
        };
        entry.progress = Progress::Passed;
        let forward = Forward {
            came_from: entry.came_from,
            next,
            target,
            hops_left: entry.hops_left,
            payload: std::mem::take(&mut entry.payload),
            tried,
        };
        forwards.done(forward.came_from.neighbour());
        self.send_forward(cx, forward);
    }

    /// Forgets what is too old. A router that took such a message on and brought no answer has lost
    /// it, or one behind it has.
    fn forget_forwards(&mut self, cx: &mut Cx<'_>) {
        while let Some(oldest) = self.forwards.open.first_entry() {
            if cx.now < oldest.get().sent + FORWARD_TIME {
                break;
            }
            let entry = oldest.remove();
            if entry.progress == Progress::Accepted {
                let next = entry.next;
                self.preferences.note(next, Conduct::NoAnswer);
                if entry.came_from.neighbour().is_none() {
                    self.was_silent(cx.now, &next);
                }
            }
            if !entry.is_done() {
                self.forwards.done(entry.came_from.neighbour());
            }
        }
    }
}
