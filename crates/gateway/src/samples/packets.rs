//! Packets made in memory: TCP conversations and UDP exchanges with times, for samples and tests.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use etherparse::{
    IpHeaders, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader, ip_number,
};
use pcap_parser::{LegacyPcapBlock, Linktype, PcapHeader, ToVec};

use crate::packet::LinkType;
use crate::reader::length32;

/// Time between two made packets.
const PACE: Duration = Duration::from_millis(20);
/// Largest TCP segment that is made: Ethernet without options.
const SEGMENT: usize = 1_460;
const TTL: u8 = 64;

/// IP packets with their times, in order.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    now: Duration,
    packets: Vec<(Duration, Vec<u8>)>,
}

/// A TCP conversation that adds its segments to [`Packets`].
#[derive(Debug)]
pub struct TcpStream<'a> {
    packets: &'a mut Packets,
    client: SocketAddr,
    server: SocketAddr,
    client_next: u32,
    server_next: u32,
}

impl Packets {
    /// No packets yet; the first one is at the given time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No packets yet; the first one comes after this time.
    #[must_use]
    pub fn starting_at(now: Duration) -> Self {
        Self {
            now,
            packets: Vec::new(),
        }
    }

    /// Lets time pass before the next packet.
    pub fn wait(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// Adds an IP packet as it is.
    pub fn push(&mut self, bytes: Vec<u8>) {
        self.packets.push((self.now, bytes));
        self.wait(PACE);
    }

    /// Adds a UDP datagram. One that is too large for UDP is left out.
    pub fn udp(&mut self, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        let mut bytes = Vec::new();
        let headers = ip_headers(source.ip(), destination.ip());
        let step = PacketBuilder::ip(headers).udp(source.port(), destination.port());
        if step.write(&mut bytes, payload).is_ok() {
            self.push(bytes);
        }
    }

    /// Begins a TCP conversation.
    pub fn tcp(&mut self, client: SocketAddr, server: SocketAddr) -> TcpStream<'_> {
        TcpStream {
            packets: self,
            client,
            server,
            client_next: 1_000,
            server_next: 500_000,
        }
    }

    /// Times and bytes of the IP packets.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, &[u8])> {
        self.packets
            .iter()
            .map(|(now, bytes)| (*now, bytes.as_slice()))
    }

    /// A pcap file (little-endian, microseconds) of these packets with the given link header before
    /// each.
    #[must_use]
    pub fn to_pcap(&self, link: LinkType) -> Vec<u8> {
        let mut header = PcapHeader {
            network: Linktype(link.number().into()),
            snaplen: 262_144,
            ..PcapHeader::new()
        };
        let mut file = header.to_vec().unwrap_or_default();
        for (now, bytes) in self.iter() {
            let data = frame(link, bytes);
            let mut block = LegacyPcapBlock {
                ts_sec: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
                ts_usec: now.subsec_micros(),
                caplen: length32(data.len()),
                origlen: length32(data.len()),
                data: &data,
            };
            file.extend(block.to_vec().unwrap_or_default());
        }
        file
    }

    fn segment(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
        tcp: TcpHeader,
        payload: &[u8],
    ) {
        let mut bytes = Vec::new();
        let headers = ip_headers(source.ip(), destination.ip());
        if PacketBuilder::ip(headers)
            .tcp_header(tcp)
            .write(&mut bytes, payload)
            .is_ok()
        {
            self.push(bytes);
        }
    }
}

