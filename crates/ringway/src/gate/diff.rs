//! `ringway gate diff`: what another policy would have done with the flows that were.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use indicatif::HumanBytes;
use ringway_gateway::accounting::{Asked, Compared, Fate, FlowAccount, Untold, compare};
use ringway_gateway::audit::FlowSearch;
use ringway_gateway::flow::Count;
use ringway_terminal::{Failure, Table};
use serde::Serialize;

use super::history::{Ended, open, since};
use super::replay::zone;
use super::rules;
use crate::cli::DiffArgs;
use crate::context::Context;
use crate::limits::DIFF_HOSTS;

/// What was done with a flow, as it stands in the history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Was {
    action: &'static str,
    rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
}

/// Flows of one application to which the same would have happened.
#[derive(Debug, Default, Serialize)]
struct Change {
    flows: u64,
    bytes: u64,
    /// The hosts, at most [`DIFF_HOSTS`] of them.
    hosts: BTreeSet<IpAddr>,
}

/// A change with what it is from and to.
#[derive(Serialize)]
struct Changed<'a> {
    app: &'a str,
    from: &'a Was,
    to: &'a Fate,
    #[serde(flatten)]
    change: &'a Change,
}

/// What came of all flows.
#[derive(Debug, Default, Serialize)]
struct Summary {
    flows: u64,
    same: u64,
    otherwise: u64,
    /// Flows of which the history does not tell, and why.
    untold: BTreeMap<Untold, u64>,
}

/// What changes, and what came of all flows.
#[derive(Default)]
struct Difference {
    changes: BTreeMap<(String, Was, Fate), Change>,
    summary: Summary,
}

impl Difference {
    fn add(&mut self, flow: &FlowAccount, compared: Compared) {
        let more = |count: &mut u64| *count = count.saturating_add(1);
        more(&mut self.summary.flows);
        let fate = match compared {
            Compared::Same => return more(&mut self.summary.same),
            Compared::Untold(why) => return more(self.summary.untold.entry(why).or_default()),
            Compared::Otherwise(fate) => fate,
        };
        more(&mut self.summary.otherwise);
        let was = Was {
            action: flow.action.map_or("allow", |action| action.name()),
            rule: flow.rule.clone().unwrap_or_else(|| unasked(flow.asked)),
            class: flow.class.clone(),
        };
        let change = (self.changes)
            .entry((flow.app.clone(), was, fate))
            .or_default();
        more(&mut change.flows);
        let Count { bytes, .. } = flow.total();
        change.bytes = change.bytes.saturating_add(bytes);
        if change.hosts.len() < DIFF_HOSTS {
            change.hosts.insert(flow.host);
        }
    }
}

fn unasked(asked: Asked) -> String {
    match asked {
        Asked::Yes => "undecided",
        Asked::No => "not asked",
        Asked::Before => "before the start",
    }
    .to_owned()
}

/// Decides the history again.
pub(crate) fn diff(context: &Context, args: &DiffArgs) -> Result<(), Failure> {
    let set = rules::signatures(&args.signatures)?;
    let policy = rules::policy(&args.policy, &set, context.output.json())?;
    let zone = zone(args.zone.as_deref())?;
    let store = open(&args.state)?;
    let search = FlowSearch {
        since: since(args.since),
        ..FlowSearch::default()
    };
    let mut difference = Difference::default();
    let add = |flow: FlowAccount| -> Result<(), Ended> {
        let compared = compare(&policy, &zone, &flow);
        difference.add(&flow, compared);
        Ok(())
    };
    store.search(&search, add).map_err(|Ended(why)| why)?;
    print(context, &difference)
}

fn print(context: &Context, difference: &Difference) -> Result<(), Failure> {
    let output = context.output;
    let mut table = Table::new(&["APP", "FROM", "TO", "FLOWS", "BYTES", "HOSTS"]);
    let fate = |action: &str, rule: &str, class: Option<&str>| match class {
        Some(class) => format!("{action} {class} ({rule})"),
        None => format!("{action} ({rule})"),
    };
    for ((app, from, to), change) in &difference.changes {
        if output.json() {
            let changed = Changed {
                app,
                from,
                to,
                change,
            };
            output.object("ringway.gate.diff/1", &changed)?;
            continue;
        }
        let hosts: Vec<String> = change.hosts.iter().map(IpAddr::to_string).collect();
        table.row(&[
            if app.is_empty() { "-" } else { app }.to_owned(),
            fate(from.action, &from.rule, from.class.as_deref()),
            fate(to.action, &to.rule, to.class.as_deref()),
            change.flows.to_string(),
            HumanBytes(change.bytes).to_string(),
            hosts.join(" "),
        ]);
    }
    let summary = &difference.summary;
    output.either("ringway.gate.diff.summary/1", summary, || {
        let mut text = String::new();
        if !difference.changes.is_empty() {
            text = table.text();
        }
        text.push_str(&format!(
            "{} flows: {} as before, {} otherwise",
            summary.flows, summary.same, summary.otherwise
        ));
        for (why, count) in &summary.untold {
            let why = match why {
                Untold::Application => "their application was not looked for",
                Untold::OtherFlows => "other flows gave them their name",
                Untold::Unanswered => "only one side has spoken",
                Untold::Contents => "files or messages decide",
                Untold::Quota => "it depends on what was used of a quota",
                Untold::Protocol => "neither TCP nor UDP",
            };
            text.push_str(&format!("; {count} cannot be told: {why}"));
        }
        text
    })
}
