//! How `--by` is read: a time of today or tomorrow, a date with a time, or a time from now.

use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::values;

const MEND: &str = "a deadline is written like 18:00, `tomorrow 06:00`, 2026-12-01T06:00 or +2h";

/// Reads a deadline; returns the time in Unix seconds.
pub(super) fn by(text: &str) -> Result<u64, String> {
    after(text, &Zoned::now())
}

/// The same, with the time that it is now.
fn after(text: &str, now: &Zoned) -> Result<u64, String> {
    let text = text.trim();
    let then = then(text, now)?;
    if then <= now.timestamp() {
        return Err(format!(
            "{text} has passed: it is {} now",
            now.strftime("%Y-%m-%d %H:%M")
        ));
    }
    u64::try_from(then.as_second()).map_err(|_| MEND.to_owned())
}

fn then(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let mend = || MEND.to_owned();
    if let Some(span) = text.strip_prefix('+') {
        let span = values::duration(span).map_err(|_| mend())?;
        let span = SignedDuration::try_from(span).map_err(|_| mend())?;
        return now.timestamp().checked_add(span).map_err(|_| mend());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let (day, time) = match text.strip_prefix("tomorrow") {
        Some(time) => (now.date().tomorrow().map_err(|_| mend())?, time.trim()),
        None => (now.date(), text),
    };
    // `2026-12-01` alone would be midnight, which is meant by few.
    let civil = if time.contains(':') && !time.contains('-') {
        time.parse::<Time>().map(|time| day.to_datetime(time))
    } else if time.contains(':') && day == now.date() {
        time.parse::<DateTime>()
    } else {
        return Err(mend());
    };
    let civil = civil.map_err(|_| mend())?;
    let zoned = civil.to_zoned(now.time_zone().clone());
    Ok(zoned.map_err(|_| mend())?.timestamp())
}

/// A deadline, or when something is expected, for people: the time, with the day if that is
/// another.
pub(crate) fn shown(unix: u64) -> String {
    shown_at(unix, &Zoned::now())
}

fn shown_at(unix: u64, now: &Zoned) -> String {
    let moment = Timestamp::UNIX_EPOCH.checked_add(Duration::from_secs(unix));
    let Ok(moment) = moment else {
        return format!("second {unix}");
    };
    let zoned = moment.to_zoned(now.time_zone().clone());
    let format = if zoned.date() == now.date() {
        "%H:%M"
    } else {
        "%Y-%m-%d %H:%M"
    };
    zoned.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-30T17:23:10+01:00[Europe/Oslo]".parse().unwrap()
    }

    fn read(text: &str) -> Result<String, String> {
        let unix = after(text, &now())?;
        let moment = Timestamp::from_second(i64::try_from(unix).unwrap()).unwrap();
        let zoned = moment.to_zoned(now().time_zone().clone());
        Ok(zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string())
    }

    #[test]
    fn times_are_local() {
        for (text, then) in [
            ("18:00", "2026-11-30T18:00:00"),
            (" 18:00:30 ", "2026-11-30T18:00:30"),
            ("tomorrow 06:00", "2026-12-01T06:00:00"),
            ("2026-12-01T06:00", "2026-12-01T06:00:00"),
            ("2026-12-01 06:00", "2026-12-01T06:00:00"),
            ("2026-12-01T06:00:00Z", "2026-12-01T07:00:00"),
            ("+2h", "2026-11-30T19:23:10"),
            ("+90m", "2026-11-30T18:53:10"),
        ] {
            assert_eq!(read(text), Ok(then.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_has_passed_says_the_time() {
        for text in ["17:00", "2026-11-29T18:00", "2020-01-01T00:00:00Z"] {
            let refused = read(text).unwrap_err();
            assert_eq!(
                refused,
                format!("{text} has passed: it is 2026-11-30 17:23 now")
            );
        }
    }

    #[test]
    fn other_things_are_no_times() {
        for text in [
            "",
            "six",
            "25:00",
            "+0h",
            "+h",
            "+-1h",
            "18",
            "2026-12-01",
            "tomorrow",
            "tomorrow 2026-12-01T06:00",
            "2h",
            "+99999999999999999999h",
            "+99999999999999d",
        ] {
            assert_eq!(read(text), Err(MEND.to_owned()), "{text}");
        }
    }

    #[test]
    fn another_day_is_shown() {
        let unix = after("18:00", &now()).unwrap();
        assert_eq!(shown_at(unix, &now()), "18:00");
        assert_eq!(shown_at(unix + 86_400, &now()), "2026-12-01 18:00");
    }
}
