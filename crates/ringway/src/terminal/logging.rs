//! The log: `tracing` to stderr, as loud as `-v`, `RINGWAY_LOG` or `RUST_LOG` says.
//!
//! An event is one line, whatever stands in it. In systemd's journal it begins with its priority,
//! elsewhere with time and level. From `info` on alike lines are joined.

mod joined;
pub(crate) mod journal;

use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use self::joined::{Joined, Line};
use crate::failure::Failure;
use crate::visible::visible;

/// The variables that say what is logged; the first one that is set counts.
const VARIABLES: [&str; 2] = ["RINGWAY_LOG", "RUST_LOG"];

/// Starts the log.
///
/// `RINGWAY_LOG` wins over `RUST_LOG`, and that over `-v`.
///
/// # Errors
/// What the variable holds is no log filter, or the process logs already.
pub fn start(verbose: u8) -> Result<(), Failure> {
    // The project's own crates only: what its dependencies log is of no use to most users.
    let level = match verbose {
        0 => "warn",
        1 => {
            "warn,ringway=info,ringway_bench=info,ringway_node=info,ringway_transport=info,ringway_overlay=info,ringway_gateway=info"
        }
        2 => {
            "info,ringway=debug,ringway_bench=debug,ringway_node=debug,ringway_transport=debug,ringway_overlay=debug,ringway_gateway=debug"
        }
        _ => "trace",
    };
    let set = VARIABLES.into_iter().find_map(|name| {
        let text = std::env::var(name).ok()?;
        (!text.trim().is_empty()).then_some((name, text))
    });
    let filter = match set {
        Some((name, text)) => EnvFilter::try_new(&text).map_err(|error| {
            Failure::usage(format_args!(
                "{name} `{text}` is no log filter ({error}): use one such as `ringway_node=debug`"
            ))
        })?,
        None => EnvFilter::new(level),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        // It would say so on stderr, which is what failed, and end the program by that.
        .log_internal_errors(false)
        .event_format(Lines::default());
    log.try_init()
        .map_err(|error| Failure::failed(format_args!("the log could not be started: {error}")))
}

/// Shows counts of alike lines that are due; of all, where the program ends.
pub fn show_counts(ends: bool) {
    let now = Instant::now();
    let lines = match ends {
        true => joined().take_all(now),
        false => joined().take_due(now),
    };
    let mut text = String::new();
    for line in &lines {
        // Nothing is written but to memory.
        write_line(&mut Writer::new(&mut text), line).ok();
    }
    // Without a stderr there is nowhere to say it.
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// What the process has logged lately.
fn joined() -> MutexGuard<'static, Joined> {
    static JOINED: OnceLock<Mutex<Joined>> = OnceLock::new();
    let joined = JOINED.get_or_init(Mutex::default);
    joined.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The form of a line.
#[derive(Debug)]
struct Lines {
    /// Target, message and fields.
    body: Format<Full, ()>,
}

impl Default for Lines {
    fn default() -> Lines {
        let body = Format::default().without_time().with_level(false);
        Lines {
            body: body.with_ansi(false),
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut body = String::new();
        self.body
            .format_event(context, Writer::new(&mut body), event)?;
        let body = visible(body.trim_end()).replace('\n', "\\n");
        let level = *event.metadata().level();
        // Who asks for details wants them all.
        let lines = match level {
            Level::DEBUG | Level::TRACE => vec![(level, body)],
            _ => joined().handle(Instant::now(), level, &body),
        };
        lines
            .iter()
            .try_for_each(|line| write_line(&mut writer, line))
    }
}

fn write_line(writer: &mut Writer<'_>, (level, body): &Line) -> fmt::Result {
    if journal::is_stderr() {
        return writeln!(writer, "{}{body}", journal::prefix(*level));
    }
    SystemTime.format_time(writer)?;
    writeln!(writer, " {level:>5} {body}")
}
