//! The model of one flow, as the kernel's program has it: what to do with each packet, and what to remember.
//!
//! # Layout
//! | field | type | meaning |
//! |---|---|---|
//! | `state` | `u8` | 0 open, 1 asked, 2 done |
//! | `opened` | `u8[2]` | by direction: whether `next` is known |
//! | `counts` | `u8[2]` | data packets, as the classifier counts them |
//! | `eighths` | `u8[2]` | parts of a data packet that small segments have made up, 0 to 7 |
//! | `next` | `u32[2]` | sequence number of the next byte; of no meaning unless opened |
//! | `first` | `u32[2]` | sequence number of the SYN; of no meaning unless opened |
//!
//! The sender of the first packet is direction 0. There is no other state: no bytes, no time. Everything that is out of order
//! is asked about, and once a flow was asked about, so is all that follows.

use std::net::SocketAddr;

use super::{Begin, Triage};
use crate::limits::{ETHERNET_SEGMENT, FULL_SEGMENT, ONE_SIDED, SMALL_SEGMENTS};
use crate::packet::L4;
use crate::reader::{index, length32};

/// What the kernel does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
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
    /// So much was said that the classifier would look at no more.
    Done,
}

/// What a TCP header says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// SYN is set, with or without ACK.
    pub syn: bool,
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
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
    /// Its checksum was found right (netfilter's connection tracking does so), and it is no fragment.
    pub intact: bool,
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    /// Sequence number of its SYN.
    first: Option<u32>,
    /// Sequence number of the next byte.
    next: Option<u32>,
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
}

impl FlowModel {
    /// How far the flow is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Decides on the next packet of the flow, in the order in which they come by.
    pub fn handle_packet(&mut self, triage: &Triage, packet: &Seen<'_>) -> Fate {
        self.begin_again(packet);
        match self.stage {
            Stage::Asked => return Fate::Ask,
            Stage::Done => return Fate::Pass,
            Stage::Open => {}
        }
        let fate = self.decide(triage, packet);
        if fate == Fate::Ask {
            self.stage = Stage::Asked;
        }
        fate
    }

    fn decide(&mut self, triage: &Triage, packet: &Seen<'_>) -> Fate {
        // Whoever takes for said what the receiver discards is led astray.
        if !packet.intact {
            return Fate::Ask;
        }
        let l4 = if packet.tcp.is_some() {
            L4::Tcp
        } else {
            L4::Udp
        };
        if packet.ends.iter().any(|end| triage.asks_about(l4, *end)) {
            return Fate::Ask;
        }
        match packet.tcp {
            Some(tcp) if tcp.syn => self.open(packet, tcp),
            // It was under way before, or somebody made it up.
            Some(_) if self.sides.iter().all(|side| side.next.is_none()) => Fate::Ask,
            _ if packet.length == 0 => Fate::Pass,
            _ => self.take_in(triage, packet),
        }
    }

    /// Another SYN than that side's before begins another connection of the same ends. If it is made up, what follows has other
    /// numbers than it said, and is asked about.
    fn begin_again(&mut self, packet: &Seen<'_>) {
        let Some(tcp) = packet.tcp.filter(|tcp| tcp.syn) else {
            return;
        };
        let first = self.sides.get(packet.from & 1).and_then(|side| side.first);
        if first.is_some_and(|first| first != tcp.sequence) {
            *self = Self::default();
        }
    }

    /// A SYN or its answer, or either once more.
    fn open(&mut self, packet: &Seen<'_>, tcp: Segment) -> Fate {
        let Some(side) = self.sides.get_mut(packet.from & 1) else {
            return Fate::Ask;
        };
        if packet.length > 0 {
            return Fate::Ask;
        }
        if side.first.is_none() {
            side.first = Some(tcp.sequence);
            side.next = Some(tcp.sequence.wrapping_add(1));
        }
        Fate::Pass
    }

