//! `ringway gate swarms`: its arguments.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringway_gateway::InfoHash;

use super::gate::ControlArgs;
use super::values;

/// Which torrents, and when.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate swarms
  ringway gate swarms --since 7d --most 20
  ringway gate swarms --infohash 0123456789abcdef0123456789abcdef01234567
  ringway gate swarms --infohash 0123456789abcdef0123456789abcdef01234567 \\
      --at 2026-11-28T21:14:05Z --address 198.51.100.7

The last one answers a notice: who inside was in that swarm then, from which port, and as which
address and port the outside saw it.")]
pub(crate) struct SwarmsArgs {
    /// The flows about this torrent: 40 hexadecimal digits, 64 of version 2, or a magnet's xt
    #[arg(long, value_name = "HEX", value_parser = values::infohash)]
    pub(crate) infohash: Option<InfoHash>,

    /// With --infohash: those at this time, such as 2026-11-28T21:14:05Z, or without Z in the
    /// machine's zone
    #[arg(long, value_name = "TIME", value_parser = values::moment, requires = "infohash",
        conflicts_with = "since")]
    pub(crate) at: Option<Duration>,

    /// With --at: by so much clocks may be wrong
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "5m")]
    pub(crate) within: Duration,

    /// Only flows with this address, inside or as the outside sees it
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,

    /// Only what was seen in this last span of time
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) since: Option<Duration>,

    /// At most so many, the latest
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) most: usize,

    /// The folder of the gateway
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/ringway/gate")]
    pub(crate) state: PathBuf,

    #[command(flatten)]
    pub(crate) control: ControlArgs,
}
