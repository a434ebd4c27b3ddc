//! What a check is given and what it returns.

use std::net::SocketAddr;

use super::numbers::Numbers;
use super::quic_crypto::Hello;
use super::ringway::Exchange;
use super::tls::Offer;
use super::utp::Track;
use super::{Confidence, Details as Public, http_marks, irc, skype, wireguard};
use crate::flow::Direction;
use crate::infohash::InfoHash;
use crate::limits::{MAX_DETAIL, MAX_TEXT_LINES};

/// What a flow's messages contained beyond the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Details {
    /// Server name from a TLS ClientHello.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// Host that an HTTP request named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Name that a DNS message asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Member of a ring that the traffic belongs to, as Ringway writes it (base 32).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Infohash of the torrent that the traffic is about, where it stands in clear. Of flows that
    /// are about several it is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infohash: Option<InfoHash>,
}

impl Details {
    /// The host that the flow named, whichever way.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.sni
            .as_deref()
            .or(self.host.as_deref())
            .or(self.query.as_deref())
    }

    /// Takes over what is not known yet.
    pub(super) fn merge(&mut self, other: Public) {
        self.sni = self.sni.take().or(other.sni);
        self.host = self.host.take().or(other.host);
        self.query = self.query.take().or(other.query);
        self.member = self.member.take().or(other.member);
        self.infohash = self.infohash.or(other.infohash);
    }
}

/// Bytes to check, from the position where the signature matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) bytes: &'a [u8],
    /// Where they begin in the stream or datagram.
    pub(super) at: usize,
    pub(super) direction: Direction,
    /// The datagram or segment was cut by the capture.
    pub(super) truncated: bool,
}

/// A confirmed match.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) confidence: Confidence,
    pub(super) why: String,
    pub(super) details: Details,
    /// Application protocols that a ClientHello offers (RFC 7301).
    pub(super) protocols: Vec<String>,
    /// Later messages of the flow may be about other torrents.
    pub(super) about_many: bool,
}

impl Finding {
    pub(super) fn new(confidence: Confidence, why: impl Into<String>) -> Self {
        Self {
            confidence,
            why: why.into(),
            details: Details::default(),
            protocols: Vec::new(),
            about_many: false,
        }
    }

    pub(super) fn certain(why: impl Into<String>) -> Self {
        Self::new(Confidence::Certain, why)
    }

    pub(super) fn likely(why: impl Into<String>) -> Self {
        Self::new(Confidence::Likely, why)
    }

    pub(super) fn guess(why: impl Into<String>) -> Self {
        Self::new(Confidence::Guess, why)
    }

    pub(super) fn with_host(mut self, host: Option<String>) -> Self {
        self.details.host = host;
        self
    }

    pub(super) fn with_sni(mut self, sni: Option<String>) -> Self {
        self.details.sni = sni;
        self
    }

    pub(super) fn with_query(mut self, query: Option<String>) -> Self {
        self.details.query = query;
        self
    }

    pub(super) fn with_member(mut self, member: Option<String>) -> Self {
        self.details.member = member;
        self
    }

    pub(super) fn with_infohash(mut self, infohash: Option<InfoHash>) -> Self {
        self.details.infohash = infohash;
        self
    }

    pub(super) fn about_many(mut self) -> Self {
        self.about_many = true;
        self
    }

    pub(super) fn with_protocols(mut self, protocols: Vec<String>) -> Self {
        self.protocols = protocols;
        self
    }
}

/// An endpoint at which a conversation says that another one will take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) endpoint: SocketAddr,
    pub(crate) application: &'static str,
    /// What announced it, as evidence shows it.
    pub(crate) by: &'static str,
}

/// Looks for the first announcement in a payload: where it ends, so that others are looked for from
/// there on, and what it announces, if it makes sense. `None`: there is no whole one.
pub(super) type Listener = fn(&[u8]) -> Option<(usize, Option<Announced>)>;

/// Valid messages seen of one protocol, by direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    counts: [u8; 2],
}

impl Tally {
    pub(super) fn count(&mut self, direction: Direction) {
        if let Some(count) = self.counts.get_mut(direction.slot()) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn total(self) -> u8 {
        self.counts
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    pub(super) fn both(self) -> bool {
        self.counts.iter().all(|&count| count > 0)
    }
}

/// What checks remember between the messages of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub(super) edonkey: Tally,
    pub(super) gnutella: Tally,
    pub(super) utp: Option<Box<Track>>,
    pub(super) wireguard: Option<Box<wireguard::Seen>>,
    pub(super) ringway: Option<Box<Exchange>>,
    pub(super) http: [Option<Box<http_marks::Seen>>; 2],
    pub(super) quic: Option<Box<Hello>>,
    /// What a TLS client has offered.
    pub(super) offer: Option<Box<Offer>>,
    pub(super) skype: skype::Seen,
    /// Who has asked, and the number that an answer repeats.
    pub(super) discord: Option<(Direction, [u8; 4])>,
    /// Numbers that messages of a conversation share.
    pub(super) numbers: Option<Box<Numbers>>,
    /// Bytes that may still be kept over all flows.
    pub(super) room: usize,
    /// Bytes that each direction has sent, the packet at hand included.
    pub(super) sent: [u32; 2],
    /// What a side that only acknowledges has said so far.
    pub(super) acknowledged: irc::Acknowledged,
    /// A stream was tried as obfuscated MTProto already.
    pub(super) telegram_tried: bool,
    /// Later packets of this flow may announce other flows.
    pub(super) listener: Option<Listener>,
    /// A message goes on in later packets; the flow is not settled before.
    pub(super) unfinished: bool,
}

/// A check: confirms the structure of a message, or returns `None`.
pub(super) type Check = fn(&Message<'_>, &mut Memory) -> Option<Finding>;

/// Printable text from the wire, cut to what a record holds.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.get(..bytes.len().min(MAX_DETAIL))?;
    let printable = !bytes.is_empty() && bytes.iter().all(|&byte| byte.is_ascii_graphic());
    printable.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Complete lines of text at the beginning, without their ends; a line that is no text ends them.
pub(super) fn text_lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .take(MAX_TEXT_LINES)
        .take_while(|line| line.ends_with(b"\n"))
        .map_while(|line| std::str::from_utf8(line).ok())
        .map(str::trim_ascii_end)
}

/// A number in decimal digits and nothing else, of this many at most.
pub(super) fn is_number(text: &str, digits: usize) -> bool {
    (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}
