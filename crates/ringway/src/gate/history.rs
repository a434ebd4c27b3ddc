//! `ringway gate audit --flows`: what crossed the border in the past.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::HumanBytes;
use ringway_gateway::accounting::{FlowAccount, Sum};
use ringway_gateway::audit::{AuditError, FlowSearch, FlowStore};
use ringway_gateway::limits::HISTORY_FILE;
use ringway_terminal::{Failure, Table};

use super::flows::{HEADINGS, other_row};
use super::top::grouping;
use crate::cli::AuditArgs;
use crate::context::Context;

/// Why a search ended.
pub(super) struct Ended(pub(super) Failure);

impl From<AuditError> for Ended {
    fn from(error: AuditError) -> Ended {
        Ended(Failure::failed(error))
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended(failure)
    }
}

/// Opens the history in the gateway's folder.
pub(super) fn open(state: &Path) -> Result<FlowStore, Failure> {
    let file = state.join(HISTORY_FILE);
    FlowStore::read(&file).map_err(|error| match file.try_exists() {
        Ok(false) => Failure::failed(format_args!(
            "there is no history of flows in {}: no gateway has written one there (--state names its folder)",
            state.display()
        )),
        _ => Failure::failed(error),
    })
}

/// The beginning of the last span of time.
pub(super) fn since(span: Option<Duration>) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    span.map(|span| now.unwrap_or_default().saturating_sub(span))
}

/// Shows flows, or what they carried together.
pub(crate) fn flow_history(context: &Context, args: &AuditArgs) -> Result<(), Failure> {
    let store = open(&args.state)?;
    let search = FlowSearch {
        app: args.app.clone(),
        rule: args.rule.clone(),
        address: args.address,
        since: since(args.since),
        most: args.by.is_none().then_some(args.most),
    };
    let output = context.output;
    let Some(by) = args.by.map(grouping) else {
        let mut table = Table::new(&HEADINGS);
        let show = |flow: FlowAccount| -> Result<(), Ended> {
            if output.json() {
                output.object("ringway.account/1", &flow)?;
            } else {
                table.row(&other_row(&flow));
            }
            Ok(())
        };
        store.search(&search, show).map_err(|Ended(why)| why)?;
        return if output.json() {
            Ok(())
        } else {
            output.line(table.text().trim_end())
        };
    };
    let mut sum = Sum::new(by);
    let add = |flow: FlowAccount| -> Result<(), Ended> {
        sum.add(&flow);
        Ok(())
    };
    store.search(&search, add).map_err(|Ended(why)| why)?;
    let name = by.name().to_uppercase();
    let mut table = Table::new(&[name.as_str(), "FLOWS", "TO CLIENT", "TO SERVER"]);
    for row in sum.rows() {
        if output.json() {
            output.object("ringway.gate.history/1", &row)?;
            continue;
        }
        table.row(&[
            row.name,
            row.totals.flows.to_string(),
            HumanBytes(row.totals.to_client.bytes).to_string(),
            HumanBytes(row.totals.to_server.bytes).to_string(),
        ]);
    }
    if output.json() {
        return Ok(());
    }
    output.line(table.text().trim_end())
}
