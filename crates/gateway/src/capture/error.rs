//! What can go wrong with a capture, said with file, position and mend.

use std::io;

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("cannot open {name}: {source}; check the path and its permissions")]
    Open {
        /// The capture.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {name} at byte {offset}: {source}")]
    Read {
        /// The capture.
        name: String,
        /// Bytes from the beginning of the file.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file is compressed.
    #[error("{name} is compressed with {format}; unpack it first, for example with {program}")]
    Compressed {
        /// The capture.
        name: String,
        /// Name of the compression.
        format: &'static str,
        /// A program that unpacks it.
        program: &'static str,
    },
    /// The file is neither pcap nor pcapng.
    #[error("{name} is no capture: {what}; expected a pcap or pcapng file")]
    NotACapture {
        /// The file.
        name: String,
        /// What it is or has instead.
        what: String,
    },
    /// The file is a capture, but broken or cut short at this position. All packets before it were
    /// delivered.
    #[error(
        "{name} is damaged at byte {offset}: {what}; the packets before it were read, capture or copy it again"
    )]
    Damaged {
        /// The capture.
        name: String,
        /// Bytes from the beginning of the file to the broken record.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The capture's packets begin with a link header that is not known here.
    #[error(
        "{name} has link type {link_type}, which is not known here ({skipped} packets skipped); \
         convert it to Ethernet or raw IP"
    )]
    UnknownLink {
        /// The capture.
        name: String,
        /// Number of the link type, as in the tcpdump.org registry.
        link_type: u32,
        /// Packets of such interfaces that were passed over.
        skipped: u64,
    },
}

impl CaptureError {
    pub(crate) fn not_a_capture(name: &str, what: impl Into<String>) -> Self {
        Self::NotACapture {
            name: name.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn damaged(name: &str, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged {
            name: name.to_owned(),
            offset,
            what: what.into(),
        }
    }
}
