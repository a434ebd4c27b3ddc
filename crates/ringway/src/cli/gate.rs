//! `ringway gate …`: the gateway's commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The gateway's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Name the application of every flow in captures (pcap, pcapng)
    Classify(ClassifyArgs),
}

/// `ringway gate classify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate classify border.pcapng
  tcpdump -w - -c 10000 | ringway gate classify -
  ringway gate classify --json day-*.pcap | jq 'select(.app == \"bittorrent\")'

A damaged capture gives the flows before the damage, one line on stderr and exit code 1; further files are read.")]
pub(crate) struct ClassifyArgs {
    /// The captures; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}
