//! Results on stdout, as text for people or JSON for programs, and notes on stderr.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::cli::Global;
use crate::failure::Failure;

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
}

/// An object with its schema in front.
#[derive(Serialize)]
struct Tagged<'a, T: Serialize> {
    schema: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl Output {
    /// As the options say.
    pub(crate) fn new(global: &Global) -> Output {
        Output {
            json: global.json,
            quiet: global.quiet,
        }
    }

    /// As for `--json --quiet`, for tests.
    #[cfg(test)]
    pub(crate) fn silent() -> Output {
        Output {
            json: true,
            quiet: true,
        }
    }

    /// True if results are JSON.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// True if progress may be drawn: stderr is a terminal and nobody asked for silence.
    pub(crate) fn draws(self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// True if stdout shows colours.
    pub(crate) fn colours(self) -> bool {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        !self.json && !plain && io::stdout().is_terminal()
    }

    /// Writes one result object.
    pub(crate) fn object<T: Serialize>(
        self,
        schema: &'static str,
        body: &T,
    ) -> Result<(), Failure> {
        let line = serde_json::to_string(&Tagged { schema, body }).map_err(Failure::failed)?;
        self.line(&line)
    }

    /// Writes one result object that carries its schema itself.
    pub(crate) fn plain_object<T: Serialize>(self, body: &T) -> Result<(), Failure> {
        self.line(&serde_json::to_string(body).map_err(Failure::failed)?)
    }

    /// Writes the result in the asked form.
    pub(crate) fn either<T: Serialize>(
        self,
        schema: &'static str,
        body: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            self.object(schema, body)
        } else {
            self.line(&text())
        }
    }

    /// Writes one line of a result, at once: a reader behind a pipe follows along.
    pub(crate) fn line(self, line: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(stdout.flush()?)
    }

    /// Tells the person at the terminal something that is not a result.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet && !self.json {
            // A note that nobody can read is no failure.
            writeln!(io::stderr().lock(), "{text}").ok();
        }
    }

    /// Tells how far something long has come: an object on stderr for programs, or a line for
    /// people.
    pub(crate) fn progress<T: Serialize>(
        self,
        schema: &'static str,
        body: &T,
        text: impl FnOnce() -> String,
    ) {
        if !self.quiet {
            self.aside(schema, body, text);
        }
    }

    /// Writes one object on stderr, for programs, or a line for people.
    pub(crate) fn aside<T: Serialize>(
        self,
        schema: &'static str,
        body: &T,
        text: impl FnOnce() -> String,
    ) {
        if !self.json {
            return self.note(&text());
        }
        if let Ok(line) = serde_json::to_string(&Tagged { schema, body }) {
            // As in `note`.
            writeln!(io::stderr().lock(), "{line}").ok();
        }
    }
}
