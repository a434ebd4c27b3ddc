//! The program `ringway-bench`: the project's own figures, measured on this machine, beside their
//! limits and their peers.
//!
//! | module | measures, or does |
//! |---|---|
//! | `cli` | the one clap definition of all benchmarks |
//! | `transport` | messages over each transport: `messages`, `pair`, `idle`, `limit` |
//! | `stored` | stored messages between programs of two members |
//! | `dtl` | priorities beside the kernel's TCP, over emulated lines |
//! | `overlay` | lookups in simulated rings |
//! | `real` | rings of real routers over UDP |
//! | `files` | many small files, beside rsync and tar, in namespaces of their own |
//! | `gate` | what crosses the gateway, in namespaces of their own |
//! | `beside` | programs with other libraries, `benches` of the source |
//! | `streams` | a forward beside plain TCP proxies, first bytes and keystrokes |
//! | `figure`, `plot` | what is measured, as a table, JSON and pictures |
//! | `report` | `docs/benchmarks.md`, made from `benches/results` |
//! | `authority`, `program` | what a benchmark needs of the product |
//! | `limits` | every bound |

mod authority;
mod beside;
mod cli;
mod dtl;
mod figure;
mod files;
mod gate;
mod idle;
mod limit;
mod limits;
mod messages;
mod overlay;
mod pair;
mod plot;
mod program;
mod real;
mod report;
mod stored;
mod streams;
mod transport;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use ringway_terminal::{Failure, Output, explain, start_log};

use crate::cli::{BenchCommand, Cli};
use crate::report::ReportError;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return explain(&Cli::command(), &error, &arguments, &[]),
    };
    let json = cli.global.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    start_log(cli.global.verbose)?;
    let output = Output::new(cli.global.json, cli.global.quiet);
    match cli.command {
        BenchCommand::Transport(args) => transport::run(output, &args),
        BenchCommand::Messages(args) => stored::run(output, &args),
        BenchCommand::Dtl(args) => dtl::run(output, &args),
        BenchCommand::Overlay(args) if args.real => real::run(output, &args),
        BenchCommand::Overlay(args) => overlay::run(output, &args),
        BenchCommand::Files(args) => files::run(output, &args),
        BenchCommand::Gate(args) => gate::run(output, &args),
        BenchCommand::Streams(args) => streams::run(output, &args),
        BenchCommand::Report(args) => show(output, report::write_page(&args)),
        BenchCommand::Record(args) => show(output, report::record(&args)),
    }
}

/// Shows what became of the page or of the runs.
fn show(output: Output, done: Result<String, ReportError>) -> Result<(), Failure> {
    output.line(&done.map_err(Failure::failed)?)
}
