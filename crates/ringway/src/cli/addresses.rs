//! `ringway ring address` and `ringway ring move`: where the authority is, and where a router is.

use std::time::Duration;

use clap::Args;
use ringway_node::authority::{ListenChange, NewAddress};
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

/// `ringway ring move`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring move oslo 192.0.2.9
  ringway ring move oslo 192.0.2.9:7401 --within 30d
  ringway ring move oslo 192.0.2.7          back to where it is: the move is called off

A router's address stands in its certificate. The router gets another one by itself, within seconds
while it runs, else at its next start: also where the old address is gone already. From then on the
old certificate counts no more. Name, role and files under way stay; the id and the place in the ring
are others, as after `ringway ring rotate`. Order does not matter: a router that has the certificate
before its machine has the address waits for it.

A router that cannot reach the authority writes a request (`ringway rotate --offline`), which
`ringway ring rotate NAME --request FILE` answers with the new address.")]
pub(crate) struct MoveArgs {
    /// Name of the router
    pub(crate) name: String,
    /// Where others reach it from now on; without a port it keeps the one that it has
    #[arg(value_name = "ADDR[:PORT]")]
    pub(crate) address: NewAddress,
    /// For how long the router may do it, such as 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = values::duration)]
    pub(crate) within: Duration,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}
