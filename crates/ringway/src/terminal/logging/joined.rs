//! Alike lines, joined: the first is shown, and those like it are told as a count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tracing::Level;

use crate::limits::{
    JOINED_BURST, JOINED_FIRST, JOINED_GROWTH, JOINED_LINES, JOINED_LONGEST, JOINED_TEXT,
};

/// A line to be shown.
pub(super) type Line = (Level, String);

/// Which lines were shown lately. Commands: [`handle`](Self::handle),
/// [`take_due`](Self::take_due), [`take_all`](Self::take_all); each returns lines to show.
#[derive(Debug, Default)]
pub(super) struct Joined {
    shown: HashMap<Kind, Shown>,
    /// How many lines there were lately that begin alike.
    begun: HashMap<Kind, Begun>,
    /// When the first count is due.
    due: Option<Instant>,
}

/// What alike lines have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    level: Level,
    text: String,
}

/// Lines that have module and message in common.
#[derive(Debug)]
struct Begun {
    since: Instant,
    lines: u32,
}

/// A line that was shown, and those like it since.
#[derive(Debug)]
struct Shown {
    at: Instant,
    /// For how long those like it are counted.
    window: Duration,
    withheld: u64,
    /// The latest of them.
    latest: String,
}

impl Shown {
    fn due(&self) -> Instant {
        self.at.checked_add(self.window).unwrap_or(self.at)
    }

    /// The line that tells the count, if there is one.
    fn count(&self, now: Instant, level: Level) -> Option<Line> {
        let time = in_words(now.saturating_duration_since(self.at));
        let count = match self.withheld {
            0 => return None,
            1 => format!("{} (once more in the last {time})", self.latest),
            more => format!("{} ({more} times more in the last {time})", self.latest),
        };
        Some((level, count))
    }
}

impl Joined {
    /// A line comes. Returned are counts that are due, and the line unless one like it was shown
    /// lately.
    pub(super) fn handle(&mut self, now: Instant, level: Level, line: &str) -> Vec<Line> {
        let mut lines = self.take_due(now);
        let mut kind = Kind {
            level,
            text: alike(level, shortened(line)),
        };
        if !self.shown.contains_key(&kind) && self.is_flood(now, level, beginning(line)) {
            beginning(line).clone_into(&mut kind.text);
        }
        // After a count lines go on to be counted: the next one is no news.
        if let Some(shown) = self.shown.get_mut(&kind) {
            shown.withheld += 1;
            shortened(line).clone_into(&mut shown.latest);
            return lines;
        }
        if self.shown.len() >= JOINED_LINES {
            lines.extend(self.forget_oldest(now));
        }
        let shown = Shown {
            at: now,
            window: JOINED_FIRST,
            withheld: 0,
            latest: String::new(),
        };
        let due = shown.due();
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
        self.shown.insert(kind, shown);
        lines.push((level, line.to_owned()));
        lines
    }

