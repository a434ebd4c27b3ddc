//! The model of one flow, as the kernel's program has it: what to do with each packet, and what to
//! remember.
//!
//! # Layout
//! | field | type | meaning |
//! |---|---|---|
//! | `stage` | `u32` | 0 open, 1 asked, 2 done |
//! | `opened` | `u8[2]` | by direction, of TCP: that of the SYN 1, that of the SYN-ACK 2 |
//! | `counts` | `u8[2]` | data packets, as the classifier counts them |
//! | `eighths` | `u8[2]` | parts of a data packet that small segments have made up, 0 to 7 |
//! | `next` | `u32[2]` | of TCP: sequence number of the next byte |
//! | `first` | `u32[2]` | of TCP: sequence number of the SYN |
//! | `resyn_from` | `u8` | 1 + the direction of a further SYN, 0 without one |
//! | `resyn` | `u32` | sequence number of that SYN |
//! | `known` | `u8` | 1 if the classifier names it by the first data |
//! | `seen` | `u32` | of UDP: when a datagram was seen last |
//!
//! The sender of the first packet is direction 0. There is no other state. Everything that is out
//! of order is asked about, repetitions too: the receiver may not have got the first copy, and
//! only user space could compare the two. Once a flow was asked about, so is all that follows,
//! until a SYN of the same ends gets its SYN-ACK.
//!
//! A connection by TCP begins with a SYN-ACK. Until then its SYN alone is remembered, which is
//! little, and all else is asked about and leaves no trace: a flood of SYNs and pieces of
//! connections does not evict other flows.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Begin, Triage};
use crate::limits::{ETHERNET_SEGMENT, FULL_SEGMENT, ONE_SIDED, SMALL_SEGMENTS, UDP_IDLE};
use crate::packet::L4;
use crate::reader::{index, length32};

/// What the kernel does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriageVerdict {
    /// It goes on; user space does not see it.
    Pass,
    /// User space is asked.
    Ask,
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Its packets are looked at.
    #[default]
    Open,
    /// User space was asked, and is from then on.
    Asked,
    /// So much was sent that the classifier would look at no more.
    Done,
}

/// Fields of a TCP header, as far as they matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// SYN is set, with or without ACK.
    pub syn: bool,
    /// The number that it acknowledges, if ACK is set.
    pub acknowledged: Option<u32>,
    /// RST is set.
    pub rst: bool,
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When it comes by, since any moment.
    pub at: Duration,
    /// 0 if the sender of the flow's first packet has sent it, 1 if the other side has.
    pub from: usize,
    /// Both ends, in any order.
    pub ends: [SocketAddr; 2],
    /// Its TCP header; `None` for UDP.
    pub tcp: Option<Segment>,
    /// Its payload, or the first [`TRIAGE_SCAN`](crate::limits::TRIAGE_SCAN) bytes of it at least.
    pub payload: &'a [u8],
    /// Bytes of the whole payload.
    pub length: u32,
    /// Its checksum was found right (netfilter's connection tracking does so), and it is no
    /// fragment.
    pub intact: bool,
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    /// Of TCP: sequence number of its SYN.
    first: u32,
    /// Of TCP: sequence number of the next byte.
    next: u32,
    count: u8,
    eighths: u8,
}

impl Side {
    /// Every segment with data counts at least an eighth.
    fn has_data(self) -> bool {
        self.count > 0 || self.eighths > 0
    }

    /// As `Inspection::counted_segment`.
    fn count_segment(&mut self, length: u32) {
        let length = index(length);
        if length > ETHERNET_SEGMENT {
            self.count_joined(length32(length));
            return;
        }
        let eighths = length.saturating_mul(SMALL_SEGMENTS) / FULL_SEGMENT;
        let eighths = u8::try_from(eighths.max(1)).unwrap_or(u8::MAX);
        self.eighths = self.eighths.saturating_add(eighths);
        if usize::from(self.eighths) >= SMALL_SEGMENTS {
            self.eighths = 0;
            self.count = self.count.saturating_add(1);
        }
    }

