//! Results on stdout, as text for people or JSON for programs, and notes on stderr.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::failure::Failure;
use crate::visible::visible;

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub struct Output {
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
    /// As the options `--json` and `--quiet` say.
    #[must_use]
    pub fn new(json: bool, quiet: bool) -> Output {
        Output { json, quiet }
    }

    /// As for `--json --quiet`, for tests.
    #[must_use]
    pub fn silent() -> Output {
        Output {
            json: true,
            quiet: true,
        }
    }

    /// True if results are JSON.
    #[must_use]
    pub fn json(self) -> bool {
        self.json
    }

    /// True if progress may be drawn: stderr is a terminal and `--quiet` is not given.
    #[must_use]
    pub fn draws(self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// True if stdout shows colours.
    #[must_use]
    pub fn colours(self) -> bool {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        !self.json && !plain && io::stdout().is_terminal()
    }

    /// Writes one result object.
    ///
    /// # Errors
    /// [`Failure::OutputClosed`] if the reader has gone, or the write failed.
    pub fn object<T: Serialize>(self, schema: &'static str, body: &T) -> Result<(), Failure> {
        let line = serde_json::to_string(&Tagged { schema, body }).map_err(Failure::failed)?;
        self.line(&line)
    }

    /// Writes one result object that carries its schema itself.
    ///
    /// # Errors
    /// [`Failure::OutputClosed`] if the reader has gone, or the write failed.
    pub fn plain_object<T: Serialize>(self, body: &T) -> Result<(), Failure> {
        self.line(&serde_json::to_string(body).map_err(Failure::failed)?)
    }

    /// Writes the result in the asked form.
    ///
    /// # Errors
    /// [`Failure::OutputClosed`] if the reader has gone, or the write failed.
    pub fn either<T: Serialize>(
        self,
        schema: &'static str,
        body: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            self.object(schema, body)
        } else {
            self.line(&visible(&text()))
        }
    }

    /// Writes one line of a result, at once: a reader behind a pipe follows along.
    ///
    /// # Errors
    /// [`Failure::OutputClosed`] if the reader has gone, or the write failed.
    pub fn line(self, line: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(stdout.flush()?)
    }

    /// Tells the person at the terminal something that is not a result.
    pub fn note(self, text: &str) {
        if !self.quiet && !self.json {
            // A note that cannot be written is no failure.
            writeln!(io::stderr().lock(), "{}", visible(text)).ok();
        }
    }

    /// Tells how far something long has come: an object on stderr for programs, or a line for
    /// people.
    pub fn progress<T: Serialize>(
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
    pub fn aside<T: Serialize>(
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
