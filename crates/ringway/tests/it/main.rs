//! The program as its users meet it: processes, exit codes, output.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in the functions it shares with others"
)]

mod acting;
mod admission;
mod attacks;
mod backups;
mod caps;
mod captures;
mod clients;
mod deadlines;
mod demo;
mod doctor;
mod folders;
mod gate;
mod hidden;
mod inbox;
mod join_again;
mod known;
mod leave;
mod leaves;
mod members;
mod messages;
mod networks;
mod owner;
mod pages;
mod publish;
mod queue;
mod records;
mod reloads;
mod renewal;
mod restart;
mod restored;
mod resume;
mod revocation;
mod rotate;
mod routes;
mod services;
mod spoken;
#[cfg(feature = "sso")]
mod sso;
mod stopped;
mod streams;
mod supervised;
mod told;
mod transports;
mod trinity;
mod tutorials;
mod unencrypted;
mod upgrade;
mod usage;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Outcome, Program, Ring, TestbedError, wait_until};
use serde_json::Value;

/// The program under test.
fn program() -> Program {
    Program::new(Path::new(env!("CARGO_BIN_EXE_ringway")))
}

/// Runs it to its end.
fn run(arguments: &[&str]) -> Outcome {
    program().run(arguments).unwrap()
}

/// Says that something is not tested for want of what. Written past the test harness, which hides
/// what passing tests print.
fn not_tested(what: &str) {
    // Without a stderr there is nowhere to say it.
    writeln!(std::io::stderr(), "SKIPPED: {what}").ok();
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

/// Pings until an answer comes: beside other work a single one may come too late.
fn ping_until_answered(ring: &Ring, name: &str, peer: &str) {
    let member = ring.member(name).unwrap();
    let answered = wait_until(Duration::from_secs(90), || {
        member.call(&["ping", peer, "--count", "1"])
    });
    answered.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
}

/// What a member's `transfers` says of a transfer as soon as it is as wanted.
fn transfer_when(ring: &Ring, name: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(Duration::from_secs(180), || {
        let transfer = member.transfer(id)?;
        match wanted(&transfer) {
            true => Ok(transfer),
            false => Err(TestbedError(transfer.to_string())),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}
