//! `ringway gate top`: what fills the line, and who.

mod board;
mod screen;

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use indicatif::HumanBytes;
use ringway_gateway::accounting::Grouping;
use ringway_gateway::service::Top;
use ringway_terminal::{Failure, Table};
use tokio::time::sleep;

use self::board::{Board, Line};
use super::ask::{ask, unexpected};
use super::message::{Reply, Request};
use crate::cli::{TopArgs, TopBy};
use crate::context::Context;

/// Time between two samples: rates are of so long.
const SECOND: Duration = Duration::from_secs(1);

/// Shows rates: live at a terminal, else once.
pub(crate) async fn top(context: &Context, args: &TopArgs) -> Result<(), Failure> {
    let by = grouping(args.by);
    let mut board = Board::new(by, args.filter.clone().unwrap_or_default());
    board.take(sample(context, args, by).await?);
    if args.once || context.output.json() || !stdout().is_terminal() {
        sleep(SECOND).await;
        board.take(sample(context, args, by).await?);
        return print(context, &board);
    }
    screen::run(context, args, board).await
}

/// What rows stand for.
pub(super) fn grouping(by: TopBy) -> Grouping {
    match by {
        TopBy::App => Grouping::App,
        TopBy::Host => Grouping::Host,
        TopBy::Rule => Grouping::Rule,
        TopBy::Class => Grouping::Class,
        TopBy::Member => Grouping::Member,
    }
}

/// What crossed until now.
async fn sample(context: &Context, args: &TopArgs, by: Grouping) -> Result<Top, Failure> {
    match ask(context, &args.control.socket, &Request::Top { by }).await? {
        Reply::Top(Some(top)) => Ok(*top),
        Reply::Top(None) => Err(Failure::failed(
            "the gateway's accounts do not answer: its log says why",
        )),
        other => Err(unexpected(&other)),
    }
}

/// One table, or one object for each row.
fn print(context: &Context, board: &Board) -> Result<(), Failure> {
    let output = context.output;
    if output.json() {
        for line in board.lines() {
            output.object("ringway.gate.top/1", &line)?;
        }
        return Ok(());
    }
    let mut table = Table::new(&HEADINGS.map(|heading| heading_of(heading, board)));
    for line in board.lines() {
        table.row(&cells(&line));
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    output.line(&board.summary())
}

/// What columns are called; the first is what rows stand for.
const HEADINGS: [&str; 6] = ["", "TO CLIENT/S", "TO SERVER/S", "FLOWS", "LIVE", "BYTES"];

fn heading_of(heading: &'static str, board: &Board) -> &'static str {
    match (heading, board.by()) {
        ("", Grouping::App) => "APP",
        ("", Grouping::Host) => "HOST",
        ("", Grouping::Rule) => "RULE",
        ("", Grouping::Class) => "CLASS",
        ("", Grouping::Member) => "MEMBER",
        (other, _) => other,
    }
}

fn cells(line: &Line) -> [String; 6] {
    [
        line.name.clone(),
        HumanBytes(line.rate_to_client).to_string(),
        HumanBytes(line.rate_to_server).to_string(),
        line.totals.flows.to_string(),
        line.totals.live.to_string(),
        HumanBytes(line.totals.total().bytes).to_string(),
    ]
}
