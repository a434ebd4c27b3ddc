//! What a sender decides, and what its receiver tells it.

use std::time::Duration;

use ringway_dtl::Controller;

use super::PACKET;

/// A packet that an acknowledgement names for the first time.
#[derive(Copy, Clone, Debug)]
pub struct Acked {
    /// Its number.
    pub packet: u64,
    /// When it left.
    pub sent: Duration,
    /// Bytes that had been delivered when it left, and when the last of them was: a sample of the
    /// rate.
    pub delivered: (u64, Duration),
    /// For how long the receiver held back the acknowledgement after the newest packet, as QUIC's
    /// receivers say.
    pub held: Duration,
    /// Its time on the way, as the receiver's clock tells it, if that is known.
    pub one_way: Option<Duration>,
}

/// The receiver's clock: it is ahead by `offset`, and by `drift` seconds more in each second.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    /// How far it is ahead at the beginning.
    pub offset: Duration,
    /// How much faster it runs, as a share: 50e-6 is a bad crystal.
    pub drift: f64,
}

impl Clock {
    pub(super) fn reads(self, at: Duration) -> Duration {
        self.offset + at.mul_f64(1.0 + self.drift)
    }
}

/// How a flow's sender finds out what is lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Detection {
    /// As Linux' TCP: by three newer packets, and by time once the path is known to reorder.
    Tcp,
    /// As the QUIC driver's stack, once the path is known to reorder: late, because the control has
    /// a detection of its own.
    Quic,
}

/// What decides when a flow's packets leave. All times are virtual.
pub trait Control {
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Bytes per second, if packets are paced.
    fn pacing_rate(&self) -> Option<u64>;
    /// Bytes that may leave at once when the pacer has waited: two packets, if nothing else is
    /// known.
    fn burst(&self) -> u64 {
        2 * PACKET
    }
    /// A packet has left.
    fn on_sent(&mut self, now: Duration, packet: u64);
    /// One acknowledgement: `acked` in order, `delivered` bytes in all, `in_flight` bytes still
    /// under way.
    fn on_acked(&mut self, now: Duration, acked: &[Acked], delivered: u64, in_flight: u64);
    /// Packets are deemed lost, with when they left. With `timeout` nothing has come through for
    /// long.
    fn on_lost(&mut self, now: Duration, lost: &[(u64, Duration)], timeout: bool);
    /// Packets that were deemed lost have arrived, with when they left.
    fn on_returned(&mut self, _now: Duration, _packets: &[(u64, Duration)]) {}
    /// Who finds out what is lost.
    fn detection(&self) -> Detection {
        Detection::Tcp
    }
    /// The controller, if it is ours.
    fn controller(&mut self) -> Option<(&mut Controller, std::time::Instant)> {
        None
    }
}

/// How a flow's receiver acknowledges.
#[derive(Copy, Clone, Debug)]
pub struct Acknowledging {
    /// After so many packets.
    pub every: u32,
    /// At the latest after so long.
    pub delay: Duration,
    /// Whether the last of several packets that left together is acknowledged at once: Linux' TCP
    /// sets PSH on it, at which a receiver that has read all acknowledges. Source:
    /// __tcp_transmit_skb and tcp_cleanup_rbuf of Linux.
    pub pushed: bool,
}

impl Acknowledging {
    /// Every packet at once, as QUIC is asked to.
    pub const EACH: Acknowledging = Acknowledging {
        every: 1,
        delay: Duration::from_millis(5),
        pushed: false,
    };
    /// Every second packet, as Linux' TCP does. Source: RFC 5681 §4.2, Linux' TCP_DELACK_MIN.
    pub const DELAYED: Acknowledging = Acknowledging {
        every: 2,
        delay: Duration::from_millis(40),
        pushed: true,
    };
}
