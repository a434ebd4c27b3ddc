//! Those who share a bottleneck: models of TCP, and the priority controller.
//!
//! The models follow the published algorithms and Linux' constants; none uses code of the `dtl`
//! crate.

mod bbr;
mod coupled;
mod cubic;
mod priorities;
mod reno;

use std::time::Duration;

use crate::bottleneck::PACKET;

pub use self::bbr::Bbr;
pub use self::coupled::{Coupled, Program};
pub use self::cubic::Cubic;
pub use self::priorities::Priorities;
pub use self::reno::Reno;

/// First window, in packets. Source: RFC 6928.
const INITIAL: f64 = 10.0;

/// Windows below this many packets are kept by pacing alone: QUIC stalls otherwise.
const LEAST_WINDOW: u64 = 2;

/// What the QUIC stack lets go at once when its pacer has waited: so long's worth, at least so many
/// packets unless they take longer. Source: `pacing.rs` of noq-proto 1.4.
const BURST_USUAL: Duration = Duration::from_millis(2);
const BURST_LEAST: u64 = 10;
const BURST_MOST: Duration = Duration::from_millis(10);

/// What the QUIC stack's pacer has saved up at this rate when it has waited.
fn saved_up(rate: u64) -> u64 {
    let bytes = |interval: Duration| (rate as f64 * interval.as_secs_f64()) as u64;
    let usual = bytes(BURST_USUAL).max(BURST_LEAST * PACKET);
    usual.min(bytes(BURST_MOST).max(PACKET))
}

/// Whether a window of so many packets is used, so that growing it means something. Source: Linux'
/// tcp_is_cwnd_limited: half of it.
fn is_used(window: f64, in_flight: u64) -> bool {
    let packet = PACKET as f64;
    in_flight as f64 + 2.0 * packet >= window * packet / 2.0
}

/// What a TCP had before its last cut, which it takes back once all that it answered has arrived.
/// Source: Linux' tcp_undo_cwnd_reduction.
#[derive(Copy, Clone, Debug, Default)]
struct Undo {
    window: f64,
    threshold: f64,
    lost: usize,
}

impl Undo {
    fn of(window: f64, threshold: f64, lost: usize) -> Undo {
        Undo {
            window,
            threshold,
            lost,
        }
    }

    fn lost(&mut self, packets: usize) {
        self.lost = self.lost.saturating_add(packets);
    }

    /// So many of them have arrived: whether that is all.
    fn returned(&mut self, packets: usize) -> bool {
        let some = self.lost > 0;
        self.lost = self.lost.saturating_sub(packets);
        some && self.lost == 0
    }
}

/// Leaves slow start before the queue is full. Source: Ha and Rhee, *Taming the elephants*
/// (HyStart), as Linux has it: the delay of a round's first packets against the shortest ever.
#[derive(Clone, Debug, Default)]
struct HyStart {
    shortest: Option<Duration>,
    round_end: u64,
    round_shortest: Option<Duration>,
    samples: u32,
}

impl HyStart {
    /// True if the round trips say that a queue builds up. `next` is the number of the next packet
    /// to be sent.
    fn leaves(&mut self, rtt: Duration, packet: u64, next: u64) -> bool {
        const SAMPLES: u32 = 8;
        if packet >= self.round_end {
            self.round_end = next;
            self.round_shortest = None;
            self.samples = 0;
        }
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        if self.samples < SAMPLES {
            self.samples += 1;
            let known = self.round_shortest;
            self.round_shortest = Some(known.map_or(rtt, |known| known.min(rtt)));
            return false;
        }
        let (Some(shortest), Some(round)) = (self.shortest, self.round_shortest) else {
            return false;
        };
        let (least, most) = (Duration::from_millis(4), Duration::from_millis(16));
        round >= shortest + (shortest / 8).clamp(least, most)
    }
}
