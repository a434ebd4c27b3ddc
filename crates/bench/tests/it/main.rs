//! The benchmarks as their users meet them: processes, exit codes, figures.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in the functions it shares with others"
)]

mod measured;
mod page;
mod real;
mod usage;

use std::io::Write as _;
use std::path::Path;

use ringway_testbed::{Outcome, Program};

/// Runs the program under test to its end.
fn run(arguments: &[&str]) -> Outcome {
    let program = Program::new(Path::new(env!("CARGO_BIN_EXE_ringway-bench")));
    program.run(arguments).unwrap()
}

/// Says that something is not tested for want of what. Written past the test harness, which hides
/// what passing tests print.
fn not_tested(what: &str) {
    // Without a stderr it is not reported.
    writeln!(std::io::stderr(), "SKIPPED: {what}").ok();
}