    /// As `Inspection::counted_joined`.
    fn count_joined(&mut self, length: u32) {
        let packets = u8::try_from(index(length) / ETHERNET_SEGMENT).unwrap_or(u8::MAX);
        self.count = self.count.saturating_add(packets.max(1));
    }
}

/// What the kernel remembers of one flow, and what it does with each of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowModel {
    stage: Stage,
    sides: [Side; 2],
    /// Of TCP: a SYN got its SYN-ACK.
    open: bool,
    /// The direction and number of the SYN before that.
    syn: Option<(usize, u32)>,
    /// The direction and number of a further SYN without its SYN-ACK yet.
    resyn: Option<(usize, u32)>,
    /// The classifier names it by the first data.
    known: bool,
    /// When a datagram was seen last.
    seen: Duration,
}

impl FlowModel {
    /// How far the flow is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Decides on the next packet of the flow, in the order in which they come by.
    pub fn handle_packet(&mut self, triage: &Triage, packet: &Seen<'_>) -> TriageVerdict {
        let asked = self.is_asked(triage, packet);
        match packet.tcp {
            Some(tcp) if !self.open => {
                if let Some(fate) = self.handle_opening(packet, tcp, asked) {
                    return fate;
                }
            }
            Some(tcp) => self.note_syn(packet.from & 1, tcp),
            None => self.wake(packet.at),
        }
        match self.stage {
            Stage::Asked => return TriageVerdict::Ask,
            Stage::Done => return TriageVerdict::Pass,
            Stage::Open => {}
        }
        let fate = if asked {
            TriageVerdict::Ask
        } else {
            self.decide(triage, packet)
        };
        if fate == TriageVerdict::Ask {
            self.stage = Stage::Asked;
        }
        fate
    }

    /// Whether every packet like this is asked about: of these ends, or that the receiver discards,
    /// by which one would be led astray.
    fn is_asked(&self, triage: &Triage, packet: &Seen<'_>) -> bool {
        let l4 = if packet.tcp.is_some() {
            L4::Tcp
        } else {
            L4::Udp
        };
        !packet.intact || packet.ends.iter().any(|end| triage.asks_about(l4, *end))
    }

    fn decide(&mut self, triage: &Triage, packet: &Seen<'_>) -> TriageVerdict {
        match packet.tcp {
            Some(tcp) if tcp.syn && packet.length > 0 => TriageVerdict::Ask,
            Some(tcp) if tcp.syn => TriageVerdict::Pass,
            _ if packet.length == 0 => TriageVerdict::Pass,
            _ => self.take_in(triage, packet),
        }
    }

    /// A packet of a connection that has not begun; `None` if it begins with this one.
    fn handle_opening(
        &mut self,
        packet: &Seen<'_>,
        tcp: Segment,
        asked: bool,
    ) -> Option<TriageVerdict> {
        if asked || packet.length > 0 {
            return Some(TriageVerdict::Ask);
        }
        if !tcp.syn {
            // A SYN that gets a reset is over.
            let over = tcp.rst && self.syn.is_some();
            return Some(if over {
                TriageVerdict::Pass
            } else {
                TriageVerdict::Ask
            });
        }
        let from = packet.from & 1;
        let Some(acknowledged) = tcp.acknowledged else {
            self.syn = Some((from, tcp.sequence));
            return Some(TriageVerdict::Pass);
        };
        match self.syn {
            Some((opener, number)) if opener != from && acknowledged == number.wrapping_add(1) => {
                self.begin(opener, number, tcp.sequence);
                None
            }
            _ => Some(TriageVerdict::Ask),
        }
    }

    /// A SYN got its SYN-ACK.
    fn begin(&mut self, opener: usize, number: u32, answer: u32) {
        let side = |first: u32| Side {
            first,
            next: first.wrapping_add(1),
            ..Side::default()
        };
        let mut sides = [side(number), side(answer)];
        if opener == 1 {
            sides.reverse();
        }
        *self = Self {
            sides,
            open: true,
            ..Self::default()
        };
    }