impl TcpStream<'_> {
    /// The three packets that open a connection.
    pub fn open(&mut self) {
        self.send(true, &[], |tcp| (tcp.syn, tcp.ack) = (true, false));
        self.client_next = self.client_next.wrapping_add(1);
        self.send(false, &[], |tcp| tcp.syn = true);
        self.server_next = self.server_next.wrapping_add(1);
        self.send(true, &[], |_| {});
    }

    /// The four packets that close it.
    pub fn close(&mut self) {
        self.send(true, &[], |tcp| tcp.fin = true);
        self.client_next = self.client_next.wrapping_add(1);
        self.send(false, &[], |tcp| tcp.fin = true);
        self.server_next = self.server_next.wrapping_add(1);
        self.send(true, &[], |_| {});
    }

    /// An abort by the server.
    pub fn reset(&mut self) {
        self.send(false, &[], |tcp| tcp.rst = true);
    }

    /// Data from the client, in as many segments as it takes.
    pub fn client(&mut self, data: &[u8]) {
        self.data(true, data, SEGMENT);
    }

    /// Data from the server.
    pub fn server(&mut self, data: &[u8]) {
        self.data(false, data, SEGMENT);
    }

    /// Data from the client in segments of `size` bytes.
    pub fn client_in_parts(&mut self, data: &[u8], size: usize) {
        self.data(true, data, size.max(1));
    }

    /// Continues with other sequence numbers, as a new connection of the same addresses does.
    pub fn renumber(&mut self, client: u32, server: u32) {
        (self.client_next, self.server_next) = (client, server);
    }

    /// The packets, to let time pass.
    pub fn packets(&mut self) -> &mut Packets {
        self.packets
    }

    fn data(&mut self, from_client: bool, data: &[u8], size: usize) {
        for part in data.chunks(size) {
            self.send(from_client, part, |tcp| tcp.psh = true);
            let next = if from_client {
                &mut self.client_next
            } else {
                &mut self.server_next
            };
            *next = next.wrapping_add(length32(part.len()));
        }
    }

    fn send(&mut self, from_client: bool, payload: &[u8], flags: impl FnOnce(&mut TcpHeader)) {
        let (source, destination, sequence, acknowledged) = if from_client {
            (self.client, self.server, self.client_next, self.server_next)
        } else {
            (self.server, self.client, self.server_next, self.client_next)
        };
        let mut tcp = TcpHeader::new(source.port(), destination.port(), sequence, 64_240);
        tcp.ack = true;
        flags(&mut tcp);
        if tcp.ack {
            tcp.acknowledgment_number = acknowledged;
        }
        self.packets.segment(source, destination, tcp, payload);
    }
}

/// IP headers for a pair of addresses; of different families both are written as IPv6.
fn ip_headers(source: IpAddr, destination: IpAddr) -> IpHeaders {
    if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        let header = Ipv4Header {
            time_to_live: TTL,
            protocol: ip_number::TCP,
            source: source.octets(),
            destination: destination.octets(),
            ..Ipv4Header::default()
        };
        return IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default());
    }
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: 0,
        next_header: ip_number::TCP,
        hop_limit: TTL,
        source: octets(source),
        destination: octets(destination),
    };
    IpHeaders::Ipv6(header, etherparse::Ipv6Extensions::default())
}

/// An IP packet behind the link header that this link type wants.
#[must_use]
pub fn frame(link: LinkType, packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let ether_type: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    // BSD's address families: 2 is IPv4, 24 one of its numbers for IPv6.
    let family = if is_v6 { 24_u32 } else { 2 };
    let header = match link {
        LinkType::RawIp => Vec::new(),
        LinkType::Null => family.to_le_bytes().to_vec(),
        LinkType::Loop => family.to_be_bytes().to_vec(),
        LinkType::Ppp => [
            &[0xff, 0x03][..],
            if is_v6 { &[0x00, 0x57] } else { &[0x00, 0x21] },
        ]
        .concat(),
        LinkType::Ethernet => [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type].concat(),
        LinkType::LinuxCooked => {
            [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0][..], &ether_type].concat()
        }
        LinkType::Nflog => {
            let length = u16::try_from(packet.len().saturating_add(4)).unwrap_or(u16::MAX);
            // No padding: it is the last field.
            [&[2, 0, 0, 5][..], &length.to_le_bytes(), &[9, 0]].concat()
        }
        LinkType::LinuxCooked2 => [
            &ether_type[..],
            &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0],
        ]
        .concat(),
    };
    [header.as_slice(), packet].concat()
}