    fn take_in(&mut self, triage: &Triage, packet: &Seen<'_>) -> Fate {
        let begun = self.has_data();
        let Some(side) = self.sides.get_mut(packet.from & 1) else {
            return Fate::Ask;
        };
        // The classifier looks at no more of this direction; what the other one says may still tell.
        if side.count >= triage.packets() {
            if packet.tcp.is_some() {
                side.count_joined(packet.length);
                self.end_if_exhausted(triage.packets());
            }
            return Fate::Pass;
        }
        let mut begin = Begin::Datagram;
        if let Some(tcp) = packet.tcp {
            let (Some(first), Some(next)) = (side.first, side.next) else {
                return Fate::Ask;
            };
            let behind = next.wrapping_sub(tcp.sequence);
            if behind != 0 {
                // Old bytes only: their first copy was judged. All else is a hole or an overlap, or lies before the SYN: somebody
                // else's SYN must not make what follows old.
                let judged = next.wrapping_sub(first).wrapping_sub(1);
                let old = behind <= judged && packet.length <= behind;
                return if old { Fate::Pass } else { Fate::Ask };
            }
            begin = if side.has_data() {
                Begin::Segment
            } else {
                Begin::Stream
            };
        }
        let judgement = triage.judge(begin, packet.payload, packet.length);
        if judgement.ask || (!begun && !judgement.known && triage.needs_unknown()) {
            return Fate::Ask;
        }
        match packet.tcp {
            None => side.count = side.count.saturating_add(1),
            Some(tcp) => {
                side.next = Some(tcp.sequence.wrapping_add(packet.length));
                side.count_segment(packet.length);
            }
        }
        self.end_if_exhausted(triage.packets());
        Fate::Pass
    }

    fn has_data(&self) -> bool {
        self.sides.iter().any(|side| side.has_data())
    }

    /// As `Inspection::is_exhausted` for a flow of which nothing is certain.
    fn end_if_exhausted(&mut self, packets: u8) {
        let long = packets.saturating_mul(ONE_SIDED);
        let [one, other] = self.sides.map(|side| side.count);
        if (one >= packets && other >= packets) || one >= long || other >= long {
            self.stage = Stage::Done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, FlowModel, Seen, Segment, Stage};
    use crate::classify::SignatureSet;
    use crate::policy::Policy;
    use crate::triage::Triage;

    fn triage() -> Triage {
        let text = "[[rule]]\nname = \"no\"\naction = \"block\"\napp = \"gnutella\"\n";
        let policy = Policy::parse(text, &["gnutella".to_owned()].into()).unwrap();
        Triage::new(&SignatureSet::built_in(), &policy).unwrap()
    }

    #[test]
    fn whoever_is_in_a_network_of_the_policy_is_asked_about_from_the_first_packet() {
        let text = "[[rule]]\nname = \"no\"\naction = \"block\"\nclient = \"10.0.0.0/30\"\n";
        let policy = Policy::parse(text, &std::collections::BTreeSet::new()).unwrap();
        let triage = Triage::new(&SignatureSet::built_in(), &policy).unwrap();
        assert!(!triage.asks_everything());
        for (ends, fate) in [
            (["10.0.0.1:50000", "192.0.2.1:80"], Fate::Ask),
            (["192.0.2.1:80", "[::ffff:10.0.0.3]:50000"], Fate::Ask),
            (["10.0.0.4:50000", "192.0.2.1:80"], Fate::Pass),
        ] {
            let seen = Seen {
                from: 0,
                ends: ends.map(|end| end.parse().unwrap()),
                tcp: Some(Segment {
                    sequence: 5,
                    syn: true,
                }),
                payload: b"",
                length: 0,
                intact: true,
            };
            let mut model = FlowModel::default();
            assert_eq!(model.handle_packet(&triage, &seen), fate, "{ends:?}");
        }
    }

    /// Side, sequence number, SYN, payload.
    type Sent<'a> = (usize, u32, bool, &'a [u8]);

