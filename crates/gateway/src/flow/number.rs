//! Numbers of flows: unique over restarts, and exact in JSON.
//!
//! A number has 53 bits, because a JSON number is a double for many readers. The highest seven say
//! who counts (one of 64 queues, or what counts beside them). The other 46 begin at the time of the
//! start and count on, 65 536 for each second. A run that begins later thus begins above all
//! numbers of the one before, as long as one queue sees fewer new flows a second on average; and
//! the bits last until 2059.

use std::time::Duration;

/// Bits that count.
const COUNTED: u32 = 46;

/// Numbers for each second since [`EPOCH`].
const EACH_SECOND: u64 = 1 << 16;

/// 2025-01-01, since the Unix epoch.
const EPOCH: Duration = Duration::from_secs(1_735_689_600);

/// Who counts flows that no queue was asked about.
pub const UNASKED: u64 = 64;

/// The first number of a run that begins `now`, since the Unix epoch, for queue `counter`
/// (0 to 63) or [`UNASKED`].
#[must_use]
pub fn first_flow_number(counter: u64, now: Duration) -> u64 {
    let micros = u64::try_from(now.saturating_sub(EPOCH).as_micros()).unwrap_or(u64::MAX);
    let begun = micros.saturating_mul(EACH_SECOND) / 1_000_000;
    let most = (1 << COUNTED) - 1;
    ((counter & 127) << COUNTED) | (begun & most)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{UNASKED, first_flow_number};

    #[test]
    fn numbers_are_unique_over_restarts_and_exact() {
        let now = Duration::from_secs(1_795_982_400);
        let later = now + Duration::from_secs(10);
        // Ten seconds of 60 000 new flows each, and a start after that.
        assert!(first_flow_number(3, later) > first_flow_number(3, now) + 600_000);
        assert!(first_flow_number(4, now) > first_flow_number(3, later) + (1 << 44));
        let last = first_flow_number(UNASKED, Duration::from_secs(2_800_000_000));
        assert!(last < 1 << 53);
        assert_eq!(first_flow_number(0, Duration::ZERO), 0);
    }
}
