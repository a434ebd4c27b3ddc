//! Syslog (RFC 3164 §4, RFC 5424 §6): a priority, then a version or the time.

use crate::classify::message::{Finding, Memory, Message, is_number};

/// 24 facilities of eight severities.
const LAST_PRIORITY: u32 = 191;
const MONTHS: [&str; 12] = [
    "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec ",
];

/// `<34>1 2026-…` or `<34>Oct 11 22:14:15 …`; a priority before other text is likely.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let head = message.bytes.get(..message.bytes.len().min(64))?;
    let head: String = head.iter().copied().map(char::from).collect();
    let (priority, rest) = head.strip_prefix('<')?.split_once('>')?;
    let fits = is_number(priority, 3) && priority.parse::<u32>().ok()? <= LAST_PRIORITY;
    if !fits || !rest.chars().take(8).all(|one| (' '..='~').contains(&one)) {
        return None;
    }
    // The older form has no version, but a month and a clock.
    let version = rest.strip_prefix("1 ");
    let dated = version.is_some_and(|time| {
        let year = time
            .split_once('-')
            .is_some_and(|(year, _)| is_number(year, 4));
        year || time.starts_with("- ")
    });
    let timed = MONTHS.iter().any(|month| rest.starts_with(month));
    let clock = rest
        .get(6..15)
        .is_some_and(|time| time.matches(':').count() == 2);
    Some(if dated || (timed && clock) {
        Finding::certain("a priority and the time")
    } else {
        Finding::guess("a priority")
    })
}