    fn fates(packets: &[Sent<'_>]) -> (Vec<Fate>, Stage) {
        let (triage, mut model) = (triage(), FlowModel::default());
        let fates = packets.iter().map(|&(from, sequence, syn, payload)| {
            let seen = Seen {
                from,
                ends: ["10.0.0.1:50000", "192.0.2.1:80"].map(|end| end.parse().unwrap()),
                tcp: Some(Segment { sequence, syn }),
                payload,
                length: u32::try_from(payload.len()).unwrap(),
                intact: true,
            };
            model.handle_packet(&triage, &seen)
        });
        (fates.collect(), model.stage())
    }

    const OPEN: [Sent<'static>; 2] = [(0, u32::MAX - 2, true, b""), (1, 9, true, b"")];

    #[track_caller]
    fn last(packets: &[Sent<'_>], expected: Fate) {
        let all = [&OPEN, packets].concat();
        assert_eq!(fates(&all).0.last(), Some(&expected), "{packets:?}");
    }

    #[test]
    fn what_is_in_order_passes_across_the_wrap_of_the_sequence() {
        let first: Sent<'_> = (0, u32::MAX - 1, false, b"\x99one");
        last(&[first], Fate::Pass);
        last(
            &[first, (0, 2, false, b"\x99two"), (1, 10, false, b"\x99")],
            Fate::Pass,
        );
        last(&[first, (0, u32::MAX - 1, false, b"\x99one")], Fate::Pass);
        last(&[first, (0, 1, false, b"e")], Fate::Pass);
        last(&[first, (0, 1, false, b"ex")], Fate::Ask);
        last(&[first, (0, 3, false, b"x")], Fate::Ask);
        last(&[(0, u32::MAX, false, b"x")], Fate::Ask);
    }

    #[test]
    fn what_did_not_begin_here_is_asked_about() {
        assert_eq!(fates(&[(0, 5, false, b"")]).0, [Fate::Ask]);
        assert_eq!(fates(&[OPEN[0], (1, 5, false, b"x")]).0[1], Fate::Ask);
        assert_eq!(fates(&[(0, 5, true, b"x")]).0, [Fate::Ask]);
        last(&[OPEN[0]], Fate::Pass);
        // Data with other numbers than the latest SYN said; and all that follows.
        let other = (0, 77, true, b"".as_slice());
        let old = (0, u32::MAX - 1, false, b"\x99".as_slice());
        last(&[other, old], Fate::Ask);
        last(&[other, old, (0, 78, false, b"")], Fate::Ask);
    }

    #[test]
    fn another_syn_begins_another_connection_of_the_same_ends() {
        let hole = (0, 5_000, false, b"x".as_slice());
        last(&[hole], Fate::Ask);
        last(&[hole, (0, 77, true, b"")], Fate::Pass);
        last(
            &[hole, (0, 77, true, b""), (0, 78, false, b"\x99")],
            Fate::Pass,
        );
        // The same one once more does not.
        last(&[hole, OPEN[0]], Fate::Ask);
        last(&[(0, u32::MAX - 1, false, b"\x99"), OPEN[0]], Fate::Pass);
    }

    #[test]
    fn a_flow_is_done_when_the_classifier_would_be() {
        let mut packets = OPEN.to_vec();
        let bulk = [0x99; 1_448];
        for number in 0..8_u32 {
            packets.push((0, (u32::MAX - 1).wrapping_add(number * 1_448), false, &bulk));
            packets.push((1, 10 + number * 1_448, false, &bulk));
        }
        let (fates, stage) = fates(&packets);
        assert!(fates.iter().all(|&fate| fate == Fate::Pass) && stage == Stage::Done);
        packets.push((0, 7, false, b"GNUTELLA CONNECT/0.6\r\n"));
        assert_eq!(self::fates(&packets).0.last(), Some(&Fate::Pass));
    }
}
