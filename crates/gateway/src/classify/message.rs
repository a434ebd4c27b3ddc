//! What a check is given and what it answers.

use super::utp::Track;
use super::{Confidence, Details as Public};
use crate::flow::Direction;
use crate::limits::MAX_DETAIL;

/// What a flow's messages told beyond the application.
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
    }
}

/// Bytes to check, from the place where the signature matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) bytes: &'a [u8],
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
}

impl Finding {
    pub(super) fn new(confidence: Confidence, why: impl Into<String>) -> Self {
        Self {
            confidence,
            why: why.into(),
            details: Details::default(),
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
}

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
}

/// A check: confirms the structure of a message, or answers `None`.
pub(super) type Check = fn(&Message<'_>, &mut Memory) -> Option<Finding>;

/// Printable text from the wire, cut to what a record holds.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.get(..bytes.len().min(MAX_DETAIL))?;
    let printable = !bytes.is_empty() && bytes.iter().all(|&byte| byte.is_ascii_graphic());
    printable.then(|| String::from_utf8_lossy(bytes).into_owned())
}
