//! What has passed in a flow before user space was asked about it, as packets: the papers' special
//! packet.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::maps::{MapData, RingBuf};

use super::layout::{Address, Flow, Form as _, KeptHead, Port};
use crate::limits::{FULL_SEGMENT, MAX_HANDED, MAX_UNKNOWN};
use crate::linux::inject::Mac;
use crate::packet::{L4, LinkType, decode};
use crate::reader::length32;

/// Bytes that a packet made here says at most that it has: IP reports no more of those that were
/// joined than 64 KiB.
const LONGEST: u32 = 60_000;
const SYN: u8 = 0x02;
const PUSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Flows that are handed over, for the loops of all queues: whichever gets a flow's packet takes
/// what had passed of it.
#[derive(Clone)]
pub struct FlowBacklog(Arc<BacklogState>);

struct BacklogState {
    /// Flows that wait to be taken; none is by far the most usual.
    count: AtomicUsize,
    contents: Mutex<Contents>,
}

struct Contents {
    ring: RingBuf<MapData>,
    waiting: Waiting,
}

/// What had passed in a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedPackets {
    /// Whole packets in their order, of which the end may be missing.
    pub packets: Vec<Vec<u8>>,
    /// The receiver of the packet that is asked about, and where it is on its link.
    pub receiver: Option<(IpAddr, Mac)>,
}

/// Flows by their ends, the oldest first.
#[derive(Default)]
struct Waiting {
    flows: HashMap<Ends, PassedPackets>,
    order: VecDeque<Ends>,
}

/// The lower end, the higher one, and the transport.
type Ends = (SocketAddr, SocketAddr, L4);

impl fmt::Debug for FlowBacklog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowBacklog").finish_non_exhaustive()
    }
}

impl FlowBacklog {
    pub(super) fn new(ring: RingBuf<MapData>) -> Self {
        Self(Arc::new(BacklogState {
            count: AtomicUsize::new(0),
            contents: Mutex::new(Contents {
                ring,
                waiting: Waiting::default(),
            }),
        }))
    }

    /// Looks for what the kernel has handed over since. It does that before the packet comes that
    /// is asked about.
    pub fn look(&self) {
        let mut contents = self.contents();
        let Contents { ring, waiting } = &mut *contents;
        while let Some(flow) = ring.next() {
            let flow = Flow::read(&mut &*flow);
            if let Some(passed) = flow.and_then(Passed::of) {
                let taken = PassedPackets {
                    packets: passed.packets(),
                    receiver: passed.receiver(),
                };
                waiting.add(passed.key(), taken);
            }
        }
        self.0.count.store(waiting.flows.len(), Ordering::Relaxed);
    }

    /// What had passed in the flow of this IP packet, if that was not taken yet.
    #[must_use]
    pub fn take(&self, packet: &[u8]) -> Option<PassedPackets> {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let packet = decode(LinkType::RawIp, packet).ok()?;
        let key = key(packet.source, packet.destination, packet.l4);
        let mut contents = self.contents();
        let taken = contents.waiting.take(&key);
        self.0
            .count
            .store(contents.waiting.flows.len(), Ordering::Relaxed);
        taken
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0
            .contents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self, ends: &Ends) -> Option<PassedPackets> {
        let taken = self.flows.remove(ends);
        if self.flows.is_empty() {
            self.order.clear();
        }
        taken
    }

    /// A flow that comes again begins afresh. The oldest is forgotten where there are too many:
    /// its packet was lost.
    fn add(&mut self, ends: Ends, taken: PassedPackets) {
        if self.flows.insert(ends, taken).is_none() {
            self.order.push_back(ends);
        }
        while self.order.len() > MAX_HANDED {
            if let Some(oldest) = self.order.pop_front() {
                self.flows.remove(&oldest);
            }
        }
    }
}

fn key(one: SocketAddr, other: SocketAddr, l4: L4) -> Ends {
    let [one, other] = [one, other].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
    (one.min(other), one.max(other), l4)
}

/// A flow, its ends and numbers; the sender of the first packet comes first.
#[derive(Clone, Debug)]
struct Passed {
    ends: [SocketAddr; 2],
    l4: L4,
    /// The number of the SYN of each, and whether it is a SYN-ACK.
    opened: [Option<(u32, bool)>; 2],
    flow: Flow,
}

