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
#[command(after_help = "\
Examples:
  ringway bench transport --quick
  ringway bench transport --only udp,quic
  ringway bench transport --json --plots target/bench > transport.json

smtp needs root and Postfix, which `./setup.sh --tests` of the source installs; without them it is left out, and said so on stderr.")]
pub(crate) struct TransportArgs {
    /// One run of each with fewer messages, and no idle pair; ends within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these of udp, tcp, quic, ws, smtp, and the bare sockets beside them; the idle pair belongs to udp
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Folder for plots, as SVG: figure-5 (one after the other), figure-6 and figure-7 (throughput, few and many at once)
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Program that does the same work with other libraries, measured in turns with ours: target/release/transport-peers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) beside: Option<PathBuf>,
}
