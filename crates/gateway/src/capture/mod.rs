//! Capture files: pcap and pcapng, read as a stream with a bounded buffer.
//!
//! Every packet before a damaged position is delivered; the damage is then reported once, with
//! file, byte offset and what is wrong. Records are cut and bounded here and decoded by
//! `pcap-parser`.

mod error;
mod pcap;
mod pcapng;
mod window;

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

pub use error::CaptureError;

use crate::packet::LinkType;
use window::Window;

/// One packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket<'a> {
    /// Time since 1970-01-01 UTC.
    pub timestamp: Duration,
    /// How to read the first bytes.
    pub link: LinkType,
    /// Bytes the packet had on the wire; more than `bytes` when the capture was cut at a snap
    /// length.
    pub wire_len: u32,
    /// What was captured.
    pub bytes: &'a [u8],
}

/// Where a packet lies in the window, and what its record says of it.
#[derive(Clone, Debug)]
struct Record {
    total: usize,
    data: Range<usize>,
    timestamp: Duration,
    link: LinkType,
    wire_len: u32,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Pcap),
    PcapNg(pcapng::PcapNg),
}

/// Reads packets from a capture.
#[derive(Debug)]
pub struct CaptureReader<R> {
    name: String,
    window: Window<R>,
    format: Format,
    /// Bytes of the record given out last, to be dropped by the next call.
    given: usize,
    ended: bool,
}

impl CaptureReader<File> {
    /// Opens a capture file.
    ///
    /// # Errors
    /// The file cannot be opened or read, is no capture, is compressed, or has an unknown link
    /// type.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::new(&name, file),
            Err(source) => Err(CaptureError::Open { name, source }),
        }
    }
}

impl<R: Read> CaptureReader<R> {
    /// Begins to read a capture; `name` is what errors call it.
    ///
    /// # Errors
    /// The input cannot be read, is no capture, is compressed, or has an unknown link type.
    pub fn new(name: &str, input: R) -> Result<Self, CaptureError> {
        let mut window = Window::new(name, input);
        let format = probe(name, &mut window)?;
        Ok(Self {
            name: name.to_owned(),
            window,
            format,
            given: 0,
            ended: false,
        })
    }

    /// The next packet, or `None` at the end.
    ///
    /// # Errors
    /// The capture is damaged at this position or cannot be read further. Later calls answer
    /// `None`.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        // The caller has borrowed the last packet's bytes until now, so they go only here.
        self.window.consume(std::mem::take(&mut self.given));
        let record = match &mut self.format {
            Format::Pcap(pcap) => pcap.locate(&self.name, &mut self.window),
            Format::PcapNg(pcapng) => pcapng.locate(&self.name, &mut self.window),
        };
        match record {
            Ok(Some(record)) => {
                self.given = record.total;
                let bytes = self.window.bytes().get(record.data).unwrap_or_default();
                let Record {
                    timestamp,
                    link,
                    wire_len,
                    ..
                } = record;
                Ok(Some(CapturedPacket {
                    timestamp,
                    link,
                    wire_len,
                    bytes,
                }))
            }
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }
}

fn probe<R: Read>(name: &str, window: &mut Window<R>) -> Result<Format, CaptureError> {
    window.fill(pcap::HEADER)?;
    let head = window.bytes();
    if head.is_empty() {
        return Err(CaptureError::not_a_capture(name, "it is empty"));
    }
    for (magic, format, program) in COMPRESSED {
        if head.starts_with(magic) {
            return Err(CaptureError::Compressed {
                name: name.to_owned(),
                format,
                program,
            });
        }
    }
    if head.starts_with(&pcapng::SECTION_HEADER) {
        return Ok(Format::PcapNg(pcapng::PcapNg::default()));
    }
    pcap::Pcap::begin(name, window).map(Format::Pcap)
}

/// First bytes of compressed files, the format's name, and the program that unpacks it.
const COMPRESSED: [(&[u8], &str, &str); 5] = [
    (&[0x1f, 0x8b], "gzip", "gunzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "unzstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz", "unxz"),
    (b"BZh", "bzip2", "bunzip2"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "unlz4"),
];