impl Passed {
    fn of(flow: Flow) -> Option<Self> {
        let end = |address: &Address, port: Port| SocketAddr::new(address.ip(), port.number());
        let low = end(&flow.ends.low, flow.ends.low_port);
        let high = end(&flow.ends.high, flow.ends.high_port);
        let l4 = match flow.ends.l4 {
            6 => L4::Tcp,
            17 => L4::Udp,
            _ => return None,
        };
        let ends = match flow.from_high {
            0 => [low, high],
            _ => [high, low],
        };
        let [opened, answer] = flow.opened;
        let [first, second] = flow.first;
        let opened = [(opened, first), (answer, second)].map(|(opened, number)| match opened {
            1 => Some((number, false)),
            2 => Some((number, true)),
            _ => None,
        });
        Some(Self {
            ends,
            l4,
            opened,
            flow,
        })
    }

    fn key(&self) -> Ends {
        let [one, other] = self.ends;
        key(one, other, self.l4)
    }

    fn receiver(&self) -> Option<(IpAddr, Mac)> {
        let [first, second] = self.ends;
        let receiver = match self.flow.linked {
            1 => second,
            2 => first,
            _ => return None,
        };
        let at: Mac = self.flow.receiver;
        // What goes to many says nothing about one.
        let one = at[0] & 1 == 0 && at != Mac::default();
        one.then_some((receiver.ip(), at))
    }

    fn packets(&self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for (from, opened) in self.opened.into_iter().enumerate() {
            if let Some((number, answered)) = opened {
                let flags = if answered { SYN | ACK } else { SYN };
                packets.push(self.packet(from, number, flags, 0, &[]));
            }
        }
        let used = usize::try_from(self.flow.used).unwrap_or(usize::MAX);
        let mut rest = self.flow.kept.as_slice();
        rest = rest.get(..used).unwrap_or(rest);
        // How far each has come.
        let mut reached = self
            .opened
            .map(|opened| opened.map(|(number, _)| number.wrapping_add(1)));
        while let Some((head, bytes)) = kept(rest) {
            let (from, number) = (usize::from(head.from & 1), head.sequence);
            let said = match self.l4 {
                L4::Tcp => head.length.min(LONGEST),
                L4::Udp => head.length,
            };
            packets.push(self.packet(from, number, PUSH | ACK, said, bytes));
            let next = number.wrapping_add(head.length);
            self.unknown(from, number.wrapping_add(said), next, &mut packets);
            if let Some(reached) = reached.get_mut(from) {
                *reached = reached.map(|_| next);
            }
            let whole = KeptHead::BYTES.saturating_add(bytes.len());
            rest = rest.get(whole.next_multiple_of(4)..).unwrap_or_default();
        }
        for (from, (reached, next)) in reached.into_iter().zip(self.flow.next).enumerate() {
            if let Some(reached) = reached {
                self.unknown(from, reached, next, &mut packets);
            }
        }
        packets
    }

    /// Packets without a byte for what has passed and was not kept: as many as there were of its
    /// sender, at most, so that they count as those did.
    fn unknown(&self, from: usize, mut number: u32, end: u32, packets: &mut Vec<Vec<u8>>) {
        // What is behind is no gap: the program in the kernel was changing it.
        let far = end.wrapping_sub(number);
        if self.l4 == L4::Udp || far > MAX_UNKNOWN {
            return;
        }
        let count = self.flow.counts.get(from).copied().unwrap_or(1).max(1);
        let piece = far
            .div_ceil(count.into())
            .clamp(length32(FULL_SEGMENT), LONGEST);
        while number != end {
            let length = end.wrapping_sub(number).min(piece);
            packets.push(self.packet(from, number, PUSH | ACK, length, &[]));
            number = number.wrapping_add(length);
        }
    }

