//! Why a command ended badly, and how that is shown: one line on stderr, and the exit code.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::logging::journal;
use crate::visible::visible;

/// The end of a command that did not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The user's input was wrong; nothing has changed. Exit code 2.
    Usage(String),
    /// The work failed. Exit code 1.
    Failed(String),
    /// The reader of our stdout has gone: no message, exit code 0, as after `| head`.
    OutputClosed,
    /// Exit code 1; what went wrong has been shown already.
    Reported,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    schema: &'static str,
    message: &'a str,
    usage: bool,
}

impl Failure {
    /// A user's mistake, in one line that names what is wrong and the mend.
    #[must_use]
    pub fn usage(message: impl Display) -> Failure {
        Failure::Usage(message.to_string())
    }

    /// Failed work, in one line that says what happened to what.
    #[must_use]
    pub fn failed(message: impl Display) -> Failure {
        Failure::Failed(message.to_string())
    }

    /// From an error of another crate that knows whose fault it is.
    #[must_use]
    pub fn blame(usage: bool, message: impl Display) -> Failure {
        if usage {
            Failure::usage(message)
        } else {
            Failure::failed(message)
        }
    }

    /// The message, if there is one.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Failure::Usage(message) | Failure::Failed(message) => message,
            Failure::OutputClosed => "the reader of the output has gone",
            Failure::Reported => "see above",
        }
    }

    /// Shows the message on stderr and gives the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        let (message, usage) = match self {
            Failure::Usage(message) => (message, true),
            Failure::Failed(message) => (message, false),
            Failure::OutputClosed => return ExitCode::SUCCESS,
            Failure::Reported => return ExitCode::FAILURE,
        };
        report_line(message, usage, json);
        ExitCode::from(if usage { 2 } else { 1 })
    }
}

/// Shows one error on stderr: a line for people or, with `json`, an object for programs.
pub fn report_line(message: &str, usage: bool, json: bool) {
    let message = one_line(message);
    let object = ErrorObject {
        schema: "ringway.error/1",
        message: &message,
        usage,
    };
    let line = json.then(|| serde_json::to_string(&object).ok()).flatten();
    let priority = match journal::is_stderr() {
        true => journal::prefix(tracing::Level::ERROR),
        false => "",
    };
    let mut text = line.unwrap_or_else(|| format!("{priority}{}: {message}", program()));
    text.push('\n');
    // With stderr gone the message has no reader; the exit code still shows the failure.
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// The name by which this program was called.
fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name);
    name.map_or("ringway".into(), OsStr::to_string_lossy)
        .into_owned()
}

/// Newlines and runs of blanks become single blanks.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    visible(&line).into_owned()
}

/// Writing a result failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::failed(format_args!("writing the result failed: {error}")),
        }
    }
}
