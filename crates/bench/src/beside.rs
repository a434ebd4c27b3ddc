//! The same work done by other libraries: a program of its own, so that only those who compare have
//! to build them.
//!
//! `PROGRAM list` prints a name a line. `PROGRAM NAME sequential COUNT SIZE` and `PROGRAM NAME
//! burst COUNT SIZE` do the work and print one JSON object: `{"seconds": …, "received": …,
//! "cpu_us": …}`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use ringway_terminal::Failure;

/// The program and what it can do.
#[derive(Debug)]
pub(super) struct Beside {
    program: PathBuf,
    /// Names of libraries and their transports.
    pub(super) names: Vec<String>,
}

/// What it has measured.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Measured {
    /// From the first message to the last.
    pub(super) seconds: f64,
    /// Messages that arrived.
    pub(super) received: u32,
    /// Processor time of both sides for each message, microseconds.
    pub(super) cpu_us: f64,
}

impl Beside {
    /// Asks the program what it can do.
    pub(super) fn new(program: &Path) -> Result<Beside, Failure> {
        let list = call(program, &["list"])?;
        let names = list.lines().map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            return Err(Failure::failed(format_args!(
                "`{} list` lists no cases: --beside needs a program such as target/release/transport-peers (bench transport) or target/release/dtl-peers (bench dtl)",
                program.display()
            )));
        }
        Ok(Beside {
            program: program.to_owned(),
            names,
        })
    }

    /// Lets it do `kind` of work.
    pub(super) fn measure(
        &self,
        name: &str,
        kind: &str,
        count: u32,
        size: usize,
    ) -> Result<Measured, Failure> {
        let (count, size) = (count.to_string(), size.to_string());
        let answer = call(&self.program, &[name, kind, &count, &size])?;
        serde_json::from_str(answer.trim()).map_err(|error| {
            Failure::failed(format_args!(
                "`{}` measured {name}, but its answer makes no sense: {error}",
                self.program.display()
            ))
        })
    }
}

fn call(program: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let shown = program.display();
    let output = Command::new(program).args(arguments).output();
    let output = output
        .map_err(|error| Failure::failed(format_args!("`{shown}` could not be run: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        return Err(Failure::failed(format_args!(
            "`{shown} {}` failed: {last}",
            arguments.join(" ")
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
