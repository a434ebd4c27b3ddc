//! The compiled signatures: one automaton for all patterns, and what follows a hit.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::inspection::{Inspection, Verdict};
use super::message::{Details, Finding, Message};
use super::names::Names;
use super::signature::{Anchor, Sender, Signature, SignatureError, SignatureSet};
use crate::flow::{Direction, Flow, Pushed};
use crate::limits::{INSPECT_PACKETS, MAX_DFA_PATTERNS, MAX_SCAN};
use crate::packet::{L4, Packet};
use crate::reader::index;
use crate::triage::{Bytes, Expression};

/// Hits of one payload that are looked at; more come only from payloads made to produce them.
const MAX_HITS: usize = 64;

/// How much of a flow is inspected.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Data packets in each direction; see [`INSPECT_PACKETS`].
    pub packets: u8,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            packets: INSPECT_PACKETS,
        }
    }
}

/// Finds applications by signatures. Has no state of its own: that is the flow's [`Inspection`].
#[derive(Clone, Debug)]
pub struct Classifier {
    signatures: Vec<Signature>,
    automaton: AhoCorasick,
    /// For each pattern of the automaton: its signature and its position there.
    owners: Vec<(usize, usize)>,
    /// Signatures that only a check decides, for TCP and for UDP.
    structural: [Vec<Structural>; 2],
    names: Names,
    /// Applications of which later messages may reveal a special form.
    refined: Vec<String>,
    /// Bytes from a position at which a message may begin that can decide: all that is searched.
    reach: usize,
    bounds: Bounds,
}

/// Bytes to inspect: the beginning of a stream, a segment by itself, or a datagram.
#[derive(Clone, Copy)]
struct Unit<'a> {
    bytes: &'a [u8],
    packet_at: usize,
    /// Where the sender began to speak, if it was not answered since: a message may be split.
    turn_at: usize,
    from_start: bool,
    midway: bool,
    truncated: bool,
    /// The sender has had its turn: only what is certain counts, because the rest would come by
    /// chance.
    late: bool,
    direction: Direction,
    client_port: u16,
    server_port: u16,
    l4: L4,
}

impl<'a> Unit<'a> {
    /// The packet's payload by itself.
    fn of<T>(flow: &Flow<T>, direction: Direction, packet: &Packet<'a>) -> Self {
        Self {
            bytes: packet.payload,
            packet_at: 0,
            turn_at: 0,
            from_start: true,
            midway: flow.midway,
            truncated: packet.truncated,
            late: false,
            direction,
            client_port: flow.client.port(),
            server_port: flow.server.port(),
            l4: flow.l4,
        }
    }
}

/// A signature that only a check decides, and the bytes with which its messages begin: most
/// messages begin otherwise, and cost no more than this look.
#[derive(Clone, Copy, Debug)]
struct Structural {
    signature: usize,
    anchor: Anchor,
    first: Bytes,
}

#[derive(Clone, Copy)]
struct Hit {
    signature: usize,
    start: usize,
    patterns: u32,
}

