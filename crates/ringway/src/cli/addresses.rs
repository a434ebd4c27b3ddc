//! `ringway ring address`: where the authority is.

use clap::Args;
use ringway_node::authority::ListenChange;
use ringway_node::endpoint::Endpoint;

use super::ring::AuthorityFolder;
use super::values;

/// `ringway ring address`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring address
  ringway ring address --dns authority.example.org:53 --enrol authority.example.org:7410
  ringway ring address --dns-listen 0.0.0.0:7453

`ringway ring serve` follows at once, and goes on at the earlier addresses until it is restarted.
Members learn the new ones from the owner's signed statement: by DNS within seconds, as long as that
is still answered at the earlier address, and from each other. So change them before the machine
moves, and let it run at both for a while. A member that was off all that time learns them from any
other member that it reaches; else write the new DNS address into its ringway.toml (`resolver`).
Invites that are not used yet name the earlier address: `ringway join --at` names another.

Members of versions before 0.3 refuse a statement that says this: update them first.")]
pub(crate) struct AddressArgs {
    /// Where members ask the ring's DNS server
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) dns: Option<Endpoint>,
    /// Where that listens; `auto`: at the address of --dns if that is this machine's, else at all
    /// addresses with its port
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen)]
    pub(crate) dns_listen: Option<ListenChange>,
    /// Where members enrol, and ask for other certificates
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) enrol: Option<Endpoint>,
    /// Where that listens, or `auto`
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen)]
    pub(crate) enrol_listen: Option<ListenChange>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}
