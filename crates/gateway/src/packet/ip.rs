//! IP headers, tunnels, and the transport header inside.

use std::net::SocketAddr;

use etherparse::err::ip::LaxHeaderSliceError;
use etherparse::err::tcp::HeaderSliceError;
use etherparse::{IpNumber, LaxIpSlice, TcpSlice, UdpSlice, ip_number};

use super::{L4, Packet, Skip, Tcp, link};
use crate::limits::MAX_ENCAPSULATION;
use crate::reader::{Reader, length32};

/// Decodes an IP packet, going into tunnels.
pub(super) fn decode(bytes: &[u8]) -> Result<Packet<'_>, Skip> {
    let mut bytes = bytes;
    for _ in 0..MAX_ENCAPSULATION {
        let (ip, _) = LaxIpSlice::from_slice(bytes).map_err(|error| match error {
            LaxHeaderSliceError::Len(_) => Skip::TruncatedIp,
            LaxHeaderSliceError::Content(_) => Skip::MalformedIp,
        })?;
        if fragment_offset(&ip) > 0 {
            return Err(Skip::LaterFragment);
        }
        let inner = ip.payload();
        match inner.ip_number {
            ip_number::TCP | ip_number::UDP => return transport(&ip, bytes.len()),
            ip_number::IPV4 | ip_number::IPV6 => bytes = inner.payload,
            ip_number::GRE => bytes = gre(inner.payload)?,
            _ => return Err(Skip::OtherProtocol),
        }
    }
    Err(Skip::TooDeep)
}

fn fragment_offset(ip: &LaxIpSlice<'_>) -> u16 {
    match ip {
        LaxIpSlice::Ipv4(ipv4) => ipv4.header().fragments_offset().value(),
        LaxIpSlice::Ipv6(ipv6) => {
            let first = ipv6.header().next_header();
            ipv6_fragment_offset(first, ipv6.extensions().slice()).unwrap_or(0)
        }
    }
}

/// Walks the extension headers (RFC 8200 §4). etherparse 0.21's own iterator reads past the end of a truncated chain.
fn ipv6_fragment_offset(first: IpNumber, extensions: &[u8]) -> Option<u16> {
    let (mut kind, mut reader) = (first, Reader::new(extensions));
    loop {
        let next = reader.u8()?;
        let length = usize::from(reader.u8()?);
        // Of each two bytes are read already.
        let rest = match kind {
            ip_number::IPV6_HEADER_HOP_BY_HOP
            | ip_number::IPV6_ROUTE_HEADER
            | ip_number::IPV6_DESTINATION_OPTIONS
            | ip_number::MOBILITY_HEADER
            | ip_number::HIP
            | ip_number::SHIM6 => length.saturating_add(1).saturating_mul(8),
            // RFC 4302 §2.2.
            ip_number::AUTHENTICATION_HEADER => length.saturating_add(2).saturating_mul(4),
            ip_number::IPV6_FRAGMENTATION_HEADER => return Some(reader.be16()? >> 3),
            _ => return None,
        };
        reader.take(rest.saturating_sub(2))?;
        kind = IpNumber(next);
    }
}

/// Bytes of the packet by its header; what was captured when the header leaves it open (segmentation offload).
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

fn transport<'a>(ip: &LaxIpSlice<'a>, captured: usize) -> Result<Packet<'a>, Skip> {
    let inner = ip.payload();
    let cut = inner.incomplete || inner.fragmented;
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    let ip_len = ip_len(ip, captured);
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
                        let _any = decode(&ipv6(first, &rest[..end]));
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
        assert!(matches!(decode(&packet), Err(Skip::LaterFragment)));
    }
}
