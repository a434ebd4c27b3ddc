//! One managed connection: its bytes in order, the files and messages in them, and the packets that
//! wait for a scan.
//!
//! A connection is followed from its first packet on when rules on content might concern it,
//! because what it carries first (a file's name) comes before anybody knows which application it
//! is. Its bytes are kept until then, and read from the beginning.
//!
//! **How a scan holds.** Packets go on while a window of a file fills. The packet that completes a
//! window waits until the window was found clean, and all that follow it in its direction wait
//! behind it; so the last packet of a file is never at its receiver before all of the file was
//! found clean. Where nobody says how long a file is, each packet might be the last: it waits for
//! the next one, for the end, or for a pause, upon which what there is of the window is scanned.

use std::time::Duration;

use super::reset::Broken;
use super::way::{Transfer, Way, Window};
use super::{FileEnd, FilePart, Offload, PASSED, Verdict};
use crate::flow::{Both, Direction};
use crate::inspect::{Decoder, Expected, FileForm, FileHead, Message, Seen};
use crate::limits::{MAX_EARLY, MIN_UNSEEN, SCARCE_CONTENT};
use crate::packet::{Packet, Tcp};
use crate::policy::{Action, Failure, Item, Ruling};
use crate::stream::{Decision, Output, Place, Segment};

/// What is asked and told while packets are taken in.
pub(super) trait Counsel {
    /// What happens to a file or message.
    fn judge(&self, item: &Item<'_>) -> Ruling;
    /// Something to write down.
    fn note(&mut self, note: Note);
    /// A connection that was announced.
    fn expect(&mut self, expected: Expected);
    /// What happens where something cannot be read, by the rule that decided on it.
    fn failure(&self, ruling: &Ruling) -> Failure;
    /// The rule that decided scans parts of files by themselves.
    fn scans_parts(&self, ruling: &Ruling) -> bool;
    /// Bytes of a file's beginning that wait together, by the rule that decided.
    fn holds_first(&self, ruling: &Ruling) -> u64;
    /// What the next audited file is called.
    fn number(&mut self) -> u64;
    /// A part of an audited file.
    fn part(&mut self, part: FilePart);
    /// A window to scan.
    fn scan(&mut self, window: Window);
}

/// Something that a connection carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// A file was offered or asked for, and may not come.
    Refused(FileHead, Ruling),
    /// A file comes in a form that cannot be scanned, and why; it is stopped, or goes on.
    Unreadable(FileHead, Ruling, &'static str, Failure),
    /// A file is whole.
    File {
        head: FileHead,
        ruling: Ruling,
        bytes: u64,
        /// What it is called, and its bytes that were not told yet.
        rest: FilePart,
        /// Who sent it, and the window that has to be clean before it counts; 0: none.
        scanned: (Direction, u32),
    },
    /// A message went by.
    Message(Message, Ruling),
}

/// Why a connection is not followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// What it carries is blocked.
    Blocked(Ruling),
    /// It cannot be followed, and why.
    Lost(&'static str),
}

/// The answer about one packet.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) verdict: Option<Verdict>,
    /// Its payload is to be replaced by this one.
    pub(super) rewritten: Option<Vec<u8>>,
    /// What may happen to further packets unasked, if that changes with this one.
    pub(super) offload: Option<Offload>,
    pub(super) stop: Option<Stop>,
}

/// Who reads the bytes.
#[derive(Debug)]
enum Reader {
    /// Nobody yet; they are kept in the order of their arrival.
    Waiting(Vec<(Direction, Vec<u8>)>, usize),
    Reading(Box<dyn Decoder>),
}

/// A connection whose contents are followed.
#[derive(Debug)]
pub(super) struct Content {
    ways: Both<Way>,
    reader: Reader,
    output: Output<u64>,
    window: usize,
    /// Packets may be held; while observing they are not.
    holds: bool,
    /// So many bytes of the server's go by unseen, the rest of a file.
    unseen: Option<u64>,
    /// Some of what passed unasked is not known: reading begins behind all of it.
    skipped: bool,
    /// Who carries packets is told that all of them come here.
    watched: bool,
    /// It was said that it waits for its time.
    timed: bool,
    /// Its packets go on in this class; all of them come here, because marks have no room for
    /// more.
    class: Option<usize>,
    /// Requests must not ask for coded files: those are to be scanned.
    uncoded: bool,
    /// Directions of which a packet was seen.
    heard: [bool; 2],
}