    /// A SYN behind data, or with another number than that side's first, may open another
    /// connection of the same ends. It begins with its SYN-ACK: an end that is in a connection
    /// sends none for a forged SYN, and what was asked about stays so. Of a flow of which enough
    /// had been seen nothing passes any more until then.
    fn note_syn(&mut self, from: usize, tcp: Segment) {
        if !tcp.syn {
            return;
        }
        let Some(acknowledged) = tcp.acknowledged else {
            let first = self.sides.get(from).map(|side| side.first);
            let fresh = self.stage == Stage::Open && !self.has_data();
            if fresh && first == Some(tcp.sequence) {
                return;
            }
            self.resyn = Some((from, tcp.sequence));
            if self.stage == Stage::Done {
                self.stage = Stage::Asked;
            }
            return;
        };
        if let Some((opener, number)) = self.resyn
            && opener != from
            && acknowledged == number.wrapping_add(1)
        {
            self.begin(opener, number, tcp.sequence);
        }
    }

    /// After so long a silence it is another flow of the same ends, as for user space.
    fn wake(&mut self, at: Duration) {
        if at.saturating_sub(self.seen) > UDP_IDLE {
            *self = Self::default();
        }
        self.seen = at;
    }

    fn take_in(&mut self, triage: &Triage, packet: &Seen<'_>) -> TriageVerdict {
        let (begun, most) = (self.has_data(), self.most(triage));
        let Some(side) = self.sides.get_mut(packet.from & 1) else {
            return TriageVerdict::Ask;
        };
        // The classifier looks at no more of this direction; the other one may still show the
        // application.
        if side.count >= most {
            if let Some(tcp) = packet.tcp {
                // Nothing is judged by it any more; it shows user space how far this side has
                // come.
                let end = tcp.sequence.wrapping_add(packet.length);
                if end.wrapping_sub(side.next).cast_signed() > 0 {
                    side.next = end;
                }
                side.count_joined(packet.length);
                self.end_if_exhausted(L4::Tcp, triage.packets());
            }
            return TriageVerdict::Pass;
        }
        let mut begin = Begin::Datagram;
        if let Some(tcp) = packet.tcp {
            if side.next != tcp.sequence {
                return TriageVerdict::Ask;
            }
            let late = side.count >= triage.packets();
            begin = if side.has_data() && !late {
                Begin::Segment
            } else {
                Begin::Stream
            };
        }
        let judgement = triage.judge(begin, packet.payload, packet.length);
        if judgement.ask || (!begun && !judgement.known && triage.needs_unknown()) {
            return TriageVerdict::Ask;
        }
        if !begun {
            self.known = judgement.known;
        }
        match packet.tcp {
            None => side.count = side.count.saturating_add(1),
            Some(tcp) => {
                side.next = tcp.sequence.wrapping_add(packet.length);
                side.count_segment(packet.length);
            }
        }
        let l4 = packet.tcp.map_or(L4::Udp, |_| L4::Tcp);
        self.end_if_exhausted(l4, triage.packets());
        TriageVerdict::Pass
    }

    fn has_data(&self) -> bool {
        self.sides.iter().any(|side| side.has_data())
    }

    /// As `Inspection::is_over`: data packets of one direction that are looked at.
    fn most(&self, triage: &Triage) -> u8 {
        if self.known {
            triage.packets()
        } else {
            triage.packets().saturating_mul(ONE_SIDED)
        }
    }

