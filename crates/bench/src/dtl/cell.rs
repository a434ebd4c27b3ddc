//! The cells of the measurement: one line each, by rate, round trip and queue.

use std::fmt;
use std::time::Duration;

/// How packets wait at the bottleneck, and which are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Queue {
    /// Drop-tail, so many products of rate and round trip long.
    DropTail(f64),
    /// CoDel (RFC 8289) with its usual target of 5 ms and interval of 100 ms.
    CoDel,
}

/// A line with one bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Megabits per second, each way.
    pub(super) rate: f64,
    /// Round trip without a queue, milliseconds.
    pub(super) rtt_ms: u64,
    pub(super) queue: Queue,
}

/// The cells that are measured against the kernel's TCP.
pub(super) const CELLS: [Cell; 7] = [
    Cell::new(10.0, 20, Queue::DropTail(1.0)),
    Cell::new(10.0, 20, Queue::DropTail(4.0)),
    Cell::new(10.0, 20, Queue::CoDel),
    Cell::new(10.0, 60, Queue::DropTail(1.0)),
    Cell::new(100.0, 20, Queue::DropTail(1.0)),
    Cell::new(100.0, 60, Queue::DropTail(1.0)),
    Cell::new(1.0, 60, Queue::DropTail(1.0)),
];

/// Bytes of a full packet.
const PACKET: f64 = 1500.0;
/// Fewest packets that a queue holds, so that a pair of them does not overflow it.
const FEWEST: f64 = 4.0;

impl Cell {
    const fn new(rate: f64, rtt_ms: u64, queue: Queue) -> Cell {
        Cell {
            rate,
            rtt_ms,
            queue,
        }
    }

    /// Round trip without a queue.
    pub(super) const fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt_ms)
    }

    /// Bytes of a drop-tail queue; `None` where something else bounds it.
    pub(super) fn queue_bytes(&self) -> Option<u64> {
        match self.queue {
            Queue::DropTail(products) => {
                let product = self.rate * 1e6 / 8.0 * self.rtt().as_secs_f64();
                Some((product * products).max(FEWEST * PACKET) as u64)
            }
            Queue::CoDel => None,
        }
    }
}

/// As on the command line and in results: `10/20/1bdp`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/", self.rate, self.rtt_ms)?;
        match self.queue {
            Queue::DropTail(products) => write!(f, "{products}bdp"),
            Queue::CoDel => f.write_str("codel"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names_and_sizes() {
        let names: Vec<_> = CELLS.iter().map(Cell::to_string).collect();
        let wanted = [
            "10/20/1bdp",
            "10/20/4bdp",
            "10/20/codel",
            "10/60/1bdp",
            "100/20/1bdp",
            "100/60/1bdp",
            "1/60/1bdp",
        ];
        assert_eq!(names, wanted);
        let bytes: Vec<_> = CELLS.iter().map(Cell::queue_bytes).collect();
        assert_eq!(bytes[0], Some(25_000));
        assert_eq!(bytes[1], Some(100_000));
        assert_eq!(bytes[2], None);
        assert_eq!(bytes[6], Some(7_500));
    }
}
