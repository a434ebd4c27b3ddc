//! `ringway-bench report` and `ringway-bench record`.

use std::path::PathBuf;

use clap::Args;
use jiff::civil::Date;

/// `ringway-bench report`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench report
  ringway-bench report --check

The page is made from all runs in --results and from the rows of --spec. Of a figure that was measured with several builds
the latest build counts.")]
pub(crate) struct ReportArgs {
    /// Writes nothing; fails with the first lines that differ if the page is not what the runs
    /// give
    #[arg(long)]
    pub(crate) check: bool,
    /// Folder with the runs, as *.jsonl
    #[arg(long, value_name = "DIR", default_value = "benches/results")]
    pub(crate) results: PathBuf,
    /// The rows of the page
    #[arg(long, value_name = "FILE", default_value = "benches/report.toml")]
    pub(crate) spec: PathBuf,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "docs/benchmarks.md")]
    pub(crate) page: PathBuf,
}

/// `ringway-bench record`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench gate --only nat,yara --json > gate.json
  ringway-bench record gate.json --build $(git rev-parse --short=8 HEAD) --host \"2 virtual cores, Linux 6.18\"
  ringway-bench report")]
pub(crate) struct RecordArgs {
    /// What a benchmark wrote with --json
    #[arg(value_name = "FILE")]
    pub(crate) figures: PathBuf,
    /// The commit that was measured
    #[arg(long, value_name = "COMMIT")]
    pub(crate) build: String,
    /// The machine, such as "2 virtual cores, Linux 6.18"
    #[arg(long, value_name = "TEXT")]
    pub(crate) host: String,
    /// The day of the measurement [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) date: Option<Date>,
    /// Folder with the runs; each benchmark has a file of its own there
    #[arg(long, value_name = "DIR", default_value = "benches/results")]
    pub(crate) results: PathBuf,
}
