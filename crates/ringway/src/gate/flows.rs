//! `ringway gate flows`: the flows that cross the border, with what they carried.

use std::net::SocketAddr;

use indicatif::HumanBytes;
use ringway_gateway::accounting::{Asked, FlowAccount};
use ringway_gateway::verdict::LiveFlow;
use ringway_terminal::{Failure, Table};

use super::ask::{ask, unexpected};
use super::message::{Reply, Request};
use crate::cli::FlowsArgs;
use crate::context::Context;

pub(super) const HEADINGS: [&str; 9] = [
    "FLOW",
    "APP",
    "CONFIDENCE",
    "ACTION",
    "RULE",
    "CLIENT",
    "SERVER",
    "PACKETS",
    "BYTES",
];

/// Shows the flows that are not over.
pub(crate) async fn flows(context: &Context, args: &FlowsArgs) -> Result<(), Failure> {
    let request = Request::Flows { most: args.most };
    let (known, others) = match ask(context, &args.control.socket, &request).await? {
        Reply::Flows { known, others } => (known, others),
        other => return Err(unexpected(&other)),
    };
    let wanted = |app: &str| args.app.as_ref().is_none_or(|wanted| wanted == app);
    let known = known.iter().filter(|flow| wanted(&flow.record.app));
    let others = others.iter().filter(|flow| wanted(&flow.app));
    let output = context.output;
    if output.json() {
        for flow in known {
            // The flow's own schema says what it is.
            output.plain_object(flow)?;
        }
        for flow in others {
            output.object("ringway.account/1", flow)?;
        }
        return Ok(());
    }
    let mut table = Table::new(&HEADINGS);
    for row in known.map(known_row).chain(others.map(other_row)) {
        table.row(&row);
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    Ok(())
}

fn known_row(flow: &LiveFlow) -> [String; 9] {
    let record = &flow.record;
    [
        flow.flow_id.to_string(),
        record.app.clone(),
        record.confidence.name().to_owned(),
        flow.action.map_or("-", |action| action.name()).to_owned(),
        flow.rule.clone().unwrap_or_else(|| "-".to_owned()),
        SocketAddr::new(record.client_ip, record.client_port).to_string(),
        SocketAddr::new(record.server_ip, record.server_port).to_string(),
        record.packets.to_string(),
        HumanBytes(record.bytes).to_string(),
    ]
}

pub(super) fn other_row(flow: &FlowAccount) -> [String; 9] {
    let asked = match flow.asked {
        Asked::Yes => "-",
        Asked::No => "not asked",
        Asked::Before => "before the start",
    };
    let or_none = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
    let total = flow.total();
    [
        flow.flow_id.to_string(),
        or_none(&flow.app),
        (flow.confidence.map_or("-", |confidence| confidence.name())).to_owned(),
        flow.action.map_or(asked, |action| action.name()).to_owned(),
        or_none(flow.rule.as_deref().unwrap_or_default()),
        end_of(flow.ends.protocol, flow.ends.client),
        end_of(flow.ends.protocol, flow.ends.server),
        total.packets.to_string(),
        HumanBytes(total.bytes).to_string(),
    ]
}

/// An end of a flow; of a protocol without ports its name stands in their place.
fn end_of(protocol: u8, end: SocketAddr) -> String {
    match protocol {
        6 | 17 => end.to_string(),
        1 | 58 => format!("{} (icmp)", end.ip()),
        47 => format!("{} (gre)", end.ip()),
        50 => format!("{} (esp)", end.ip()),
        132 => format!("{end} (sctp)"),
        other => format!("{} (protocol {other})", end.ip()),
    }
}
