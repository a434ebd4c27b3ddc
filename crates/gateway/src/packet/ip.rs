//! IP headers, tunnels, and the transport header inside.

use std::net::{IpAddr, SocketAddr};

use etherparse::err::ip::LaxHeaderSliceError;
use etherparse::err::tcp::HeaderSliceError;
use etherparse::{LaxIpSlice, TcpSlice, UdpSlice, ip_number};

use super::{L4, Layer, Packet, Skip, Tcp, link};
use crate::limits::MAX_ENCAPSULATION;
use crate::reader::{Reader, length32};

/// A fragment of an IP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// The number that the fragments of one datagram share.
    pub identification: u32,
    /// IPv4's protocol, by which datagrams differ too; for IPv6 the header that follows the
    /// fragment header.
    pub protocol: u8,
    /// Position of the payload in the datagram, in bytes; a multiple of 8.
    pub offset: u16,
    /// Further fragments follow.
    pub more: bool,
    /// The headers before: IPv4's with options, or IPv6's up to the fragment header.
    pub head: &'a [u8],
    /// IPv6: position in `head` of the number that announces the fragment header.
    pub announced_at: usize,
    /// This part of the datagram.
    pub payload: &'a [u8],
}

/// Decodes an IP packet. Fragments are answered as such only if `fragments` is set, and tunnels are
/// entered only if `tunnels` is.
pub(super) fn decode(bytes: &[u8], fragments: bool, tunnels: bool) -> Result<Layer<'_>, Skip> {
    let mut bytes = bytes;
    // A sender can nest tunnels without end.
    for _ in 0..MAX_ENCAPSULATION {
        let (ip, _) = LaxIpSlice::from_slice(bytes).map_err(|error| match error {
            LaxHeaderSliceError::Len(_) => Skip::TruncatedIp,
            LaxHeaderSliceError::Content(_) => Skip::MalformedIp,
        })?;
        if let Some((fragment, whole)) = fragment(&ip, bytes) {
            if fragments && whole {
                return Ok(Layer::Fragment(fragment));
            }
            // Only the first fragment has the ports.
            if fragment.offset > 0 {
                return Err(Skip::LaterFragment);
            }
        }
        let inner = ip.payload();
        match inner.ip_number {
            ip_number::TCP | ip_number::UDP => return transport(&ip, bytes).map(Layer::Packet),
            ip_number::IPV4 | ip_number::IPV6 if tunnels => bytes = inner.payload,
            ip_number::GRE if tunnels => bytes = gre(inner.payload)?,
            _ => return Err(Skip::OtherProtocol),
        }
    }
    Err(Skip::TooDeep)
}

/// The packet as a fragment, and whether all of it was captured. An atomic fragment (RFC 6946) is
/// none.
fn fragment<'a>(ip: &LaxIpSlice<'a>, bytes: &'a [u8]) -> Option<(Fragment<'a>, bool)> {
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    match ip {
        LaxIpSlice::Ipv4(ipv4) => {
            let header = ipv4.header();
            let (offset, more) = (header.fragments_offset(), header.more_fragments());
            if offset.value() == 0 && !more {
                return None;
            }
            let head = bytes.get(..header.slice().len())?;
            let (payload, whole) = within(bytes, head.len(), header.total_len().into());
            let fragment = Fragment {
                source,
                destination,
                identification: header.identification().into(),
                protocol: header.protocol().0,
                offset: offset.byte_offset(),
                more,
                head,
                announced_at: 9,
                payload,
            };
            Some((fragment, whole))
        }
        LaxIpSlice::Ipv6(ipv6) => {
            let extension = Extensions::of(bytes).find(|extension| extension.kind == 44)?;
            let mut reader = Reader::new(extension.bytes);
            let [protocol, _] = reader.array()?;
            let field = reader.be16()?;
            let (offset, more) = (field & !7, field & 1 == 1);
            if offset == 0 && !more {
                return None;
            }
            // 0 in a jumbogram (RFC 2675 §3), and then the captured bytes are all there is to go
            // by.
            let end = match ipv6.header().payload_length() {
                0 => 0,
                length => usize::from(length).saturating_add(40),
            };
            let (payload, whole) = within(bytes, extension.at.saturating_add(8), end);
            let fragment = Fragment {
                source,
                destination,
                identification: reader.be32()?,
                protocol,
                offset,
                more,
                head: bytes.get(..extension.at)?,
                announced_at: extension.announced_at,
                payload,
            };
            Some((fragment, whole))
        }
    }
}

