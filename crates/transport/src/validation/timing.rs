//! How patient validation is, by how long messages take.

use std::time::Duration;

use crate::address::{AddressDescriptor, LatencyClass, Protocol};
use crate::limits;

/// The times of one latency class.
#[derive(Debug)]
pub(super) struct Timing {
    /// Wait after the first PING; doubled for each further one.
    pub(super) timeout: Duration,
    /// PINGs before the address is given up.
    pub(super) attempts: u32,
    pub(super) valid_for: Duration,
    pub(super) renew_after: Duration,
    /// Wait before a formerly valid address is tried again; doubled each time.
    pub(super) rest: Duration,
    pub(super) longest_rest: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);

const INTERACTIVE: Timing = Timing {
    timeout: limits::PING_TIMEOUT,
    attempts: limits::PING_ATTEMPTS,
    valid_for: limits::VALID_FOR,
    renew_after: limits::RENEW_AFTER,
    rest: limits::LOST_RETRY,
    longest_rest: limits::LOST_RETRY_MAX,
};

/// Ten times the patience, and an hour of trust.
const SECONDS: Timing = Timing {
    timeout: Duration::from_secs(10),
    attempts: limits::PING_ATTEMPTS,
    valid_for: HOUR,
    renew_after: Duration::from_secs(2400),
    rest: Duration::from_secs(1200),
    longest_rest: Duration::from_secs(4 * 3600),
};

/// Mail: a queue may hold it for a quarter of an hour, and a mailbox seldom changes its owner.
const MINUTES: Timing = Timing {
    timeout: Duration::from_secs(900),
    attempts: limits::MAIL_BUDGET,
    valid_for: Duration::from_secs(7 * 86_400),
    renew_after: Duration::from_secs(5 * 86_400),
    rest: Duration::from_secs(86_400),
    longest_rest: Duration::from_secs(7 * 86_400),
};

impl Timing {
    /// The times for an address. Its owner may say that it is slower than its protocol, not that it
    /// is faster.
    pub(super) fn of(descriptor: &AddressDescriptor) -> &'static Timing {
        let least = match descriptor.protocol() {
            Protocol::Smtp => LatencyClass::Minutes,
            _ => LatencyClass::Interactive,
        };
        match descriptor.latency.max(least) {
            LatencyClass::Interactive => &INTERACTIVE,
            LatencyClass::Seconds => &SECONDS,
            LatencyClass::Minutes => &MINUTES,
        }
    }
}
