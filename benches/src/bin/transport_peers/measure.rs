//! What is asked for and what is answered: the work, and what it took.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::Failure;

/// Largest message: that of an Ethernet packet, as all of them are to fit into one datagram.
const LARGEST: usize = 1_400;

/// The two kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each message is sent after the one before has arrived, there and back.
    Sequential,
    /// All messages one way, as fast as they are taken.
    Burst,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    /// Messages in all.
    pub(crate) count: u32,
    /// Bytes of each.
    pub(crate) size: usize,
}

impl Work {
    /// Reads `KIND COUNT SIZE`.
    pub(crate) fn parse(kind: &str, count: &str, size: &str) -> Result<Work, Failure> {
        let kind = match kind {
            "sequential" => Kind::Sequential,
            "burst" => Kind::Burst,
            other => {
                return Err(format!("`{other}`: the work is `sequential` or `burst`").into());
            }
        };
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("`{text}` is not a number above 0")),
        };
        let (count, size) = (number(count)?, usize::try_from(number(size)?)?);
        if size > LARGEST {
            return Err(format!("messages have at most {LARGEST} bytes, not {size}").into());
        }
        if kind == Kind::Sequential && count < 2 {
            return Err("a message there and one back are two: COUNT is at least 2".into());
        }
        Ok(Work { kind, count, size })
    }

    /// Messages sent there and back before anything is measured.
    pub(crate) fn warm_up(&self) -> u32 {
        self.count.min(100)
    }
}

/// What it took. Names are a contract with `ringway-bench transport`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measured {
    /// From the first message handed over to the last one received.
    pub(crate) seconds: f64,
    /// Messages that arrived.
    pub(crate) received: u32,
    /// Processor time of both sides for each message, microseconds.
    pub(crate) cpu_us: f64,
}

/// A measurement that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    at: Instant,
    cpu: Duration,
}

impl Begun {
    /// Now.
    pub(crate) fn now() -> Begun {
        Begun {
            at: Instant::now(),
            cpu: processor_time(),
        }
    }

    /// Of `count` messages handed over `received` have come, the last at `last`.
    pub(crate) fn end(self, count: u32, received: u32, last: Instant) -> Measured {
        let cpu = processor_time().saturating_sub(self.cpu);
        Measured {
            seconds: last.saturating_duration_since(self.at).as_secs_f64(),
            received,
            cpu_us: cpu.as_secs_f64() * 1e6 / f64::from(count),
        }
    }
}

/// Processor time that this process has used: both sides are in it.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}