impl Classifier {
    /// Compiles a set of signatures.
    ///
    /// # Errors
    /// The patterns together are too large for the automaton.
    pub fn new(set: &SignatureSet, bounds: Bounds) -> Result<Self, SignatureError> {
        let signatures = set.signatures().to_vec();
        let mut patterns = Vec::new();
        let mut owners = Vec::new();
        let mut structural = [Vec::new(), Vec::new()];
        let mut refined: Vec<String> = Vec::new();
        for (position, signature) in signatures.iter().enumerate() {
            let [tcp, udp] = &mut structural;
            let decided = Structural {
                signature: position,
                anchor: signature.anchor,
                first: first_bytes(signature),
            };
            match (
                signature.is_by_name(),
                signature.patterns.is_empty(),
                signature.l4,
            ) {
                (false, true, L4::Tcp) => tcp.push(decided),
                (false, true, L4::Udp) => udp.push(decided),
                _ => {}
            }
            // Flows of the refined application stay open for the messages that may reveal this
            // form.
            if !signature.at_once {
                let new = signature
                    .refines
                    .iter()
                    .filter(|name| !refined.contains(name));
                let new: Vec<String> = new.cloned().collect();
                refined.extend(new);
            }
            for (number, pattern) in signature.patterns.iter().enumerate() {
                patterns.push(pattern.bytes.as_slice());
                owners.push((position, number));
            }
        }
        let total = patterns
            .iter()
            .fold(0, |sum: usize, bytes| sum.saturating_add(bytes.len()));
        // The faster automaton takes up to 1 KiB for each byte of a pattern.
        let kind = if total <= MAX_DFA_PATTERNS {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let automaton = AhoCorasick::builder()
            .kind(Some(kind))
            .build(&patterns)
            .map_err(|error| SignatureError {
                line: 0,
                reason: error.to_string(),
            })?;
        Ok(Self {
            automaton,
            owners,
            structural,
            names: Names::new(&signatures),
            refined,
            reach: reach(&signatures),
            signatures,
            bounds,
        })
    }

    /// Takes in the next packet of a flow; `room` is how many bytes of stream may still be kept
    /// over all flows.
    pub fn handle_packet<T: AsMut<Inspection>>(
        &self,
        flow: &mut Flow<T>,
        direction: Direction,
        packet: &Packet<'_>,
        room: usize,
    ) {
        if let Some(tcp) = packet.tcp.filter(|tcp| tcp.syn) {
            let inspection = flow.attachment.as_mut();
            inspection.stream(direction).open(tcp.sequence);
            if tcp.ack {
                // The flow may begin with the answer: the SYN before it came when the old flow of
                // these ends was known.
                let called = tcp.acknowledged.wrapping_sub(1);
                inspection.stream(direction.other()).open(called);
            }
        }
        if packet.payload.is_empty() {
            self.count_unseen(flow.attachment.as_mut(), direction, packet);
            return;
        }
        let l4 = flow.l4;
        let inspection = flow.attachment.as_mut();
        inspection.hear(direction);
        let over = inspection.is_over(direction, self.bounds.packets);
        if over && !inspection.is_done() {
            // What the other side says of it goes on being inspected, unless it says nothing for
            // long.
            inspection
                .memory()
                .count_sent(direction, packet.payload.len());
            if packet.tcp.is_some() {
                inspection.counted_joined(direction, packet.payload.len());
                if inspection.is_exhausted(l4, self.bounds.packets) {
                    inspection.end();
                }
            }
        }
        if !over && !inspection.is_done() {
            self.handle_payload(flow, direction, packet, room);
            let inspection = flow.attachment.as_mut();
            if self.is_settled(inspection) || inspection.is_exhausted(l4, self.bounds.packets) {
                inspection.end();
            }
            inspection.overlook(self.bounds.packets);
        }
        // Conversations that announce others do so at any time.
        flow.attachment.as_mut().listen(direction, packet, room);
    }

    /// A segment with data of which none is there: it has passed in the kernel, or was captured
    /// without them. It is a part of its sender's turn all the same.
    fn count_unseen(&self, inspection: &mut Inspection, direction: Direction, packet: &Packet<'_>) {
        let length = index(packet.wire_payload());
        if packet.tcp.is_some() && packet.truncated && length > 0 && !inspection.is_done() {
            inspection.counted_segment(direction, length);
            inspection.overlook(self.bounds.packets);
        }
    }

    fn handle_payload<T: AsMut<Inspection>>(
        &self,
        flow: &mut Flow<T>,
        direction: Direction,
        packet: &Packet<'_>,
        room: usize,
    ) {
        let mut unit = Unit::of(flow, direction, packet);
        let inspection = flow.attachment.as_mut();
        unit.late = inspection.count(direction) >= self.bounds.packets;
        let Some(tcp) = packet.tcp else {
            inspection.counted(direction);
            inspection.memory().room = room;
            inspection
                .memory()
                .count_sent(direction, packet.payload.len());
            self.inspect(inspection, unit);
            if !unit.late {
                inspection.measure_datagram(direction, packet.payload);
            }
            return;
        };
        if unit.late {
            inspection.stream(direction).release();
            // Where the stream that matters begins is not known.
            unit.midway = true;
        }
        // A SYN's data (fast open) follows the sequence number it takes for itself.
        let sequence = if tcp.syn {
            tcp.sequence.wrapping_add(1)
        } else {
            tcp.sequence
        };
        let stream = inspection.stream(direction);
        let pushed = if is_padding(packet) {
            stream.push_padding(sequence, packet.payload, room)
        } else {
            stream.push(sequence, packet.payload, room, packet.truncated)
        };
        match pushed {
            Pushed::Old => {}
            Pushed::Grown(at) => {
                inspection.counted_segment(direction, packet.payload.len());
                // Taken out while checks use the rest of the inspection.
                let stream = std::mem::take(inspection.stream(direction));
                unit.bytes = stream.bytes();
                unit.packet_at = at;
                unit.turn_at = inspection.turn(direction, at);
                let grown = unit.bytes.get(at..).unwrap_or_default();
                inspection.memory().count_sent(direction, grown.len());
                self.inspect(inspection, unit);
                if !unit.midway {
                    inspection.measure(direction, grown);
                }
                *inspection.stream(direction) = stream;
            }
            Pushed::Apart => {
                inspection.counted_joined(direction, packet.payload.len());
                unit.from_start = false;
                self.inspect(inspection, unit);
            }
        }
    }

    /// A certain verdict that nothing could refine.
    fn is_settled(&self, inspection: &Inspection) -> bool {
        let certain = inspection
            .verdict()
            .filter(|verdict| verdict.confidence == super::Confidence::Certain);
        !inspection.is_unfinished()
            && certain.is_some_and(|verdict| !self.refined.contains(&verdict.application))
    }

    fn inspect(&self, inspection: &mut Inspection, unit: Unit<'_>) {
        for hit in self.hits(&unit) {
            self.confirm(inspection, &unit, hit);
        }
        let [tcp, udp] = &self.structural;
        for decided in if unit.l4 == L4::Tcp { tcp } else { udp } {
            for start in starts(decided.anchor, &unit) {
                let first = unit.bytes.get(start);
                // A check costs time for every packet, so none runs whose finding could not stand.
                if first.is_none_or(|&first| !decided.first.contains(first))
                    || self
                        .signatures
                        .get(decided.signature)
                        .is_none_or(|candidate| is_beaten(candidate, inspection))
                {
                    continue;
                }
                self.confirm(
                    inspection,
                    &unit,
                    Hit {
                        signature: decided.signature,
                        start,
                        patterns: u32::MAX,
                    },
                );
            }
        }
    }

    /// One pass over what can decide, at each position where a message may begin; answers
    /// signatures with that position. A stream is searched again from its beginning as it grows,
    /// because a message that a pattern announced there may only now be complete.
    fn hits(&self, unit: &Unit<'_>) -> Vec<Hit> {
        let mut hits = Vec::new();
        self.search(unit, 0, &mut hits);
        if unit.packet_at > 0 {
            self.search(unit, unit.packet_at, &mut hits);
        }
        if unit.turn_at > 0 && unit.turn_at < unit.packet_at {
            self.search(unit, unit.turn_at, &mut hits);
        }
        hits
    }

    fn search(&self, unit: &Unit<'_>, from: usize, hits: &mut Vec<Hit>) {
        let to = from.saturating_add(self.reach).min(unit.bytes.len());
        let haystack = unit.bytes.get(from..to).unwrap_or_default();
        for found in self.automaton.find_overlapping_iter(haystack) {
            let Some(&(signature, number)) = self.owners.get(found.pattern().as_usize()) else {
                continue;
            };
            let position = from.saturating_add(found.start());
            let Some(start) = self.start_of(signature, number, position, unit) else {
                continue;
            };
            let bit = u32::try_from(number)
                .ok()
                .and_then(|number| 1_u32.checked_shl(number))
                .unwrap_or(0);
            if let Some(hit) = hits
                .iter_mut()
                .find(|hit| hit.signature == signature && hit.start == start)
            {
                hit.patterns |= bit;
            } else if hits.len() < MAX_HITS {
                hits.push(Hit {
                    signature,
                    start,
                    patterns: bit,
                });
            } else {
                // A sender can repeat a pattern at will, so the work on one packet is bounded.
                return;
            }
        }
    }

    /// Where the message begins if this pattern of this signature lies at `position`; `None` if it
    /// may not lie there.
    fn start_of(
        &self,
        signature: usize,
        number: usize,
        position: usize,
        unit: &Unit<'_>,
    ) -> Option<usize> {
        let signature = self
            .signatures
            .get(signature)
            .filter(|signature| signature.l4 == unit.l4)?;
        if signature.anchor == Anchor::Anywhere {
            return Some(position);
        }
        let start = position.checked_sub(signature.patterns.get(number)?.at)?;
        starts(signature.anchor, unit)
            .any(|allowed| allowed == start)
            .then_some(start)
    }

    fn confirm(&self, inspection: &mut Inspection, unit: &Unit<'_>, hit: Hit) {
        let Some(signature) = self.signatures.get(hit.signature) else {
            return;
        };
        if signature.l4 != unit.l4
            || !is_from(signature.direction, unit.direction)
            || !is_complete(signature, hit)
        {
            return;
        }
        let runs_on =
            |ports: &[u16]| ports.contains(&unit.client_port) || ports.contains(&unit.server_port);
        if !signature.only_ports.is_empty() && !runs_on(&signature.only_ports) {
            return;
        }
        let Some(bytes) = unit.bytes.get(hit.start..) else {
            return;
        };
        let message = Message {
            bytes,
            at: hit.start,
            direction: unit.direction,
            truncated: unit.truncated,
        };
        let finding = match signature.check {
            Some(check) => check(&message, inspection.memory()),
            None => Some(Finding::certain(format!("pattern at {}", hit.start))),
        };
        let Some(finding) = finding else { return };
        let mut confidence = signature.confidence.min(finding.confidence);
        if !signature.ports.is_empty() && !runs_on(&signature.ports) {
            confidence = confidence.lowered();
        }
        // A long stream contains any weak pattern by chance.
        if unit.late && confidence < super::Confidence::Certain {
            return;
        }
        if finding.about_many {
            inspection.note_many();
        }
        let named = self
            .names
            .of(&self.signatures, &signature.application, &finding);
        inspection.take_in(
            Verdict {
                application: signature.application.clone(),
                confidence,
                evidence: format!("{}: {}", signature.name, finding.why),
                details: finding.details,
            },
            &signature.refines,
            !signature.patterns.is_empty(),
        );
        // Names say what the flow is for, which may be more than the protocol that carries them.
        for one in named {
            let Some(signature) = self.signatures.get(one.signature) else {
                continue;
            };
            let verdict = Verdict {
                application: signature.application.clone(),
                confidence: signature.confidence.min(one.confidence),
                evidence: format!("{}: {}", signature.name, one.why),
                details: Details::default(),
            };
            inspection.take_in(verdict, &signature.refines, true);
        }
    }
}

/// Some devices make the padding of Ethernet's shortest frame a part of the packet: an
/// acknowledgement then seems to carry a few zeros, in the place of what is sent next.
fn is_padding(packet: &Packet<'_>) -> bool {
    const SHORTEST: u32 = 46;
    packet.tcp.is_some_and(|tcp| !tcp.syn)
        && packet.ip_len <= SHORTEST
        && packet.payload.iter().all(|&byte| byte == 0)
}

/// How far from its anchor the last pattern ends; where a pattern may lie anywhere, as far as is
/// searched at all.
fn reach(signatures: &[Signature]) -> usize {
    let ends = signatures.iter().flat_map(|signature| {
        signature
            .patterns
            .iter()
            .map(|pattern| match signature.anchor {
                Anchor::Anywhere => MAX_SCAN,
                Anchor::Start | Anchor::Packet => pattern.at.saturating_add(pattern.bytes.len()),
            })
    });
    ends.max().unwrap_or(0).min(MAX_SCAN)
}

/// Bytes with which a signature's messages begin, as far as it says so.
fn first_bytes(signature: &Signature) -> Bytes {
    if signature.opening.is_empty() {
        return Bytes::ALL;
    }
    let first = signature.opening.iter().map(Expression::first_bytes);
    first.fold(Bytes::default(), Bytes::or)
}

/// Positions at which an anchored message may begin.
fn starts(anchor: Anchor, unit: &Unit<'_>) -> impl Iterator<Item = usize> {
    let at_start = unit.from_start && anchor != Anchor::Anywhere;
    let at_packet = anchor == Anchor::Packet || (anchor == Anchor::Start && unit.midway);
    let packet_at = unit.packet_at;
    let first = at_start.then_some(0);
    let second = (at_packet && !(at_start && packet_at == 0)).then_some(packet_at);
    let turn_at = unit.turn_at;
    let third = (at_packet && turn_at > 0 && turn_at < packet_at).then_some(turn_at);
    first.into_iter().chain(second).chain(third)
}

/// The standing verdict is certain, and of an application that this signature neither finds nor
/// refines.
fn is_beaten(signature: &Signature, inspection: &Inspection) -> bool {
    inspection.verdict().is_some_and(|verdict| {
        verdict.confidence == super::Confidence::Certain
            && signature.application != verdict.application
            && !signature.refines.contains(&verdict.application)
    })
}

fn is_from(sender: Sender, direction: Direction) -> bool {
    match sender {
        Sender::Any => true,
        Sender::Client => direction == Direction::FromClient,
        Sender::Server => direction == Direction::FromServer,
    }
}

fn is_complete(signature: &Signature, hit: Hit) -> bool {
    if signature.patterns.is_empty() {
        return true;
    }
    let found = usize::try_from(hit.patterns.count_ones()).unwrap_or(0);
    if signature.all {
        found == signature.patterns.len()
    } else {
        found > 0
    }
}