    /// As `Inspection::is_exhausted` for a flow of which nothing is certain.
    fn end_if_exhausted(&mut self, l4: L4, packets: u8) {
        let long = packets.saturating_mul(ONE_SIDED);
        let had_turns = self.sides.iter().all(|side| side.count >= packets);
        let went_on = self.sides.iter().any(|side| side.count >= long);
        let over = if had_turns {
            went_on || self.known
        } else {
            went_on && l4 == L4::Tcp
        };
        if over {
            self.stage = Stage::Done;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FlowModel, Seen, Segment, Stage, TriageVerdict};
    use crate::classify::SignatureSet;
    use crate::policy::Policy;
    use crate::triage::Triage;

    fn triage() -> Triage {
        let text = "[[rule]]\nname = \"no\"\naction = \"block\"\napp = \"gnutella\"\n";
        let policy = Policy::parse(text, &["gnutella".to_owned()].into()).unwrap();
        Triage::new(&SignatureSet::built_in(), &policy).unwrap()
    }

    #[test]
    fn policy_networks_are_asked_from_the_start() {
        let text = "[[rule]]\nname = \"no\"\naction = \"block\"\nclient = \"10.0.0.0/30\"\n";
        let policy = Policy::parse(text, &std::collections::BTreeSet::new()).unwrap();
        let triage = Triage::new(&SignatureSet::built_in(), &policy).unwrap();
        assert!(!triage.asks_everything());
        for (ends, fate) in [
            (["10.0.0.1:50000", "192.0.2.1:80"], TriageVerdict::Ask),
            (
                ["192.0.2.1:80", "[::ffff:10.0.0.3]:50000"],
                TriageVerdict::Ask,
            ),
            (["10.0.0.4:50000", "192.0.2.1:80"], TriageVerdict::Pass),
        ] {
            let seen = Seen {
                at: Duration::ZERO,
                from: 0,
                ends: ends.map(|end| end.parse().unwrap()),
                tcp: Some(Segment {
                    sequence: 5,
                    syn: true,
                    acknowledged: None,
                    rst: false,
                }),
                payload: b"",
                length: 0,
                intact: true,
            };
            let mut model = FlowModel::default();
            assert_eq!(model.handle_packet(&triage, &seen), fate, "{ends:?}");
        }
    }

    /// Side, sequence number, what of a SYN, payload.
    type Sent<'a> = (usize, u32, Syn, &'a [u8]);

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Syn {
        No,
        Calls,
        /// The SYN with this number.
        Answers(u32),
        /// None; a reset.
        Refuses,
    }
    use Syn::{Answers, Calls, No, Refuses};

