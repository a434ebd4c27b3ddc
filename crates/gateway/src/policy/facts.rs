//! What a policy is asked about: flows, and the files and messages inside them.

use std::net::SocketAddr;

use super::schedule::Moment;
use crate::classify::Confidence;
use crate::infohash::InfoHash;
use crate::packet::L4;

/// What is known of a flow when it is to be decided.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts<'a> {
    /// The transport.
    pub l4: L4,
    /// The side that opened the flow.
    pub client: SocketAddr,
    /// The side that was called.
    pub server: SocketAddr,
    /// What the classifier found; `None` while it has not finished. A flow that it could not name
    /// is `unknown`.
    pub found: Option<Found<'a>>,
    /// When the flow is decided, in the gateway's local time.
    pub at: Moment,
}

/// What the classifier found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Name of the application, or `unknown`.
    pub application: &'a str,
    /// How sure that is.
    pub confidence: Confidence,
    /// The host that the flow named: TLS or QUIC server name, HTTP host, DNS question.
    pub host: Option<&'a str>,
    /// The ring member whose traffic it is.
    pub member: Option<&'a str>,
    /// The torrent that it is about, where that stands in clear.
    pub infohash: Option<InfoHash>,
}

/// Something that a flow carries.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A file, offered or under way.
    File(File<'a>),
    /// A chat message.
    Message(&'a str),
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct File<'a> {
    /// Its name without folders.
    pub name: Option<&'a str>,
    /// Its type: the media type that was announced or seen, or else the name's extension; in lower
    /// case.
    pub kind: Option<&'a str>,
    /// Its length in bytes.
    pub size: Option<u64>,
    /// Only a part of it comes.
    pub part: bool,
}

impl FlowFacts<'_> {
    /// A flow on which expressions are tried when they are read.
    pub(super) fn example() -> Self {
        Self {
            l4: L4::Tcp,
            client: SocketAddr::from(([10, 0, 0, 1], 50_000)),
            server: SocketAddr::from(([192, 0, 2, 1], 80)),
            found: Some(Found {
                application: "http",
                confidence: Confidence::Certain,
                host: Some("www.example.org"),
                member: None,
                infohash: None,
            }),
            at: Moment::default(),
        }
    }
}