    /// Time has passed: the counts that are due. What has not come again is forgotten.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Line> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        self.shown.retain(|kind, shown| {
            if now < shown.due() {
                return true;
            }
            let Some(line) = shown.count(now, kind.level) else {
                return false;
            };
            lines.push(line);
            shown.at = now;
            shown.withheld = 0;
            shown.window = (shown.window * JOINED_GROWTH).min(JOINED_LONGEST);
            true
        });
        self.due = self.shown.values().map(Shown::due).min();
        lines
    }

    /// The program ends: all counts.
    pub(super) fn take_all(&mut self, now: Instant) -> Vec<Line> {
        self.due = None;
        let shown = std::mem::take(&mut self.shown);
        let counts = shown.iter();
        counts
            .filter_map(|(kind, shown)| shown.count(now, kind.level))
            .collect()
    }

    /// Whether there were more of these in a short time than are told one by one: others may bring
    /// them about.
    fn is_flood(&mut self, now: Instant, level: Level, text: &str) -> bool {
        let recent = |begun: &Begun| now.saturating_duration_since(begun.since) < JOINED_FIRST;
        let kind = Kind {
            level,
            text: shortened(text).to_owned(),
        };
        if self.begun.len() >= JOINED_LINES && !self.begun.contains_key(&kind) {
            self.begun.retain(|_, begun| recent(begun));
            // Counting too few is better than remembering more.
            if self.begun.len() >= JOINED_LINES {
                self.begun.clear();
            }
        }
        let new = Begun {
            since: now,
            lines: 0,
        };
        let begun = self.begun.entry(kind).or_insert(new);
        if !recent(begun) {
            (begun.since, begun.lines) = (now, 0);
        }
        begun.lines = begun.lines.saturating_add(1);
        begun.lines > JOINED_BURST
    }

    fn forget_oldest(&mut self, now: Instant) -> Option<Line> {
        let oldest = self.shown.iter().min_by_key(|(_, shown)| shown.at);
        let kind = oldest.map(|(kind, _)| kind.clone())?;
        let shown = self.shown.remove(&kind)?;
        shown.count(now, kind.level)
    }
}

/// The line up to [`JOINED_TEXT`] bytes.
fn shortened(line: &str) -> &str {
    line.get(..line.floor_char_boundary(JOINED_TEXT))
        .unwrap_or(line)
}

/// Module and message: the line up to its first field.
fn beginning(line: &str) -> &str {
    let field = line.find('=').unwrap_or(line.len());
    let before = line.get(..field).unwrap_or(line);
    let end = before.rfind(' ').filter(|_| field < line.len());
    before.get(..end.unwrap_or(before.len())).unwrap_or(before)
}

