//! `ringway bench`: the project's own figures, measured on this machine, beside their limits and
//! their peers.

mod authority;
mod beside;
mod dtl;
mod figure;
mod gate;
mod idle;
mod limit;
mod messages;
mod overlay;
mod pair;
mod plot;
mod postfix;
mod real;
mod transport;

use std::path::Path;

pub(crate) use gate::Held;

use crate::cli::BenchCommand;
use crate::failure::Failure;
use crate::run::Context;

/// Runs a benchmark.
pub(crate) async fn run(context: &Context, command: BenchCommand) -> Result<(), Failure> {
    let output = context.output;
    // Members have threads of their own; what waits for them may block.
    let done = tokio::task::spawn_blocking(move || match command {
        BenchCommand::Transport(args) => transport::run(output, &args),
        BenchCommand::Dtl(args) => dtl::run(output, &args),
        BenchCommand::Overlay(args) if args.real => real::run(output, &args),
        BenchCommand::Overlay(args) => overlay::run(output, &args),
        BenchCommand::Gate(args) => gate::run(output, &args),
    });
    done.await.unwrap_or_else(|error| {
        Err(Failure::failed(format_args!(
            "the benchmark failed: {error}"
        )))
    })
}

/// Makes the folder for plots if it is not there, and finds out now whether files can be put there.
fn writable(folder: &Path) -> Result<(), Failure> {
    let tried = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    tried.map(drop).map_err(|error| {
        Failure::usage(format_args!(
            "no plots can be put into `{}` (--plots): {error}",
            folder.display()
        ))
    })
}
