//! What a path is like: its bottleneck, its delay, and what trembles on it.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Discipline, PACKET};

/// A path with a bottleneck.
#[derive(Clone, Debug)]
pub struct Path {
    /// Bytes per second.
    pub rate: u64,
    /// Round-trip time of a packet that does not wait, without its own transmission.
    pub rtt: Duration,
    /// Room in the queue, in bytes.
    pub buffer: u64,
    /// What drops packets before the queue is full.
    pub discipline: Discipline,
    /// What delays packets behind the queue; each flow's order is kept.
    pub jitter: Jitter,
    /// The same for acknowledgements.
    pub ack_jitter: Jitter,
    /// Probability that a packet is lost behind the queue.
    pub loss: f64,
    /// Probability that a packet takes so long that the next ones overtake it.
    pub reordering: f64,
    /// Each packet takes up to so much longer behind the queue, whatever those before it took: a
    /// bundle of links, or balancing by packet.
    pub scatter: Duration,
    /// The queue that acknowledgements pass, together with what flows the other way. Without one
    /// they never wait.
    pub back: Option<Back>,
}

/// The bottleneck of the way back, a drop-tail queue.
#[derive(Copy, Clone, Debug)]
pub struct Back {
    /// Bytes per second.
    pub rate: u64,
    /// Room in the queue, in bytes.
    pub buffer: u64,
}

/// Delay that changes from packet to packet without a queue of the bottleneck.
#[derive(Clone, Debug)]
pub enum Jitter {
    /// None.
    Still,
    /// Up to so much, uniformly.
    Uniform(Duration),
    /// What has come leaves together, once in so long: a modem that asks for its turn.
    Turns(Duration),
    /// A wireless medium.
    Wireless(Wireless),
}

/// A medium that is shared by listening: each burst waits for its turn, which takes a
/// gamma-distributed time; what comes meanwhile goes with it (aggregation); now and then the medium
/// is taken for long.
#[derive(Copy, Clone, Debug)]
pub struct Wireless {
    /// Mean wait of a burst. Its shape is 2: the sum of two exponential waits.
    pub mean: Duration,
    /// Mean time between spikes.
    pub spikes_every: Duration,
    /// The longest spike; they are uniform.
    pub spike: Duration,
}

impl Wireless {
    /// A living room: 1 ms on average, and once in half a second up to 20 ms.
    pub const HOME: Wireless = Wireless {
        mean: Duration::from_millis(1),
        spikes_every: Duration::from_millis(500),
        spike: Duration::from_millis(20),
    };
}

impl Path {
    /// `megabits` Mbit/s and a round trip of `rtt_ms` with a drop-tail queue of `products`
    /// bandwidth-delay products.
    #[must_use]
    pub fn drop_tail(megabits: f64, rtt_ms: u64, products: f64) -> Path {
        let rate = megabits * 125_000.0;
        let rtt = Duration::from_millis(rtt_ms);
        let buffer = (rate * rtt.as_secs_f64() * products).max(2.0 * PACKET as f64);
        Path {
            rate: rate as u64,
            rtt,
            buffer: buffer as u64,
            discipline: Discipline::DropTail,
            jitter: Jitter::Still,
            ack_jitter: Jitter::Still,
            loss: 0.0,
            reordering: 0.0,
            scatter: Duration::ZERO,
            back: None,
        }
    }

    /// How long one packet takes to leave.
    #[must_use]
    pub fn packet_time(&self) -> Duration {
        transmission(PACKET, self.rate)
    }
}

/// How long `bytes` take at `rate` bytes a second.
pub(super) fn transmission(bytes: u64, rate: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
}

/// One direction's jitter and what it remembers.
#[derive(Debug)]
pub(super) struct Medium {
    jitter: Jitter,
    /// When the burst that waits leaves.
    burst: Duration,
    next_spike: Duration,
    taken_until: Duration,
}

impl Medium {
    pub(super) fn new(jitter: Jitter) -> Medium {
        Medium {
            jitter,
            burst: Duration::ZERO,
            next_spike: Duration::ZERO,
            taken_until: Duration::ZERO,
        }
    }

    /// When what comes now has passed.
    pub(super) fn passed(&mut self, now: Duration, rng: &mut StdRng) -> Duration {
        match self.jitter {
            Jitter::Still => now,
            Jitter::Uniform(most) => now + most.mul_f64(rng.random::<f64>()),
            Jitter::Turns(every) => {
                let turn = every.as_nanos().max(1);
                let next = now.as_nanos().div_ceil(turn) * turn;
                Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
            }
            Jitter::Wireless(medium) => {
                if now >= self.burst {
                    self.burst = self.turn(now, medium, rng);
                }
                self.burst
            }
        }
    }

    fn turn(&mut self, now: Duration, medium: Wireless, rng: &mut StdRng) -> Duration {
        let mut exponential = |mean: Duration| mean.mul_f64(-(1.0 - rng.random::<f64>()).ln());
        let wait = exponential(medium.mean / 2) + exponential(medium.mean / 2);
        let mut spikes = Vec::new();
        while self.next_spike <= now {
            spikes.push(self.next_spike);
            self.next_spike += exponential(medium.spikes_every);
        }
        for spike in spikes {
            let until = spike + medium.spike.mul_f64(rng.random::<f64>());
            self.taken_until = self.taken_until.max(until);
        }
        now.max(self.taken_until) + wait
    }
}
