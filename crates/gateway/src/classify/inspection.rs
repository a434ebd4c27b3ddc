//! What is known of one flow so far.

use super::lines::Listening;
use super::message::{Announced, Details, Memory};
use super::opening::{Opening, Shape};
use super::{Confidence, UNKNOWN};
use crate::flow::{Direction, Prefix};
use crate::limits::{ETHERNET_SEGMENT, FULL_SEGMENT, ONE_SIDED, SMALL_SEGMENTS};
use crate::packet::{L4, Packet};

/// The application of a flow, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Name of the application.
    pub application: String,
    /// How sure that is.
    pub confidence: Confidence,
    /// The signature's name and what its check saw.
    pub evidence: String,
    /// What else the messages contained.
    pub details: Details,
}

impl Verdict {
    pub(crate) fn unknown(evidence: &str) -> Self {
        Self {
            application: UNKNOWN.to_owned(),
            confidence: Confidence::Guess,
            evidence: evidence.to_owned(),
            details: Details::default(),
        }
    }
}

/// State of the inspection of one flow.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    streams: [Prefix; 2],
    counts: [u8; 2],
    /// Eighths of a packet that segments have made up since the last whole one.
    parts: [u8; 2],
    memory: Memory,
    verdict: Option<Verdict>,
    /// How often there was a better verdict.
    changes: u8,
    /// How often that was one of another application than before.
    renames: u8,
    /// What the standing verdict is a special form of.
    refines: Box<[String]>,
    /// The standing verdict's signature saw bytes that stand there always.
    pattern: bool,
    /// How a flow opens that nothing has named for certain.
    opening: Option<Box<Opening>>,
    /// It began with a request like Skype's.
    asked: bool,
    /// Both sides have opened since the last look.
    opened: bool,
    listening: Option<Box<Listening>>,
    announced: Box<[Announced]>,
    /// Who spoke last, and where in its stream it began to.
    turn: Option<(Direction, u16)>,
    /// Directions that have sent data, and whether one of them was new.
    seen: [bool; 2],
    news: bool,
    /// Others know what is spoken here.
    published: bool,
    /// Its messages may each be about another torrent.
    about_many: bool,
    /// Both sides have had their turn, and nothing has named it.
    overlooked: bool,
    done: bool,
}

impl Inspection {
    /// The best verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// How often there was a better verdict.
    pub(crate) fn changes(&self) -> u8 {
        self.changes
    }

    /// Its messages may each be about another torrent: it is a client's with a tracker or web seed.
    pub(crate) fn is_about_many(&self) -> bool {
        self.about_many
    }

    pub(super) fn note_many(&mut self) {
        self.about_many = true;
    }

    /// What the standing verdict is by are bytes that stand there always, not a form alone.
    pub(super) fn saw_pattern(&self) -> bool {
        self.pattern
    }

    /// How often a better verdict named another application.
    pub(crate) fn renames(&self) -> u8 {
        self.renames
    }

    /// Data packets that were inspected.
    #[must_use]
    pub fn inspected(&self) -> u32 {
        self.counts.iter().map(|&count| u32::from(count)).sum()
    }

    /// There were data, if only a few small segments that make up no whole one.
    pub(crate) fn has_data(&self) -> bool {
        self.seen.contains(&true)
    }

    /// Bytes of stream that are kept, those of a QUIC client's hello and of lines that may announce
    /// included.
    #[must_use]
    pub fn held(&self) -> usize {
        let hello = self.memory.quic.as_ref().map_or(0, |hello| hello.held());
        let lines = self.listening.as_ref().map_or(0, |lines| lines.held());
        self.streams
            .iter()
            .fold(hello.saturating_add(lines), |sum, stream| {
                sum.saturating_add(stream.held())
            })
    }

