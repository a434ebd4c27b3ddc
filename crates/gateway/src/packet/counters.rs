//! What was seen and what was passed over, by reason.

use std::collections::BTreeMap;
use std::fmt;

/// Why a packet takes part in no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// The link frame carries something other than IP, such as ARP.
    NotIp,
    /// The capture ends inside the link header.
    TruncatedLink,
    /// The capture ends inside the IP header.
    TruncatedIp,
    /// The IP header contradicts itself.
    MalformedIp,
    /// A fragment other than the first, and the first was not seen: it has no ports.
    LaterFragment,
    /// A fragment that contradicts its datagram or itself.
    RefusedFragment,
    /// IP carries something other than TCP, UDP or a known tunnel, such as ICMP.
    OtherProtocol,
    /// The capture or the fragment ends inside the transport header.
    TruncatedTransport,
    /// The transport header contradicts itself.
    MalformedTransport,
    /// A checksum is wrong, and they are verified.
    BadChecksum,
    /// More tags or tunnels than [`MAX_ENCAPSULATION`](crate::limits::MAX_ENCAPSULATION).
    TooDeep,
}

impl Skip {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::TruncatedLink => "truncated_link",
            Self::TruncatedIp => "truncated_ip",
            Self::MalformedIp => "malformed_ip",
            Self::LaterFragment => "later_fragment",
            Self::RefusedFragment => "refused_fragment",
            Self::OtherProtocol => "other_protocol",
            Self::TruncatedTransport => "truncated_transport",
            Self::MalformedTransport => "malformed_transport",
            Self::BadChecksum => "bad_checksum",
            Self::TooDeep => "too_deep",
        }
    }
}

/// Totals of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed in.
    pub packets: u64,
    /// Packets that belong to a flow; a datagram that came in fragments counts as one.
    pub in_flows: u64,
    /// Packets that were fragments of a datagram.
    pub fragments: u64,
    /// Datagrams that became whole of their fragments.
    pub reassembled: u64,
    /// Flows finished before their end because the table was full.
    pub evicted: u64,
    /// Finished flows that were not polled in time.
    pub records_dropped: u64,
    skipped: BTreeMap<Skip, u64>,
}

impl Counters {
    /// Counts a packet that takes part in no flow.
    pub fn skip(&mut self, reason: Skip) {
        let count = self.skipped.entry(reason).or_default();
        *count = count.saturating_add(1);
    }

    /// Packets passed over for this reason.
    #[must_use]
    pub fn skipped(&self, reason: Skip) -> u64 {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Reasons for which packets were passed over, with their number.
    pub fn skips(&self) -> impl Iterator<Item = (Skip, u64)> + '_ {
        self.skipped.iter().map(|(&reason, &count)| (reason, count))
    }
}

/// One line: `120 packets, 100 in flows, skipped: not_ip 12, other_protocol 8`.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets, {} in flows", self.packets, self.in_flows)?;
        if self.fragments > 0 {
            let (fragments, whole) = (self.fragments, self.reassembled);
            write!(
                f,
                ", {fragments} fragments of which {whole} whole datagrams"
            )?;
        }
        for (position, (reason, count)) in self.skips().enumerate() {
            let lead = if position == 0 { ", skipped: " } else { ", " };
            write!(f, "{lead}{} {count}", reason.name())?;
        }
        if self.evicted > 0 {
            write!(f, ", {} flows cut short (table full)", self.evicted)?;
        }
        if self.records_dropped > 0 {
            write!(f, ", {} records dropped", self.records_dropped)?;
        }
        Ok(())
    }
}
