//! The text of `ringway.toml`, and where each key stands in it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::schema;
use crate::home::HomeError;

/// Characters of a line that an error shows.
const SHOWN: usize = 160;

/// Words in a line whose value an error does not show: errors go to logs, and secrets do not.
const SECRETS: [&str; 4] = ["pass", "secret", "token", "environment"];

/// The file as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    path: PathBuf,
    text: String,
}

/// A value that does not do.
#[derive(Debug, PartialEq)]
pub(crate) struct Wrong {
    /// The key with its tables, such as `smtp.pop3.port`; in lists of tables with their index from
    /// 0: `exec.0.name`.
    pub(crate) key: String,
    /// What is wrong, and the mend.
    pub(crate) reason: String,
}

impl Wrong {
    pub(crate) fn new(key: impl Into<String>, reason: impl Into<String>) -> Wrong {
        Wrong {
            key: key.into(),
            reason: reason.into(),
        }
    }
}

impl Document {
    pub(super) fn new(text: String, path: &Path) -> Document {
        let path = path.to_owned();
        Document { path, text }
    }

    pub(super) fn read(path: &Path) -> Result<Document, ConfigError> {
        let nothing = Document::new(String::new(), path);
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let reason = "the file is missing: restore it, or write one with the line `[node]`";
                return Err(nothing.invalid(reason.to_owned()));
            }
            Err(source) => return Err(HomeError::new("reading", path, source).into()),
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Document::new(text, path)),
            Err(_) => Err(nothing.invalid("it is no text in UTF-8".to_owned())),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The tables in it, if it is TOML and all keys and types are right.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let root = DeTable::parse(&self.text).map_err(|error| self.malformed(&error))?;
        match schema::check(root.get_ref()) {
            Some((span, wrong)) => Err(self.refuse_at(span, wrong)),
            None => Ok(()),
        }
    }

    /// True if the file has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some_and(|(_, whole)| whole)
    }

    /// The error for one key, with its line.
    pub(super) fn refuse(&self, wrong: Wrong) -> ConfigError {
        let span = self.find(&wrong.key).map(|(span, _)| span);
        self.refuse_at(span, wrong)
    }

    /// The error for what toml refuses although the types are right.
    pub(super) fn unreadable(&self, error: &toml::de::Error) -> ConfigError {
        let position = error
            .span()
            .map_or(String::new(), |span| self.position(&span));
        self.invalid(format!("{position}{}", first_line(error)))
    }

    fn refuse_at(&self, span: Option<Range<usize>>, wrong: Wrong) -> ConfigError {
        let position = span.map_or(String::new(), |span| {
            if wrong.key.contains("environment.") {
                format!("line {}: ", self.line(span.start))
            } else {
                self.position(&span)
            }
        });
        self.invalid(format!("{position}{}: {}", plain(&wrong.key), wrong.reason))
    }

    fn invalid(&self, reason: String) -> ConfigError {
        ConfigError::Invalid {
            path: self.path.display().to_string(),
            reason,
        }
    }

    /// For text that is no TOML. What should stand there is known by the key to the left of `=`.
    fn malformed(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        let message = first_line(error);
        let position = self.position(&span);
        if message == "duplicate key" {
            let reason = "this stands in the file already: a key, or a table in single brackets, stands once";
            return self.invalid(format!("{position}{reason}"));
        }
        let number = self.line(span.start);
        let line = self.text.lines().nth(number - 1).unwrap_or_default();
        let key = line.split_once('=').map_or("", |(key, _)| key.trim());
        let header = self.header(number).trim_matches(['[', ']', ' ']);
        let key = match header {
            "" => key.to_owned(),
            header => format!("{header}.{key}"),
        };
        self.invalid(match schema::needed(&key) {
            Some(reason) => format!("{position}{key}: {reason}"),
            None => format!("{position}this is no TOML: {message}"),
        })
    }

    /// Line and text, for the beginning of an error.
    fn position(&self, span: &Range<usize>) -> String {
        let number = self.line(span.start);
        let line = self.text.lines().nth(number - 1).unwrap_or_default();
        let secret = |text: &str| {
            let text = text.to_lowercase();
            // Those say where a password is, not what it is.
            let text = text
                .replace("password_file", "")
                .replace("password_credential", "");
            SECRETS.iter().any(|word| text.contains(word))
        };
        let shown = match line.split_once('=') {
            Some((key, _)) if secret(line) || self.header(number).contains("environment") => {
                format!("{}= …", key.trim_start())
            }
            _ => line.trim().to_owned(),
        };
        // What a terminal would obey is not shown either.
        let mut shown: String = shown.chars().filter(|c| !c.is_control()).collect();
        if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
            shown.truncate(end);
            shown.push('…');
        }
        format!("line {number}: `{shown}`: ")
    }

    /// Lines count from 1.
    fn line(&self, position: usize) -> usize {
        let before = self.text.bytes().take(position);
        before.filter(|byte| *byte == b'\n').count() + 1
    }

    /// The line with the table that a line is in.
    fn header(&self, line: usize) -> &str {
        let lines = self.text.lines().take(line);
        let headers = lines.filter(|line| line.trim_start().starts_with('['));
        headers.last().unwrap_or_default().trim()
    }

    /// Where a key stands, and whether it does: else it is the innermost of its tables.
    fn find(&self, key: &str) -> Option<(Range<usize>, bool)> {
        let root = DeTable::parse(&self.text).ok()?;
        let root = DeValue::Table(root.into_inner());
        let (mut value, mut found) = (&root, None);
        for step in key.split('.') {
            let next = match value {
                DeValue::Table(table) => table
                    .get_key_value(step)
                    .map(|(key, value)| (key.span(), value)),
                DeValue::Array(list) => {
                    let position = step.parse().ok();
                    let item = position.and_then(|position: usize| list.get(position));
                    item.map(|item| (item.span(), item))
                }
                _ => None,
            };
            let Some((span, next)) = next else {
                return found.map(|span| (span, false));
            };
            value = next.get_ref();
            found = Some(span);
        }
        found.map(|span| (span, true))
    }
}

fn first_line(error: &toml::de::Error) -> &str {
    error.message().lines().next().unwrap_or("malformed")
}

/// The key without indices of lists.
fn plain(key: &str) -> String {
    let steps = key.split('.').filter(|step| step.parse::<usize>().is_err());
    steps.collect::<Vec<_>>().join(".")
}
