//! The desk's other half: flows whose contents are read, judged and held back.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::content::{Answer, Content, Counsel, Note, Stop};
use super::desk::{Desk, Seen, Step, ends, facts, is_early};
use super::event::{Event, EventKind, FileInfo, Text};
use super::reset::{Broken, question, resets};
use super::state::{Decided, Status};
use super::way::Window;
use super::{FileEnd, FilePart, FlowId, Mode, ScanJob, Verdict};
use crate::flow::Direction;
use crate::inspect::{Decoder, Expected, FileHead};
use crate::limits::{EARLY_RESERVE, FOLLOW_LOOK, MAX_CONTENT, MAX_EARLY, MAX_TEXT};
use crate::packet::L4;
use crate::policy::{Action, Failure, FlowFacts, Item, Moment, Plan, Ruling};

/// Why the contents of a connection are not read whose beginning nobody saw.
const MIDWAY: &str = "it was not followed from its beginning";

/// Who is asked while a packet is taken in, and what was told meanwhile.
struct Bench<'a> {
    decided: Option<&'a Decided>,
    facts: FlowFacts<'a>,
    notes: Vec<Note>,
    expected: Vec<Expected>,
    windows: Vec<Window>,
    parts: Vec<FilePart>,
    next_file: u64,
}

impl Counsel for Bench<'_> {
    fn judge(&self, item: &Item<'_>) -> Ruling {
        match self.decided {
            Some(decided) => decided.policy.judge(&decided.plan, &self.facts, item),
            None => Ruling::ALLOW,
        }
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn expect(&mut self, expected: Expected) {
        self.expected.push(expected);
    }

    fn failure(&self, ruling: &Ruling) -> Failure {
        self.decided
            .map_or(Failure::Open, |decided| decided.policy.failure_of(ruling))
    }

    fn scans_parts(&self, ruling: &Ruling) -> bool {
        self.decided
            .is_some_and(|decided| decided.policy.scans_parts(ruling))
    }

    fn holds_first(&self, ruling: &Ruling) -> u64 {
        self.decided
            .map_or(0, |decided| decided.policy.holds_first(ruling))
    }

    fn number(&mut self) -> u64 {
        let number = self.next_file;
        self.next_file = number.saturating_add(1);
        number
    }

    fn part(&mut self, part: FilePart) {
        self.parts.push(part);
    }

    fn scan(&mut self, window: Window) {
        self.windows.push(window);
    }
}

/// What came of taking in a packet or a moment.
struct Outcome<T> {
    answer: T,
    told: Told,
}

/// What was told meanwhile.
struct Told {
    notes: Vec<Note>,
    expected: Vec<Expected>,
    windows: Vec<Window>,
    parts: Vec<FilePart>,
}

impl Desk {
    /// Keeps the bytes of a flow that is not decided, if its contents are followed.
    pub(super) fn keep(&mut self, now: Duration, seen: Seen<'_>) -> Option<Step> {
        self.tracker
            .flow(seen.place)?
            .attachment
            .own
            .content
            .as_ref()?;
        Some(self.take_in(now, seen))
    }

    /// A packet of a decided flow whose contents are read.
    pub(super) fn read_on(&mut self, now: Duration, seen: Seen<'_>) -> Step {
        let step = self.take_in(now, seen);
        let followed = self
            .tracker
            .flow(seen.place)
            .is_some_and(|flow| flow.attachment.own.content.is_some());
        match step {
            // It is not read any more: what was decided stands for this packet too, unless it was
            // blocked with it.
            Step::Done(Verdict::ACCEPT) if !followed => Step::Again,
            step => step,
        }
    }