impl Content {
    /// Follows a connection from its next packet on. `window`: bytes of a file that are scanned at
    /// once; `holds`: packets wait for their scan; `fast_pass`: those behind a gap do not wait
    /// until it is filled.
    pub(super) fn new(window: usize, holds: bool, fast_pass: bool) -> Self {
        let mut ways: Both<Way> = Both::default();
        if holds && !fast_pass {
            for way in ways.iter_mut() {
                way.wait_behind_gaps();
            }
        }
        Self {
            ways,
            reader: Reader::Waiting(Vec::new(), 0),
            output: Output::default(),
            window,
            holds,
            unseen: None,
            skipped: false,
            watched: false,
            timed: false,
            class: None,
            uncoded: false,
            heard: [false; 2],
        }
    }

    /// Says whether packets wait for their scan from now on; answers those that wait no more.
    pub(super) fn set_holds(&mut self, holds: bool) -> Vec<u64> {
        self.holds = holds;
        if holds { Vec::new() } else { self.take_held() }
    }

    /// Memory that it holds.
    pub(super) fn held(&self) -> usize {
        let reader = match &self.reader {
            Reader::Waiting(_, bytes) => *bytes,
            Reader::Reading(decoder) => decoder.held(),
        };
        self.ways.iter().fold(reader, |sum, way| {
            let file = way.transfer.as_ref().map_or(0, |file| {
                file.window.capacity().saturating_add(file.piece.capacity())
            });
            sum.saturating_add(way.stream.held()).saturating_add(file)
        })
    }

    /// Gives it to a decoder, which reads from the beginning. What it finds there is the packet's
    /// that just came.
    pub(super) fn read_by(
        &mut self,
        decoder: Box<dyn Decoder>,
        class: Option<usize>,
        counsel: &mut dyn Counsel,
    ) -> Option<Stop> {
        self.class = class;
        let waiting = std::mem::replace(&mut self.reader, Reader::Reading(decoder));
        let Reader::Waiting(pieces, _) = waiting else {
            return None;
        };
        for (direction, bytes) in pieces {
            let stop = self.read(direction, &bytes, counsel);
            if stop.is_some() {
                return stop;
            }
        }
        None
    }

    /// From now on requests ask for no coded files, which could not be scanned.
    pub(super) fn forbid_codings(&mut self) {
        self.uncoded = true;
    }

    /// A packet of the direction would begin the head of a message.
    fn begins_head(&self, direction: Direction) -> bool {
        match &self.reader {
            Reader::Reading(decoder) => self.uncoded && decoder.begins_head(direction),
            Reader::Waiting(..) => false,
        }
    }

    /// The payload of a request that accepts no coding, of the same length, if it asks for one.
    pub(super) fn without_codings(&self, payload: &[u8]) -> Option<Vec<u8>> {
        self.uncoded.then(|| without_codings(payload)).flatten()
    }

    /// What a segment says of the other direction's bytes.
    fn take_acknowledgement(&mut self, direction: Direction, tcp: &Tcp) -> Option<Stop> {
        if !tcp.ack {
            return None;
        }
        let stream = &mut self.way(direction.other()).stream;
        if tcp.syn {
            stream.begin(tcp.acknowledged);
        }
        if stream.has_missed(tcp.acknowledged) {
            return Some(Stop::Lost("bytes came by unseen"));
        }
        stream.handle_acknowledgement(tcp.acknowledged);
        None
    }

