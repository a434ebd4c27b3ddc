//! pcapng: sections of blocks, each section with its own byte order and interfaces.

use std::io::Read;
use std::time::Duration;

use pcap_parser::{
    Block, InterfaceDescriptionBlock, SimplePacketBlock, parse_block_be, parse_block_le,
};

use super::window::Window;
use super::{CaptureError, Record};
use crate::limits::{MAX_BLOCK, MAX_CAPTURED_PACKET, MAX_INTERFACES};
use crate::packet::LinkType;
use crate::reader::{Reader, index};

/// First bytes of a section header block, the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Type and length before, length after.
const BLOCK_FRAME: usize = 12;
const MICROSECONDS: u64 = 1_000_000;

#[derive(Clone, Debug)]
struct Interface {
    link: Result<LinkType, u32>,
    per_second: u64,
    offset: i64,
    snap_len: u32,
}

/// State of the current section.
#[derive(Debug, Default)]
pub(super) struct PcapNg {
    big_endian: bool,
    interfaces: Vec<Interface>,
    last: Duration,
    /// Link type and number of packets that were passed over.
    unknown: Option<(u32, u64)>,
}

/// The fields of the three kinds of packet block.
struct Fields {
    interface: usize,
    ticks: Option<u64>,
    captured: usize,
    wire_len: u32,
    at: usize,
}

impl PcapNg {
    /// Brings the next packet block into the window, taking in the other blocks on the way.
    pub(super) fn locate<R: Read>(
        &mut self,
        name: &str,
        window: &mut Window<R>,
    ) -> Result<Option<Record>, CaptureError> {
        loop {
            let there = window.fill(BLOCK_FRAME)?;
            if there == 0 {
                return self.at_end(name);
            }
            let offset = window.offset();
            let damaged = |what: String| CaptureError::damaged(name, offset, what);
            let (kind, length) = self.block_head(window.bytes()).map_err(damaged)?;
            if !matches!(
                kind,
                SECTION | INTERFACE | OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET
            ) {
                // Skipped without being buffered, so such a block may have any length.
                let passed = window.skip(length)?;
                if passed < length {
                    return Err(damaged(cut_short(passed, length)));
                }
                continue;
            }
            if length > MAX_BLOCK {
                return Err(damaged(format!(
                    "a block claims {length} bytes, more than the {MAX_BLOCK} it can have"
                )));
            }
            let there = window.fill(length)?;
            let block = window
                .bytes()
                .get(..length)
                .ok_or_else(|| damaged(cut_short(there, length)))?;
            match self.handle_block(kind, block).map_err(damaged)? {
                Some(record) => return Ok(Some(record)),
                None => window.consume(length),
            }
        }
    }

    fn at_end(&mut self, name: &str) -> Result<Option<Record>, CaptureError> {
        match self.unknown.take() {
            Some((link_type, skipped)) => Err(CaptureError::UnknownLink {
                name: name.to_owned(),
                link_type,
                skipped,
            }),
            None => Ok(None),
        }
    }

    /// Type and checked length of the block at the beginning of `bytes`; a section header also sets
    /// the byte order.
    fn block_head(&mut self, bytes: &[u8]) -> Result<(u32, usize), String> {
        let mut reader = Reader::new(bytes);
        let fields = (
            reader.array::<4>(),
            reader.array::<4>(),
            reader.array::<4>(),
        );
        let (Some(kind), Some(length), Some(order)) = fields else {
            return Err(format!(
                "the file ends inside a block header, after {} bytes",
                bytes.len()
            ));
        };
        // The order comes first, because the length is written in it.
        if kind == SECTION_HEADER {
            self.big_endian = match order {
                [0x1a, 0x2b, 0x3c, 0x4d] => true,
                [0x4d, 0x3c, 0x2b, 0x1a] => false,
                _ => return Err("a section header has no valid byte-order mark".to_owned()),
            };
        }
        let length = index(self.u32(length));
        if length < BLOCK_FRAME || !length.is_multiple_of(4) {
            return Err(format!("a block claims a length of {length} bytes"));
        }
        Ok((self.u32(kind), length))
    }

    fn u32(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    fn handle_block(&mut self, kind: u32, block: &[u8]) -> Result<Option<Record>, String> {
        if block.last_chunk::<4>() != block.get(4..8).and_then(|length| length.first_chunk()) {
            return Err("the two lengths of a block differ".to_owned());
        }
        if kind == OBSOLETE_PACKET {
            let fields = self
                .obsolete_packet(block)
                .ok_or("a packet block cannot be decoded")?;
            return self.record(&fields, block.len());
        }
        let parsed = if self.big_endian {
            parse_block_be(block)
        } else {
            parse_block_le(block)
        };
        let (_, parsed) =
            parsed.map_err(|_| format!("a block of type {kind} cannot be decoded"))?;
        let fields = match parsed {
            // Each section numbers its interfaces from 0.
            Block::SectionHeader(_) => {
                self.interfaces.clear();
                return Ok(None);
            }
            Block::InterfaceDescription(description) => {
                return self.describe(&description).map(|()| None);
            }
            Block::EnhancedPacket(packet) => Fields {
                interface: index(packet.if_id),
                ticks: Some(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)),
                captured: index(packet.caplen),
                wire_len: packet.origlen,
                at: 28,
            },
            Block::SimplePacket(packet) => self.simple_packet(&packet),
            _ => return Ok(None),
        };
        self.record(&fields, block.len())
    }

