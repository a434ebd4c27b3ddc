//! Checksums of IPv4, TCP and UDP (RFC 1071), and packets with another payload.

use std::net::IpAddr;

use super::ip::Extensions;
use super::{L4, LinkType, Packet, decode};

/// Whether a packet's checksums are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// All that apply are right; a UDP datagram over IPv4 without one counts as that (RFC 768).
    Good,
    /// One is wrong: the receiver discards the packet.
    Bad,
    /// It covers bytes that are not here (snap length, first fragment), or the final address of a
    /// source route.
    NotVerifiable,
}

impl Packet<'_> {
    /// Verifies the checksums of the innermost IPv4 header and of TCP or UDP.
    ///
    /// Packets captured on their sender, and packets that the receiving network card or kernel has
    /// joined (segmentation and receive offload), carry checksums that are not filled in yet.
    /// The caller knows where packets come from, and so decides whether to verify.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        let is_v4 = self.source.is_ipv4();
        if is_v4 && folded(sum(self.ip_header, 0)) != 0xffff {
            return Checksum::Bad;
        }
        if self.truncated || self.is_source_routed() {
            return Checksum::NotVerifiable;
        }
        let unset = self.l4 == L4::Udp && self.segment.get(6..8) == Some(&[0, 0]);
        if unset {
            // Over IPv6 receivers may be configured to take them (RFC 6936); whether this one does
            // is not known.
            return if is_v4 {
                Checksum::Good
            } else {
                Checksum::NotVerifiable
            };
        }
        if folded(sum(self.segment, self.pseudo_header())) == 0xffff {
            Checksum::Good
        } else {
            Checksum::Bad
        }
    }

    /// RFC 9293 §3.1 and RFC 8200 §8.1: addresses, protocol, length.
    fn pseudo_header(&self) -> u64 {
        let protocol = match self.l4 {
            L4::Tcp => 6,
            L4::Udp => 17,
        };
        let length = u64::try_from(self.segment.len()).unwrap_or(u64::MAX);
        let mut total = length.saturating_add(protocol);
        for address in [self.source.ip(), self.destination.ip()] {
            total = match address {
                IpAddr::V4(v4) => sum(&v4.octets(), total),
                IpAddr::V6(v6) => sum(&v6.octets(), total),
            };
        }
        total
    }

    /// The checksum covers another address than the header's: IPv4 source routing, an IPv6 routing
    /// header with segments left.
    fn is_source_routed(&self) -> bool {
        if self.source.is_ipv4() {
            return has_source_route(self.ip_header.get(20..).unwrap_or_default());
        }
        Extensions::of(self.ip_header).any(|extension| {
            extension.kind == 43 && extension.bytes.get(3).is_some_and(|&left| left > 0)
        })
    }
}

/// RFC 791 §3.1: loose and strict source routes among the options.
fn has_source_route(mut options: &[u8]) -> bool {
    while let Some((&kind, rest)) = options.split_first() {
        options = match kind {
            0 => return false,
            1 => rest,
            131 | 137 => return true,
            _ => {
                let length = rest.first().map_or(2, |&length| usize::from(length).max(2));
                options.get(length..).unwrap_or_default()
            }
        };
    }
    false
}

/// Adds 16-bit words. Words of 32 bits add up to the same, as 2^16 is 1 modulo 65 535.
fn sum(bytes: &[u8], start: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let total = words.iter().fold(start, |total, word| {
        total.saturating_add(u32::from_be_bytes(*word).into())
    });
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    total.saturating_add(u32::from_be_bytes(last).into())
}

fn folded(sum: u64) -> u16 {
    let mut sum = sum;
    while let Err(_large) = u16::try_from(sum) {
        sum = (sum & 0xffff).saturating_add(sum >> 16);
    }
    u16::try_from(sum).unwrap_or(0)
}

/// Fills in the checksum of an IPv4 header, whose field is at bytes 10 and 11.
pub(super) fn fill_ipv4(header: &mut [u8]) {
    put(header, 10, 0);
    let checksum = !folded(sum(header, 0));
    put(header, 10, checksum);
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    let field = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>);
    if let Some(field) = field {
        *field = value.to_be_bytes();
    }
}

/// Puts another payload of the same length into a captured TCP or UDP packet and fills in the
/// transport's checksum. Returns whether it could: a packet that is cut, source-routed or of
/// another length stays as it is.
#[must_use]
pub fn replace_payload(link: LinkType, bytes: &mut [u8], payload: &[u8]) -> bool {
    let Ok(packet) = decode(link, bytes) else {
        return false;
    };
    if packet.truncated || packet.is_source_routed() || packet.payload.len() != payload.len() {
        return false;
    }
    let base = bytes.as_ptr().addr();
    let place = |part: &[u8]| part.as_ptr().addr().saturating_sub(base);
    let (segment_at, payload_at) = (place(packet.segment), place(packet.payload));
    let (l4, pseudo, length) = (packet.l4, packet.pseudo_header(), packet.segment.len());
    let end = payload_at.saturating_add(payload.len());
    if let Some(old) = bytes.get_mut(payload_at..end) {
        old.copy_from_slice(payload);
    }
    let Some(segment) = bytes.get_mut(segment_at..segment_at.saturating_add(length)) else {
        return false;
    };
    let field = match l4 {
        L4::Tcp => 16,
        L4::Udp => 6,
    };
    put(segment, field, 0);
    let checksum = !folded(sum(segment, pseudo));
    // Zero means none for UDP; the other zero of ones' complement means the same number (RFC 768).
    put(
        segment,
        field,
        if l4 == L4::Udp && checksum == 0 {
            0xffff
        } else {
            checksum
        },
    );
    true
}
