//! What the transport reports to a controller.

use std::time::{Duration, Instant};

/// One acknowledged packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckSample {
    /// Packet number.
    pub packet: u64,
    /// Size of the packet in bytes, measured as
    /// [`Config::datagram_size`](crate::Config::datagram_size) is: the payload of its datagram.
    pub bytes: u64,
    /// When the packet was sent.
    pub sent: Instant,
    /// Time from sending to the arrival of the acknowledgement: `now − sent`. Of a batch the
    /// smallest counts, which is that of its newest packet; older packets waited at the
    /// receiver for the common acknowledgement.
    pub rtt: Duration,
    /// By how much the round trip may have been longer than `rtt`. A transport that reads its
    /// clock before its socket takes what comes in between for older than it is, and a path
    /// that has once seemed shorter than it is makes every delay look like a queue for as long as
    /// that is remembered. So the base delay is taken of `rtt + rtt_error`, and what waits of
    /// `rtt`. Zero where arrivals have stamps.
    pub rtt_error: Duration,
    /// How long the receiver says it held the acknowledgement back; zero when unknown. It is taken
    /// off the RTT unless the rest would be shorter than the shortest RTT seen (RFC 9002
    /// §5.3).
    pub receive_delay: Duration,
    /// Time from sender to receiver, as the two clocks read it: the offset between them may be any
    /// constant. `None` where the transport does not measure it; the RTT is used in its place.
    pub one_way_delay: Option<Duration>,
    /// Whether the path marked the packet (ECN, congestion experienced). Counts as a loss without
    /// a retransmission.
    pub ecn: bool,
    /// Whether the application, not the window, held sending back when this was acknowledged. A
    /// batch in which all are so does not grow the window.
    pub app_limited: bool,
}

/// One packet deemed lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LossSample {
    /// Packet number.
    pub packet: u64,
    /// Size of the packet in bytes, measured as
    /// [`Config::datagram_size`](crate::Config::datagram_size) is: the payload of its datagram.
    pub bytes: u64,
    /// When the packet was sent.
    pub sent: Instant,
}
