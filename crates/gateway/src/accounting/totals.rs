//! What was carried, by application, host, rule, class or member.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::account::{Asked, FlowAccount};
use crate::flow::Count;
use crate::limits::MAX_GROUPS;

/// What rows of totals stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// The application.
    #[default]
    App,
    /// The host of the own network.
    Host,
    /// The rule that decided.
    Rule,
    /// The class of bandwidth.
    Class,
    /// The member of a ring.
    Member,
}

impl Grouping {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::App, Self::Host, Self::Rule, Self::Class, Self::Member];

    /// As it is called on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Host => "host",
            Self::Rule => "rule",
            Self::Class => "class",
            Self::Member => "member",
        }
    }

    /// Where a flow belongs; `None`: nowhere, as a flow without a class has none.
    #[must_use]
    pub fn of(self, flow: &FlowAccount) -> Option<String> {
        let unasked = match flow.asked {
            Asked::No => Some("not asked"),
            Asked::Before => Some("before the start"),
            Asked::Yes => None,
        };
        match self {
            Self::App => Some(unasked.unwrap_or(&flow.app).to_owned()),
            Self::Host => Some(flow.host.to_string()),
            Self::Rule => match unasked {
                Some(unasked) => Some(unasked.to_owned()),
                None => Some(flow.rule.clone().unwrap_or_else(|| "undecided".to_owned())),
            },
            Self::Class => flow.class.clone(),
            Self::Member => flow.details.member.clone(),
        }
    }
}

/// What flows carried together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Flows that have begun.
    pub flows: u64,
    /// Those of them that live.
    pub live: u64,
    /// From inside to outside is not told apart here: from clients to servers.
    pub to_server: Count,
    /// From servers to clients.
    pub to_client: Count,
}

impl Totals {
    /// Adds a flow as it stands.
    pub fn add(&mut self, flow: &FlowAccount) {
        self.flows = self.flows.saturating_add(1);
        if flow.ended.is_none() {
            self.live = self.live.saturating_add(1);
        }
        self.to_server = self.to_server.plus(flow.to_server);
        self.to_client = self.to_client.plus(flow.to_client);
    }

    /// Both directions.
    #[must_use]
    pub fn total(&self) -> Count {
        self.to_server.plus(self.to_client)
    }
}

/// One row: what it stands for, and its totals since the gateway began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The application, host, rule, class or member.
    pub name: String,
    /// What its flows carried.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Adds up flows by a grouping.
#[derive(Debug, Default)]
pub struct Sum {
    grouping: Grouping,
    table: HashMap<String, Totals>,
}

impl Sum {
    /// Of no flows yet.
    #[must_use]
    pub fn new(grouping: Grouping) -> Self {
        Self {
            grouping,
            table: HashMap::new(),
        }
    }

    /// Adds a flow.
    pub fn add(&mut self, flow: &FlowAccount) {
        add(&mut self.table, self.grouping, flow);
    }

    /// The rows, the largest first.
    #[must_use]
    pub fn rows(self) -> Vec<Row> {
        let rows = self.table.into_iter();
        let mut rows: Vec<Row> = rows.map(|(name, totals)| Row { name, totals }).collect();
        rows.sort_by(|one, other| {
            let bytes = |row: &Row| row.totals.total().bytes;
            (bytes(other).cmp(&bytes(one))).then_with(|| one.name.cmp(&other.name))
        });
        rows
    }
}

/// Where what found no room in a table is counted.
pub(super) const OTHERS: &str = "(others)";

/// Totals of flows that are over, by each grouping.
#[derive(Debug, Default)]
pub(super) struct Ended {
    tables: [HashMap<String, Totals>; Grouping::ALL.len()],
    pub(super) all: Totals,
}

impl Ended {
    pub(super) fn add(&mut self, flow: &FlowAccount) {
        self.all.add(flow);
        for (table, grouping) in self.tables.iter_mut().zip(Grouping::ALL) {
            add(table, grouping, flow);
        }
    }

    /// Packets of a flow that came after it was reported.
    pub(super) fn add_late(&mut self, late: [Count; 2]) {
        let [to_server, to_client] = late;
        self.all.to_server = self.all.to_server.plus(to_server);
        self.all.to_client = self.all.to_client.plus(to_client);
    }

    /// Rows with these flows, which live, added.
    pub(super) fn rows<'a>(
        &self,
        grouping: Grouping,
        live: impl Iterator<Item = &'a FlowAccount>,
    ) -> Vec<Row> {
        let at = Grouping::ALL.iter().position(|one| *one == grouping);
        let mut table = at
            .and_then(|at| self.tables.get(at))
            .cloned()
            .unwrap_or_default();
        for flow in live {
            add(&mut table, grouping, flow);
        }
        let rows = table.into_iter();
        rows.map(|(name, totals)| Row { name, totals }).collect()
    }
}

fn add(table: &mut HashMap<String, Totals>, grouping: Grouping, flow: &FlowAccount) {
    let Some(name) = grouping.of(flow) else {
        return;
    };
    let name = if table.len() >= MAX_GROUPS && !table.contains_key(&name) {
        OTHERS.to_owned()
    } else {
        name
    };
    table.entry(name).or_default().add(flow);
}
