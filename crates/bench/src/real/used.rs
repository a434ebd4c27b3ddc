//! What this process and this network namespace have used so far.

use std::io;
use std::time::{Duration, Instant};

use crate::messages::processor_time;

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    at: Instant,
    bytes: f64,
    processor: Duration,
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) seconds: f64,
    /// Bytes of IPv4 packets.
    pub(super) bytes: f64,
    /// Seconds of processor time.
    pub(super) processor: f64,
}

impl Used {
    /// # Errors
    /// When the system does not show them: a figure of zero would be none.
    pub(super) fn now() -> io::Result<Used> {
        Ok(Used {
            at: Instant::now(),
            bytes: ip_bytes()?,
            processor: processor_time(),
        })
    }

    /// What was used since.
    pub(super) fn spent(self) -> io::Result<Spent> {
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
    pub(super) fn beyond(self, idle: Spent) -> Spent {
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

/// The value that `share` of the values do not exceed; 0 of none.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let before = |n: &usize| (*n as f64) + 1.0 <= sorted.len() as f64 * share;
    let at = (0..sorted.len()).take_while(before).count();
    sorted.get(at.min(last)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_leaves_its_share_below() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), 50.0);
        assert_eq!(quantile(&values, 0.99), 99.0);
        assert_eq!(quantile(&[3.0], 0.99), 3.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn packets_of_this_machine_are_counted() {
        assert!(ip_bytes().unwrap() >= 0.0);
    }
}
