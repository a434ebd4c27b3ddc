//! `ringway status`: what the member daemon sees.

use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::HumanBytes;
use ringway_node::control::{CapStatus, RouterRef, Status, TransportStatus};

use crate::context::Context;
use crate::reach;
use crate::request;
use ringway_terminal::Failure;
use ringway_terminal::Table;

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
    field("ring", ring(status));
    // A daemon of an earlier version does not report it.
    if status.expires > 0 {
        field("certificate", certificate(status, unix_seconds()));
    }
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
    field("addresses", addresses(status));
    field("links", status.links.len().to_string());
    if !status.caps.is_empty() {
        field("upload limit", caps(&status.caps));
    }
    let mut text = table.text();
    if !status.links.is_empty() {
        let mut links = Table::new(&["  PEER", "ADDRESS", "RTT", "IDLE"]);
        for link in &status.links {
            let rtt = link
                .rtt_ms
                .map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.2} ms"));
            links.row(&[
                format!("  {}", link.name),
                reach::shown(&link.address, link.via.as_deref()),
                rtt,
                format!("{:.0} s", link.idle_s),
            ]);
        }
        text = format!("{text}\n{}", links.text());
    }
    let rows: Vec<[String; 4]> = status.transports.iter().flat_map(moved).collect();
    if !rows.is_empty() {
        let mut transports = Table::new(&["  TRANSPORT", "SENT", "RECEIVED", "DROPPED"]);
        rows.iter().for_each(|row| transports.row(row));
        text = format!("{text}\n{}", transports.text());
    }
    text
}

/// Which ring it is, and what is wrong with its statements.
fn ring(status: &Status) -> String {
    let mut ring = format!("{}, {}", status.ring, status.state);
    if status.statement > 0 {
        ring.push_str(&format!(", statement {}", status.statement));
    }
    if let Some(older) = status.statement_in_dns {
        ring.push_str(&format!(
            "; its DNS has {older}, which says less: it lags, or the owner's folder is an old copy and needs `ringway ring recover`"
        ));
    }
    ring
}

/// When the certificate ends, and what is wrong about that.
fn certificate(status: &Status, now: u64) -> String {
    let ends = match status.expires.checked_sub(now) {
        Some(left) => format!("ends in {}", time_left(left)),
        None => "has run out".to_owned(),
    };
    match &status.not_renewed {
        Some(reason) => format!("{ends} and could not be renewed yet: {reason}"),
        None if status.expires_soon => format!("{ends} and is not renewed yet"),
        None => format!("{ends}, is renewed before"),
    }
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Seconds in the largest unit of which there are two.
pub(crate) fn time_left(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let fitting = units.into_iter().find(|(unit, _)| seconds >= 2 * unit);
    match fitting {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// What the HELLO says; a leaf has nothing to say there.
fn addresses(status: &Status) -> String {
    match status.role.as_str() {
        _ if !status.addresses.is_empty() => status.addresses.join(", "),
        "leaf" => "none (reached through its parents)".to_owned(),
        _ => "none".to_owned(),
    }
}

/// A row for a transport's messages, if it has any, and one for what its streams have carried.
fn moved(transport: &TransportStatus) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    let name = &transport.protocol;
    if transport.sent + transport.received > 0 || !transport.dropped.is_empty() {
        rows.push([
            format!("  {name} messages"),
            messages(transport.sent, transport.sent_bytes),
            messages(transport.received, transport.received_bytes),
            reasons(transport),
        ]);
    }
    let (sent, received) = (transport.stream_sent_bytes, transport.stream_received_bytes);
    if sent + received > 0 {
        // What a stream loses it sends again.
        rows.push([
            format!("  {name} files"),
            HumanBytes(sent).to_string(),
            HumanBytes(received).to_string(),
            "-".to_owned(),
        ]);
    }
    rows
}

fn messages(count: u64, bytes: u64) -> String {
    format!("{count} ({})", HumanBytes(bytes))
}

fn reasons(transport: &TransportStatus) -> String {
    let each = transport.dropped.iter();
    let each: Vec<String> = each
        .map(|(reason, count)| match reason.as_str() {
            "refused" | "timed_out" => {
                let connections = if *count == 1 {
                    "connection"
                } else {
                    "connections"
                };
                format!("{count} {connections} {}", reason.replace('_', " "))
            }
            _ => format!("{count} {}", reason.replace('_', " ")),
        })
        .collect();
    if each.is_empty() {
        "-".to_owned()
    } else {
        each.join(", ")
    }
}

/// Such as `5 MiB/s (2 transfers), eth0 1 MiB/s (none)`.
fn caps(caps: &[CapStatus]) -> String {
    let cap = |cap: &CapStatus| {
        let interface = cap.interface.iter().map(|name| format!("{name} "));
        let interface: String = interface.collect();
        let transfers = match cap.transfers {
            0 => "no transfers".to_owned(),
            1 => "1 transfer".to_owned(),
            more => format!("{more} transfers"),
        };
        format!("{interface}{}/s ({transfers})", HumanBytes(cap.upload))
    };
    caps.iter().map(cap).collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_certificate_shows_two_units() {
        for (seconds, text) in [
            (365 * 86_400, "365 d"),
            (2 * 86_400 - 1, "47 h"),
            (7_199, "119 min"),
            (119, "119 s"),
            (0, "0 s"),
        ] {
            assert_eq!(time_left(seconds), text);
        }
    }

    #[test]
    fn messages_and_files_have_separate_rows() {
        let mut quic = TransportStatus {
            protocol: "quic".to_owned(),
            sent: 0,
            sent_bytes: 0,
            received: 0,
            received_bytes: 0,
            stream_sent_bytes: 0,
            stream_received_bytes: 0,
            dropped: std::collections::BTreeMap::new(),
            probes_refused: 3,
        };
        assert!(moved(&quic).is_empty(), "a probe is no loss");
        quic.stream_sent_bytes = 405 << 20;
        let files = ["  quic files", "405.00 MiB", "0 B", "-"].map(str::to_owned);
        assert_eq!(moved(&quic), std::slice::from_ref(&files));
        quic.received = 2;
        quic.dropped.insert("timed_out".to_owned(), 1);
        let messages = [
            "  quic messages",
            "0 (0 B)",
            "2 (0 B)",
            "1 connection timed out",
        ];
        assert_eq!(moved(&quic), [messages.map(str::to_owned), files]);
    }
}
