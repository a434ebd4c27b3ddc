//! Link headers: what stands before the IP packet.

use super::Skip;
use crate::limits::MAX_ENCAPSULATION;
use crate::reader::Reader;

/// A link type that can be decoded; numbers as in the tcpdump.org registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkType {
    /// 0: BSD loopback, address family in the byte order of the capturing machine.
    Null,
    /// 1: Ethernet, with VLAN tags, MPLS and PPPoE inside.
    Ethernet,
    /// 9: PPP, with or without HDLC-like framing.
    Ppp,
    /// 12, 14, 101, 228, 229: an IP packet and nothing before it.
    RawIp,
    /// 108: OpenBSD loopback, address family in network byte order.
    Loop,
    /// 113: Linux cooked capture, version 1.
    LinuxCooked,
    /// 239: what `tcpdump -i nflog` writes: fields, one of which is the IP packet.
    Nflog,
    /// 276: Linux cooked capture, version 2.
    LinuxCooked2,
}

impl LinkType {
    /// The link type with this registry number, if it can be decoded.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            9 => Self::Ppp,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            108 => Self::Loop,
            113 => Self::LinuxCooked,
            239 => Self::Nflog,
            276 => Self::LinuxCooked2,
            _ => return None,
        })
    }

    /// The registry number under which this link type is written.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Null => 0,
            Self::Ethernet => 1,
            Self::Ppp => 9,
            Self::RawIp => 101,
            Self::Loop => 108,
            Self::LinuxCooked => 113,
            Self::Nflog => 239,
            Self::LinuxCooked2 => 276,
        }
    }

    /// The IP packet inside a frame.
    pub(super) fn network_layer(self, bytes: &[u8]) -> Result<&[u8], Skip> {
        let mut reader = Reader::new(bytes);
        match self {
            Self::RawIp => Ok(bytes),
            Self::Null | Self::Loop => {
                reader.array::<4>().ok_or(Skip::TruncatedLink)?;
                // The family's number differs between systems; the IP version says the same and is
                // always right.
                by_version(reader.rest())
            }
            Self::Ppp => ppp(reader),
            Self::Ethernet => {
                reader.take(12).ok_or(Skip::TruncatedLink)?;
                let ether_type = reader.be16().ok_or(Skip::TruncatedLink)?;
                by_ether_type(ether_type, reader)
            }
            Self::LinuxCooked => {
                reader.take(14).ok_or(Skip::TruncatedLink)?;
                let ether_type = reader.be16().ok_or(Skip::TruncatedLink)?;
                by_ether_type(ether_type, reader)
            }
            Self::Nflog => {
                // A family, a version, and the group's number.
                let [_, version, _, _] = reader.array::<4>().ok_or(Skip::TruncatedLink)?;
                let orders = [u16::from_le_bytes, u16::from_be_bytes];
                let payload = orders
                    .into_iter()
                    .find_map(|order| nflog_payload(reader.rest(), order));
                match (version, payload) {
                    (0, Some(payload)) => by_version(payload),
                    _ => Err(Skip::NotIp),
                }
            }
            Self::LinuxCooked2 => {
                let ether_type = reader.be16().ok_or(Skip::TruncatedLink)?;
                reader.take(18).ok_or(Skip::TruncatedLink)?;
                by_ether_type(ether_type, reader)
            }
        }
    }
}

/// What an EtherType announces, also behind tags. GRE uses the same numbers.
pub(super) fn by_ether_type<'a>(first: u16, mut reader: Reader<'a>) -> Result<&'a [u8], Skip> {
    let mut ether_type = first;
    for _ in 0..MAX_ENCAPSULATION {
        match ether_type {
            0x0800 | 0x86dd => return Ok(reader.rest()),
            // VLAN, provider bridging (QinQ) and its older numbers.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                reader.take(2).ok_or(Skip::TruncatedLink)?;
                ether_type = reader.be16().ok_or(Skip::TruncatedLink)?;
            }
            0x8847 | 0x8848 => return mpls(reader),
            0x8864 => {
                reader.take(6).ok_or(Skip::TruncatedLink)?;
                return ppp(reader);
            }
            // Up to 1500 it is the length of an 802.3 frame: LLC and SNAP follow.
            0..=1500 => {
                let snap = reader.array::<6>().ok_or(Skip::TruncatedLink)?;
                if snap != [0xaa, 0xaa, 3, 0, 0, 0] {
                    return Err(Skip::NotIp);
                }
                ether_type = reader.be16().ok_or(Skip::TruncatedLink)?;
            }
            _ => return Err(Skip::NotIp),
        }
    }
    Err(Skip::TooDeep)
}

/// The packet among the fields, in the byte order of the machine that captured it: each has its
/// length, its kind, and is padded to four bytes.
fn nflog_payload(bytes: &[u8], order: fn([u8; 2]) -> u16) -> Option<&[u8]> {
    const PAYLOAD: u16 = 9;
    let mut rest = bytes;
    loop {
        let mut reader = Reader::new(rest);
        let length = usize::from(order(reader.array()?));
        let kind = order(reader.array()?) & 0x7fff;
        let value = reader.take(length.checked_sub(4)?)?;
        if kind == PAYLOAD {
            return Some(value);
        }
        rest = rest.get(length.checked_next_multiple_of(4)?..)?;
    }
}

fn mpls(mut reader: Reader<'_>) -> Result<&[u8], Skip> {
    for _ in 0..MAX_ENCAPSULATION {
        let [_, _, last, _] = reader.array::<4>().ok_or(Skip::TruncatedLink)?;
        if last & 1 == 1 {
            return by_version(reader.rest());
        }
    }
    Err(Skip::TooDeep)
}

fn ppp(mut reader: Reader<'_>) -> Result<&[u8], Skip> {
    if reader.rest().starts_with(&[0xff, 0x03]) {
        reader.take(2).ok_or(Skip::TruncatedLink)?;
    }
    let first = reader.u8().ok_or(Skip::TruncatedLink)?;
    // RFC 1661 §6.5: a protocol number below 256 may be sent in one byte, which is then odd.
    let protocol = if first & 1 == 1 {
        u16::from(first)
    } else {
        u16::from_be_bytes([first, reader.u8().ok_or(Skip::TruncatedLink)?])
    };
    match protocol {
        0x0021 | 0x0057 => Ok(reader.rest()),
        _ => Err(Skip::NotIp),
    }
}

pub(super) fn by_version(bytes: &[u8]) -> Result<&[u8], Skip> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4 | 6) => Ok(bytes),
        Some(_) => Err(Skip::NotIp),
        None => Err(Skip::TruncatedLink),
    }
}
