//! The queue of the bottleneck and its discipline.

use std::collections::VecDeque;
use std::time::Duration;

use super::PACKET;
use super::path::transmission;

/// What drops packets.
#[derive(Clone, Debug)]
pub enum Discipline {
    /// Only a full queue.
    DropTail,
    /// Random early detection.
    Red(Red),
    /// Controlled delay.
    CoDel(CoDel),
}

/// Random early detection, gentle. Source: Floyd and Jacobson 1993, with the values that `tc-red`
/// recommends.
#[derive(Clone, Debug)]
pub struct Red {
    /// Bytes on average from which on packets are dropped.
    pub least: f64,
    /// Bytes on average at which `probability` is reached; all are dropped at twice that.
    pub most: f64,
    /// Probability of a drop at `most`.
    pub probability: f64,
    average: f64,
    since_drop: f64,
}

impl Red {
    /// Thresholds at a sixth and a half of the buffer.
    #[must_use]
    pub fn of(buffer: u64) -> Red {
        Red {
            least: buffer as f64 / 6.0,
            most: buffer as f64 / 2.0,
            probability: 0.02,
            average: 0.0,
            since_drop: 0.0,
        }
    }

    fn drops(&mut self, queued: u64, chance: f64) -> bool {
        const WEIGHT: f64 = 0.002;
        self.average += WEIGHT * (queued as f64 - self.average);
        let over = self.average - self.least;
        if over <= 0.0 {
            self.since_drop = 0.0;
            return false;
        }
        let part = over / (self.most - self.least);
        let probability = if part <= 1.0 {
            self.probability * part
        } else {
            self.probability + (1.0 - self.probability) * (part - 1.0).min(1.0)
        };
        self.since_drop += 1.0;
        // Spread evenly instead of clustered: Floyd and Jacobson §7.
        let spread = probability / (1.0 - self.since_drop * probability).max(1e-9);
        let drop = chance < spread;
        if drop {
            self.since_drop = 0.0;
        }
        drop
    }
}

/// Controlled delay. Source: RFC 8289.
#[derive(Clone, Debug)]
pub struct CoDel {
    /// The delay that may stand.
    pub target: Duration,
    /// For how long it may.
    pub interval: Duration,
    first_above: Option<Duration>,
    dropping: bool,
    next: Duration,
    count: u32,
    last_count: u32,
}

impl Default for CoDel {
    /// 5 ms and 100 ms, the RFC's.
    fn default() -> CoDel {
        CoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            first_above: None,
            dropping: false,
            next: Duration::ZERO,
            count: 0,
            last_count: 0,
        }
    }
}

impl CoDel {
    fn control_law(&self, from: Duration) -> Duration {
        from + self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }

    /// Whether the packet at the head, which has waited for `sojourn`, may be dropped.
    fn ok_to_drop(&mut self, now: Duration, sojourn: Duration, queued: u64) -> bool {
        if sojourn < self.target || queued <= PACKET {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                false
            }
            Some(above) => now >= above,
        }
    }

    /// Whether to drop the packet at the head, RFC 8289 §5.
    fn drops(&mut self, now: Duration, sojourn: Duration, queued: u64) -> bool {
        let ok = self.ok_to_drop(now, sojourn, queued);
        if self.dropping {
            if !ok {
                self.dropping = false;
                return false;
            }
            if now < self.next {
                return false;
            }
            self.count += 1;
            self.next = self.control_law(self.next);
            return true;
        }
        if !ok {
            return false;
        }
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.next) < self.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.next = self.control_law(now);
        true
    }
}

/// What a packet carries.
#[derive(Clone, Debug)]
pub(super) enum Load {
    Data(u64),
    /// The packets that it acknowledges, when they came, and for how long it was held back.
    Ack(Vec<(u64, Duration)>, Duration),
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) flow: usize,
    pub(super) load: Load,
    pub(super) bytes: u64,
    pub(super) since: Duration,
}

/// A queue, the link behind it and its rate in bytes a second.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: u64,
    room: u64,
    discipline: Discipline,
    pub(super) rate: u64,
}

impl Queue {
    pub(super) fn new(rate: u64, room: u64, discipline: Discipline) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            bytes: 0,
            room,
            discipline,
            rate,
        }
    }

    /// How long the packet that is at the head takes, if there is one.
    pub(super) fn head_takes(&self) -> Option<Duration> {
        let head = self.waiting.front()?;
        Some(transmission(head.bytes, self.rate))
    }

    /// How long a packet that comes now waits.
    pub(super) fn wait(&self) -> Duration {
        transmission(self.bytes, self.rate)
    }

    /// Gives it back if it is dropped. `chance` is uniform in 0 .. 1.
    pub(super) fn accept(&mut self, packet: Waiting, chance: f64) -> Result<(), Waiting> {
        if self.bytes + packet.bytes > self.room {
            return Err(packet);
        }
        if let Discipline::Red(red) = &mut self.discipline
            && red.drops(self.bytes, chance)
        {
            return Err(packet);
        }
        self.bytes += packet.bytes;
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Takes the packet that has been transmitted.
    pub(super) fn leave(&mut self) -> Option<Waiting> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.bytes;
        Some(packet)
    }

    /// Lets the discipline look at what is to be transmitted next; what it drops.
    pub(super) fn drop_at_head(&mut self, now: Duration) -> Vec<Waiting> {
        let mut dropped = Vec::new();
        while let Discipline::CoDel(codel) = &mut self.discipline
            && let Some(head) = self.waiting.front()
            && codel.drops(now, now - head.since, self.bytes)
        {
            dropped.extend(self.leave());
        }
        dropped
    }
}