    /// A packet with a payload of `length` bytes, of which these are there.
    fn packet(&self, from: usize, number: u32, flags: u8, length: u32, bytes: &[u8]) -> Vec<u8> {
        let [first, second] = self.ends;
        let [opened, answer] = self.opened;
        let (source, destination, other) = match from {
            0 => (first, second, answer),
            _ => (second, first, opened),
        };
        let acknowledged = match (flags & ACK, other) {
            (0, _) | (_, None) => 0,
            // What data acknowledged was not kept. Anybody may have sent them, so they acknowledge
            // no more than an end without a reply could.
            (_, Some((number, _))) if flags & SYN == 0 => number,
            (_, Some((number, _))) => number.wrapping_add(1),
        };
        let mut transport = [
            source.port().to_be_bytes(),
            destination.port().to_be_bytes(),
        ]
        .concat();
        match self.l4 {
            L4::Tcp => {
                transport.extend(number.to_be_bytes());
                transport.extend(acknowledged.to_be_bytes());
                // Five words of header and the largest window. The checksum was verified when the
                // packet passed.
                transport.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
            }
            L4::Udp => {
                let said = u16::try_from(length.saturating_add(8)).unwrap_or(u16::MAX);
                transport.extend(said.to_be_bytes());
                transport.extend([0, 0]);
            }
        }
        let whole = transport
            .len()
            .saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        let mut packet = header(self.l4, (source.ip(), destination.ip()), whole);
        packet.extend(transport);
        packet.extend_from_slice(bytes);
        packet
    }
}

/// The next packet that was kept, and what is there of it.
fn kept(mut bytes: &[u8]) -> Option<(KeptHead, &[u8])> {
    let head = KeptHead::read(&mut bytes)?;
    let there = bytes.get(..usize::from(head.kept))?;
    (!there.is_empty()).then_some((head, there))
}

/// The header of IP before this many bytes.
fn header(l4: L4, ends: (IpAddr, IpAddr), length: usize) -> Vec<u8> {
    let protocol = match l4 {
        L4::Tcp => 6,
        L4::Udp => 17,
    };
    match ends {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let whole = u16::try_from(length.saturating_add(20)).unwrap_or(u16::MAX);
            let mut header = vec![0x45, 0];
            header.extend(whole.to_be_bytes());
            // The decoder does not verify the checksum, which stays 0.
            header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            header
        }
        (source, destination) => {
            let octets = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
            header.extend([protocol, 64]);
            header.extend(octets(source));
            header.extend(octets(destination));
            header
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "small numbers of the tests' own"
)]
mod tests {
    use super::super::layout::{Address, Flow, Form as _, KeptHead, Port};
    use super::{ACK, Passed, PassedPackets, SYN, Waiting, key};
    use crate::packet::{Decoder, L4, LinkType};

    /// A connection from the higher end, with these packets.
    fn flow(kept: &[(u8, u32, u32, &[u8])]) -> Flow {
        let mut flow = Flow::read(&mut [0; Flow::BYTES].as_slice()).unwrap();
        flow.ends.low = Address::of([10, 0, 0, 2].into());
        flow.ends.high = Address::of([192, 0, 2, 9].into());
        (flow.ends.low_port, flow.ends.high_port) = (Port::new(50_000), Port::new(6_881));
        flow.ends.l4 = 6;
        (flow.from_high, flow.opened) = (1, [1, 2]);
        (flow.first, flow.next) = ([1_000, 9_000], [1_001, 9_001]);
        let mut written = Vec::new();
        for (from, length, sequence, bytes) in kept {
            flow.next[usize::from(*from)] = sequence + length;
            let head = KeptHead {
                from: *from,
                zero: 0,
                kept: u16::try_from(bytes.len()).unwrap(),
                length: *length,
                sequence: *sequence,
            };
            head.write(&mut written);
            written.extend(*bytes);
            written.resize(written.len().next_multiple_of(4), 0);
        }
        flow.used = u32::try_from(written.len()).unwrap();
        flow.kept[..written.len()].copy_from_slice(&written);
        flow
    }

    fn passed(byte: u8) -> PassedPackets {
        PassedPackets {
            packets: vec![vec![byte]],
            receiver: None,
        }
    }

    #[test]
    fn who_receives_is_known_by_its_link_address() {
        let mut flow = flow(&[]);
        let receiver = |flow: &Flow| Passed::of(flow.clone()).unwrap().receiver();
        assert_eq!(receiver(&flow), None);
        let at = [0x52, 0x54, 0, 0, 0, 7];
        for (linked, host) in [(1, "10.0.0.2"), (2, "192.0.2.9")] {
            (flow.receiver, flow.linked) = (at, linked);
            assert_eq!(receiver(&flow), Some((host.parse().unwrap(), at)));
            for many in [[0xff; 6], [0; 6]] {
                flow.receiver = many;
                assert_eq!(receiver(&flow), None);
            }
        }
    }

