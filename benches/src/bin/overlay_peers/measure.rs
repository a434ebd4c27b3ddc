//! What this process and this network namespace have used so far.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    at: Instant,
    bytes: f64,
    processor: Duration,
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    /// Bytes of IPv4 packets.
    pub(crate) bytes: f64,
    /// Seconds of processor time.
    pub(crate) processor: f64,
}

impl Used {
    /// # Errors
    /// When the system does not show them: a figure of zero would be none.
    pub(crate) fn now() -> io::Result<Used> {
        Ok(Used {
            at: Instant::now(),
            bytes: ip_bytes()?,
            processor: processor_time(),
        })
    }

    /// What was used since.
    pub(crate) fn spent(self) -> io::Result<Spent> {
        let now = Used::now()?;
        Ok(Spent {
            seconds: now.at.duration_since(self.at).as_secs_f64(),
            bytes: now.bytes - self.bytes,
            processor: now.processor.saturating_sub(self.processor).as_secs_f64(),
        })
    }
}

impl Spent {
    /// What was used beyond what `idle` would have been in the same time.
    pub(crate) fn beyond(self, idle: Spent) -> Spent {
        let times = self.seconds / idle.seconds.max(1e-9);
        Spent {
            seconds: self.seconds,
            bytes: (self.bytes - idle.bytes * times).max(0.0),
            processor: (self.processor - idle.processor * times).max(0.0),
        }
    }
}

/// Bytes of all IPv4 packets that this network namespace has sent.
fn ip_bytes() -> io::Result<f64> {
    const FILE: &str = "/proc/net/netstat";
    let text = std::fs::read_to_string(FILE)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let table = lines.next().zip(lines.next());
    let value = table.and_then(|(names, values)| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        let (_, value) = pairs.find(|(name, _)| *name == "OutOctets")?;
        value.parse().ok()
    });
    value.ok_or_else(|| io::Error::other(format!("{FILE} says nothing of IpExt's OutOctets")))
}

/// Processor time that this process has used.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Bytes of memory of this process.
pub(crate) fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// The value that `share` of the values do not exceed; 0 of none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let before = |n: &usize| (*n as f64) + 1.0 <= sorted.len() as f64 * share;
    let at = (0..sorted.len()).take_while(before).count();
    sorted.get(at.min(last)).copied().unwrap_or(0.0)
}
