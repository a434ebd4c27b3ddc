//! One QUIC connection to one member.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use noq::{PathId, RecvStream, SendStream, VarInt};
use ringway_dtl::{LimitedBy, Mode, Priority};
use tokio::sync::mpsc;

use super::clock::ClockTask;
use super::controller::Control;
use super::datagrams::{StreamDatagrams, Takers};
use super::error::QuicError;
use super::streams::{PriorityStream, StreamScheduler};
use crate::counters::StreamCounters;
use crate::limits;
use crate::member::MemberId;

/// A connection to a member that has proved its key. Clones are the same connection; dropping the
/// last one (and all streams) closes it with code 0, and what is not acknowledged by then is lost:
/// wait for [`SendStream::stopped`] or for an answer first.
///
/// Getters: [`peer`](Self::peer), [`remote`](Self::remote), [`priority`](Self::priority),
/// [`report`](Self::report), [`coupled_with`](Self::coupled_with). Commands:
/// [`open_bi`](Self::open_bi), [`open_with`](Self::open_with), [`accept_bi`](Self::accept_bi),
/// [`set_priority`](Self::set_priority), [`close`](Self::close).
#[derive(Debug, Clone)]
pub struct QuicConnection {
    peer: MemberId,
    connection: noq::Connection,
    control: Arc<Control>,
    streams: Arc<StreamCounters>,
    /// Made for the first stream that has a priority.
    scheduler: Arc<OnceLock<Arc<StreamScheduler>>>,
    /// Of the datagrams of streams.
    takers: Arc<Takers>,
    /// On connections for streams: it lasts as long as this handle does.
    clock: Option<Arc<ClockTask>>,
}

/// The state of a connection's path at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ConnectionReport {
    /// The priority in force, or about to be.
    pub priority: Priority,
    /// Which of the controller's rules apply; `None` before the first acknowledgement.
    pub mode: Option<Mode>,
    /// Why the connection is not faster; `None` before the first acknowledgement.
    pub limited_by: Option<LimitedBy>,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Congestion window, bytes; below one datagram only the pacing rate counts.
    pub window: u64,
    /// Smallest delay of the last minutes; `None` until measured.
    pub base_delay: Option<Duration>,
    /// Delay above the base delay: what queues on the way add; `None` until measured.
    pub queueing_delay: Option<Duration>,
    /// What waits on the way back, which is not in `queueing_delay`; `None` unless we send at
    /// priority 0 to a peer that tells us.
    pub way_back_delay: Option<Duration>,
    /// Bytes per second at which packets leave; `None` until a round trip is measured.
    pub pacing_rate: Option<u64>,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, with QUIC's overhead.
    pub sent_bytes: u64,
    /// Packets lost.
    pub lost: u64,
    /// Bytes lost.
    pub lost_bytes: u64,
    /// Largest UDP payload of the path, bytes.
    pub mtu: u16,
    /// Datagrams received.
    pub received: u64,
    /// Bytes of these.
    pub received_bytes: u64,
}

impl QuicConnection {
    pub(super) fn new(
        peer: MemberId,
        connection: noq::Connection,
        control: Arc<Control>,
        streams: Arc<StreamCounters>,
    ) -> Self {
        Self {
            peer,
            connection,
            control,
            streams,
            scheduler: Arc::default(),
            takers: Arc::default(),
            clock: None,
        }
    }

    /// The same with a task that tells the peer of our clock, and asks for its own if that is of
    /// use.
    pub(super) fn with_clock(mut self, wants: bool) -> Self {
        let task = ClockTask::start(&self.connection, &self.control, &self.takers, wants);
        self.clock = Some(Arc::new(task));
        self
    }

    /// What is below.
    pub(super) const fn raw(&self) -> &noq::Connection {
        &self.connection
    }

    /// The member at the other end, by the key it proved.
    pub const fn peer(&self) -> MemberId {
        self.peer
    }

    /// The peer's address now; it may change when the peer moves.
    pub fn remote(&self) -> Option<SocketAddr> {
        let path = self.connection.path(PathId::ZERO)?;
        path.remote_address().ok().map(crate::address::canonical)
    }