/// Bytes from `from` to a declared end, and whether they are all here. Zero declares nothing
/// (segmentation offload).
fn within(bytes: &[u8], from: usize, end: usize) -> (&[u8], bool) {
    let end = if end == 0 { bytes.len() } else { end };
    let payload = bytes.get(from..end.min(bytes.len())).unwrap_or_default();
    (payload, end <= bytes.len())
}

/// An extension header of IPv6.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extension<'a> {
    /// Its number.
    pub(super) kind: u8,
    /// Its position in the packet.
    pub(super) at: usize,
    /// Position of the number that announces it.
    pub(super) announced_at: usize,
    /// From its beginning to the end of the packet.
    pub(super) bytes: &'a [u8],
}

/// The extension headers of an IPv6 packet (RFC 8200 §4); behind the header of a later fragment
/// they mean nothing. etherparse 0.21's own iterator reads past the end of a truncated chain.
#[derive(Clone, Debug)]
pub(super) struct Extensions<'a> {
    packet: &'a [u8],
    at: usize,
    announced_at: usize,
}

impl<'a> Extensions<'a> {
    pub(super) fn of(packet: &'a [u8]) -> Self {
        Self {
            packet,
            at: 40,
            announced_at: 6,
        }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let kind = *self.packet.get(self.announced_at)?;
        if !matches!(kind, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140) {
            return None;
        }
        let extension = Extension {
            kind,
            at: self.at,
            announced_at: self.announced_at,
            bytes: self.packet.get(self.at..)?,
        };
        let claimed = usize::from(*extension.bytes.get(1)?);
        let length = match kind {
            44 => 8,
            // RFC 4302 §2.2.
            51 => claimed.saturating_add(2).saturating_mul(4),
            _ => claimed.saturating_add(1).saturating_mul(8),
        };
        self.announced_at = self.at;
        self.at = self.at.saturating_add(length);
        Some(extension)
    }
}

/// Bytes of the packet by its header; what was captured when the header leaves it open
/// (segmentation offload).
fn ip_len(ip: &LaxIpSlice<'_>, captured: usize) -> u32 {
    let (declared, header) = match ip {
        LaxIpSlice::Ipv4(ipv4) => (
            u32::from(ipv4.header().total_len()),
            length32(ipv4.header().slice().len()),
        ),
        LaxIpSlice::Ipv6(ipv6) => match ipv6.header().payload_length() {
            0 => (0, 40),
            length => (u32::from(length).saturating_add(40), 40),
        },
    };
    if declared < header {
        length32(captured)
    } else {
        declared
    }
}

/// The IP header with what belongs to it.
fn header<'a>(ip: &LaxIpSlice<'a>, bytes: &'a [u8]) -> &'a [u8] {
    let length = match ip {
        LaxIpSlice::Ipv4(ipv4) => ipv4.header().slice().len(),
        LaxIpSlice::Ipv6(ipv6) => ipv6.extensions().slice().len().saturating_add(40),
    };
    bytes.get(..length).unwrap_or_default()
}