    /// Takes in a packet. `room` is how many more bytes all connections together may hold.
    pub(super) fn handle_packet(
        &mut self,
        now: Duration,
        direction: Direction,
        (packet, token): (&Packet<'_>, u64),
        room: usize,
        counsel: &mut dyn Counsel,
    ) -> Answer {
        let (Some(segment), Some(tcp)) = (Segment::of(packet, token), packet.tcp) else {
            return Answer::default();
        };
        if let Some(reason) = self.unfollowable(direction, packet) {
            return Answer {
                stop: Some(Stop::Lost(reason)),
                ..Answer::default()
            };
        }
        let at_head = self.begins_head(direction);
        if let Some(answer) = self.by_unseen(direction, &segment, tcp.acknowledged, counsel) {
            return answer;
        }
        if let Some(stop) = self.take_acknowledgement(direction, &tcp) {
            return Answer {
                stop: Some(stop),
                ..Answer::default()
            };
        }
        let mut answer = Answer::default();
        if token == PASSED && self.skip(direction, packet, &segment) {
            return answer;
        }
        self.output.clear();
        let mut output = std::mem::take(&mut self.output);
        let way = self.way(direction);
        let ended = way.stream.is_ended();
        let decision = way.stream.handle_segment(now, &segment, room, &mut output);
        let place = match decision {
            Decision::Pass => Place::Old,
            Decision::Deliver => Place::Next,
            Decision::Ahead => Place::Ahead,
            Decision::Conflict(place) => {
                answer.rewritten = Some(std::mem::take(&mut output.rewritten));
                place
            }
            Decision::Drop(_) => {
                answer.verdict = Some(Verdict::DROP);
                Place::Old
            }
            Decision::Lost(loss) => {
                answer.stop = Some(Stop::Lost(loss.name()));
                Place::Old
            }
        };
        if answer.stop.is_none() && place == Place::Next {
            self.go_on(direction, (&output, ended, room), &mut answer, counsel);
        }
        if answer.verdict.is_none() && answer.stop.is_none() {
            let waits =
                place == Place::Ahead && self.way(direction).waits_behind_gap(packet, token);
            answer.verdict = Some(match waits {
                true => Verdict::HOLD,
                false => self.place_now(now, direction, (packet, token)),
            });
            answer.offload = answer.offload.or_else(|| self.watch());
        }
        if at_head && answer.rewritten.is_none() && answer.stop.is_none() {
            answer.rewritten = self.without_codings(packet.payload);
        }
        self.way(direction).end_waits(now, &output);
        self.output = output;
        answer
    }

    /// Reads the next bytes of a direction. `ended`: it had ended before.
    fn go_on(
        &mut self,
        direction: Direction,
        (output, ended, room): (&Output<u64>, bool, usize),
        answer: &mut Answer,
        counsel: &mut dyn Counsel,
    ) {
        answer.stop = self.read(direction, &output.bytes, counsel);
        if room < SCARCE_CONTENT {
            self.way(direction).give_away(direction, counsel);
        }
        if answer.stop.is_none() && !ended && self.way(direction).stream.is_ended() {
            answer.stop = self.end(direction, counsel);
        }
        self.way(direction).decide_tail();
        if answer.stop.is_none() && answer.rewritten.is_none() {
            answer.offload = self.look_away(direction);
        }
    }

    /// Why a packet makes the connection one that cannot be followed.
    fn unfollowable(&mut self, direction: Direction, packet: &Packet<'_>) -> Option<&'static str> {
        if is_urgent(packet) {
            return Some("urgent data, which some receivers leave out");
        }
        if let Some(heard) = self.heard.get_mut(direction.slot()) {
            *heard = true;
        }
        // Data come after the other side's SYN, unless they come with the first one (RFC 7413).
        let answered = self.heard.get(direction.other().slot()) == Some(&true);
        let opens = packet.tcp.is_some_and(|tcp| tcp.syn);
        (!answered && !opens && packet.wire_payload() > 0)
            .then_some("only one direction comes by here")
    }

    /// A packet that has passed unasked and came here without its end, or one after such a one. No
    /// message that anybody wants to read begins in what passes unasked, so that nothing is
    /// lost if reading begins behind it.
    fn skip(
        &mut self,
        direction: Direction,
        packet: &Packet<'_>,
        segment: &Segment<'_, u64>,
    ) -> bool {
        let length = packet.wire_payload();
        let unread = matches!(self.reader, Reader::Waiting(..));
        let known = !(segment.truncated || self.skipped);
        if known || !unread || length == 0 || segment.syn || segment.rst {
            return false;
        }
        if !self.way(direction).stream.skip(segment.sequence, length) {
            return false;
        }
        self.reader = Reader::Waiting(Vec::new(), 0);
        self.skipped = true;
        true
    }

    /// What is read has to come here, whole and with its acknowledgements; said once.
    fn watch(&mut self) -> Option<Offload> {
        let new = matches!(self.reader, Reader::Reading(_)) && !self.watched;
        self.watched |= new;
        new.then(|| self.class.map_or(Offload::Watched, Offload::WatchedIn))
    }

    /// Lets the rest of a file go by unseen, if nobody need look at it: it is neither scanned nor
    /// written down, its end is known, and nothing can follow it that the client does not ask
    /// for first.
    fn look_away(&mut self, direction: Direction) -> Option<Offload> {
        let Reader::Reading(decoder) = &self.reader else {
            return None;
        };
        let bytes = decoder.certain_data(direction);
        if direction != Direction::FromServer || bytes < MIN_UNSEEN || self.class.is_some() {
            return None;
        }
        let way = self.ways.get(direction);
        let idle = way.transfer.as_ref().is_some_and(Transfer::is_passed_on);
        let quiet = self
            .ways
            .iter()
            .all(|way| way.held.is_empty() && way.stream.is_contiguous());
        if !idle || !quiet {
            return None;
        }
        self.unseen = Some(bytes);
        self.watched = false;
        Some(Offload::AnswersPass)
    }

    /// The answer about a packet that comes while the rest of a file goes by unseen; `None` if all
    /// is read again from it on.
    fn by_unseen(
        &mut self,
        direction: Direction,
        segment: &Segment<'_, u64>,
        acknowledged: u32,
        counsel: &mut dyn Counsel,
    ) -> Option<Answer> {
        self.unseen?;
        if direction == Direction::FromServer {
            return Some(Answer {
                verdict: Some(Verdict::ACCEPT),
                ..Answer::default()
            });
        }
        if segment.payload.is_empty() {
            return Some(Answer::default());
        }
        self.look_again(acknowledged, counsel).map(|stop| Answer {
            stop: Some(stop),
            ..Answer::default()
        })
    }

    /// The client says something while the server's bytes go by unseen: they are read again from
    /// the file's end on.
    fn look_again(&mut self, acknowledged: u32, counsel: &mut dyn Counsel) -> Option<Stop> {
        let bytes = self.unseen.take()?;
        let direction = Direction::FromServer;
        if !self.way(direction).stream.pass_over(bytes, acknowledged) {
            return Some(Stop::Lost("a request before the end of a large file"));
        }
        self.decode(direction, counsel, |decoder, tell| {
            decoder.handle_unseen(direction, bytes, tell);
        })
    }

    /// What becomes of a packet whose bytes were taken in.
    pub(super) fn place_now(
        &mut self,
        now: Duration,
        direction: Direction,
        (packet, token): (&Packet<'_>, u64),
    ) -> Verdict {
        if self.holds {
            self.way(direction).place(now, packet, token)
        } else {
            Verdict::ACCEPT
        }
    }

    /// The next packet that has waited long enough, and whether it goes on.
    pub(super) fn poll_released(&mut self) -> Option<(u64, bool)> {
        self.ways.iter_mut().find_map(|way| {
            if let Some(token) = way.refused.pop() {
                return Some((token, false));
            }
            let first = way.held.front()?;
            let due = first.needs.is_some_and(|needs| needs <= way.clean);
            if due {
                way.held.pop_front().map(|held| (held.token, true))
            } else {
                None
            }
        })
    }

    /// All packets that wait, in no order; they are not waited for any more.
    pub(super) fn take_held(&mut self) -> Vec<u64> {
        self.ways
            .iter_mut()
            .flat_map(|way| way.take_held())
            .collect()
    }

    /// A whole file counts once this window is clean.
    pub(super) fn wait_for(&mut self, (direction, window): (Direction, u32), part: FilePart) {
        self.way(direction).whole.push_back((window, part));
    }

    /// Audited files under way, which will have no end. `passed`: whole ones that wait for their
    /// scan count all the same.
    pub(super) fn cut_off(&mut self, passed: bool) -> Vec<FilePart> {
        let mut parts = Vec::new();
        for way in self.ways.iter_mut() {
            parts.extend(way.whole.drain(..).map(|(_, part)| match passed {
                true => part,
                false => FilePart {
                    end: Some(FileEnd::CutOff),
                    ..part
                },
            }));
            parts.extend(way.transfer.as_mut().and_then(cut_off));
        }
        parts
    }

    /// Bytes of the file under way in a direction that have gone on.
    pub(super) fn delivered(&self, direction: Direction) -> Option<u64> {
        self.ways.get(direction).delivered()
    }

    /// The first packet that waits in a direction, as what breaks the connection if it is dropped.
    pub(super) fn first_held(&self, direction: Direction) -> Option<Broken> {
        let way = self.ways.get(direction);
        way.held.front().map(|held| held.broken)
    }

    /// A window was found clean; answers files that are whole with it.
    pub(super) fn handle_clean(&mut self, direction: Direction, number: u32) -> Vec<FilePart> {
        let way = self.way(direction);
        way.clean = way.clean.max(number.min(way.issued));
        let mut whole = Vec::new();
        while way
            .whole
            .front()
            .is_some_and(|(window, _)| *window <= way.clean)
        {
            whole.extend(way.whole.pop_front().map(|(_, part)| part));
        }
        whole
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.ways
            .iter()
            .flat_map(|way| [way.pause, way.stream.poll_timeout()])
            .flatten()
            .min()
    }

    /// Whether it has come to wait for its time; said once until [`end_wait`](Self::end_wait).
    pub(super) fn begins_to_wait(&mut self) -> bool {
        let begins = !self.timed && self.poll_timeout().is_some();
        self.timed |= begins;
        begins
    }

    /// It waits for nothing any more.
    pub(super) fn end_wait(&mut self) {
        self.timed = false;
    }

    /// Does what is due: scans what there is when a file of unknown length pauses, gives up what
    /// has a gap for too long.
    pub(super) fn handle_timeout(
        &mut self,
        now: Duration,
        counsel: &mut dyn Counsel,
    ) -> Option<Stop> {
        for direction in [Direction::FromClient, Direction::FromServer] {
            let mut output = std::mem::take(&mut self.output);
            let way = self.way(direction);
            output.clear();
            let lost = way.stream.handle_timeout(now, &mut output);
            way.end_waits(now, &output);
            if way.pause.is_some_and(|pause| pause <= now) {
                way.pause = None;
                way.scan_rest(direction, false, counsel);
                for held in way.held.iter_mut().filter(|held| held.needs.is_none()) {
                    held.needs = Some(way.issued);
                }
            }
            self.output = output;
            if let Some(loss) = lost {
                return Some(Stop::Lost(loss.name()));
            }
        }
        None
    }

    fn way(&mut self, direction: Direction) -> &mut Way {
        self.ways.of(direction)
    }

    fn read(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        counsel: &mut dyn Counsel,
    ) -> Option<Stop> {
        match &mut self.reader {
            Reader::Waiting(pieces, total) => {
                *total = total.saturating_add(bytes.len());
                if *total > MAX_EARLY {
                    return Some(Stop::Lost("too much before the application was known"));
                }
                pieces.push((direction, bytes.to_vec()));
                None
            }
            Reader::Reading(_) => self.decode(direction, counsel, |decoder, tell| {
                decoder.handle_data(direction, bytes, tell);
            }),
        }
    }

    /// Lets the decoder work, if there is one, and does with what it tells what the policy says.
    fn decode(
        &mut self,
        direction: Direction,
        counsel: &mut dyn Counsel,
        work: impl FnOnce(&mut dyn Decoder, &mut dyn FnMut(Seen<'_>)),
    ) -> Option<Stop> {
        let Reader::Reading(decoder) = &mut self.reader else {
            return None;
        };
        let mut course = Course {
            ways: &mut self.ways,
            direction,
            window: self.window,
            counsel,
            stop: None,
        };
        work(decoder.as_mut(), &mut |seen| course.take(seen));
        course.stop
    }

    fn end(&mut self, direction: Direction, counsel: &mut dyn Counsel) -> Option<Stop> {
        if matches!(self.reader, Reader::Waiting(..)) {
            return None;
        }
        let stop = self.decode(direction, counsel, |decoder, tell| {
            decoder.handle_end(direction, tell);
        });
        // What ends without its end is cut off; what came of it is scanned before the end goes on.
        self.way(direction).scan_rest(direction, true, counsel);
        stop
    }
}

/// What a decoder tells, on its way into the connection's state.
struct Course<'a> {
    ways: &'a mut Both<Way>,
    direction: Direction,
    window: usize,
    counsel: &'a mut dyn Counsel,
    stop: Option<Stop>,
}

impl Course<'_> {
    fn take(&mut self, seen: Seen<'_>) {
        if self.stop.is_some() {
            return;
        }
        match seen {
            Seen::Offer(head) => {
                let ruling = self.counsel.judge(&Item::File(head.facts()));
                if ruling.action == Action::Block {
                    self.counsel.note(Note::Refused(head, ruling));
                    self.stop = Some(Stop::Blocked(ruling));
                }
            }
            Seen::Begin(head) => self.begin(head),
            Seen::Data(bytes) => self.data(bytes),
            Seen::End => self.finish(),
            Seen::Message(message) => {
                let ruling = self.counsel.judge(&Item::Message(&message.text));
                if ruling.action == Action::Block {
                    self.stop = Some(Stop::Blocked(ruling));
                }
                if ruling.audit || ruling.action == Action::Block {
                    self.counsel.note(Note::Message(message, ruling));
                }
            }
            Seen::Expect(expected) => self.counsel.expect(expected),
            Seen::Lost(reason) => self.stop = Some(Stop::Lost(reason)),
        }
    }

    fn begin(&mut self, head: FileHead) {
        let ruling = self.counsel.judge(&Item::File(head.facts()));
        if ruling.action == Action::Block {
            self.counsel.note(Note::Refused(head, ruling));
            self.stop = Some(Stop::Blocked(ruling));
            return;
        }
        let ruling = match self.unreadable(&head, &ruling) {
            Some(reason) => {
                let failure = self.counsel.failure(&ruling);
                self.counsel
                    .note(Note::Unreadable(head.clone(), ruling, reason, failure));
                if failure == Failure::Closed {
                    self.stop = Some(Stop::Blocked(Ruling {
                        action: Action::Block,
                        ..ruling
                    }));
                    return;
                }
                Ruling {
                    action: Action::Allow,
                    ..ruling
                }
            }
            None => ruling,
        };
        let direction = self.direction;
        let way = self.ways.of(direction);
        // One that has no end was cut off by this one; what came of it is looked at all the same.
        way.scan_rest(direction, true, self.counsel);
        if let Some(part) = way.transfer.as_mut().and_then(cut_off) {
            self.counsel.part(part);
        }
        let number = if ruling.audit {
            self.counsel.number()
        } else {
            0
        };
        let hold_first = self.counsel.holds_first(&ruling);
        way.transfer = Some(Transfer::new(head, ruling, (number, hold_first)));
    }

    /// Why a scanner would not see the file itself.
    fn unreadable(&self, head: &FileHead, ruling: &Ruling) -> Option<&'static str> {
        match head.form {
            _ if ruling.action != Action::Scan => None,
            FileForm::Whole => None,
            FileForm::Part if self.counsel.scans_parts(ruling) => None,
            FileForm::Part => Some("a part of a file comes by itself"),
            FileForm::Encoded => Some("the file comes in a coding"),
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        let (direction, window) = (self.direction, self.window);
        self.ways
            .of(direction)
            .take_in(direction, bytes, window, self.counsel);
    }

    fn finish(&mut self) {
        let direction = self.direction;
        let way = self.ways.of(direction);
        way.scan_rest(direction, true, self.counsel);
        let Some(mut file) = way.transfer.take() else {
            return;
        };
        if file.ruling.audit {
            let rest = file.part(None);
            let scanned = match file.ruling.action {
                Action::Scan => (direction, way.issued),
                _ => (direction, 0),
            };
            self.counsel.note(Note::File {
                scanned,
                head: file.head,
                ruling: file.ruling,
                bytes: file.bytes,
                rest,
            });
        }
    }
}

/// A byte of it is urgent (RFC 9293 §3.8.5): receivers differ in whether it is part of the stream.
fn is_urgent(packet: &Packet<'_>) -> bool {
    const URGENT: u8 = 0x20;
    let flags = packet.segment.get(13).copied().unwrap_or(0);
    flags & URGENT != 0
}

/// A request's head with blanks in place of the codings that it accepts (RFC 9110 §12.5.3: an empty
/// field accepts none). `None`: it names none, or is no head.
fn without_codings(payload: &[u8]) -> Option<Vec<u8>> {
    const FIELD: &[u8] = b"\naccept-encoding:";
    let end = payload.windows(4).position(|window| window == b"\r\n\r\n");
    let head = payload.get(..end.unwrap_or(payload.len()))?;
    let at = head
        .windows(FIELD.len())
        .position(|window| window.eq_ignore_ascii_case(FIELD))?;
    let from = at.checked_add(FIELD.len())?;
    let value = head.get(from..)?;
    let length = value
        .iter()
        .position(|&byte| byte == b'\r')
        .unwrap_or(value.len());
    let mut rewritten = payload.to_vec();
    let value = rewritten.get_mut(from..from.checked_add(length)?)?;
    if value.trim_ascii().is_empty() {
        return None;
    }
    value.fill(b' ');
    Some(rewritten)
}

/// Says of an audited file that it has no end.
fn cut_off(file: &mut Transfer) -> Option<FilePart> {
    let audited = file.ruling.audit;
    audited.then(|| file.part(Some(FileEnd::CutOff)))
}
