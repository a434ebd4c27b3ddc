//! The program as its users meet it: processes, exit codes, output.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in the functions it shares with others"
)]

mod attacks;
mod caps;
mod captures;
mod demo;
mod hidden;
mod leaves;
mod members;
mod networks;
mod owner;
mod pages;
mod resume;
mod stopped;
mod transports;
mod usage;

use std::path::Path;

use ringway_testbed::{Outcome, Program};

/// The program under test.
fn program() -> Program {
    Program::new(Path::new(env!("CARGO_BIN_EXE_ringway")))
}

/// Runs it to its end.
fn run(arguments: &[&str]) -> Outcome {
    program().run(arguments).unwrap()
}

/// Bytes that no compression makes smaller, the same in every run.
fn random_bytes(seed: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new()
        .update(seed.as_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}
