//! `ringway gate why`: what was decided about a flow, and the packets that it was decided upon.

use std::fmt::Write as _;
use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use ringway_gateway::verdict::{TracedPacket, Why};

use super::ask::{ask, unexpected};
use super::message::{Reply, Request};
use crate::cli::WhyArgs;
use crate::context::Context;
use crate::limits::SHOWN_EVIDENCE;
use ringway_terminal::Failure;
use ringway_terminal::Table;

/// Says why a flow got what it got.
pub(crate) async fn why(context: &Context, args: &WhyArgs) -> Result<(), Failure> {
    let request = Request::Why { flow: args.flow };
    let why = match ask(context, &args.control.socket, &request).await? {
        Reply::Why(Some(why)) => why,
        Reply::Why(None) => {
            return Err(Failure::failed(format_args!(
                "nothing is known of a flow {0}: `ringway gate flows` has the numbers of those under way, and `ringway gate \
                 audit --flow {0}` what was written down of one that is over",
                args.flow
            )));
        }
        other => return Err(unexpected(&other)),
    };
    if let Some(file) = &args.pcap {
        write(file, &why.trace).map_err(|error| {
            Failure::failed(format_args!(
                "{} cannot be written: {error}",
                file.display()
            ))
        })?;
    }
    if context.output.json() {
        // The flow's own schema says what it is.
        return context.output.plain_object(&*why);
    }
    context.output.line(&text(&why))
}

fn text(why: &Why) -> String {
    let flow = &why.flow;
    let record = &flow.record;
    let mut table = Table::default();
    let mut field = |name: &str, value: String| table.row(&[name, &value]);
    let client = SocketAddr::new(record.client_ip, record.client_port);
    let server = SocketAddr::new(record.server_ip, record.server_port);
    let over = if why.over { ", over" } else { "" };
    field(
        "flow",
        format!("{} {client} -> {server}{over}", record.l4.name()),
    );
    field(
        "application",
        format!("{}, {}", record.app, record.confidence.name()),
    );
    if let Some(hash) = record.details.infohash {
        field("infohash", hash.to_string());
    }
    field("evidence", record.evidence.clone());
    field(
        "decision",
        match (flow.action, &flow.rule, flow.decided_after) {
            (Some(action), Some(rule), Some(after)) => {
                format!("{} by {rule}, at packet {after} of the flow", action.name())
            }
            (Some(action), Some(rule), None) => {
                format!(
                    "none; {} by {rule} is what it was worth at its end",
                    action.name()
                )
            }
            _ => "none yet: the classifier has not finished".to_owned(),
        },
    );
    if let (true, Some(rule)) = (flow.over_quota, &flow.rule) {
        field(
            "quota",
            format!(
                "the one of {rule} is used up, else it would be as {rule} says: `ringway gate quotas --rule {rule}`"
            ),
        );
    }
    field("kept", format!("{} packets", why.trace.len()));
    let mut text = table.text();
    for packet in &why.trace {
        let deeds = deeds(packet);
        if !deeds.is_empty() {
            text.push_str(&shown(packet, &deeds));
        }
    }
    text
}

fn deeds(packet: &TracedPacket) -> String {
    let step = packet.step;
    [
        (step.named, "named the application"),
        (step.decided, "was decided upon"),
        (step.blocked, "was blocked"),
    ]
    .into_iter()
    .filter_map(|(did, words)| did.then_some(words))
    .collect::<Vec<_>>()
    .join(", ")
}

/// A packet's payload as `hexdump -C` shows it.
fn shown(packet: &TracedPacket, deeds: &str) -> String {
    let sender = if packet.from_client {
        "client"
    } else {
        "server"
    };
    let payload = packet.data.get(packet.payload_at..).unwrap_or_default();
    let mut text = format!(
        "\npacket {}, from the {sender}, {deeds}; payload of {} bytes\n",
        packet.number,
        payload.len().saturating_add(packet.missing)
    );
    let bytes = payload.get(..SHOWN_EVIDENCE).unwrap_or(payload);
    for (number, line) in bytes.chunks(16).enumerate() {
        let hex: String = line.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            write!(hex, "{byte:02x} ").ok();
            hex
        });
        let plain: String = line
            .iter()
            .map(|&byte| match byte {
                b' '..=b'~' => char::from(byte),
                _ => '.',
            })
            .collect();
        writeln!(
            text,
            "  {:04x}  {hex:<48} {plain}",
            number.saturating_mul(16)
        )
        .ok();
    }
    text.truncate(text.trim_end().len());
    text
}

/// Writes the packets as a capture (pcap, raw IP, microseconds), which only its owner can read.
fn write(file: &Path, packets: &[TracedPacket]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let snap: u32 = 65_535;
    bytes.extend(0xa1b2_c3d4_u32.to_le_bytes());
    bytes.extend([2_u16, 4].into_iter().flat_map(u16::to_le_bytes));
    bytes.extend([0, 0, snap, 101].into_iter().flat_map(u32::to_le_bytes));
    for packet in packets {
        let kept = packet.data.len();
        let (seconds, rest) = (packet.time_us / 1_000_000, packet.time_us % 1_000_000);
        let fields = [
            u32::try_from(seconds),
            u32::try_from(rest),
            u32::try_from(kept),
            u32::try_from(kept.saturating_add(packet.missing)),
        ];
        for field in fields {
            bytes.extend(field.unwrap_or(u32::MAX).to_le_bytes());
        }
        bytes.extend_from_slice(&packet.data);
    }
    let mut opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?;
    // One that was there may have been others' to read.
    opened.set_permissions(Permissions::from_mode(0o600))?;
    opened.write_all(&bytes)
}
