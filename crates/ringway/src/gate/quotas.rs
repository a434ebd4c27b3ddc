//! `ringway gate quotas`: what hosts and members have used of what rules give them.

use indicatif::{BinaryBytes, HumanBytes};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ringway_gateway::quota::QuotaRow;
use ringway_terminal::{Failure, Table};
use serde::Serialize;

use super::ask::{ask, unexpected};
use super::message::{Reply, Request};
use crate::cli::QuotasArgs;
use crate::context::Context;

/// A row as it is printed.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    row: &'a QuotaRow,
    /// What happens to its flows now.
    now: &'a str,
    /// When the next period begins (RFC 3339, UTC).
    resets: String,
}

/// Shows what was used of quotas, the fullest first.
pub(crate) async fn quotas(context: &Context, args: &QuotasArgs) -> Result<(), Failure> {
    let rows = match ask(context, &args.control.socket, &Request::Quotas).await? {
        Reply::Quotas(Some(rows)) => rows,
        Reply::Quotas(None) => {
            return Err(Failure::failed(
                "the gateway's accounts do not answer: its log says why",
            ));
        }
        other => return Err(unexpected(&other)),
    };
    let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|one| one == is);
    let wanted = |row: &&QuotaRow| {
        same(&args.rule, &row.rule) && same(&args.of, &row.of) && (row.over || !args.over)
    };
    let output = context.output;
    let shown = rows.iter().filter(wanted).take(args.most);
    if output.json() {
        for row in shown {
            output.object(
                "ringway.gate.quotas/1",
                &Printed {
                    row,
                    now: now(row),
                    resets: time(row.resets_s).map_or_else(String::new, |at| at.to_string()),
                },
            )?;
        }
        return Ok(());
    }
    let mut table = Table::new(&["RULE", "OF", "USED", "QUOTA", "NOW", "RESETS AT"]);
    for row in shown {
        table.row(&cells(row));
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    Ok(())
}

fn cells(row: &QuotaRow) -> [String; 6] {
    let resets = time(row.resets_s).map(|at| {
        // The zone of this terminal: what somebody who waits for it reads.
        let local = at.to_zoned(TimeZone::system());
        local.strftime("%Y-%m-%d %H:%M").to_string()
    });
    [
        row.rule.clone(),
        row.of.clone(),
        HumanBytes(row.used).to_string(),
        format!("{}/{}", BinaryBytes(row.quota), row.period.name()),
        now(row).to_owned(),
        resets.unwrap_or_default(),
    ]
}

/// What happens to its flows.
fn now(row: &QuotaRow) -> &str {
    match (row.over, &row.over_class) {
        (false, _) => "as ruled",
        (true, Some(class)) => class,
        (true, None) => "block",
    }
}

fn time(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}
