//! The commands about services and streams.

use clap::Args;
use clap_complete::ArgValueCompleter;
use ringway_node::control::AskedPriority;

use super::values;
use crate::members::complete_peer;

/// `ringway services`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway services
  ringway services oslo --json

Without a name it lists what this member offers ([[service]] in ringway.toml), to whom, and how many
streams are open. With one it lists what that member offers to this one: nothing else of its machine
can be reached.")]
pub(crate) struct ServicesArgs {
    /// Name of a member, or its id
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) peer: Option<String>,
}

/// `ringway connect`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway connect oslo/ssh
  ssh -o ProxyCommand='ringway connect oslo/ssh' anna@oslo
  ringway connect oslo/backup --priority backup < backup.tar

It ends when the service closes its side. The stream goes on over another path where the one that it
took breaks, for as long as a minute without any.")]
pub(crate) struct ConnectArgs {
    /// Member and service
    #[arg(value_name = "PEER/SERVICE")]
    pub(crate) to: String,
    /// From 0 to 1000: 0 takes only idle capacity, 1 is one TCP flow, N is N of them; or the name
    /// of a class [default: the service's own]
    #[arg(long, value_name = "P", value_parser = values::priority, allow_hyphen_values = true)]
    pub(crate) priority: Option<AskedPriority>,
}

/// `ringway forward`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway forward 2222 oslo/ssh
  ringway forward 127.0.0.2:5432 oslo/postgresql
  ringway forward unix:/run/user/1000/db.sock oslo/postgresql
  ringway forward --udp 5353 oslo/dns
  ringway forward --socks 1080
  curl --proxy socks5h://127.0.0.1:1080 http://oslo/

It runs until Ctrl-C. A port alone is one of 127.0.0.1: all users of this machine may use it.
With --socks a host is the name of a member, with or without the ring's domain behind it, and the port
chooses the service that has it there; `SERVICE.PEER` names a service by its name, on any port.
Nothing but services that are offered to this member can be reached.")]
pub(crate) struct ForwardArgs {
    /// Where to listen: a port, an address with a port, or `unix:` and a path
    #[arg(value_name = "LISTEN", required_unless_present = "socks")]
    pub(crate) listen: Option<String>,
    /// Member and service
    #[arg(value_name = "PEER/SERVICE", required_unless_present = "socks")]
    pub(crate) to: Option<String>,
    /// Forward datagrams, to a service that is udp://
    #[arg(long, conflicts_with = "socks")]
    pub(crate) udp: bool,
    /// Be a SOCKS5 proxy there, to all services of all members
    #[arg(long, value_name = "LISTEN", conflicts_with_all = ["listen", "to"])]
    pub(crate) socks: Option<String>,
    /// As for `ringway connect` [default: the service's own]
    #[arg(long, value_name = "P", value_parser = values::priority, allow_hyphen_values = true)]
    pub(crate) priority: Option<AskedPriority>,
}
