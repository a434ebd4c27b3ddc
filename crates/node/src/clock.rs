//! Wall-clock time in the one form that certificates use.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, 0 before it.
#[must_use]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}