    /// A decided flow is read from its beginning; the packet at hand stands for what is found.
    pub(super) fn begin_reading(
        &mut self,
        now: Duration,
        seen: Seen<'_>,
        decoder: Box<dyn Decoder>,
    ) -> Step {
        let Some(flow) = self.tracker.flow(seen.place) else {
            return Step::Done(self.missing());
        };
        let (class, uncoded) = match &flow.attachment.own.status {
            Status::Decided(decided) => {
                let uncoded = decided.policy.scans(&decided.plan);
                (decided.plan.ruling.class, uncoded)
            }
            _ => (None, false),
        };
        let direction = flow.direction(seen.packet);
        let enforcing = self.settings.mode == Mode::Enforce;
        let mut rewritten = None;
        let outcome = self.with_content(now, seen.place, |content, bench| {
            if uncoded && enforcing {
                content.forbid_codings();
                if direction == Direction::FromClient {
                    rewritten = content.without_codings(seen.packet.payload);
                }
            }
            let stop = content.read_by(decoder, class, bench);
            let waits = stop.is_none()
                && content
                    .place_now(now, direction, (seen.packet, seen.token))
                    .is_held();
            (stop, waits)
        });
        self.rewritten = self.rewritten.take().or(rewritten);
        let Some(outcome) = outcome else {
            // Followed by nobody: it was picked up midway, or given up before anybody knew what it
            // is.
            self.give_up(now, seen.place, MIDWAY);
            return Step::Again;
        };
        let (stop, waits) = outcome.answer;
        self.settle_outcome(now, seen.place, outcome.told);
        match stop {
            Some(stop) => self.stopped(now, seen, stop),
            None if waits => Step::Done(Verdict::HOLD),
            None => Step::Done(Verdict::ACCEPT),
        }
    }

    fn take_in(&mut self, now: Duration, seen: Seen<'_>) -> Step {
        let direction = match self.tracker.flow(seen.place) {
            Some(flow) => flow.direction(seen.packet),
            None => return Step::Done(self.missing()),
        };
        self.make_room();
        let decided = (self.tracker.flow(seen.place))
            .is_some_and(|flow| matches!(flow.attachment.own.status, Status::Decided(_)));
        // Those that are known leave some for those that are not.
        let bound = MAX_CONTENT.saturating_sub(if decided { EARLY_RESERVE } else { 0 });
        let room = bound.saturating_sub(self.content_held);
        let outcome = self.with_content(now, seen.place, |content, bench| {
            content.handle_packet(now, direction, (seen.packet, seen.token), room, bench)
        });
        let Some(outcome) = outcome else {
            return Step::Done(self.missing());
        };
        self.settle_outcome(now, seen.place, outcome.told);
        let Answer {
            verdict,
            rewritten,
            offload,
            stop,
        } = outcome.answer;
        // While observing nothing is changed, not even what would fool somebody.
        self.rewritten = rewritten.filter(|_| self.settings.mode == Mode::Enforce);
        if let Some(stop) = stop {
            return self.stopped(now, seen, stop);
        }
        self.release(seen.place);
        Step::Done(match verdict.unwrap_or(Verdict::ACCEPT) {
            Verdict::Drop { .. } => Verdict::DROP,
            goes_on => goes_on.with(offload),
        })
    }

    /// Whoever has kept bytes for longest without being known gives way to connections that are
    /// new.
    fn make_room(&mut self) {
        while self.content_held.saturating_add(MAX_EARLY) > MAX_CONTENT {
            let Some(oldest) = self.early.pop(is_early(&self.tracker)) else {
                return;
            };
            self.stop_following(oldest, Verdict::ACCEPT);
        }
    }

