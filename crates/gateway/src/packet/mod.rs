//! From captured bytes to the transport segment inside them.
//!
//! [`decode`] takes off the link header, tags and tunnels and answers with the innermost TCP
//! segment or UDP datagram. What is no such thing is named by a [`Skip`], and [`Counters`] adds
//! those up: nothing disappears silently. [`decode_layer`] answers with fragments too; a
//! [`Defragmenter`] makes datagrams of them. [`Packet::checksum`] verifies.

mod checksum;
mod counters;
mod decoder;
mod defragment;
mod ip;
mod link;
mod tunnel;

use std::net::SocketAddr;

use crate::reader::length32;

pub use checksum::{Checksum, replace_payload};
pub use counters::{Counters, Skip};
pub(crate) use decoder::Decoder;
pub use defragment::{Datagram, DefragmentBounds, Defragmenter, FragmentFault, FragmentStep};
pub use ip::Fragment;
pub use link::LinkType;

/// The transport protocols that make flows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum L4 {
    /// Transmission Control Protocol.
    Tcp,
    /// User Datagram Protocol.
    Udp,
}

impl L4 {
    /// The name used in records and signatures: `tcp` or `udp`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// What a TCP header says that matters to a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number of the first payload byte (or of the SYN).
    pub sequence: u32,
    /// The next number that the sender expects of the other side; says something only with
    /// [`ack`](Self::ack).
    pub acknowledged: u32,
    /// Opens a connection.
    pub syn: bool,
    /// Acknowledges.
    pub ack: bool,
    /// Closes one direction.
    pub fin: bool,
    /// Aborts the connection.
    pub rst: bool,
}

/// One TCP segment or UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Transport protocol.
    pub l4: L4,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Bytes of the innermost IP packet by its own header, link header and padding not counted.
    pub ip_len: u32,
    /// The innermost IP header with its options or extension headers.
    pub ip_header: &'a [u8],
    /// The transport header and its payload, as far as they were captured.
    pub segment: &'a [u8],
    /// What the transport carries, as far as it was captured.
    pub payload: &'a [u8],
    /// The payload is shorter than on the wire: snap length, or the first of several fragments.
    pub truncated: bool,
    /// The TCP header, for TCP.
    pub tcp: Option<Tcp>,
}

impl Packet<'_> {
    /// Bytes that the transport carries, also those that were not captured.
    #[must_use]
    pub fn wire_payload(&self) -> u32 {
        let header = self.segment.len().saturating_sub(self.payload.len());
        let headers = self.ip_header.len().saturating_add(header);
        self.ip_len.saturating_sub(length32(headers))
    }
}

/// What a captured packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer<'a> {
    /// A TCP segment or UDP datagram.
    Packet(Packet<'a>),
    /// A fragment, perhaps inside a tunnel, for a [`Defragmenter`].
    Fragment(Fragment<'a>),
}

/// Decodes a captured packet down to its TCP segment or UDP datagram, or to the fragment of one. A
/// fragment that was captured in part counts as for [`decode`]: it cannot be joined with others.
///
/// # Errors
/// The reason why the packet takes part in no flow.
pub fn decode_layer(link: LinkType, bytes: &[u8]) -> Result<Layer<'_>, Skip> {
    ip::decode(link.network_layer(bytes)?, true, true)
}

/// The same without entering tunnels, as a border has it: there a tunnel is one flow, or none.
///
/// # Errors
/// The reason why the packet takes part in no flow.
pub(crate) fn decode_outer(link: LinkType, bytes: &[u8]) -> Result<Layer<'_>, Skip> {
    ip::decode(link.network_layer(bytes)?, true, false)
}

/// Decodes a captured packet down to its TCP segment or UDP datagram. A first fragment is a
/// truncated packet.
///
/// # Errors
/// The reason why the packet takes part in no flow.
pub fn decode(link: LinkType, bytes: &[u8]) -> Result<Packet<'_>, Skip> {
    match ip::decode(link.network_layer(bytes)?, false, true)? {
        Layer::Packet(packet) => Ok(packet),
        Layer::Fragment(_) => Err(Skip::LaterFragment),
    }
}
