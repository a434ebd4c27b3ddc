//! `ringway ring address`: where the authority is, shown and changed.

use ringway_node::authority::{AddressChange, RingAddress};

use super::{open, publish};
use crate::cli::AddressArgs;
use crate::context::Context;
use ringway_terminal::Failure;
use ringway_terminal::Table;

/// Shows where it is, after the change that was asked for.
pub(super) async fn run(context: &Context, args: AddressArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir)?;
    let change = AddressChange {
        dns: args.dns,
        dns_listen: args.dns_listen,
        enrol: args.enrol,
        enrol_listen: args.enrol_listen,
    };
    if change.is_empty() {
        return show(context, &authority.address()?);
    }
    let before = authority.address()?;
    let now = authority.change_address(&change)?;
    show(context, &now)?;
    if before.dns != now.dns || before.enrol != now.enrol {
        context.output.note(
            "`ringway ring serve` follows at once and goes on at the earlier addresses until it is restarted. Let it, until the members have learnt the new ones.",
        );
    }
    publish::after_change(
        context,
        &authority,
        "the authority has another address",
        "the address of before",
    )
    .await
}

fn show(context: &Context, address: &RingAddress) -> Result<(), Failure> {
    context
        .output
        .either("ringway.ring-address/1", address, || text(address))
}

fn text(address: &RingAddress) -> String {
    let mut table = Table::new(&["SERVER", "MEMBERS USE", "LISTENS AT"]);
    let (dns, enrol) = (address.dns.to_string(), address.enrol.to_string());
    table.row(&["DNS", &dns, &address.dns_listen.to_string()]);
    table.row(&["enrolment", &enrol, &address.enrol_listen.to_string()]);
    for former in &address.former_dns {
        table.row(&["DNS before", &former.to_string(), "-"]);
    }
    table.text()
}
