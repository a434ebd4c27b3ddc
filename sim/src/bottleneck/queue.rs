//! The queue of the bottleneck and its discipline.

use std::collections::VecDeque;
use std::time::Duration;

use super::{PACKET, Path};

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

/// Random early detection, gentle. Source: Floyd and Jacobson 1993, with the values that `tc-red` recommends.
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

/// Packets that wait: whose, which, since when.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<(usize, u64, Duration)>,
    room: u64,
    discipline: Discipline,
}

impl Queue {
    pub(super) fn new(path: &Path) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            room: path.buffer,
            discipline: path.discipline.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.waiting.len() as u64 * PACKET
    }

    /// False if it is dropped. `chance` is uniform in 0 .. 1.
    pub(super) fn accept(&mut self, now: Duration, packet: (usize, u64), chance: f64) -> bool {
        let queued = self.bytes();
        if queued + PACKET > self.room {
            return false;
        }
        if let Discipline::Red(red) = &mut self.discipline
            && red.drops(queued, chance)
        {
            return false;
        }
        self.waiting.push_back((packet.0, packet.1, now));
        true
    }

    /// Takes the packet that has been transmitted.
    pub(super) fn leave(&mut self) -> Option<(usize, u64)> {
        let (flow, packet, _) = self.waiting.pop_front()?;
        Some((flow, packet))
    }

    /// Lets the discipline look at what is to be transmitted next.
    pub(super) fn drop_at_head(&mut self, now: Duration) {
        let Discipline::CoDel(codel) = &mut self.discipline else {
            return;
        };
        while let Some((_, _, since)) = self.waiting.front() {
            let queued = self.waiting.len() as u64 * PACKET;
            if !codel.drops(now, now - *since, queued) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}
