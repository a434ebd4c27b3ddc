//! Conversations of captures, changed on the way as a sender could, as packets for a wire.
//!
//! What the changes do to the verdicts is tested without a wire, in
//! `crates/gateway/tests/it/evasion.rs`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_gateway::CaptureReader;
use ringway_gateway::packet::{Tcp, decode};

use super::beside::Tested;

#[path = "../../../../gateway/tests/it/cut.rs"]
mod cut;

/// Bytes of a segment: what fits into Ethernet with either version's headers.
const SEGMENT: usize = 1_400;
/// Bytes that are sent one by one: of eight data packets the gateway looks at what they say.
const BYTEWISE: usize = 10;
/// Packets of each connection: more than are looked at before it is called something
/// (`MAX_UNDECIDED_PACKETS`).
const MOST: usize = 80;
/// How often a connection that does not end says its last thing again.
const AGAIN: usize = 8;

/// A segment or a datagram.
#[derive(Clone, Debug)]
pub(super) struct Part {
    source: SocketAddr,
    destination: SocketAddr,
    tcp: Option<Tcp>,
    payload: Vec<u8>,
    /// It comes from inside.
    outbound: bool,
    /// Sent with a wrong checksum.
    decoy: bool,
}

impl Part {
    fn is_data(&self) -> bool {
        self.tcp.is_some_and(|tcp| !tcp.syn) && !self.payload.is_empty()
    }

    /// A piece of the payload as a segment of its own.
    fn piece(&self, from: usize, to: usize) -> Part {
        let last = to == self.payload.len();
        let tcp = self.tcp.map(|tcp| Tcp {
            sequence: tcp.sequence.wrapping_add(u32::try_from(from).unwrap()),
            fin: tcp.fin && last,
            ..tcp
        });
        Part {
            payload: self.payload[from..to].to_vec(),
            tcp,
            ..self.clone()
        }
    }

    /// In pieces that end at these places.
    fn cut(&self, places: impl IntoIterator<Item = usize>) -> Vec<Part> {
        let length = self.payload.len();
        let mut from = 0;
        let mut pieces = Vec::new();
        for to in places.into_iter().chain([length]) {
            if from < to && to <= length {
                pieces.push(self.piece(from, to));
                from = to;
            }
        }
        pieces
    }

    /// The same place with other bytes.
    fn garbage(&self) -> Part {
        let mut other = self.clone();
        for (place, byte) in other.payload.iter_mut().enumerate() {
            *byte ^= 0x80 | u8::try_from(place % 64).unwrap();
        }
        other
    }

    /// The IP packet.
    fn packet(&self) -> Vec<u8> {
        let mut segment = [self.source.port(), self.destination.port()]
            .map(u16::to_be_bytes)
            .concat();
        let place = match self.tcp {
            Some(tcp) => {
                segment.extend(tcp.sequence.to_be_bytes());
                segment.extend(tcp.acknowledged.to_be_bytes());
                let flags = [(tcp.fin, 1), (tcp.syn, 2), (tcp.rst, 4), (tcp.ack, 16)];
                let flags = flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit);
                segment.extend([0x50, flags.sum(), 0xfa, 0xf0, 0, 0, 0, 0]);
                16
            }
            None => {
                let length = u16::try_from(8 + self.payload.len()).unwrap();
                segment.extend(length.to_be_bytes());
                segment.extend([0, 0]);
                6
            }
        };
        segment.extend(&self.payload);
        let protocol = if self.tcp.is_some() { 6 } else { 17 };
        let length = u16::try_from(segment.len()).unwrap();
        let ends = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
            (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
            mixed => unreachable!("{mixed:?}"),
        };
        let of_both = [0, protocol].into_iter().chain(length.to_be_bytes());
        let pseudo: Vec<u8> = ends.iter().copied().chain(of_both).collect();
        let sum = checksum(&[pseudo, segment.clone()].concat()) ^ u16::from(self.decoy);
        segment[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        let mut packet = if self.source.is_ipv4() {
            let total = (length + 20).to_be_bytes();
            // The kernel puts the header's checksum in.
            let mut head = vec![0x45, 0, total[0], total[1]];
            head.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            head
        } else {
            let length = length.to_be_bytes();
            vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64]
        };
        packet.extend(ends);
        packet.extend(segment);
        packet
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// What is done to a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Nothing,
    SplitAt(usize),
    SecondHalfFirst(usize),
    ThirdsInDisorder,
    Twice,
    /// The first copy of a byte counts.
    SecondCopy,
    SecondCopyBehindAGap,
    WrongChecksums,
    Fragments {
        ipv6: bool,
    },
    ByteByByte,
    Ipv6,
    /// All at once.
    Everything,
}

/// All of them.
pub(super) const CHANGES: [Change; 15] = [
    Change::Nothing,
    Change::SplitAt(1),
    Change::SplitAt(3),
    Change::SplitAt(20),
    Change::SecondHalfFirst(5),
    Change::ThirdsInDisorder,
    Change::Twice,
    Change::SecondCopy,
    Change::SecondCopyBehindAGap,
    Change::WrongChecksums,
    Change::Fragments { ipv6: false },
    Change::Fragments { ipv6: true },
    Change::ByteByByte,
    Change::Ipv6,
    Change::Everything,
];

impl Change {
    fn ipv6(self) -> bool {
        matches!(
            self,
            Change::Ipv6 | Change::Fragments { ipv6: true } | Change::Everything
        )
    }