    #[test]
    fn a_flow_is_replayed_as_its_packets() {
        let flow = flow(&[
            (0, 5, 1_001, b"hello"),
            (1, 40_000, 9_001, b"there is more"),
        ]);
        let packets = Passed::of(flow).unwrap().packets();
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        for bytes in &packets {
            decoder.handle_packet(
                std::time::Duration::ZERO,
                LinkType::RawIp,
                bytes,
                &mut |packet| {
                    let tcp = packet.tcp.unwrap();
                    assert_eq!(packet.l4, L4::Tcp);
                    seen.push((
                        packet.source.port(),
                        tcp.sequence,
                        tcp.syn,
                        tcp.ack,
                        packet.payload.to_vec(),
                        packet.truncated,
                    ));
                },
            );
        }
        let expected = [
            (6_881, 1_000, true, false, Vec::new(), false),
            (50_000, 9_000, true, true, Vec::new(), false),
            (6_881, 1_001, false, true, b"hello".to_vec(), false),
            (50_000, 9_001, false, true, b"there is more".to_vec(), true),
        ];
        assert_eq!(seen, expected);
        assert_eq!(packets[1][33] & (SYN | ACK), SYN | ACK);
    }

    #[test]
    fn packets_that_were_not_kept_return_empty() {
        let mut flow = flow(&[(0, 5, 1_001, b"hello"), (1, 130_000, 9_001, b"joined")]);
        flow.next[0] = 1_206;
        let lengths = |flow: &Flow| -> Vec<(u16, u32, u32, usize)> {
            let packets = Passed::of(flow.clone()).unwrap().packets();
            let one = |bytes: &Vec<u8>| {
                let packet = crate::packet::decode(LinkType::RawIp, bytes).unwrap();
                let (tcp, length) = (packet.tcp.unwrap(), packet.wire_payload());
                (
                    packet.source.port(),
                    tcp.sequence,
                    length,
                    packet.payload.len(),
                )
            };
            packets.iter().skip(2).map(one).collect()
        };
        assert_eq!(
            lengths(&flow),
            [
                (6_881, 1_001, 5, 5),
                (50_000, 9_001, 60_000, 6),
                (50_000, 69_001, 60_000, 0),
                (50_000, 129_001, 10_000, 0),
                (6_881, 1_006, 200, 0),
            ]
        );
        // A number that goes back, or is far away, is written wrong.
        for next in [1_000_u32, 1_006 + (1 << 25) + 1] {
            flow.next[0] = next;
            assert_eq!(lengths(&flow).len(), 4, "{next}");
        }
    }

    #[test]
    fn the_oldest_go_and_both_ends_find_others() {
        let mut waiting = Waiting::default();
        let server = "192.0.2.9:6881".parse().unwrap();
        let client = |number: usize| {
            let number = u32::try_from(number).unwrap();
            std::net::SocketAddr::from((std::net::Ipv4Addr::from(number), 7))
        };
        let most = crate::limits::MAX_HANDED;
        for number in 0..most + 10 {
            let ends = key(client(number), server, L4::Tcp);
            waiting.add(ends, passed(1));
            waiting.add(ends, passed(2));
        }
        assert_eq!((waiting.flows.len(), waiting.order.len()), (most, most));
        let mut take = |number| waiting.take(&key(server, client(number), L4::Tcp));
        assert_eq!((take(9), take(10)), (None, Some(passed(2))));
    }

    #[test]
    fn any_record_is_read_or_skipped() {
        let mut whole = Vec::new();
        flow(&[(0, 5, 1_001, b"hello"), (1, 13, 9_001, b"there is more")]).write(&mut whole);
        let take = |mut bytes: &[u8]| {
            let passed = Flow::read(&mut bytes).and_then(Passed::of);
            passed.map(|passed| passed.packets().len())
        };
        assert_eq!(take(&whole), Some(4));
        assert!((0..whole.len()).all(|cut| take(&whole[..cut]).is_none()));
        for at in 0..whole.len().min(160) {
            let was = std::mem::replace(&mut whole[at], 0xff);
            take(&whole);
            whole[at] = was;
        }
    }
}
