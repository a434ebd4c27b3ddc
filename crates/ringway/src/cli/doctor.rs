//! `ringway doctor`: what of this machine stands in the way.

use std::path::PathBuf;

use clap::Args;

use super::gate::CONTROL;

/// `ringway doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway doctor
  sudo ringway doctor
  ringway doctor --json | jq -r 'select(.level == \"wrong\") | .mend'
  ringway doctor --home /var/lib/ringway --offline
  sudo ringway doctor --support ringway.tar --anonymise

It looks at the member's folder, or that of this machine's service, and asks its daemon; at an
authority's and at a gateway's, where they are. Nothing is changed. As root it sees more: the packet
filter, and which process has a port.

Exit codes: 0 all is well or worth a note, 1 something is wrong, 2 wrong usage. With
--support it is 0 once the file is written.")]
pub(crate) struct CheckupArgs {
    /// Ask nothing over the network: no DNS server
    #[arg(long)]
    pub(crate) offline: bool,
    /// Folder of the authority [default: authority in the home folder, else
    /// /var/lib/ringway-authority]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Write what helps others to help into this new file instead, a tar: the answer, status,
    /// paths, transfers, configuration and the end of the log, without secrets; it is listed
    #[arg(long, value_name = "FILE")]
    pub(crate) support: Option<PathBuf>,
    /// Numbers in that file in place of names and addresses
    #[arg(long, requires = "support")]
    pub(crate) anonymise: bool,
    /// The gateway's control socket
    #[arg(long, value_name = "PATH", default_value = CONTROL)]
    pub(crate) gate_control: PathBuf,
}