fn transport<'a>(ip: &LaxIpSlice<'a>, bytes: &'a [u8]) -> Result<Packet<'a>, Skip> {
    let inner = ip.payload();
    let ip_header = header(ip, bytes);
    let cut = inner.incomplete || inner.fragmented;
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    let ip_len = ip_len(ip, bytes.len());
    if inner.ip_number == ip_number::TCP {
        let tcp = TcpSlice::from_slice(inner.payload).map_err(|error| match error {
            HeaderSliceError::Len(_) => Skip::TruncatedTransport,
            HeaderSliceError::Content(_) => Skip::MalformedTransport,
        })?;
        let payload = inner
            .payload
            .get(tcp.header_slice().len()..)
            .unwrap_or_default();
        return Ok(Packet {
            l4: L4::Tcp,
            source: SocketAddr::new(source, tcp.source_port()),
            destination: SocketAddr::new(destination, tcp.destination_port()),
            ip_len,
            ip_header,
            segment: inner.payload,
            payload,
            truncated: cut,
            tcp: Some(Tcp {
                sequence: tcp.sequence_number(),
                acknowledged: tcp.acknowledgment_number(),
                syn: tcp.syn(),
                ack: tcp.ack(),
                fin: tcp.fin(),
                rst: tcp.rst(),
            }),
        });
    }
    let udp = UdpSlice::from_slice_lax(inner.payload).map_err(|_| Skip::TruncatedTransport)?;
    // RFC 768: the length covers the 8 bytes of the header.
    let end = match usize::from(udp.length()) {
        0 => inner.payload.len(),
        1..8 => return Err(Skip::MalformedTransport),
        length => length.min(inner.payload.len()),
    };
    Ok(Packet {
        l4: L4::Udp,
        source: SocketAddr::new(source, udp.source_port()),
        destination: SocketAddr::new(destination, udp.destination_port()),
        ip_len,
        ip_header,
        segment: inner.payload.get(..end).unwrap_or_default(),
        payload: inner.payload.get(8..end).unwrap_or_default(),
        truncated: cut,
        tcp: None,
    })
}

/// RFC 2784 and RFC 2890: flags, protocol, then optional checksum, key and sequence number.
fn gre(bytes: &[u8]) -> Result<&[u8], Skip> {
    let mut reader = Reader::new(bytes);
    let flags = reader.be16().ok_or(Skip::TruncatedIp)?;
    let protocol = reader.be16().ok_or(Skip::TruncatedIp)?;
    // Version 1 (PPTP) and source routing are left alone.
    if flags & 0x4007 != 0 {
        return Err(Skip::OtherProtocol);
    }
    for bit in [0x8000, 0x2000, 0x1000] {
        if flags & bit != 0 {
            reader.take(4).ok_or(Skip::TruncatedIp)?;
        }
    }
    if protocol == 0x6558 {
        reader.take(12).ok_or(Skip::TruncatedIp)?;
        let inner = reader.be16().ok_or(Skip::TruncatedIp)?;
        return link::by_ether_type(inner, reader);
    }
    link::by_ether_type(protocol, reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv6 packet whose header promises `first` as the next one.
    fn ipv6(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&u16::try_from(rest.len()).unwrap().to_be_bytes());
        packet.extend_from_slice(&[first, 64]);
        packet.extend_from_slice(&[0xfd; 32]);
        packet.extend_from_slice(rest);
        packet
    }

    #[test]
    fn extension_headers_may_end_anywhere() {
        for first in [0, 43, 44, 51, 60, 135, 139, 140] {
            for second in [0, 6, 17, 44, 51, 60] {
                for claimed in [0, 1, 2, 255] {
                    let mut rest = [0; 64];
                    rest[..2].copy_from_slice(&[second, claimed]);
                    rest[8..10].copy_from_slice(&[17, 200]);
                    for end in 0..rest.len() {
                        let _any = decode(&ipv6(first, &rest[..end]), true, true);
                    }
                }
            }
        }
    }

    #[test]
    fn a_later_fragment_behind_options_is_known() {
        let options = [44, 0, 1, 4, 0, 0, 0, 0];
        let fragment = [17, 0, 0x01, 0x00, 0, 0, 0, 1];
        let packet = ipv6(60, &[&options[..], &fragment, &[0; 16]].concat());
        assert!(matches!(
            decode(&packet, false, true),
            Err(Skip::LaterFragment)
        ));
        let Ok(Layer::Fragment(fragment)) = decode(&packet, true, true) else {
            panic!("a fragment");
        };
        assert_eq!(
            (fragment.offset, fragment.more, fragment.identification),
            (256, false, 1)
        );
        assert_eq!((fragment.head.len(), fragment.announced_at), (48, 40));
        assert_eq!((fragment.protocol, fragment.payload.len()), (17, 16));
    }
}