    fn of_segment(self, part: &Part) -> Vec<Part> {
        let half = part.payload.len() / 2;
        match self {
            Change::SplitAt(place) => part.cut([place]),
            Change::SecondHalfFirst(place) => part.cut([place]).into_iter().rev().collect(),
            Change::ThirdsInDisorder => {
                let third = part.payload.len() / 3;
                let mut pieces = part.cut([third, 2 * third]);
                pieces.rotate_right(1);
                pieces
            }
            Change::SecondCopy => vec![part.clone(), part.garbage()],
            Change::SecondCopyBehindAGap | Change::Everything => {
                let mut pieces = part.cut([half]);
                pieces.reverse();
                pieces.insert(1, pieces[0].garbage());
                pieces
            }
            Change::ByteByByte => part.cut(1..BYTEWISE),
            _ => vec![part.clone()],
        }
    }

    /// The packets, and whether each comes from inside.
    pub(super) fn wire(self, parts: &[Part]) -> Vec<(bool, Vec<u8>)> {
        let mut wire = Vec::new();
        for part in parts {
            let pieces = match part.is_data() {
                true => self.of_segment(part),
                false => vec![part.clone()],
            };
            for part in pieces {
                let mut packets = vec![part.packet()];
                if matches!(self, Change::Twice) {
                    packets.push(part.packet());
                }
                if matches!(self, Change::WrongChecksums | Change::Everything)
                    && !part.payload.is_empty()
                {
                    let decoy = Part {
                        decoy: true,
                        ..part.garbage()
                    };
                    packets.insert(0, decoy.packet());
                }
                if matches!(self, Change::Fragments { .. } | Change::Everything) {
                    let cut = |packet: &Vec<u8>| fragments(packet, wire.len());
                    packets = packets.iter().flat_map(cut).collect();
                }
                wire.extend(packets.into_iter().map(|packet| (part.outbound, packet)));
            }
        }
        wire
    }
}

/// The last one first; each packet's have a number of their own.
fn fragments(packet: &[u8], number: usize) -> Vec<Vec<u8>> {
    let size = if packet.len() > 200 { 256 } else { 24 };
    let number = u16::try_from(number).unwrap().wrapping_add(1).to_be_bytes();
    let mut pieces = cut::fragments(packet, size);
    for piece in &mut pieces {
        let place = if piece[0] >> 4 == 6 { 46 } else { 4 };
        piece[place..place + 2].copy_from_slice(&number);
    }
    pieces.reverse();
    pieces
}

/// A capture's packets between hosts inside and outside that only this change of this capture has.
pub(super) fn parts(file: &[u8], change: (usize, Change), capture: usize) -> Tested<Vec<Part>> {
    let mut reader = CaptureReader::new("capture", file)?;
    let mut sides: HashMap<IpAddr, (bool, u8)> = HashMap::new();
    let mut parts = Vec::new();
    while let Some(captured) = reader.next_packet()? {
        let packet = decode(captured.link, captured.bytes).map_err(|why| format!("{why:?}"))?;
        let [from, to] = [packet.source, packet.destination];
        let next = u8::try_from(sides.len())? + 1;
        let outbound = match (sides.get(&from.ip()), sides.get(&to.ip())) {
            (Some((inside, _)), _) => *inside,
            (None, Some((inside, _))) => !inside,
            (None, None) => true,
        };
        let here = *sides.entry(from.ip()).or_insert((outbound, next));
        let there = *sides.entry(to.ip()).or_insert((!outbound, next + 1));
        if here.0 == there.0 {
            // It does not cross the border.
            continue;
        }
        let place = |(inside, host): (bool, u8)| address(inside, change, capture, host);
        let part = Part {
            source: SocketAddr::new(place(here), from.port()),
            destination: SocketAddr::new(place(there), to.port()),
            tcp: packet.tcp,
            payload: packet.payload.to_vec(),
            outbound,
            decoy: false,
        };
        // What was joined when it was captured.
        let places = (1..).map(|count| count * SEGMENT);
        match part.is_data() {
            true => parts.extend(part.cut(places.take_while(|place| *place < part.payload.len()))),
            false => parts.push(part),
        }
    }
    Ok(shortened(parts))
}

/// The first parts of each connection, and its last one again if it does not end there. The kernel
/// does not tell of an acknowledgement that ends a handshake, nor of a handshake's packet that
/// comes twice, so that a count of undecided packets (`MAX_UNDECIDED_PACKETS`) is full some packets
/// later there: a conversation of just so many packets would be called otherwise.
fn shortened(parts: Vec<Part>) -> Vec<Part> {
    let mut connections: BTreeMap<_, Vec<Part>> = BTreeMap::new();
    let mut short = Vec::new();
    for part in parts {
        let (one, other) = (part.source, part.destination);
        let connection = connections
            .entry((one.min(other), one.max(other)))
            .or_default();
        if connection.len() < MOST {
            connection.push(part.clone());
            short.push(part);
        }
    }
    for connection in connections.values() {
        let ends = |part: &Part| part.tcp.is_none_or(|tcp| tcp.fin || tcp.rst);
        if let Some(last) = connection.last()
            && !connection.iter().any(ends)
        {
            short.extend(std::iter::repeat_n(last.clone(), AGAIN));
        }
    }
    short
}

/// Inside 10.96.0.0/11 and 2001:db8:a::/48, outside 100.64.0.0/10 and 2001:db8:b::/48.
fn address(inside: bool, (number, change): (usize, Change), capture: usize, host: u8) -> IpAddr {
    let (number, capture) = (
        u8::try_from(number).unwrap(),
        u8::try_from(capture).unwrap(),
    );
    if change.ipv6() {
        let side = if inside { 0xa } else { 0xb };
        let place = [number, capture, host].map(u16::from);
        let [number, capture, host] = place;
        return Ipv6Addr::new(0x2001, 0xdb8, side, number, capture, 0, 0, host).into();
    }
    let [first, second] = if inside { [10, 96] } else { [100, 64] };
    Ipv4Addr::new(first, second + number, capture, host).into()
}
