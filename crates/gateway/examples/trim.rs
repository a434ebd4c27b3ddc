//! Makes a small capture of a large one: `trim IN OUT FLOWS [PORT…]` keeps that many flows with
//! data of each port, or that many answered ones of all, each up to its first data packets in both
//! directions, with times from zero.
//!
//! What a card has joined is split again into what it was on the wire, with right checksums.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use etherparse::{IpHeaders, PacketBuilder, TcpHeader};
use ringway_gateway::packet::{Packet, decode};
use ringway_gateway::{CaptureReader, L4, LinkType, Packets};

/// Data packets of each direction: some more than are inspected.
const DATA: usize = 12;
/// Bytes of a segment.
const SEGMENT: usize = 1_448;

#[derive(Default)]
struct Kept {
    packets: Vec<(Duration, Vec<u8>)>,
    /// Data packets by who sent them: the caller, the other.
    data: [usize; 2],
    caller: Option<SocketAddr>,
}

impl Kept {
    fn is_wanted(&self, named: bool) -> bool {
        let spoke = |&count: &usize| count > 0;
        self.data.iter().all(spoke) || (named && self.data.iter().any(spoke))
    }

    fn take_in(&mut self, now: Duration, packet: &Packet<'_>) -> Result<(), Box<dyn Error>> {
        let caller = *self.caller.get_or_insert(packet.source);
        let from = usize::from(packet.source != caller);
        // A gap behind the last would be a flow of another kind.
        if self.data.iter().any(|&count| count >= DATA) || packet.truncated {
            return Ok(());
        }
        for (place, part) in parts(packet.payload).enumerate() {
            let offset = place.saturating_mul(SEGMENT);
            self.packets.push((now, rebuilt(packet, offset, part)?));
            if let Some(count) = self.data.get_mut(from).filter(|_| !part.is_empty()) {
                *count = count.saturating_add(1);
            }
        }
        Ok(())
    }
}

/// The payload in segments; an empty one is one too.
fn parts(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let empty = payload.is_empty().then_some(payload);
    payload.chunks(SEGMENT).chain(empty).take(DATA)
}

fn rebuilt(packet: &Packet<'_>, offset: usize, part: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let whole = [packet.ip_header, packet.segment].concat();
    let (ip, _) = IpHeaders::from_slice(&whole)?;
    let step = PacketBuilder::ip(ip);
    let mut bytes = Vec::new();
    if packet.l4 == L4::Udp {
        step.udp(packet.source.port(), packet.destination.port())
            .write(&mut bytes, part)?;
    } else {
        let (mut header, _) = TcpHeader::from_slice(packet.segment)?;
        header.sequence_number = header.sequence_number.wrapping_add(u32::try_from(offset)?);
        step.tcp_header(header).write(&mut bytes, part)?;
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or("trim IN OUT FLOWS [PORT…]");
    let (input, output, most) = (word()?, word()?, word()?.parse::<usize>()?);
    let ports = words
        .map(|port| port.parse())
        .collect::<Result<Vec<u16>, _>>()?;

    let mut reader = CaptureReader::open(Path::new(&input))?;
    let mut places = BTreeMap::new();
    let mut flows: Vec<(Option<u16>, Kept)> = Vec::new();
    while let Some(captured) = reader.next_packet()? {
        let Ok(packet) = decode(captured.link, captured.bytes) else {
            continue;
        };
        let mut ends = [packet.source, packet.destination];
        let port = ports
            .iter()
            .find(|&&port| ends.iter().any(|end| end.port() == port));
        if (port.is_none() && !ports.is_empty()) || ends.iter().any(|end| end.ip().is_loopback()) {
            continue;
        }
        ends.sort();
        let place = *places.entry((packet.l4, ends)).or_insert(flows.len());
        if place == flows.len() {
            flows.push((port.copied(), Kept::default()));
        }
        if let Some((_, kept)) = flows.get_mut(place) {
            kept.take_in(captured.timestamp, &packet)?;
        }
    }

    let mut counts: BTreeMap<Option<u16>, usize> = BTreeMap::new();
    flows.retain(|(port, kept)| {
        let count = counts.entry(*port).or_default();
        let keep = kept.is_wanted(port.is_some()) && *count < most;
        *count = count.saturating_add(keep.into());
        keep
    });
    let mut packets: Vec<_> = flows
        .into_iter()
        .flat_map(|(_, kept)| kept.packets)
        .collect();
    packets.sort_by_key(|(now, _)| *now);
    let mut trimmed = Packets::starting_at(Duration::ZERO);
    let mut before = packets.first().map_or(Duration::ZERO, |(now, _)| *now);
    for (now, bytes) in packets {
        trimmed.wait(now.saturating_sub(before));
        before = now;
        trimmed.push(bytes);
    }
    std::fs::write(output, trimmed.to_pcap(LinkType::RawIp))?;
    Ok(())
}
