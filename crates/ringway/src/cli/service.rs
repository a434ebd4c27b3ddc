//! `ringway service …`: the daemons as services of systemd, where no package has made them so.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// The commands about services.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write what systemd needs to run a daemon: unit, user, folders, configuration
    Install(ServiceInstallArgs),
    /// Stop such a service and remove what was written for it; configuration and state stay
    Remove(ServiceRemoveArgs),
}

/// A daemon as a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceName {
    /// `ringway node`, as ringway-node
    Member,
    /// `ringway ring serve`, as ringway-authority
    Authority,
    /// `ringway gate up`, as ringway-gate
    Gate,
}

/// `ringway service install`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ringway service install member
  sudo ringway service install gate
  ringway service install member --user

Nothing is started. The packages ringway-node, ringway-authority and ringway-gate bring the same. A
file in /etc/ringway that is there already stays as it is. With --user it is a member of this user
alone, run by `systemctl --user`.")]
pub(crate) struct ServiceInstallArgs {
    /// Which daemon
    #[arg(value_enum)]
    pub(crate) service: ServiceName,
    /// For this user alone: only a unit is written, below ~/.config/systemd/user
    #[arg(long, conflicts_with = "root")]
    pub(crate) user: bool,
    /// The program that the service runs [default: this one]
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// Write below this folder, as for an image of a system, and run nothing
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// `ringway service remove`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo ringway service remove member\n  ringway service remove member --user"
)]
pub(crate) struct ServiceRemoveArgs {
    /// Which daemon
    #[arg(value_enum)]
    pub(crate) service: ServiceName,
    /// That of this user alone
    #[arg(long, conflicts_with = "root")]
    pub(crate) user: bool,
    /// Remove below this folder, and run nothing
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}
