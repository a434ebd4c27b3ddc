//! Classic pcap: one header, then records. Both byte orders, microseconds and nanoseconds.

use std::io::Read;
use std::time::Duration;

use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::window::Window;
use super::{CaptureError, Record};
use crate::limits::MAX_CAPTURED_PACKET;
use crate::packet::LinkType;
use crate::reader::{Reader, index};

/// Bytes of the file header.
pub(super) const HEADER: usize = 24;

/// What the file header says.
#[derive(Debug)]
pub(super) struct Pcap {
    big_endian: bool,
    nanoseconds: bool,
    record_header: usize,
    link: LinkType,
}

impl Pcap {
    /// Reads the file header, which is in the window as far as the file has it.
    pub(super) fn begin<R: Read>(name: &str, window: &mut Window<R>) -> Result<Self, CaptureError> {
        let header = match parse_pcap_header(window.bytes()) {
            Ok((_, header)) => header,
            Err(pcap_parser::nom::Err::Incomplete(_)) if is_pcap_magic(window.bytes()) => {
                let what = format!(
                    "the file ends inside its header, after {} of {HEADER} bytes",
                    window.bytes().len()
                );
                return Err(CaptureError::damaged(name, 0, what));
            }
            Err(_) => {
                let head: Vec<String> = window
                    .bytes()
                    .iter()
                    .take(4)
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                return Err(CaptureError::not_a_capture(
                    name,
                    format!("it begins with bytes {}", head.join(" ")),
                ));
            }
        };
        window.consume(HEADER);
        // The upper half of the field carries the length of a frame check sequence, not a link
        // type.
        let number = u32::from_ne_bytes(header.network.0.to_ne_bytes()) & 0xffff;
        let link = LinkType::from_number(number).ok_or_else(|| CaptureError::UnknownLink {
            name: name.to_owned(),
            link_type: number,
            skipped: 0,
        })?;
        Ok(Self {
            big_endian: header.is_bigendian(),
            nanoseconds: header.is_nanosecond_precision(),
            record_header: if header.is_modified_format() { 24 } else { 16 },
            link,
        })
    }

    /// Brings the next record into the window.
    pub(super) fn locate<R: Read>(
        &self,
        name: &str,
        window: &mut Window<R>,
    ) -> Result<Option<Record>, CaptureError> {
        let there = window.fill(self.record_header)?;
        let offset = window.offset();
        if there == 0 {
            return Ok(None);
        }
        let Some(captured) = self
            .captured_length(window.bytes())
            .filter(|_| there >= self.record_header)
        else {
            let what = format!(
                "the file ends inside a record header, after {there} of {} bytes",
                self.record_header
            );
            return Err(CaptureError::damaged(name, offset, what));
        };
        // Checked before the window grows: a damaged length must not decide what is allocated.
        if captured > MAX_CAPTURED_PACKET {
            let what = format!(
                "a record claims {captured} bytes, more than the {MAX_CAPTURED_PACKET} a packet can have"
            );
            return Err(CaptureError::damaged(name, offset, what));
        }
        let total = self.record_header.saturating_add(captured);
        let there = window.fill(total)?;
        if there < total {
            let part = there.saturating_sub(self.record_header);
            let what = format!("the file ends inside a packet, after {part} of {captured} bytes");
            return Err(CaptureError::damaged(name, offset, what));
        }
        self.record(window.bytes(), total)
            .map(Some)
            .ok_or_else(|| CaptureError::damaged(name, offset, "a record cannot be decoded"))
    }

    fn captured_length(&self, bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(bytes);
        reader.take(8)?;
        let length = if self.big_endian {
            reader.be32()?
        } else {
            reader.le32()?
        };
        Some(index(length))
    }

    fn record(&self, bytes: &[u8], total: usize) -> Option<Record> {
        let bytes = bytes.get(..total)?;
        let parsed = if self.big_endian {
            parse_pcap_frame_be(bytes)
        } else {
            parse_pcap_frame(bytes)
        };
        let (_, frame) = parsed.ok()?;
        let fraction = if self.nanoseconds {
            Duration::from_nanos(frame.ts_usec.into())
        } else {
            Duration::from_micros(frame.ts_usec.into())
        };
        Some(Record {
            total,
            data: self.record_header..total,
            timestamp: Duration::from_secs(frame.ts_sec.into()).saturating_add(fraction),
            link: self.link,
            // No packet was shorter on the wire than what was captured of it, whatever the file
            // claims.
            wire_len: frame.origlen.max(frame.caplen),
        })
    }
}

fn is_pcap_magic(bytes: &[u8]) -> bool {
    matches!(
        bytes.first_chunk::<4>(),
        Some(
            [0xd4, 0xc3, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0xc3, 0xd4]
                | [0x4d, 0x3c, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0x3c, 0x4d]
                | [0x34, 0xcd, 0xb2, 0xa1]
        )
    )
}
