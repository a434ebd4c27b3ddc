//! The log: `tracing` to stderr, as loud as `-v` or `RINGWAY_LOG` says.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// Starts the log.
///
/// `RINGWAY_LOG` wins over `-v`.
///
/// # Errors
/// `RINGWAY_LOG` is no log filter, or the process logs already.
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
    let filter = match std::env::var("RINGWAY_LOG") {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(&text)
            .map_err(|error| Failure::usage(format_args!("RINGWAY_LOG `{text}` is no log filter ({error}): use one such as `ringway_node=debug`")))?,
        _ => EnvFilter::new(level),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false);
    log.try_init()
        .map_err(|error| Failure::failed(format_args!("the log could not be started: {error}")))
}