    /// Opens a stream both ways. The peer hears of it with the first byte. Waits while
    /// [`QUIC_STREAMS`](crate::limits::QUIC_STREAMS) are open.
    ///
    /// Write in pieces of a kilobyte or more, or have the peer read at once: 2 048 small pieces
    /// that wait for their reader end the connection (see
    /// [`QUIC_STREAM_WINDOW`](crate::limits::QUIC_STREAM_WINDOW)).
    ///
    /// # Errors
    /// [`QuicError`] once the connection has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), QuicError> {
        Ok(self.connection.open_bi().await?)
    }

    /// Opens a stream both ways that has a priority among such streams of this connection: what the
    /// connection may send is divided between those that have something to send in the exact
    /// proportion of their priorities, and 0 gets what they leave. As
    /// [`open_bi`](Self::open_bi) otherwise.
    ///
    /// Streams without a priority, and the peer's, stand outside: they compete with all these
    /// together.
    ///
    /// # Errors
    /// [`QuicError`] once the connection has ended.
    pub async fn open_with(
        &self,
        priority: Priority,
    ) -> Result<(PriorityStream, RecvStream), QuicError> {
        let (sink, source) = self.connection.open_bi().await?;
        Ok((self.scheduled(sink, priority), source))
    }

    /// The next stream that the peer opens; what we send on it has that priority among such streams
    /// of this connection, as on one of [`open_with`](Self::open_with).
    pub(crate) async fn accept_with(
        &self,
        priority: Priority,
    ) -> Result<(PriorityStream, RecvStream), QuicError> {
        let (sink, source) = self.connection.accept_bi().await?;
        Ok((self.scheduled(sink, priority), source))
    }

    fn scheduled(&self, sink: SendStream, priority: Priority) -> PriorityStream {
        let start = || Arc::new(StreamScheduler::start(Arc::clone(&self.control)));
        let scheduler = self.scheduler.get_or_init(start);
        scheduler.stream(&self.connection, sink, priority)
    }

    /// Datagrams that belong to a stream of this connection: those of the peer go to `taker` from
    /// now on, and are lost before, and while it is full. `None` where a connection has had too
    /// many streams.
    pub fn datagrams(
        &self,
        stream: &SendStream,
        taker: mpsc::Sender<Bytes>,
    ) -> Option<StreamDatagrams> {
        StreamDatagrams::new(&self.connection, &self.takers, stream, taker)
    }

    /// Our own address as the peer sees it; `None` until it has said so, which only programs
    /// without a ring do.
    pub(crate) fn observed_address(&self) -> Option<SocketAddr> {
        let observed = self.connection.observed_external_addr().get();
        observed.map(crate::address::canonical)
    }

    /// The next stream that the peer opens.
    ///
    /// # Errors
    /// [`QuicError`] once the connection has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), QuicError> {
        Ok(self.connection.accept_bi().await?)
    }

    /// Where to count what streams carry: the same for all connections of the endpoint.
    pub fn streams(&self) -> &StreamCounters {
        &self.streams
    }

    /// The priority in force, or about to be.
    pub fn priority(&self) -> Priority {
        self.control.priority()
    }

    /// Changes the priority of what we send, at once. The peer sets its own. Streams have
    /// priorities among themselves: [`PriorityStream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        self.control.set_priority(priority);
        // At priority 0 the next packet may be two seconds away. Nothing wakes a connection but
        // what changes it: this sets what is set.
        self.connection
            .set_max_concurrent_uni_streams(VarInt::from_u32(limits::QUIC_UNI_STREAMS));
    }

    /// The state of the path now.
    pub fn report(&self) -> ConnectionReport {
        let stats = self.connection.path_stats(PathId::ZERO).unwrap_or_default();
        let report = self.control.report();
        ConnectionReport {
            priority: self.control.priority(),
            mode: report.map(|r| r.mode),
            limited_by: report.map(|r| r.limited_by),
            rtt: report.and_then(|r| r.srtt).unwrap_or(stats.rtt),
            window: report.map_or(stats.cwnd, |r| r.window),
            base_delay: report.and_then(|r| r.base_delay),
            queueing_delay: report.and_then(|r| r.queueing_delay),
            way_back_delay: report.and_then(|r| r.way_back_delay),
            pacing_rate: report.and_then(|r| r.pacing_rate),
            sent: stats.sent_packets,
            sent_bytes: stats.sent_bytes,
            lost: stats.lost_packets,
            lost_bytes: stats.lost_bytes,
            mtu: stats.current_mtu,
            received: stats.udp_rx.datagrams,
            received_bytes: stats.udp_rx.bytes,
        }
    }

    /// The other members to whom what we send waits in one queue with what we send here, as it has
    /// shown: what all of them have is shared by
    /// priority ([`QuicOptions::coupling`](super::QuicOptions::coupling)). None on a connection
    /// that the peer made.
    pub fn coupled_with(&self) -> BTreeSet<MemberId> {
        self.control.coupled_with()
    }

    /// Ends the connection now; what is unsent or unread is lost. `reason` is for the peer's log.
    pub fn close(&self, code: u32, reason: &str) {
        self.connection
            .close(VarInt::from_u32(code), reason.as_bytes());
    }

    /// Waits for the end of the connection and says why it came.
    pub async fn closed(&self) -> QuicError {
        self.connection.closed().await.into()
    }

    /// Why the connection has ended; `None` while it has not.
    pub fn close_reason(&self) -> Option<QuicError> {
        self.connection.close_reason().map(QuicError::from)
    }
}
