//! Wall-clock time in the forms that certificates and the owner's numbers use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds in a second.
const MICROS: u64 = 1_000_000;

/// Numbers below this were counted from 0 by earlier versions and name no time: it is January 2001
/// in microseconds, before there was any ring, and more than any ring has counted to.
const FIRST_TIME: u64 = 978_307_200 * MICROS;

fn since_1970() -> Duration {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.unwrap_or_default()
}

/// Seconds since 1970, 0 before it.
#[must_use]
pub(crate) fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// Microseconds since 1970, 0 before it: what the owner's statements and certificates are numbered
/// by, at least.
///
/// So a folder that is restored from a backup goes on above every number that it has given out
/// since: no number is a microsecond's that has not come yet, as each takes a write to the disk.
#[must_use]
pub(crate) fn unix_micros() -> u64 {
    u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX)
}

/// When a number was given out, in seconds since 1970; none for one that was counted from 0.
#[must_use]
pub(crate) fn time_of(number: u64) -> Option<u64> {
    (number >= FIRST_TIME).then_some(number / MICROS)
}

/// The time as people write it, in UTC: `2026-03-01 06:30 UTC`.
#[must_use]
pub fn date_of(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => format!("second {unix_seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_when_it_was_given_out() {
        let now = unix_seconds();
        let found = time_of(unix_micros()).unwrap();
        assert!((now..=now + 1).contains(&found), "{found}");
        assert_eq!(time_of(57), None);
    }

    #[test]
    fn dates_are_in_utc() {
        assert_eq!(date_of(0), "1970-01-01 00:00 UTC");
        assert_eq!(date_of(u64::MAX), format!("second {}", u64::MAX));
    }
}