    fn fates(packets: &[Sent<'_>]) -> (Vec<TriageVerdict>, Stage) {
        let (triage, mut model) = (triage(), FlowModel::default());
        let fates = packets.iter().map(|&(from, sequence, syn, payload)| {
            let acknowledged = match syn {
                Calls => None,
                No | Refuses => Some(1),
                Answers(call) => Some(call.wrapping_add(1)),
            };
            let seen = Seen {
                at: Duration::ZERO,
                from,
                ends: ENDS.map(|end| end.parse().unwrap()),
                tcp: Some(Segment {
                    sequence,
                    syn: matches!(syn, Calls | Answers(_)),
                    acknowledged,
                    rst: syn == Refuses,
                }),
                payload,
                length: u32::try_from(payload.len()).unwrap(),
                intact: true,
            };
            model.handle_packet(&triage, &seen)
        });
        (fates.collect(), model.stage())
    }

    const ENDS: [&str; 2] = ["10.0.0.1:50000", "192.0.2.1:80"];
    const FIRST: u32 = u32::MAX - 2;
    const OPEN: [Sent<'static>; 2] = [(0, FIRST, Calls, b""), (1, 9, Answers(FIRST), b"")];

    #[track_caller]
    fn last(packets: &[Sent<'_>], expected: TriageVerdict) {
        let all = [&OPEN, packets].concat();
        assert_eq!(fates(&all).0.last(), Some(&expected), "{packets:?}");
    }

    #[test]
    fn ordered_segments_pass_across_the_wrap() {
        let first: Sent<'_> = (0, u32::MAX - 1, No, b"\x99one");
        last(&[first], TriageVerdict::Pass);
        last(
            &[first, (0, 2, No, b"\x99two"), (1, 10, No, b"\x99")],
            TriageVerdict::Pass,
        );
        last(&[first, (0, 1, No, b"ex")], TriageVerdict::Ask);
        last(&[first, (0, 3, No, b"x")], TriageVerdict::Ask);
        last(&[(0, u32::MAX, No, b"x")], TriageVerdict::Ask);
    }

    /// The first copy may have died on its way behind the gateway, with other bytes.
    #[test]
    fn a_repetition_is_asked_about() {
        let decoy: Sent<'_> = (0, u32::MAX - 1, No, &[0x99; 24]);
        last(&[decoy, decoy], TriageVerdict::Ask);
        last(
            &[decoy, (0, u32::MAX - 1, No, b"GNUTELLA CONNECT/0.6\r\n")],
            TriageVerdict::Ask,
        );
        last(&[decoy, (0, 5, No, b"\x99")], TriageVerdict::Ask);
    }

    #[test]
    fn what_did_not_begin_here_is_asked_about() {
        assert_eq!(fates(&[(0, 5, No, b"")]).0, [TriageVerdict::Ask]);
        assert_eq!(
            fates(&[(1, 9, Answers(FIRST), b"")]).0,
            [TriageVerdict::Ask]
        );
        assert_eq!(
            fates(&[OPEN[0], (1, 9, Answers(5), b"")]).0[1],
            TriageVerdict::Ask
        );
        assert_eq!(
            fates(&[OPEN[0], (0, 9, Answers(FIRST), b"")]).0[1],
            TriageVerdict::Ask
        );
        // A SYN that gets a reset is none of user space's business; a reset of something else may
        // be.
        let refused: Sent<'_> = (1, 0, Refuses, b"");
        assert_eq!(fates(&[OPEN[0], refused]).0[1], TriageVerdict::Pass);
        assert_eq!(fates(&[refused]).0[0], TriageVerdict::Ask);
        // Data that wait for no answer.
        let hasty = [OPEN[0], (0, FIRST + 1, No, b"\x99".as_slice())];
        assert_eq!(fates(&hasty).0, [TriageVerdict::Pass, TriageVerdict::Ask]);
        // The last SYN counts, and leaves nothing of the one before.
        let again = [OPEN[0], (0, 70, Calls, b""), (1, 9, Answers(70), b"")];
        let [old, new] = [FIRST, 70].map(|call| (0, call + 1, No, b"\x99".as_slice()));
        assert_eq!(
            fates(&[again.as_slice(), &[new]].concat()).0[3],
            TriageVerdict::Pass
        );
        assert_eq!(
            fates(&[again.as_slice(), &[old]].concat()).0[3],
            TriageVerdict::Ask
        );
        assert_eq!(fates(&[OPEN[0], (1, 5, No, b"x")]).0[1], TriageVerdict::Ask);
        assert_eq!(fates(&[(0, 5, Calls, b"x")]).0, [TriageVerdict::Ask]);
        last(&[OPEN[0]], TriageVerdict::Pass);
    }

    #[test]
    fn a_further_handshake_begins_another_connection() {
        let hole: Sent<'_> = (0, 5_000, No, b"x");
        let again: [Sent<'_>; 2] = [(0, 77, Calls, b""), (1, 500, Answers(77), b"")];
        let data: Sent<'_> = (0, 78, No, b"\x99");
        last(&[hole], TriageVerdict::Ask);
        last(&[&[hole], again.as_slice()].concat(), TriageVerdict::Pass);
        last(
            &[&[hole], again.as_slice(), &[data]].concat(),
            TriageVerdict::Pass,
        );
        last(
            &[again[0], again[1], (1, 501, No, b"\x99")],
            TriageVerdict::Pass,
        );
        // With the number of before, too, once there was data.
        let same: [Sent<'_>; 2] = [(0, FIRST, Calls, b""), (1, 500, Answers(FIRST), b"")];
        last(&[hole, same[0]], TriageVerdict::Ask);
        last(
            &[hole, same[0], same[1], (1, 501, No, b"\x99")],
            TriageVerdict::Pass,
        );
        // The opening may come twice.
        last(
            &[OPEN[0], OPEN[1], (0, FIRST + 1, No, b"\x99")],
            TriageVerdict::Pass,
        );
    }

    #[test]
    fn a_call_that_somebody_made_up_changes_nothing() {
        // Two halves of what is looked for, with a SYN between them whose number makes the second
        // half the first.
        let half: Sent<'_> = (0, FIRST + 1, No, b"GNU");
        let made_up: Sent<'_> = (0, 0, Calls, b"");
        let rest: Sent<'_> = (0, 1, No, b"TELLA CONNECT/0.6\r\n");
        last(&[half], TriageVerdict::Ask);
        last(&[half, made_up], TriageVerdict::Ask);
        last(&[half, made_up, rest], TriageVerdict::Ask);
        // Its SYN-ACK has to be of the other side, and to that number.
        last(
            &[half, made_up, (0, 500, Answers(0), b""), rest],
            TriageVerdict::Ask,
        );
        last(
            &[half, made_up, (1, 500, Answers(FIRST), b""), rest],
            TriageVerdict::Ask,
        );
        // Who is in the middle of something goes on with it.
        let data: [Sent<'_>; 2] = [(0, FIRST + 1, No, b"\x99"), (0, FIRST + 2, No, b"\x99")];
        last(&[data[0], (0, 77, Calls, b"")], TriageVerdict::Pass);
        last(
            &[data[0], (0, 77, Calls, b""), data[1]],
            TriageVerdict::Pass,
        );
        last(
            &[data[0], (0, 77, Calls, b""), (0, 78, No, b"\x99")],
            TriageVerdict::Ask,
        );
    }

    #[test]
    fn a_silence_ends_a_flow_of_datagrams() {
        let (triage, mut model) = (triage(), FlowModel::default());
        let mut say = |at: u64, payload: &[u8]| {
            let seen = Seen {
                at: Duration::from_secs(at),
                from: usize::from(at % 2 == 1),
                ends: ENDS.map(|end| end.parse().unwrap()),
                tcp: None,
                payload,
                length: u32::try_from(payload.len()).unwrap(),
                intact: true,
            };
            (model.handle_packet(&triage, &seen), model.stage())
        };
        let gnutella = b"GND\x02\x01\x01\x01\x00GNUTELLA CONNECT/0.6";
        for at in 0..64 {
            say(at, b"\x99");
        }
        assert_eq!(say(300, b"\x99"), (TriageVerdict::Pass, Stage::Done));
        assert_eq!(say(660, gnutella), (TriageVerdict::Pass, Stage::Done));
        assert_eq!(say(1_021, b"\x99"), (TriageVerdict::Pass, Stage::Open));
        assert_eq!(say(1_022, gnutella), (TriageVerdict::Ask, Stage::Asked));
    }

    #[test]
    fn a_flow_ends_with_the_classifier() {
        let mut packets = OPEN.to_vec();
        let bulk = [0x99; 1_448];
        for number in 0..32_u32 {
            packets.push((0, (u32::MAX - 1).wrapping_add(number * 1_448), No, &bulk));
            packets.push((1, 10 + number * 1_448, No, &bulk));
        }
        let (fates, stage) = fates(&packets);
        assert!(fates.iter().all(|&fate| fate == TriageVerdict::Pass) && stage == Stage::Done);
        let gnutella: Sent<'_> = (0, 7, No, b"GNUTELLA CONNECT/0.6\r\n");
        packets.push(gnutella);
        assert_eq!(self::fates(&packets).0.last(), Some(&TriageVerdict::Pass));
        // A SYN, with whatever number, ends that.
        for number in [FIRST, 77] {
            packets.pop();
            packets.extend([(0, number, Calls, b"".as_slice()), gnutella]);
            assert_eq!(self::fates(&packets).0.last(), Some(&TriageVerdict::Ask));
        }
    }
}