    /// Takes in an interface of the section.
    fn describe(&mut self, description: &InterfaceDescriptionBlock<'_>) -> Result<(), String> {
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(format!(
                "a section has more than {MAX_INTERFACES} interfaces"
            ));
        }
        let number = u32::from_ne_bytes(description.linktype.0.to_ne_bytes());
        // `pcap-parser` 0.17 reads the offset as little-endian always.
        let offset = if self.big_endian {
            description.if_tsoffset.swap_bytes()
        } else {
            description.if_tsoffset
        };
        self.interfaces.push(Interface {
            link: LinkType::from_number(number).ok_or(number),
            per_second: per_second(description.if_tsresol),
            offset,
            snap_len: description.snaplen,
        });
        Ok(())
    }

    /// A packet without time, always of the first interface, cut at its snap length.
    fn simple_packet(&self, packet: &SimplePacketBlock<'_>) -> Fields {
        let first = self.interfaces.first();
        let snap_len = first.map_or(0, |interface| interface.snap_len);
        let limit = if snap_len == 0 { u32::MAX } else { snap_len };
        Fields {
            interface: 0,
            ticks: None,
            captured: index(packet.origlen.min(limit)).min(packet.data.len()),
            wire_len: packet.origlen,
            at: 12,
        }
    }

    /// The packet block of the first drafts of the format, which `pcap-parser` does not decode.
    fn obsolete_packet(&self, block: &[u8]) -> Option<Fields> {
        let mut reader = Reader::new(block);
        reader.take(8)?;
        let interface: [u8; 2] = reader.array()?;
        reader.take(2)?;
        let interface = if self.big_endian {
            u16::from_be_bytes(interface)
        } else {
            u16::from_le_bytes(interface)
        };
        let high = self.u32(reader.array()?);
        let low = self.u32(reader.array()?);
        let captured = index(self.u32(reader.array()?));
        let wire_len = self.u32(reader.array()?);
        let ticks = Some(u64::from(high) << 32 | u64::from(low));
        Some(Fields {
            interface: interface.into(),
            ticks,
            captured,
            wire_len,
            at: 28,
        })
    }

    fn record(&mut self, fields: &Fields, total: usize) -> Result<Option<Record>, String> {
        let Some(interface) = self.interfaces.get(fields.interface) else {
            return Err(format!(
                "a packet names interface {}, which its section does not describe",
                fields.interface
            ));
        };
        let end = fields.at.saturating_add(fields.captured);
        if fields.captured > MAX_CAPTURED_PACKET || end > total.saturating_sub(4) {
            return Err(format!(
                "a packet claims {} bytes, more than its block has",
                fields.captured
            ));
        }
        let link = match interface.link {
            Ok(link) => link,
            // The file's other interfaces can still be read, so this is counted and no error.
            Err(number) => {
                let (_, skipped) = self.unknown.get_or_insert((number, 0));
                *skipped = skipped.saturating_add(1);
                return Ok(None);
            }
        };
        // A simple packet block has no time: its packet gets that of the one before.
        if let Some(ticks) = fields.ticks {
            self.last = timestamp(ticks, interface);
        }
        let captured = u32::try_from(fields.captured).unwrap_or(u32::MAX);
        let wire_len = fields.wire_len.max(captured);
        Ok(Some(Record {
            total,
            data: fields.at..end,
            timestamp: self.last,
            link,
            wire_len,
        }))
    }
}

/// The option `if_tsresol`: a power of ten, or of two where the top bit is set. (`pcap-parser` 0.17
/// refuses all powers of two.) What no 64-bit number can hold counts as the default.
fn per_second(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base = if resolution & 0x80 == 0 { 10_u64 } else { 2 };
    base.checked_pow(exponent).unwrap_or(MICROSECONDS)
}

fn timestamp(ticks: u64, interface: &Interface) -> Duration {
    let per_second = interface.per_second.max(1);
    let seconds = ticks
        .checked_div(per_second)
        .unwrap_or(0)
        .saturating_add_signed(interface.offset);
    let part = u128::from(ticks.checked_rem(per_second).unwrap_or(0));
    let nanoseconds = part
        .saturating_mul(1_000_000_000)
        .checked_div(u128::from(per_second))
        .unwrap_or(0);
    Duration::from_secs(seconds).saturating_add(Duration::from_nanos(
        u64::try_from(nanoseconds).unwrap_or(0),
    ))
}

fn cut_short(there: usize, length: usize) -> String {
    format!("the file ends inside a block, after {there} of {length} bytes")
}
