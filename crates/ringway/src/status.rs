//! `ringway status`: what the member daemon sees.

use ringway_node::control::{RouterRef, Status, TransportStatus};

use crate::failure::Failure;
use crate::request;
use crate::run::Context;
use crate::table::Table;

/// Digits of a ring key that are shown to people.
const SHOWN_KEY_DIGITS: usize = 12;

/// Shows it.
pub(crate) async fn status(context: &Context) -> Result<(), Failure> {
    let status = request::status(context).await?;
    context
        .output
        .either("ringway.status/1", &status, || text(&status))
}

fn text(status: &Status) -> String {
    let mut table = Table::default();
    let mut field = |name: &str, value: String| table.row(&[name, &value]);
    field(
        "member",
        format!("{} ({}) {}", status.name, status.role, status.member),
    );
    field("ring", format!("{}, {}", status.ring, status.state));
    field(
        "daemon",
        format!("pid {}, up {:.0} s", status.pid, status.uptime_s),
    );
    if let Some(key) = &status.ring_key {
        field("ring key", key.clone());
        field(
            "predecessor",
            status
                .predecessor
                .as_ref()
                .map_or_else(|| "-".to_owned(), router),
        );
        field(
            "successors",
            format!(
                "{} (of {})",
                routers(&status.successors),
                status.successor_list_length
            ),
        );
    } else {
        field("parents", routers(&status.parents));
    }
    field("addresses", status.addresses.join(", "));
    field("links", status.links.len().to_string());
    let mut text = table.text();
    if !status.links.is_empty() {
        let mut links = Table::new(&["  PEER", "ADDRESS", "RTT", "IDLE"]);
        for link in &status.links {
            let rtt = link
                .rtt_ms
                .map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.2} ms"));
            links.row(&[
                format!("  {}", link.name),
                link.address.clone(),
                rtt,
                format!("{:.0} s", link.idle_s),
            ]);
        }
        text = format!("{text}\n{}", links.text());
    }
    let used = |transport: &&TransportStatus| {
        transport.sent + transport.received > 0 || !transport.dropped.is_empty()
    };
    if status.transports.iter().any(|transport| used(&transport)) {
        let mut transports = Table::new(&["  TRANSPORT", "SENT", "RECEIVED", "DROPPED"]);
        for transport in status.transports.iter().filter(used) {
            transports.row(&[
                format!("  {}", transport.protocol),
                messages(transport.sent, transport.sent_bytes),
                messages(transport.received, transport.received_bytes),
                reasons(transport),
            ]);
        }
        text = format!("{text}\n{}", transports.text());
    }
    text
}

fn messages(count: u64, bytes: u64) -> String {
    format!("{count} ({})", indicatif::HumanBytes(bytes))
}

fn reasons(transport: &TransportStatus) -> String {
    let each = transport.dropped.iter();
    let each: Vec<String> = each
        .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")))
        .collect();
    if each.is_empty() {
        "-".to_owned()
    } else {
        each.join(", ")
    }
}

fn routers(list: &[RouterRef]) -> String {
    if list.is_empty() {
        "none".to_owned()
    } else {
        list.iter().map(router).collect::<Vec<_>>().join(", ")
    }
}

/// A router's name, or the beginning of its key.
pub(crate) fn router(router: &RouterRef) -> String {
    let key: String = router.ring_key.chars().take(SHOWN_KEY_DIGITS).collect();
    router.name.clone().unwrap_or(key)
}
