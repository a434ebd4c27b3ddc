//! One followed connection: its bytes in order, the files and messages in them, and the packets
//! that wait for a scan.
//!
//! A connection is followed from its first packet on when rules on content might concern it,
//! because what it carries first (a file's name) comes before anybody knows which application it
//! is. Its bytes are kept until then, and read from the beginning.
//!
//! **How a scan holds.** Packets go on while a window of a file fills. The packet that completes a
//! window waits until the window was found clean. Packets with data or a FIN that follow it in its
//! direction wait behind it, so the last packet of a file is never at its receiver before all of
//! the file was found clean. Where a file's length is not known, each packet might be the last: it
//! waits for the next one, for the end, or for a pause, upon which what there is of the window is
//! scanned.

mod codings;
mod context;
mod half_stream;
mod sink;

use std::time::Duration;

pub(super) use self::context::ContentContext;
use self::half_stream::{HalfStream, Transfer};
use self::sink::DecoderSink;
use super::machine::QueuedPacket;
use super::reset::Broken;
use super::{FileEnd, FilePart, Offload, PASSED, Verdict};
use crate::flow::{Both, Direction};
use crate::inspect::{Decoder, Seen};
use crate::limits::{MAX_EARLY, MIN_UNSEEN, SCARCE_CONTENT};
use crate::packet::{Packet, Tcp};
use crate::policy::Ruling;
use crate::stream::{Decision, Output, Position, Segment};

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

impl Answer {
    /// Takes in the stream's decision on the packet's bytes; returns where they are in the stream.
    fn decided(&mut self, decision: Decision, output: &mut Output<u64>) -> Position {
        match decision {
            Decision::Pass => Position::Old,
            Decision::Deliver => Position::Next,
            Decision::Ahead => Position::Ahead,
            Decision::Conflict(position) => {
                self.rewritten = Some(std::mem::take(&mut output.rewritten));
                position
            }
            Decision::Drop(_) => {
                self.verdict = Some(Verdict::DROP);
                Position::Old
            }
            Decision::Lost(loss) => {
                self.stop = Some(Stop::Lost(loss.name()));
                Position::Old
            }
        }
    }
}

/// Who reads the bytes.
#[derive(Debug)]
enum Reader {
    /// None yet; the bytes are kept in the order of their arrival.
    Waiting(Vec<(Direction, Vec<u8>)>, usize),
    Reading(Box<dyn Decoder>),
}

/// A connection whose contents are followed.
#[derive(Debug)]
pub(super) struct Content {
    halves: Both<HalfStream>,
    reader: Reader,
    output: Output<u64>,
    window: usize,
    /// Packets may be held; while observing they are not.
    holds: bool,
    /// So many bytes of the server's go by unseen, the rest of a file.
    unseen: Option<u64>,
    /// Some of what passed unasked is not known: reading begins behind all of it.
    skipped: bool,
    /// The queue's side knows that all of its packets come here.
    watched: bool,
    /// It was reported that it waits for its time.
    timed: bool,
    /// Its packets go on in this class; all of them come here, because marks have no room for
    /// more.
    class: Option<usize>,
    /// Requests must not ask for coded files: those are to be scanned.
    uncoded: bool,
    /// Directions of which a packet was seen.
    seen: [bool; 2],
}

impl Content {
    /// Follows a connection from its next packet on. `window`: bytes of a file that are scanned at
    /// once; `holds`: packets wait for their scan; `fast_pass`: those behind a gap do not wait
    /// until it is filled.
    pub(super) fn new(window: usize, holds: bool, fast_pass: bool) -> Self {
        let mut halves: Both<HalfStream> = Both::default();
        if holds && !fast_pass {
            for half in halves.iter_mut() {
                half.wait_behind_gaps();
            }
        }
        Self {
            halves,
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
            seen: [false; 2],
        }
    }

