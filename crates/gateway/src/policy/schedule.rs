//! Times of the week.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTES_OF_DAY: u16 = 1_440;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A minute of the week in local time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// 0 is Monday.
    day: u8,
    /// Minutes since midnight, below 1 440.
    minute: u16,
}

impl Moment {
    /// The moment of a time since the Unix epoch, in a time zone.
    #[must_use]
    pub fn of(since_epoch: Duration, zone: &TimeZone) -> Self {
        let second = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        let stamp = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
        let local = zone.to_datetime(stamp);
        let minute = i16::from(local.hour())
            .saturating_mul(60)
            .saturating_add(local.minute().into());
        Self {
            day: u8::try_from(local.weekday().to_monday_zero_offset()).unwrap_or(0),
            minute: u16::try_from(minute).unwrap_or(0),
        }
    }

    /// Reads `Tue 14:30`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no time of the week; one is written `Tue 14:30`");
        let (day, time) = text.trim().split_once(' ').ok_or_else(wrong)?;
        Ok(Self {
            day: day_of(day).ok_or_else(wrong)?,
            minute: minute_of(time.trim())
                .filter(|&minute| minute < MINUTES_OF_DAY)
                .ok_or_else(wrong)?,
        })
    }
}

/// One span: on these days, from a minute to before another. A span over midnight belongs to the
/// day on which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    days: [bool; 7],
    from: u16,
    to: u16,
}

impl Span {
    fn contains(&self, moment: Moment) -> bool {
        let on = |day: u8| self.days.get(usize::from(day)).copied().unwrap_or(false);
        if self.from < self.to {
            return on(moment.day) && (self.from..self.to).contains(&moment.minute);
        }
        let eve = moment.day.checked_sub(1).unwrap_or(6);
        (on(moment.day) && moment.minute >= self.from) || (on(eve) && moment.minute < self.to)
    }
}

/// Spans of the week, at least one.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    spans: Vec<Span>,
}

impl Schedule {
    /// Reads spans such as `Mon-Fri 08:00-18:00`, `Sat,Sun` or `22:00-06:00`.
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let spans: Result<Vec<Span>, String> = texts.iter().map(|text| span(text)).collect();
        Ok(Self { spans: spans? })
    }

    pub(super) fn contains(&self, moment: Moment) -> bool {
        self.spans.iter().any(|span| span.contains(moment))
    }

    /// Whether every moment of the other one is in this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        (0..7).all(|day| {
            (0..MINUTES_OF_DAY).all(|minute| {
                let moment = Moment { day, minute };
                !other.contains(moment) || self.contains(moment)
            })
        })
    }
}

fn span(text: &str) -> Result<Span, String> {
    let wrong = || {
        format!(
            "`{text}` is no span of the week; spans are written `Mon-Fri 08:00-18:00`, `Sat,Sun` or `22:00-06:00`"
        )
    };
    let mut span = Span {
        days: [true; 7],
        from: 0,
        to: MINUTES_OF_DAY,
    };
    let mut parts = text.split_whitespace();
    let mut part = parts.next().ok_or_else(wrong)?;
    if !part.contains(':') {
        span.days = days(part).ok_or_else(wrong)?;
        part = match parts.next() {
            Some(next) => next,
            None => return Ok(span),
        };
    }
    let (from, to) = part.split_once('-').ok_or_else(wrong)?;
    span.from = minute_of(from)
        .filter(|&minute| minute < MINUTES_OF_DAY)
        .ok_or_else(wrong)?;
    span.to = minute_of(to).ok_or_else(wrong)?;
    // `08:00-08:00` could be a whole day or nothing, so it is refused.
    if span.from == span.to || parts.next().is_some() {
        return Err(wrong());
    }
    Ok(span)
}

fn days(text: &str) -> Option<[bool; 7]> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (day_of(first)?, day_of(last)?),
            None => (day_of(part)?, day_of(part)?),
        };
        let mut day = first;
        loop {
            *days.get_mut(usize::from(day))? = true;
            if day == last {
                break;
            }
            day = day.wrapping_add(1).checked_rem(7)?;
        }
    }
    Some(days)
}

fn day_of(text: &str) -> Option<u8> {
    let index = DAYS.iter().position(|day| day.eq_ignore_ascii_case(text))?;
    u8::try_from(index).ok()
}

/// Minutes since midnight; 24:00 is the end of the day.
fn minute_of(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    if hour.len() != 2 || minute.len() != 2 {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    let total = hour.checked_mul(60)?.checked_add(minute)?;
    (minute < 60 && total <= MINUTES_OF_DAY).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::{Moment, Schedule};

    fn schedule(texts: &[&str]) -> Schedule {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        Schedule::parse(&texts).unwrap()
    }

    #[test]
    fn spans_hold_what_they_say() {
        let cases: [(&[&str], &str, bool); 10] = [
            (&["Mon-Fri 08:00-18:00"], "Mon 08:00", true),
            (&["Mon-Fri 08:00-18:00"], "Fri 17:59", true),
            (&["Mon-Fri 08:00-18:00"], "Fri 18:00", false),
            (&["Mon-Fri 08:00-18:00"], "Sat 12:00", false),
            (&["Sat,Sun"], "Sun 23:59", true),
            (&["22:00-06:00"], "Wed 05:59", true),
            (&["Fri 22:00-06:00"], "Sat 05:59", true),
            (&["Fri 22:00-06:00"], "Fri 05:59", false),
            (&["Sun 22:00-06:00"], "Mon 01:00", true),
            (&["Sat-Mon 00:00-24:00"], "Sun 12:00", true),
        ];
        for (spans, moment, expected) in cases {
            let held = schedule(spans).contains(Moment::parse(moment).unwrap());
            assert_eq!(held, expected, "{spans:?} {moment}");
        }
    }

    #[test]
    fn a_wider_schedule_covers_a_narrower_one() {
        let (week, office) = (schedule(&["Mon-Fri"]), schedule(&["Tue 09:00-12:00"]));
        assert!(week.covers(&office) && !office.covers(&week));
        assert!(schedule(&["Mon 00:00-12:00", "Mon 12:00-24:00"]).covers(&schedule(&["Mon"])));
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in [
            "",
            "Mo",
            "8-18",
            "08:00",
            "08:00-08:00",
            "25:00-26:00",
            "Mon 08:00-18:00 Tue",
            "08:60-09:00",
        ] {
            assert!(Schedule::parse(&[text.to_owned()]).is_err(), "{text}");
        }
    }

    #[test]
    fn epoch_times_are_shown_in_their_zone() {
        // 2026-11-23 06:30 UTC, a Monday.
        let time = std::time::Duration::from_secs(1_795_415_400);
        let moment = Moment::of(time, &jiff::tz::TimeZone::UTC);
        assert_eq!(moment, Moment::parse("Mon 06:30").unwrap());
        let east = jiff::tz::TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(Moment::of(time, &east), Moment::parse("Mon 15:30").unwrap());
    }
}
