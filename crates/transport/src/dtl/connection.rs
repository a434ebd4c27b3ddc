//! A connection to one peer, and what it measures.

use std::net::SocketAddr;
use std::time::Duration;

use ringway_dtl::{LimitedBy, Mode, Priority};

use super::error::Error;
use super::key::PeerKey;
use super::stream::Stream;
use crate::quic::{ConnectionReport, QuicConnection};

/// A connection to a peer that has proved its key. Clones are the same connection; dropping the
/// last one, and all streams, closes it, and what is not acknowledged by then is lost: end streams
/// with [`Stream::finish`].
///
/// Getters: [`peer_key`](Self::peer_key), [`remote_address`](Self::remote_address),
/// [`observed_address`](Self::observed_address), [`priority`](Self::priority),
/// [`statistics`](Self::statistics). Commands: [`open`](Self::open), [`accept`](Self::accept),
/// [`set_priority`](Self::set_priority), [`close`](Self::close), [`closed`](Self::closed).
#[derive(Debug, Clone)]
pub struct Connection(QuicConnection);

impl Connection {
    pub(super) const fn new(connection: QuicConnection) -> Connection {
        Connection(connection)
    }

    /// The key that the peer has proved.
    #[must_use]
    pub fn peer_key(&self) -> PeerKey {
        self.0.peer().into()
    }

    /// The peer's address now; it changes when the peer moves.
    #[must_use]
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.0.remote()
    }

    /// Our own address as the peer sees it, which behind a NAT is that of the NAT. `None` until the
    /// peer has said so, shortly after the handshake. It is the peer's word: do not trust it
    /// further than the peer.
    #[must_use]
    pub fn observed_address(&self) -> Option<SocketAddr> {
        self.0.observed_address()
    }

    /// Opens a stream, whose data goes out with `priority` among the streams of this connection.
    /// The peer hears of it with the first byte. Waits while
    /// [`DTL_STREAMS`](crate::limits::DTL_STREAMS) are open.
    ///
    /// # Errors
    /// [`Error`] once the connection has ended.
    pub async fn open(&self, priority: Priority) -> Result<Stream, Error> {
        let (sink, source) = self.0.open_with(priority).await?;
        Ok(Stream::new(&self.0, sink, source))
    }

    /// The next stream that the peer opens. What this side sends on it has priority 1 among the
    /// streams of this connection until [`Stream::set_priority`].
    ///
    /// # Errors
    /// [`Error`] once the connection has ended.
    pub async fn accept(&self) -> Result<Stream, Error> {
        let (sink, source) = self.0.accept_with(Priority::NORMAL).await?;
        Ok(Stream::new(&self.0, sink, source))
    }

    /// The priority in force, or about to be.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.0.priority()
    }

    /// Changes the priority of what this side sends, at once and without a stall. The peer sets its
    /// own.
    pub fn set_priority(&self, priority: Priority) {
        self.0.set_priority(priority);
    }

    /// What the connection measures now.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.report().into()
    }

    /// Ends the connection now; what is unsent or unread is lost. `reason` is for the peer's log.
    pub fn close(&self, code: u32, reason: &str) {
        self.0.close(code, reason);
    }

    /// Waits for the end of the connection and says why it came.
    pub async fn closed(&self) -> Error {
        self.0.closed().await.into()
    }
}

/// What a connection measures, at one moment. Counters are of this side's packets since the
/// handshake.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The priority in force, or about to be.
    pub priority: Priority,
    /// Which of the controller's rules apply; `None` before the first acknowledgement.
    pub mode: Option<Mode>,
    /// Why the connection is not faster; `None` before the first acknowledgement.
    pub limited_by: Option<LimitedBy>,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// How long packets wait in queues on the way; `None` until measured.
    pub queueing: Option<Duration>,
    /// Bytes per second at which packets may leave; `None` until a round trip is measured.
    pub rate: Option<u64>,
    /// Bytes that may be unacknowledged at a time.
    pub window: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent, with QUIC's overhead.
    pub sent_bytes: u64,
    /// Packets of these that were lost.
    pub lost_packets: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received, with QUIC's overhead.
    pub received_bytes: u64,
    /// Largest UDP payload of the path, bytes.
    pub mtu: u16,
}

impl Statistics {
    /// Which part of the bytes sent was lost, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        #[allow(
            clippy::as_conversions,
            reason = "a ratio of counters below 2^53 is exact enough"
        )]
        let [lost, sent] = [self.lost_bytes, self.sent_bytes].map(|bytes| bytes as f64);
        if sent > 0.0 {
            (lost / sent).min(1.0)
        } else {
            0.0
        }
    }
}

impl From<ConnectionReport> for Statistics {
    fn from(report: ConnectionReport) -> Statistics {
        Statistics {
            priority: report.priority,
            mode: report.mode,
            limited_by: report.limited_by,
            rtt: report.rtt,
            queueing: report.queueing_delay,
            rate: report.pacing_rate,
            window: report.window,
            sent_packets: report.sent,
            sent_bytes: report.sent_bytes,
            lost_packets: report.lost,
            lost_bytes: report.lost_bytes,
            received_packets: report.received,
            received_bytes: report.received_bytes,
            mtu: report.mtu,
        }
    }
}
