//! How much the flows of a rule may carry for each host or member, in which time, and what happens
//! above it.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::quantities::bytes;

/// A span of the calendar, in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday's midnight on.
    Week,
    /// From the midnight of the month's first day on.
    Month,
}

impl Period {
    const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// As policies write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// When the period of `now` began and when the next one begins, all since the Unix epoch. A
    /// time that no calendar holds is in a period without end.
    #[must_use]
    pub fn bounds(self, now: Duration, zone: &TimeZone) -> [Duration; 2] {
        self.calendar(now, zone).unwrap_or([now, Duration::MAX])
    }

    fn calendar(self, now: Duration, zone: &TimeZone) -> Option<[Duration; 2]> {
        let second = i64::try_from(now.as_secs()).ok()?;
        let local = Timestamp::from_second(second).ok()?.to_zoned(zone.clone());
        // A day may have 23 hours, so the next one is found by the calendar, and not by adding.
        let (first, next) = match self {
            Self::Hour => {
                let first = since_the_hour(&local)?;
                let next = first.checked_add(SignedDuration::from_hours(1)).ok()?;
                return Some([since_epoch(&first)?, since_epoch(&next)?]);
            }
            Self::Day => (local.date(), local.date().tomorrow().ok()?),
            Self::Week => {
                let days = i64::from(local.weekday().to_monday_zero_offset());
                let monday = local
                    .date()
                    .checked_sub(jiff::Span::new().days(days))
                    .ok()?;
                (monday, monday.checked_add(jiff::Span::new().weeks(1)).ok()?)
            }
            Self::Month => {
                let first = local.date().first_of_month();
                (first, first.checked_add(jiff::Span::new().months(1)).ok()?)
            }
        };
        let at = |midnight: DateTime| since_epoch(&zone.to_zoned(midnight).ok()?);
        Some([
            at(first.to_datetime(jiff::civil::Time::midnight()))?,
            at(next.to_datetime(jiff::civil::Time::midnight()))?,
        ])
    }
}

/// The full hour before a time. Where clocks go back an hour there are two of the same name.
fn since_the_hour(local: &Zoned) -> Option<Zoned> {
    let minutes = i64::from(local.minute()).checked_mul(60)?;
    let seconds = minutes.checked_add(local.second().into())?;
    local.checked_sub(SignedDuration::from_secs(seconds)).ok()
}

fn since_epoch(time: &Zoned) -> Option<Duration> {
    let seconds = u64::try_from(time.timestamp().as_second()).ok()?;
    Some(Duration::from_secs(seconds))
}

/// For whom bytes are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Each host of the own network.
    #[default]
    Host,
    /// Each member of a ring.
    Member,
}

impl Per {
    /// As policies write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Member => "member",
        }
    }
}

/// What happens above a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Flows go on in this class, by its index in [`Policy::classes`](super::Policy::classes).
    Class(usize),
    /// Flows are blocked.
    Block,
}

/// How much the flows of a rule may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of IP packets, both directions together.
    pub bytes: u64,
    /// In which time.
    pub period: Period,
    /// For whom they are counted.
    pub per: Per,
    /// What happens above it.
    pub over: Over,
}

/// Reads `5 GiB/day`.
pub(super) fn amount(text: &str) -> Result<(u64, Period), String> {
    let wrong = || {
        format!("`{text}` is no quota; one is written `5 GiB/day`, by the hour, day, week or month")
    };
    let (size, period) = text.split_once('/').ok_or_else(wrong)?;
    let period = period.trim();
    let mut periods = Period::ALL.into_iter();
    let period = periods
        .find(|known| known.name() == period)
        .ok_or_else(wrong)?;
    let size = bytes(size).ok_or_else(wrong)?;
    if size == 0 {
        return Err(format!(
            "`{text}` lets nothing through: use `action = \"block\"`"
        ));
    }
    Ok((size, period))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::{Period, amount};

    fn at(text: &str) -> Duration {
        let stamp: Timestamp = text.parse().unwrap();
        Duration::from_secs(stamp.as_second().try_into().unwrap())
    }

    #[test]
    fn quotas_are_read_with_their_period() {
        assert_eq!(amount("5GiB/day"), Ok((5 << 30, Period::Day)));
        assert_eq!(amount("100 MB / hour"), Ok((100_000_000, Period::Hour)));
        assert_eq!(amount("1 TiB/month"), Ok((1 << 40, Period::Month)));
        for wrong in [
            "5GiB",
            "5GiB/year",
            "many/day",
            "0/day",
            "5 GiB/day/week",
            "/day",
        ] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn periods_follow_the_local_calendar() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let now = at("2026-11-29T23:30:10Z");
        let bounds = |period: Period| period.bounds(now, &zone);
        assert_eq!(
            bounds(Period::Hour),
            [at("2026-11-29T23:00:00Z"), at("2026-11-30T00:00:00Z")]
        );
        // It is half past midnight of a Monday there.
        assert_eq!(
            bounds(Period::Day),
            [at("2026-11-29T23:00:00Z"), at("2026-11-30T23:00:00Z")]
        );
        assert_eq!(
            bounds(Period::Week),
            [at("2026-11-29T23:00:00Z"), at("2026-12-06T23:00:00Z")]
        );
        assert_eq!(
            bounds(Period::Month),
            [at("2026-10-31T23:00:00Z"), at("2026-11-30T23:00:00Z")]
        );
    }

    /// Clocks go back in Berlin at 01:00 UTC: that day has 25 hours, and two hours from two on.
    #[test]
    fn long_days_and_hours_twice_are_whole() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let before = at("2026-10-25T00:30:00Z");
        let after = at("2026-10-25T01:30:00Z");
        let day = [at("2026-10-24T22:00:00Z"), at("2026-10-25T23:00:00Z")];
        assert_eq!(Period::Day.bounds(before, &zone), day);
        assert_eq!(Period::Day.bounds(after, &zone), day);
        let hours = [before, after].map(|now| Period::Hour.bounds(now, &zone));
        assert_eq!(hours[0][1], hours[1][0]);
        assert_eq!(hours[1][1], at("2026-10-25T02:00:00Z"));
    }

    #[test]
    fn times_beyond_the_calendar_end_nothing() {
        let zone = TimeZone::UTC;
        for now in [Duration::ZERO, Duration::from_secs(u64::MAX), Duration::MAX] {
            let [began, ends] = Period::Month.bounds(now, &zone);
            assert!(began <= now && now <= ends);
        }
    }
}
