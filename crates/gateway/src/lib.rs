//! The gateway: it sees every flow at the organisation's border and says which application each one
//! is.
//!
//! # Modules, in the order in which data flows
//! | module | does |
//! |---|---|
//! | [`capture`] | reads pcap and pcapng files as a stream |
//! | [`packet`] | takes off link headers, tags and tunnels down to TCP and UDP; joins fragments, verifies checksums; counts what it passes over |
//! | [`flow`] | joins packets of a 5-tuple, both directions, in a bounded table |
//! | [`stream`] | follows one direction of a TCP connection byte by byte, for inspection of contents |
//! | [`classify`] | names the application from the first data packets, by signatures that are data |
//! | [`feed`] | lists in files that rules name: networks, hosts, infohashes, by the million |
//! | [`policy`] | what the organisation allows: rules, decided once per flow |
//! | [`inspect`] | files and messages in the bytes of flows that rules on content concern |
//! | `torrent` | names of torrents, in connections that are followed a little further for them |
//! | [`verdict`] | each packet's fate by the policy, resets, the connection cache, events |
//! | [`triage`] | what the kernel may pass without asking: the model of its program, and the table for it |
//! | [`Pipeline`] | the stages up to `classify`; [`FlowRecord`] is what comes out |
//! | [`scan`] | scanners of files |
//! | [`accounting`] | what every flow carried: the kernel's counts joined with decisions |
//! | [`quota`] | what hosts have used of what a rule gives them, and who is above it |
//! | [`audit`] | events, the history of flows and quotas in SQLite |
//! | `linux` | the live path: the kernel's queue, marks, packet filter, classes of bandwidth |
//! | [`samples`] | captures made from published message formats, for demonstrations and tests |
//! | [`limits`] | every bound, with unit, source and consequence |
//!
//! # Run-loop contract
//! The pipeline does no I/O and reads no clock. Hand in packets with their time, drain the finished
//! flows after each, and finish at the end. Nothing in a packet makes it panic, and every table and
//! queue is bounded.
//!
//! ```
//! use ringway_gateway::{Confidence, L4, LinkType, Packets, built_in_pipeline};
//!
//! // A BitTorrent handshake as raw IP packets: SYN, SYN+ACK, then the client's data.
//! let mut packets = Packets::new();
//! let mut stream = packets.tcp("10.0.0.2:50000".parse()?, "192.0.2.7:6881".parse()?);
//! stream.open();
//! stream.client(&[b"\x13BitTorrent protocol".as_slice(), &[0; 8], &[7; 20], &[9; 20]].concat());
//!
//! let mut pipeline = built_in_pipeline();
//! for (now, bytes) in packets.iter() {
//!     pipeline.handle_packet(now, LinkType::RawIp, bytes);
//!     while let Some(flow) = pipeline.poll_flow() {
//!         panic!("no flow is over yet: {flow:?}");
//!     }
//! }
//! pipeline.finish();
//! let flow = pipeline.poll_flow().ok_or("one flow")?;
//! assert_eq!((flow.l4, flow.app.as_str(), flow.confidence), (L4::Tcp, "bittorrent", Confidence::Certain));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A whole file is one call: [`classify_file`].

#![warn(
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::arithmetic_side_effects
)]

pub mod accounting;
#[cfg(unix)]
pub mod audit;
mod bencode;
pub mod capture;
pub mod classify;
pub mod eve;
pub mod feed;
pub mod flow;
#[cfg(all(target_os = "linux", feature = "fuzzing"))]
pub mod fuzzing;
mod generations;
mod infohash;
pub mod inspect;
pub mod limits;
mod lines;
#[cfg(target_os = "linux")]
pub mod linux;
mod offline;
pub mod packet;
mod pipeline;
pub mod policy;
pub mod quota;
mod ranges;
mod reader;
mod record;
pub mod samples;
pub mod scan;
#[cfg(target_os = "linux")]
pub mod service;
pub mod stream;
mod torrent;
mod tracker;
pub mod triage;
pub mod verdict;
mod wording;

pub use capture::{CaptureError, CaptureReader};
pub use classify::{Classifier, Confidence, SignatureError, SignatureSet};
pub use infohash::{InfoHash, InfoHashError};
pub use offline::{
    Interrupted, Summary, built_in_classifier, built_in_pipeline, classify_capture, classify_file,
    classify_reader,
};
pub use packet::{Counters, L4, LinkType};
pub use pipeline::Pipeline;
pub use record::{FlowRecord, SCHEMA};
pub use samples::Packets;
pub use torrent::TorrentName;
