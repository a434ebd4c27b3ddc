//! `docs/benchmarks.md`, made from the runs in `benches/results/*.jsonl` and from
//! `benches/report.toml`.
//!
//! | module | does |
//! |---|---|
//! | `args` | the clap definitions of `ringway-bench report` and `ringway-bench record` |
//! | `run` | one run, and reading a file of them |
//! | `spec` | which rows the page has, what they aim at and which runs they show |
//! | `select` | the runs of a row: the latest build, its median and spread |
//! | `number` | how a number is written |
//! | `page` | the page's Markdown |
//! | `record` | from a benchmark's `--json` to lines of runs |
//! | `files` | folders and files, and the comparison of pages |
//! | `error` | what can go wrong, with file and line |
//!
//! [`report`] is pure: the same spec and runs give the same page. A test compares that page with
//! the one in `docs/`.

mod args;
mod error;
mod files;
mod number;
mod page;
mod record;
mod run;
mod select;
mod spec;

pub(crate) use self::args::{RecordArgs, ReportArgs};
pub(crate) use self::error::ReportError;
pub(crate) use self::files::{record, write_page};
pub(crate) use self::run::Run;
pub(crate) use self::spec::Spec;

/// The page that the spec asks for, from these runs.
///
/// # Errors
/// A row that finds no run.
pub(crate) fn report(spec: &Spec, runs: &[Run]) -> Result<String, ReportError> {
    page::write(spec, runs)
}
