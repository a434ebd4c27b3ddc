//! One line of the answer: what was looked at, what was seen, and the mend.

use ringway_terminal::visible;
use serde::Serialize;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing: it does not stand in the way by itself, or could not be looked at.
    Note,
    /// It stands in the way.
    Wrong,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Wrong => "WRONG",
        }
    }
}

/// What one look has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Name of the check.
    pub(super) check: &'static str,
    /// How it is.
    pub(super) level: Level,
    /// What was looked at.
    pub(super) looked_at: String,
    /// What was seen.
    pub(super) seen: String,
    /// A command or a setting that mends it; none of what is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

impl Finding {
    /// For people: a line, and below it the mend.
    pub(super) fn text(&self) -> String {
        let Finding { check, level, .. } = self;
        let line = format!(
            "{:5}  {check:13}  {}: {}",
            level.word(),
            self.looked_at,
            self.seen
        );
        let line = visible(&line).replace('\n', " ");
        match &self.mend {
            Some(mend) => format!("{line}\n{:22}mend: {}", "", visible(mend)),
            None => line,
        }
    }
}

/// What a check has found so far.
#[derive(Debug)]
pub(super) struct Findings {
    check: &'static str,
    found: Vec<Finding>,
}

impl Findings {
    /// None yet.
    pub(super) fn new(check: &'static str) -> Findings {
        let found = Vec::new();
        Findings { check, found }
    }

    /// All of them.
    pub(super) fn into_found(self) -> Vec<Finding> {
        self.found
    }

    /// It is as it should be.
    pub(super) fn ok(&mut self, looked_at: &str, seen: &str) {
        self.add(Level::Ok, looked_at, seen, None);
    }

    /// Somebody should know it.
    pub(super) fn note(&mut self, looked_at: &str, seen: &str, mend: &str) {
        self.add(Level::Note, looked_at, seen, Some(mend));
    }

    /// It stands in the way.
    pub(super) fn wrong(&mut self, looked_at: &str, seen: &str, mend: &str) {
        self.add(Level::Wrong, looked_at, seen, Some(mend));
    }

    fn add(&mut self, level: Level, looked_at: &str, seen: &str, mend: Option<&str>) {
        self.found.push(Finding {
            check: self.check,
            level,
            looked_at: looked_at.to_owned(),
            seen: seen.to_owned(),
            mend: mend.filter(|mend| !mend.is_empty()).map(str::to_owned),
        });
    }
}

/// A finding in tests: its level and its texts.
#[cfg(test)]
pub(super) fn only(findings: Findings) -> (Level, String, String) {
    let mut found = findings.into_found();
    assert_eq!(found.len(), 1, "{found:?}");
    let one = found.remove(0);
    (one.level, one.seen, one.mend.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mend_stands_below_what_was_seen() {
        let mut findings = Findings::new("disk");
        findings.ok("/home", "9 GiB free");
        findings.wrong("/home", "full\u{1b}[2J", "remove something");
        let texts: Vec<String> = findings.into_found().iter().map(Finding::text).collect();
        assert_eq!(texts[0], "ok     disk           /home: 9 GiB free");
        let lines: Vec<&str> = texts[1].lines().collect();
        assert_eq!(lines[0], "WRONG  disk           /home: full\\u{1b}[2J");
        assert_eq!(lines[1].trim(), "mend: remove something");
    }
}