/// What lines have in common that are alike. Of faults numbers are left out that stand by
/// themselves, such as bytes that are free, and ports; of news each line counts by all that it
/// says.
fn alike(level: Level, line: &str) -> String {
    if level == Level::INFO {
        return line.to_owned();
    }
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
    let words = line.split(' ').map(|word| {
        let bare = word.trim_matches(['(', ')', ',', ';', '"', '.']);
        let value = bare.rsplit_once('=').map_or(bare, |(_, value)| value);
        match value.rsplit_once(':') {
            _ if is_number(value) => word.replace(value, "#"),
            Some((host, port)) if is_number(port) && host.contains(['.', ':']) => {
                word.replace(value, host)
            }
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// In the largest unit of which there are two.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        7_200.. => format!("{} h", seconds / 3_600),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "a::b: a file could not be stored error=10 bytes are free";

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn first_passes_and_the_rest_is_counted() {
        let (mut joined, start) = (Joined::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(texts(joined.handle(start, Level::WARN, LINE)), [LINE]);
        assert!(joined.handle(at(30), Level::WARN, LINE).is_empty());
        // The same words of another level are another line.
        assert_eq!(texts(joined.handle(at(31), Level::ERROR, LINE)), [LINE]);
        assert!(joined.take_due(at(59)).is_empty());
        let told = format!("{LINE} (once more in the last 60 s)");
        assert_eq!(texts(joined.take_due(at(60))), [told]);
        for second in [90, 120, 150] {
            assert!(joined.handle(at(second), Level::WARN, LINE).is_empty());
        }
        let told = format!("{LINE} (3 times more in the last 4 min)");
        assert_eq!(texts(joined.take_due(at(300))), [told]);
    }

    #[test]
    fn what_comes_for_days_is_told_hourly() {
        let (mut joined, start) = (Joined::default(), Instant::now());
        let mut told = 0;
        for turn in 0..3 * 24 * 120 {
            let now = start + Duration::from_secs(30 * turn);
            told += joined.handle(now, Level::WARN, LINE).len();
        }
        // 72 hours, and those that came sooner.
        assert!((72..=76).contains(&told), "{told}");
    }

    #[test]
    fn one_that_stopped_is_news_when_it_returns() {
        let (mut joined, start) = (Joined::default(), Instant::now());
        joined.handle(start, Level::INFO, "a link is up");
        let later = start + Duration::from_secs(61);
        assert_eq!(joined.handle(later, Level::INFO, "a link is up").len(), 1);
        assert!(joined.take_all(later).is_empty());
    }

    #[test]
    fn numbers_differ_in_alike_faults_only() {
        let (mut joined, now) = (Joined::default(), Instant::now());
        let mut shown = |level, line| joined.handle(now, level, line).len();
        assert_eq!(shown(Level::ERROR, "full free=10 (12 files)"), 1);
        assert_eq!(shown(Level::ERROR, "full free=11 (13 files)"), 0);
        assert_eq!(shown(Level::ERROR, "eth0 is gone"), 1);
        assert_eq!(shown(Level::ERROR, "eth1 is gone"), 1);
        assert_eq!(shown(Level::ERROR, "10.0.0.1 is gone"), 1);
        assert_eq!(shown(Level::ERROR, "10.0.0.2 is gone"), 1);
        assert_eq!(shown(Level::WARN, "refused from=10.0.0.2:4000 why=x"), 1);
        assert_eq!(shown(Level::WARN, "refused from=10.0.0.2:4001 why=x"), 0);
        assert_eq!(shown(Level::WARN, "refused from=10.0.0.3:4001 why=x"), 1);
        assert_eq!(shown(Level::WARN, "refused from=[fe80::1]:4001"), 1);
        assert_eq!(shown(Level::WARN, "refused from=[fe80::1]:4002"), 0);
        assert_eq!(shown(Level::INFO, "a file came size=1"), 1);
        assert_eq!(shown(Level::INFO, "a file came size=2"), 1);
    }

    #[test]
    fn memory_is_bounded_and_no_count_is_lost() {
        let (mut joined, start) = (Joined::default(), Instant::now());
        joined.handle(start, Level::INFO, "first");
        joined.handle(start, Level::INFO, "first");
        let mut told = Vec::new();
        for n in 0..10 * JOINED_LINES {
            let now = start + Duration::from_millis(1);
            told.extend(texts(joined.handle(now, Level::INFO, &format!("line {n}"))));
            assert!(joined.shown.len() <= JOINED_LINES);
        }
        assert_eq!(told.len(), 10 * JOINED_LINES + 1);
        assert!(joined.begun.len() <= JOINED_LINES);
        assert!(told.contains(&"first (once more in the last 0 s)".to_owned()));
        let long = "ä".repeat(JOINED_TEXT);
        let lines = texts(joined.handle(start, Level::INFO, &long));
        assert_eq!(lines[0], long);
        joined.handle(start, Level::INFO, &long);
        let told = texts(joined.take_all(start));
        assert!(told[0].len() < JOINED_TEXT + 64, "{told:?}");
    }

    #[test]
    fn flood_of_different_news_is_counted() {
        let (mut joined, start) = (Joined::default(), Instant::now());
        let mut told = 0;
        for n in 0..3 * JOINED_BURST {
            let line = format!("x::told: a file was refused from=\"a = b\" id=\"{n}\"");
            told += joined.handle(start, Level::INFO, &line).len();
            assert_eq!(beginning(&line), "x::told: a file was refused");
        }
        // One more, which stands for the rest.
        assert_eq!(told, usize::try_from(JOINED_BURST).unwrap() + 1);
        let later = start + JOINED_FIRST;
        let lines = texts(joined.take_due(later));
        let rest = 2 * JOINED_BURST - 1;
        assert!(lines[0].ends_with(&format!("({rest} times more in the last 60 s)")));
        assert_eq!(
            joined.handle(later, Level::INFO, "x::told: another").len(),
            1
        );
        assert_eq!(beginning("no field"), "no field");
    }
}