    /// Lets a flow's content work, with somebody to ask.
    fn with_content<T>(
        &mut self,
        now: Duration,
        place: usize,
        work: impl FnOnce(&mut Content, &mut Bench<'_>) -> T,
    ) -> Option<Outcome<T>> {
        let at = Moment::of(now, &self.settings.zone);
        let flow = self.tracker.flow_mut(place)?;
        let mut content = flow.attachment.own.content.take()?;
        let before = content.held();
        let flow = self.tracker.flow(place)?;
        let decided = match &flow.attachment.own.status {
            Status::Decided(decided) => Some(decided),
            Status::New | Status::Undecided | Status::Refused => None,
        };
        let mut bench = Bench {
            decided,
            facts: facts(flow, decided.map(|decided| &*decided.found), at),
            notes: Vec::new(),
            expected: Vec::new(),
            windows: Vec::new(),
            parts: Vec::new(),
            next_file: self.next_file,
        };
        let answer = work(&mut content, &mut bench);
        let outcome = Outcome {
            answer,
            told: Told {
                notes: bench.notes,
                expected: bench.expected,
                windows: bench.windows,
                parts: bench.parts,
            },
        };
        self.next_file = bench.next_file;
        self.content_held = self
            .content_held
            .saturating_sub(before)
            .saturating_add(content.held());
        if content.begins_to_wait() {
            let serial = flow.serial;
            self.timed.push(FlowId { place, serial });
        }
        if let Some(flow) = self.tracker.flow_mut(place) {
            flow.attachment.own.content = Some(content);
        }
        Some(outcome)
    }

    /// Passes on what was told: events, announcements, windows to scan.
    fn settle_outcome(&mut self, now: Duration, place: usize, told: Told) {
        let Some(serial) = self.tracker.flow(place).map(|flow| flow.serial) else {
            return;
        };
        for expected in told.expected {
            let server = expected.server;
            if self.announced.add(now, expected) {
                self.cache.forgive(L4::Tcp, server);
            }
        }
        for window in told.windows {
            self.scans.push_back(ScanJob {
                flow: FlowId { place, serial },
                direction: window.direction,
                number: window.number,
                bytes: window.bytes,
                repeated: window.repeated,
                at: window.at,
                first: window.first,
                last: window.last,
                name: window.name,
            });
        }
        self.parts.extend(told.parts);
        for note in told.notes {
            self.note_of(now, place, note);
        }
    }

    fn note_of(&mut self, now: Duration, place: usize, note: Note) {
        let Some(flow) = self.tracker.flow(place) else {
            return;
        };
        let Status::Decided(decided) = &flow.attachment.own.status else {
            return;
        };
        let ruling = match &note {
            Note::Refused(_, ruling)
            | Note::Unreadable(_, ruling, ..)
            | Note::File { ruling, .. }
            | Note::Message(_, ruling) => *ruling,
        };
        let texts = decided.policy.keeps_texts(&ruling);
        let mut event = self.event_of((now, EventKind::FileInfo), flow, decided, &ruling);
        match note {
            Note::Refused(head, _) => event.fileinfo = Some(info(head, None)),
            Note::Unreadable(head, _, reason, failure) => {
                event.alert.evidence = format!("its contents cannot be read: {reason}");
                if failure == Failure::Closed && self.settings.mode == Mode::Enforce {
                    event.alert.action = "blocked";
                }
                event.fileinfo = Some(info(head, None));
            }
            Note::File {
                head,
                bytes,
                rest,
                scanned,
                ..
            } => {
                event.fileinfo = Some(info(head, Some(bytes)));
                self.whole(place, event, rest, scanned);
                return;
            }
            Note::Message(message, _) => {
                event.kind = EventKind::Message;
                event.message = Some(Text {
                    size: u64::try_from(message.text.len()).unwrap_or(u64::MAX),
                    text: texts.then(|| cut(message.text)),
                    from: message.from,
                    to: message.to,
                });
            }
        }
        self.note(event);
    }

    /// A file is whole. Whoever makes its hash completes the event, once nothing was found in it.
    fn whole(&mut self, place: usize, event: Event, rest: FilePart, scanned: (Direction, u32)) {
        let part = FilePart {
            end: Some(FileEnd::Whole(Box::new(event))),
            ..rest
        };
        let flow = self.tracker.flow_mut(place);
        let content = flow.and_then(|flow| flow.attachment.own.content.as_mut());
        match content {
            Some(content) if scanned.1 > 0 => content.wait_for(scanned, part),
            _ => self.parts.push_back(part),
        }
    }

    /// The contents are blocked, or cannot be read any more.
    fn stopped(&mut self, now: Duration, seen: Seen<'_>, stop: Stop) -> Step {
        match stop {
            Stop::Blocked(ruling) => {
                self.block(now, seen.place, ruling);
                Step::Again
            }
            Stop::Lost(reason) => match self.give_up(now, seen.place, reason) {
                Failure::Open => Step::Done(Verdict::ACCEPT),
                Failure::Closed => Step::Again,
            },
        }
    }

    /// Nobody reads this flow any more; the policy says what becomes of it.
    pub(super) fn give_up(&mut self, now: Duration, place: usize, reason: &str) -> Failure {
        let Some(flow) = self.tracker.flow(place) else {
            return Failure::Open;
        };
        let Status::Decided(decided) = &flow.attachment.own.status else {
            // Not decided yet: what it carries will not be known, the rest will.
            self.stop_following(place, Verdict::ACCEPT);
            return Failure::Open;
        };
        if !decided.plan.looks_into_content() {
            // It was heard for what it announces only: no rule asks for what it carries.
            self.stop_following(place, Verdict::ACCEPT);
            return Failure::Open;
        }
        let (ruling, failure) = decided.policy.failure_of_plan(&decided.plan);
        let mut event = self.event_of((now, EventKind::Alert), flow, decided, &ruling);
        event.alert.evidence = format!("its contents cannot be read: {reason}");
        if failure == Failure::Closed && self.settings.mode == Mode::Enforce {
            event.alert.action = "blocked";
        }
        self.note(event);
        match failure {
            Failure::Open => self.stop_following(place, Verdict::ACCEPT),
            Failure::Closed => self.block(
                now,
                place,
                Ruling {
                    action: Action::Block,
                    ..ruling
                },
            ),
        }
        failure
    }

    /// Stops a connection that an earlier run read, or this one before it forgot the flow: what is
    /// left of a file would come unread, and is often nothing that names the application.
    /// `None`: the policy lets it go on.
    pub(super) fn unread(&mut self, now: Duration, seen: Seen<'_>) -> Option<Step> {
        let flow = self.tracker.flow(seen.place)?;
        let at = Moment::of(now, &self.settings.zone);
        let ruling = self.policy.stops_unread(&facts(flow, None, at))?;
        // Not remembered as blocked: whoever calls again is read from the beginning.
        let decided = Decided {
            plan: Plan {
                ruling: Ruling {
                    action: Action::Block,
                    ..ruling
                },
                content: Vec::new(),
            },
            policy: Arc::clone(&self.policy),
            after: flow.packets,
            killed: 0,
            found: Box::new(self.found(flow)),
        };
        let mut event = self.event_of((now, EventKind::Alert), flow, &decided, &ruling);
        event.alert.evidence = format!("its contents cannot be read: {MIDWAY}");
        if self.settings.mode == Mode::Enforce {
            event.alert.action = "blocked";
        }
        self.note(event);
        let flow = self.tracker.flow_mut(seen.place)?;
        flow.attachment.own.status = Status::Decided(decided);
        self.tracker.end_inspection(seen.place);
        let step = self.stand(seen);
        if self.settings.mode == Mode::Enforce {
            // The packet may repeat what its receiver has had for long: nobody here has seen that
            // acknowledged.
            self.injections.extend(question(&Broken::by(seen.packet)));
        }
        Some(step)
    }

    /// Blocks a flow for what it carries. What waits of it never arrives.
    pub(super) fn block(&mut self, now: Duration, place: usize, ruling: Ruling) {
        let Some(flow) = self.tracker.flow_mut(place) else {
            return;
        };
        let ends = ends(flow);
        let Status::Decided(decided) = &mut flow.attachment.own.status else {
            return;
        };
        decided.plan = Plan {
            ruling,
            content: Vec::new(),
        };
        decided.killed = 0;
        let application = decided.found.application.clone();
        if let Some(content) = &flow.attachment.own.content
            && self.settings.mode == Mode::Enforce
        {
            for direction in [Direction::FromClient, Direction::FromServer] {
                if let Some(broken) = content.first_held(direction) {
                    self.injections.extend(resets(&broken));
                }
            }
        }
        if self.tracker.is_answered(place) {
            self.remember_blocked(now, ends, &application);
        }
        self.tracker.end_inspection(place);
        let fate = match self.settings.mode {
            Mode::Enforce => Verdict::DROP,
            Mode::Observe => Verdict::ACCEPT,
        };
        self.stop_following(place, fate);
    }

    /// Forgets a flow's contents; what waits of it gets this verdict.
    pub(super) fn stop_following(&mut self, place: usize, verdict: Verdict) {
        let Some(flow) = self.tracker.flow_mut(place) else {
            return;
        };
        let Some(mut content) = flow.attachment.own.content.take() else {
            return;
        };
        flow.attachment.own.given_up =
            matches!(flow.attachment.own.status, Status::New | Status::Undecided);
        self.content_held = self.content_held.saturating_sub(content.held());
        self.parts.extend(content.cut_off(verdict.accepts()));
        let waiting = content.take_held();
        self.released
            .extend(waiting.into_iter().map(|token| (token, verdict)));
    }

    /// Lets go what has waited long enough.
    pub(super) fn release(&mut self, place: usize) {
        let Some(flow) = self.tracker.flow_mut(place) else {
            return;
        };
        if let Some(content) = &mut flow.attachment.own.content {
            while let Some((token, goes_on)) = content.poll_released() {
                let verdict = if goes_on {
                    Verdict::ACCEPT
                } else {
                    Verdict::DROP
                };
                self.released.push_back((token, verdict));
            }
        }
    }

    /// Followed flows wait for their time: [`handle_timeout`](Self::handle_timeout) has work.
    pub(super) fn is_waiting(&self) -> bool {
        !self.timed.is_empty()
    }

    /// Does what is due for flows whose contents are followed.
    pub(super) fn handle_timeout(&mut self, now: Duration) {
        // All that wait are looked at: not at each packet.
        if now < self.next_look {
            return;
        }
        self.next_look = now.saturating_add(FOLLOW_LOOK);
        self.expire_refused(now);
        let mut timed = std::mem::take(&mut self.timed);
        timed.retain(|id| self.tick(now, *id));
        // Flows that began to wait meanwhile.
        timed.append(&mut self.timed);
        self.timed = timed;
    }

    /// Whether decisions are carried out from now on. Files under way are held back from here on,
    /// or not any more.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.settings.mode = mode;
        if mode == Mode::Observe {
            // The kernel refuses without asking who observes.
            self.cache.clear();
            self.tell_refused();
        }
        for flow in self.tracker.flows_mut() {
            if let Some(content) = &mut flow.attachment.own.content {
                let free = content.set_holds(mode == Mode::Enforce);
                let free = free.into_iter().map(|token| (token, Verdict::ACCEPT));
                self.released.extend(free);
            }
        }
    }

    /// Whether the flow still waits for its time.
    fn tick(&mut self, now: Duration, id: FlowId) -> bool {
        let flow = self.tracker.flow_mut(id.place);
        let content = flow
            .filter(|flow| flow.serial == id.serial)
            .and_then(|flow| flow.attachment.own.content.as_mut());
        let Some(content) = content else {
            return false;
        };
        match content.poll_timeout() {
            None => {
                content.end_wait();
                return false;
            }
            Some(due) if due > now => return true,
            Some(_) => {}
        }
        let outcome = self.with_content(now, id.place, |content, bench| {
            content.handle_timeout(now, bench)
        });
        if let Some(outcome) = outcome {
            self.settle_outcome(now, id.place, outcome.told);
            match outcome.answer {
                Some(Stop::Blocked(ruling)) => self.block(now, id.place, ruling),
                Some(Stop::Lost(reason)) => {
                    self.give_up(now, id.place, reason);
                }
                None => {}
            }
        }
        self.release(id.place);
        true
    }
}

fn info(head: FileHead, whole: Option<u64>) -> FileInfo {
    FileInfo {
        filename: head.name,
        mimetype: head.kind,
        size: whole.or(head.size),
        ..FileInfo::default()
    }
}

/// The text as far as it is written down.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}
