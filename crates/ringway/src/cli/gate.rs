//! `ringway gate …`: the gateway's commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The gateway's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Name the application of every flow in captures (pcap, pcapng)
    Classify(ClassifyArgs),
    /// Read policies and run the tests in them
    Check(CheckArgs),
    /// Say what a policy would have done with captures
    Replay(ReplayArgs),
}

/// Signatures beside the built-in ones.
#[derive(Clone, Debug, Args)]
pub(crate) struct SignatureArgs {
    /// A file of signatures, beside the built-in ones; can be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) signatures: Vec<PathBuf>,
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

    #[command(flatten)]
    pub(crate) signatures: SignatureArgs,
}

/// `ringway gate check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate check office.toml
  ringway gate check --json *.toml | jq 'select(.passed | not)'

Exit code 2 if a file is no policy (each fault has its line on stderr), 1 if one of its tests fails.")]
pub(crate) struct CheckArgs {
    /// The policies
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) signatures: SignatureArgs,
}

/// `ringway gate replay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate replay border.pcapng --policy office.toml
  ringway gate replay day-*.pcap --policy office.toml --json | jq 'select(.action == \"block\")'

AFTER is the packet of the flow at which it would have been decided; `-`: the flow was over before. Packets of a flow
that would have been blocked are still in the capture, and counted.")]
pub(crate) struct ReplayArgs {
    /// The captures (pcap, pcapng)
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) files: Vec<PathBuf>,

    /// The policy
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,

    /// The time zone of the policy's times, like Europe/Berlin; the machine's if none is given
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,

    #[command(flatten)]
    pub(crate) signatures: SignatureArgs,
}