    /// Sets whether packets wait for their scan from now on; returns those that wait no more.
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
        self.halves.iter().fold(reader, |sum, half| {
            let file = half.transfer.as_ref().map_or(0, |file| {
                file.window.capacity().saturating_add(file.piece.capacity())
            });
            sum.saturating_add(half.stream.held()).saturating_add(file)
        })
    }

    /// Its packets go on in this class from now on.
    pub(super) fn set_class(&mut self, class: Option<usize>) {
        self.class = class;
    }

    /// Gives it to a decoder, which reads from the beginning. What it finds there is the packet's
    /// that just came.
    pub(super) fn read_by(
        &mut self,
        decoder: Box<dyn Decoder>,
        context: &mut ContentContext<'_>,
    ) -> Option<Stop> {
        self.class = context.class();
        let waiting = std::mem::replace(&mut self.reader, Reader::Reading(decoder));
        let Reader::Waiting(pieces, _) = waiting else {
            return None;
        };
        for (direction, bytes) in pieces {
            let stop = self.read(direction, &bytes, context);
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
        self.uncoded.then(|| codings::blanked(payload)).flatten()
    }

    /// What a segment acknowledges of the other direction's bytes.
    fn take_acknowledgement(&mut self, direction: Direction, tcp: &Tcp) -> Option<Stop> {
        if !tcp.ack {
            return None;
        }
        let stream = &mut self.half(direction.other()).stream;
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
        direction: Direction,
        queued: QueuedPacket<'_>,
        room: usize,
        context: &mut ContentContext<'_>,
    ) -> Answer {
        let QueuedPacket { packet, token, .. } = queued;
        let (Some(segment), Some(tcp)) = (Segment::of(packet, token), packet.tcp) else {
            return Answer::default();
        };
        if let Some(reason) = self.unfollowable(direction, packet) {
            return Answer {
                stop: Some(Stop::Lost(reason)),
                ..Answer::default()
            };
        }
        // Asked before its bytes are read: after that this head is no longer the next one.
        let at_head = self.begins_head(direction);
        if let Some(answer) = self.by_unseen(direction, &segment, tcp.acknowledged, context) {
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
        // Taken out while the calls below borrow all of `self`.
        let mut output = std::mem::take(&mut self.output);
        let half = self.half(direction);
        let ended = half.stream.is_ended();
        let decision = half
            .stream
            .handle_segment(context.now, &segment, room, &mut output);
        let position = answer.decided(decision, &mut output);
        if answer.stop.is_none() && position == Position::Next {
            let scarce = room < SCARCE_CONTENT;
            answer.stop = self.read_on(direction, &output.bytes, scarce, context);
            if answer.stop.is_none() && !ended && self.half(direction).stream.is_ended() {
                answer.stop = self.end(direction, context);
            }
            self.half(direction).decide_tail();
            if answer.stop.is_none() && answer.rewritten.is_none() {
                answer.offload = self.look_away(direction);
            }
        }
        if answer.verdict.is_none() && answer.stop.is_none() {
            let ahead = position == Position::Ahead;
            answer.verdict = Some(if ahead && self.half(direction).waits_behind_gap(queued) {
                Verdict::HOLD
            } else {
                self.hold_or_accept(context.now, direction, queued)
            });
            answer.offload = answer.offload.or_else(|| self.watch());
        }
        if at_head && answer.rewritten.is_none() && answer.stop.is_none() {
            answer.rewritten = self.without_codings(packet.payload);
        }
        self.half(direction).end_waits(context.now, &output);
        self.output = output;
        answer
    }

    /// Reads the next bytes of a direction. `scarce`: memory is, and what waits is handed on.
    fn read_on(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        scarce: bool,
        context: &mut ContentContext<'_>,
    ) -> Option<Stop> {
        let stop = self.read(direction, bytes, context);
        if scarce {
            self.half(direction).give_away(direction, context);
        }
        stop
    }

    /// Why a packet makes the connection one that cannot be followed.
    fn unfollowable(&mut self, direction: Direction, packet: &Packet<'_>) -> Option<&'static str> {
        if is_urgent(packet) {
            return Some("urgent data, which some receivers leave out");
        }
        if let Some(seen) = self.seen.get_mut(direction.slot()) {
            *seen = true;
        }
        // Data come after the other side's SYN, unless they come with the first one (RFC 7413).
        let answered = self.seen.get(direction.other().slot()) == Some(&true);
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
        if !self.half(direction).stream.skip(segment.sequence, length) {
            return false;
        }
        self.reader = Reader::Waiting(Vec::new(), 0);
        self.skipped = true;
        true
    }

    /// What is read has to come here, whole and with its acknowledgements; returned once.
    fn watch(&mut self) -> Option<Offload> {
        let new = matches!(self.reader, Reader::Reading(_)) && !self.watched;
        self.watched |= new;
        new.then(|| self.class.map_or(Offload::Watched, Offload::WatchedIn))
    }

    /// Lets the rest of a file go by unseen, if it need not be read: it is neither scanned nor
    /// written down, its end is known, and nothing can follow it that the client does not ask for
    /// first.
    fn look_away(&mut self, direction: Direction) -> Option<Offload> {
        let Reader::Reading(decoder) = &self.reader else {
            return None;
        };
        let bytes = decoder.certain_data(direction);
        if direction != Direction::FromServer || bytes < MIN_UNSEEN || self.class.is_some() {
            return None;
        }
        let half = self.halves.get(direction);
        let idle = half.transfer.as_ref().is_some_and(Transfer::is_passed_on);
        let quiet = self
            .halves
            .iter()
            .all(|half| half.held.is_empty() && half.stream.is_contiguous());
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
        context: &mut ContentContext<'_>,
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
        self.look_again(acknowledged, context).map(|stop| Answer {
            stop: Some(stop),
            ..Answer::default()
        })
    }

    /// The client sends something while the server's bytes go by unseen: they are read again from
    /// the file's end on.
    fn look_again(&mut self, acknowledged: u32, context: &mut ContentContext<'_>) -> Option<Stop> {
        let bytes = self.unseen.take()?;
        let direction = Direction::FromServer;
        if !self.half(direction).stream.pass_over(bytes, acknowledged) {
            return Some(Stop::Lost("a request before the end of a large file"));
        }
        self.decode(direction, context, |decoder, emit| {
            decoder.handle_unseen(direction, bytes, emit);
        })
    }

    /// What becomes of a packet whose bytes were taken in.
    pub(super) fn hold_or_accept(
        &mut self,
        now: Duration,
        direction: Direction,
        packet: QueuedPacket<'_>,
    ) -> Verdict {
        if self.holds {
            self.half(direction).hold_or_accept(now, packet)
        } else {
            Verdict::ACCEPT
        }
    }

    /// The next packet that has waited long enough, and whether it goes on.
    pub(super) fn poll_released(&mut self) -> Option<(u64, bool)> {
        self.halves.iter_mut().find_map(|half| {
            if let Some(token) = half.refused.pop() {
                return Some((token, false));
            }
            let first = half.held.front()?;
            let due = first.needs.is_some_and(|needs| needs <= half.clean);
            if due {
                half.held.pop_front().map(|held| (held.token, true))
            } else {
                None
            }
        })
    }

    /// All packets that wait, in no order; they are not waited for any more.
    pub(super) fn take_held(&mut self) -> Vec<u64> {
        self.halves
            .iter_mut()
            .flat_map(HalfStream::take_held)
            .collect()
    }

    /// Audited files under way, which will have no end. `passed`: whole ones that wait for their
    /// scan count all the same.
    pub(super) fn cut_off(&mut self, passed: bool) -> Vec<FilePart> {
        let mut parts = Vec::new();
        for half in self.halves.iter_mut() {
            for (_, mut part) in half.whole.drain(..) {
                if !passed {
                    part.end = Some(FileEnd::CutOff);
                }
                parts.push(part);
            }
            parts.extend(half.transfer.as_mut().and_then(Transfer::cut_off));
        }
        parts
    }

    /// Bytes that have gone on of the file that is under way in a direction, or that has ended
    /// there with `whole` bytes.
    pub(super) fn delivered(&self, direction: Direction, whole: u64) -> u64 {
        self.halves.get(direction).delivered(whole)
    }

    /// The first packet that waits in a direction, as what breaks the connection if it is dropped.
    pub(super) fn first_held(&self, direction: Direction) -> Option<Broken> {
        let half = self.halves.get(direction);
        half.held.front().map(|held| held.broken)
    }

    /// A window was found clean; returns files that are whole with it.
    pub(super) fn handle_clean(&mut self, direction: Direction, number: u32) -> Vec<FilePart> {
        let half = self.half(direction);
        half.clean = half.clean.max(number.min(half.issued));
        let mut whole = Vec::new();
        while half
            .whole
            .front()
            .is_some_and(|(window, _)| *window <= half.clean)
        {
            whole.extend(half.whole.pop_front().map(|(_, part)| part));
        }
        whole
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.halves
            .iter()
            .flat_map(|half| [half.pause, half.stream.poll_timeout()])
            .flatten()
            .min()
    }

    /// Whether it has come to wait for its time; returned once until [`end_wait`](Self::end_wait).
    pub(super) fn begin_wait(&mut self) -> bool {
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
    pub(super) fn handle_timeout(&mut self, context: &mut ContentContext<'_>) -> Option<Stop> {
        let now = context.now;
        for direction in [Direction::FromClient, Direction::FromServer] {
            // Taken out while `half` borrows `self`.
            let mut output = std::mem::take(&mut self.output);
            let half = self.half(direction);
            output.clear();
            let lost = half.stream.handle_timeout(now, &mut output);
            half.end_waits(now, &output);
            if half.pause.is_some_and(|pause| pause <= now) {
                half.pause = None;
                half.scan_rest(direction, false, context);
                for held in half.held.iter_mut().filter(|held| held.needs.is_none()) {
                    held.needs = Some(half.issued);
                }
            }
            self.output = output;
            if let Some(loss) = lost {
                return Some(Stop::Lost(loss.name()));
            }
        }
        None
    }

    fn half(&mut self, direction: Direction) -> &mut HalfStream {
        self.halves.of(direction)
    }

    fn read(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        context: &mut ContentContext<'_>,
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
            Reader::Reading(_) => self.decode(direction, context, |decoder, emit| {
                decoder.handle_data(direction, bytes, emit);
            }),
        }
    }

    /// Lets the decoder work, if there is one, and applies the policy to what it emits.
    fn decode(
        &mut self,
        direction: Direction,
        context: &mut ContentContext<'_>,
        work: impl FnOnce(&mut dyn Decoder, &mut dyn FnMut(Seen<'_>)),
    ) -> Option<Stop> {
        let Reader::Reading(decoder) = &mut self.reader else {
            return None;
        };
        let mut sink = DecoderSink {
            halves: &mut self.halves,
            direction,
            window: self.window,
            context,
            stop: None,
        };
        work(decoder.as_mut(), &mut |seen| sink.take(seen));
        sink.stop
    }

    fn end(&mut self, direction: Direction, context: &mut ContentContext<'_>) -> Option<Stop> {
        if matches!(self.reader, Reader::Waiting(..)) {
            return None;
        }
        let stop = self.decode(direction, context, |decoder, emit| {
            decoder.handle_end(direction, emit);
        });
        // What ends without its end is cut off; what came of it is scanned before the end goes on.
        self.half(direction).scan_rest(direction, true, context);
        stop
    }
}

/// A byte of it is urgent (RFC 9293 §3.8.5): receivers differ in whether it is part of the stream.
fn is_urgent(packet: &Packet<'_>) -> bool {
    const URGENT: u8 = 0x20;
    let flags = packet.segment.get(13).copied().unwrap_or(0);
    flags & URGENT != 0
}
