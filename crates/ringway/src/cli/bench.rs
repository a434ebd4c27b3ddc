//! `ringway bench …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Messages over each transport: one after the other, as many as go, and what an idle pair costs
    Transport(TransportArgs),
}

/// `ringway bench transport`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  ringway bench transport --quick\n  ringway bench transport --json --plots target/bench > transport.json"
)]
pub(crate) struct TransportArgs {
    /// One run of each with fewer messages; ends within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these transports, such as udp,tcp
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Folder for a plot of every figure, as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Program that does the same work with other libraries, measured in turns with ours: target/release/transport-peers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) beside: Option<PathBuf>,
}
