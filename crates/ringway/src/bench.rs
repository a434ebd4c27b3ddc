//! `ringway bench`: the project's own figures, measured on this machine, beside their limits and their peers.

mod beside;
mod figure;
mod idle;
mod limit;
mod messages;
mod pair;
mod plot;
mod postfix;
mod transport;

use crate::cli::BenchCommand;
use crate::failure::Failure;
use crate::run::Context;

/// Runs a benchmark.
pub(crate) async fn run(context: &Context, command: BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Transport(args) => {
            // Members have threads of their own; what waits for them may block.
            let output = context.output;
            let done = tokio::task::spawn_blocking(move || transport::run(output, &args));
            done.await.unwrap_or_else(|error| {
                Err(Failure::failed(format_args!(
                    "the benchmark failed: {error}"
                )))
            })
        }
    }
}