    /// No further packet will change the verdict.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn count(&self, direction: Direction) -> u8 {
        self.counts
            .get(direction.slot())
            .copied()
            .unwrap_or(u8::MAX)
    }

    pub(super) fn counted(&mut self, direction: Direction) {
        if let Some(count) = self.counts.get_mut(direction.slot()) {
            *count = count.saturating_add(1);
        }
    }

    /// Counts a segment of a stream. Small ones count in part, so that a sender who splits what it
    /// says in many does not get past the inspection; and a little in any case, so that the
    /// inspection ends.
    pub(super) fn counted_segment(&mut self, direction: Direction, length: usize) {
        if length > ETHERNET_SEGMENT {
            self.counted_joined(direction, length);
            return;
        }
        let Some(part) = self.parts.get_mut(direction.slot()) else {
            return;
        };
        let eighths = length.saturating_mul(SMALL_SEGMENTS) / FULL_SEGMENT;
        *part = part.saturating_add(u8::try_from(eighths.max(1)).unwrap_or(u8::MAX));
        if usize::from(*part) >= SMALL_SEGMENTS {
            *part = 0;
            self.counted(direction);
        }
    }

    /// Counts a segment as what it was on the wire, where a card or the kernel may have joined
    /// several.
    pub(super) fn counted_joined(&mut self, direction: Direction, length: usize) {
        // Without timestamps a segment is some bytes longer.
        let packets = u8::try_from(length / ETHERNET_SEGMENT).unwrap_or(u8::MAX);
        if let Some(count) = self.counts.get_mut(direction.slot()) {
            *count = count.saturating_add(packets.max(1));
        }
    }

    /// Both directions have had their turn, or one has gone on for so long that the other will not
    /// say more of it: sooner where it is certain what is spoken. What has no name yet may hide
    /// behind packets of nothing.
    pub(super) fn is_exhausted(&self, l4: L4, packets: u8) -> bool {
        let long = match self.verdict.as_ref().map(|verdict| verdict.confidence) {
            Some(Confidence::Certain) => packets,
            _ => packets.saturating_mul(ONE_SIDED),
        };
        let went_on = self.counts.iter().any(|&count| count >= long);
        // Datagrams may be answered at any time.
        if self.had_turns(packets) {
            went_on || self.verdict.is_some()
        } else {
            went_on && l4 == L4::Tcp
        }
    }

    fn had_turns(&self, packets: u8) -> bool {
        self.counts.iter().all(|&count| count >= packets)
    }

    /// No further packet of this direction is inspected.
    pub(super) fn is_over(&self, direction: Direction, packets: u8) -> bool {
        let most = match self.verdict {
            Some(_) => packets,
            None => packets.saturating_mul(ONE_SIDED),
        };
        self.count(direction) >= most
    }

    /// Both sides have had their turn without giving the flow a name: what comes later is looked at
    /// by itself, and nothing is kept for it.
    pub(super) fn overlook(&mut self, packets: u8) {
        if !self.overlooked && self.verdict.is_none() && self.had_turns(packets) {
            self.overlooked = true;
            self.release();
        }
    }

    /// Both sides have had their turn and nothing had named the flow by then, though something
    /// certain may.
    pub(crate) fn is_overlooked(&self) -> bool {
        self.overlooked
    }

    pub(super) fn stream(&mut self, direction: Direction) -> &mut Prefix {
        let [from_client, from_server] = &mut self.streams;
        match direction {
            Direction::FromClient => from_client,
            Direction::FromServer => from_server,
        }
    }

    pub(super) fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// A message goes on in later packets, which may show more.
    pub(super) fn is_unfinished(&self) -> bool {
        self.memory.unfinished
    }

    /// Measures what a stream brought for as long as the flow is not known better than by a guess.
    pub(super) fn measure(&mut self, direction: Direction, payload: &[u8]) {
        if let Some(opening) = self.measured() {
            let opened = opening.take_in(direction, payload);
            self.opened |= opened;
        }
    }

    /// The same for a datagram, which may come twice.
    pub(super) fn measure_datagram(&mut self, direction: Direction, payload: &[u8]) {
        if let Some(opening) = self.measured()
            && !opening.repeats(direction, payload)
        {
            let opened = opening.take_in(direction, payload);
            self.opened |= opened;
        }
    }

    /// The identifier of a request like Skype's with which the client began, once.
    pub(crate) fn take_request(&mut self) -> Option<u16> {
        if self.asked {
            return None;
        }
        let identifier = self.memory.skype.first_request()?;
        self.asked = true;
        Some(identifier)
    }

    /// The client began with a request like Skype's.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked
    }

    fn measured(&mut self) -> Option<&mut Opening> {
        let known = self.verdict.as_ref().map(|verdict| verdict.confidence);
        if known.is_some_and(|confidence| confidence > Confidence::Guess) {
            self.opening = None;
            return None;
        }
        Some(self.opening.get_or_insert_default())
    }

    /// The shape of the flow's opening, if it looks encrypted.
    pub(crate) fn shape(&self) -> Option<Shape> {
        self.opening.as_ref()?.shape()
    }

    /// The shape, once: when both sides have spoken and the client goes on.
    pub(crate) fn take_opened(&mut self) -> Option<Shape> {
        if std::mem::take(&mut self.opened) {
            self.shape()
        } else {
            None
        }
    }

    /// Where in its stream this direction began to speak, which now goes on at `at` without having
    /// been answered.
    pub(super) fn turn(&mut self, direction: Direction, at: usize) -> usize {
        match self.turn {
            Some((speaker, begun)) if speaker == direction => begun.into(),
            _ => {
                // Small, because each flow has it: no stream is kept for longer (`MAX_PREFIX`).
                self.turn = Some((direction, u16::try_from(at).unwrap_or(u16::MAX)));
                at
            }
        }
    }

    /// Notes that a direction has sent data.
    pub(super) fn hear(&mut self, direction: Direction) {
        if let Some(seen) = self.seen.get_mut(direction.slot()) {
            self.news |= !*seen;
            *seen = true;
        }
    }

    /// Marks that other flows may know what is spoken here; `false` if they do.
    pub(super) fn publish(&mut self) -> bool {
        !std::mem::replace(&mut self.published, true)
    }

    /// The flow may have something new for others: it is inspected or listened to, or a side has
    /// spoken for the first time.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news) || !self.done || self.listening.is_some()
    }

    /// Hears what a conversation announces, also where a message is split; `room` is how many bytes
    /// may still be kept.
    pub(super) fn listen(&mut self, direction: Direction, packet: &Packet<'_>, room: usize) {
        self.take_listener();
        if let Some(listening) = self.listening.as_mut() {
            let heard = listening.hear(direction, packet, room);
            if !heard.is_empty() {
                // Rare, and so kept in as little as it takes.
                let mut announced = self.announced.to_vec();
                announced.extend(heard);
                self.announced = announced.into();
            }
        }
    }

    fn take_listener(&mut self) {
        if let Some(listener) = self.memory.listener.take() {
            let listening = self
                .listening
                .get_or_insert_with(|| Box::new(Listening::to(listener)));
            listening.change(listener);
        }
    }

    /// It is a conversation that may announce other flows.
    pub(crate) fn listens(&self) -> bool {
        self.listening.is_some()
    }

    /// What was announced since this was asked last.
    pub(crate) fn take_announced(&mut self) -> Vec<Announced> {
        std::mem::take(&mut self.announced).into_vec()
    }

    /// Gives back what is kept of the streams: what comes is looked at packet by packet.
    pub(crate) fn release(&mut self) {
        self.memory.quic = None;
        for stream in &mut self.streams {
            stream.release();
        }
    }

    /// Looks at no further packet.
    pub(crate) fn end(&mut self) {
        self.done = true;
        self.take_listener();
        self.release();
        self.memory = Memory::default();
    }

    /// Weighs a new verdict against the standing one. A special form of an application wins over it
    /// when it is at least likely; otherwise the higher confidence wins, and of equals the
    /// first. Details are kept from both.
    pub(super) fn take_in(&mut self, new: Verdict, refines: &[String], pattern: bool) {
        let Some(old) = self.verdict.as_mut() else {
            self.pattern = pattern;
            self.changes = self.changes.saturating_add(1);
            self.renames = self.renames.saturating_add(1);
            self.verdict = Some(new);
            self.refines = refines.into();
            return;
        };
        let refining = new.confidence >= Confidence::Likely && refines.contains(&old.application);
        let refined =
            old.confidence >= Confidence::Likely && self.refines.contains(&new.application);
        let same = new.application == old.application;
        if refining || (!refined && new.confidence > old.confidence) {
            self.changes = self.changes.saturating_add(1);
            self.renames = self.renames.saturating_add(u8::from(!same));
            self.pattern = pattern;
            let earlier = std::mem::take(&mut old.details);
            *old = new;
            // What another application's check has read would describe this one wrongly.
            if refining || same {
                old.details.merge(earlier);
            }
            self.refines = refines.into();
        } else if refined || same {
            old.details.merge(new.details);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Inspection, Verdict};
    use crate::classify::Confidence::{self, Certain, Guess, Likely};
    use crate::flow::Direction;
    use crate::limits::ETHERNET_SEGMENT;

    fn winner(order: [(&str, Confidence, &[&str]); 2]) -> String {
        let mut inspection = Inspection::default();
        for (application, confidence, refines) in order {
            let refines: Vec<String> = refines.iter().map(|&name| name.to_owned()).collect();
            let verdict = Verdict {
                application: application.to_owned(),
                confidence,
                ..Verdict::unknown("test")
            };
            inspection.take_in(verdict, &refines, false);
        }
        inspection.verdict().unwrap().application.clone()
    }

    #[test]
    fn likely_special_forms_win_and_guessed_ones_lose() {
        for (special, expected) in [(Certain, "gnutella"), (Likely, "gnutella"), (Guess, "http")] {
            let special = ("gnutella", special, ["http"].as_slice());
            let general = ("http", Certain, [].as_slice());
            assert_eq!(winner([special, general]), expected);
            assert_eq!(winner([general, special]), expected);
        }
    }

    #[test]
    fn what_is_kept_for_each_flow_stays_small() {
        // Times the flows that are held at once: 34 MiB, without what is behind pointers.
        assert!(size_of::<Inspection>() <= 528);
    }

    #[test]
    fn joined_segments_count_as_on_the_wire() {
        let mut inspection = Inspection::default();
        inspection.counted_segment(Direction::FromServer, 3 * ETHERNET_SEGMENT);
        assert_eq!(inspection.count(Direction::FromServer), 3);
        inspection.counted_joined(Direction::FromServer, 40 * ETHERNET_SEGMENT + 12);
        assert_eq!(inspection.count(Direction::FromServer), 43);
        inspection.counted_joined(Direction::FromServer, 1);
        assert_eq!(inspection.count(Direction::FromServer), 44);
    }

    #[test]
    fn higher_confidence_wins_and_the_first_of_equals() {
        assert_eq!(winner([("a", Guess, &[]), ("b", Likely, &[])]), "b");
        assert_eq!(winner([("a", Likely, &[]), ("b", Likely, &[])]), "a");
    }
}
