//! What was read from a terminated connection, as the segments that a gateway between both ends
//! would have seen.

use std::net::SocketAddr;

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader};

use crate::limits::TERMINATED_READ;

/// Room for the headers before the bytes: IPv6 and TCP, without options.
pub(super) const HEADERS: usize = 40 + 20;
/// Hops that are left to it.
const HOPS: u8 = 64;

/// What a segment says besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
}

/// A segment to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) sequence: u32,
    /// What the sender has of the other end; `None`: nothing is acknowledged, as in a first SYN.
    pub(super) acknowledged: Option<u32>,
    pub(super) flags: Flags,
}

impl Segment {
    /// Writes the headers right before the bytes, which stand at [`HEADERS`]; gives where the
    /// packet begins. Its checksums stay 0 and are not verified. `None`: the two ends are not of
    /// one version of IP, or there are more than [`TERMINATED_READ`] bytes.
    pub(super) fn write(&self, buffer: &mut [u8], bytes: usize) -> Option<usize> {
        if bytes > TERMINATED_READ {
            return None;
        }
        let mut tcp = TcpHeader::new(self.from.port(), self.to.port(), self.sequence, u16::MAX);
        tcp.syn = self.flags.syn;
        tcp.fin = self.flags.fin;
        tcp.rst = self.flags.rst;
        tcp.psh = bytes > 0;
        if let Some(acknowledged) = self.acknowledged {
            tcp.ack = true;
            tcp.acknowledgment_number = acknowledged;
        }
        let tcp = tcp.to_bytes();
        let carried = u16::try_from(tcp.len().checked_add(bytes)?).ok()?;
        let begins = match (self.from, self.to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let (from, to) = (from.ip().octets(), to.ip().octets());
                let ip = Ipv4Header::new(carried, HOPS, IpNumber::TCP, from, to).ok()?;
                put(buffer, &ip.to_bytes(), &tcp)?
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: carried,
                    next_header: IpNumber::TCP,
                    hop_limit: HOPS,
                    source: from.ip().octets(),
                    destination: to.ip().octets(),
                };
                put(buffer, &ip.to_bytes(), &tcp)?
            }
            _ => return None,
        };
        Some(begins)
    }
}

/// Both headers, ending where the bytes begin.
fn put(buffer: &mut [u8], ip: &[u8], tcp: &[u8]) -> Option<usize> {
    let middle = HEADERS.checked_sub(tcp.len())?;
    let begins = middle.checked_sub(ip.len())?;
    buffer.get_mut(begins..middle)?.copy_from_slice(ip);
    buffer.get_mut(middle..HEADERS)?.copy_from_slice(tcp);
    Some(begins)
}

#[cfg(test)]
mod tests {
    use super::{Flags, HEADERS, Segment};
    use crate::limits::TERMINATED_READ;
    use crate::packet::{LinkType, decode};

    #[test]
    fn a_segment_is_read_as_it_was_meant() {
        for (from, to) in [
            ("10.0.0.1:5", "192.0.2.1:80"),
            ("[fd00::1]:5", "[2001:db8::1]:80"),
        ] {
            let segment = Segment {
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
                sequence: 7,
                acknowledged: Some(9),
                flags: Flags::default(),
            };
            for bytes in [0, 1, TERMINATED_READ] {
                let mut buffer = vec![0x5a; HEADERS + bytes];
                let begins = segment.write(&mut buffer, bytes).unwrap();
                let packet = decode(LinkType::RawIp, &buffer[begins..]).unwrap();
                assert_eq!(packet.source, segment.from);
                assert_eq!(packet.destination, segment.to);
                assert_eq!(packet.payload, vec![0x5a; bytes]);
                let tcp = packet.tcp.unwrap();
                assert_eq!((tcp.sequence, tcp.acknowledged, tcp.ack), (7, 9, true));
                assert!(!tcp.syn && !tcp.fin && !tcp.rst);
            }
        }
    }
}
