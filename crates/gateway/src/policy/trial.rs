//! Tests of a policy, written in its own file.

use std::net::SocketAddr;

use super::facts::{File, FlowFacts, Found, Item};
use super::rule::Action;
use super::schedule::Moment;
use super::{Decision, Policy};
use crate::classify::Confidence;
use crate::infohash::InfoHash;
use crate::packet::L4;

/// One test: a flow, perhaps with a file or message, and what has to happen to it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// Line of the policy file at which it begins.
    pub line: usize,
    pub(super) l4: L4,
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) application: String,
    pub(super) confidence: Confidence,
    pub(super) host: Option<String>,
    pub(super) member: Option<String>,
    pub(super) infohash: Option<InfoHash>,
    pub(super) at: Moment,
    pub(super) file: Option<TrialFile>,
    pub(super) message: Option<String>,
    pub(super) action: Action,
    pub(super) rule: Option<String>,
}

/// The file of a test.
#[derive(Clone, Debug, Default)]
pub(super) struct TrialFile {
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) part: bool,
}

/// What came out of a test.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// The test's name.
    pub test: String,
    /// Its line in the policy file.
    pub line: usize,
    /// It came out as expected.
    pub passed: bool,
    /// What should have happened.
    pub expected: String,
    /// What would happen.
    pub got: String,
}

impl Policy {
    /// Runs the tests that stand in the policy's file.
    #[must_use]
    pub fn try_all(&self) -> Vec<Outcome> {
        self.trials
            .iter()
            .map(|trial| self.attempt(trial))
            .collect()
    }

    fn attempt(&self, trial: &Trial) -> Outcome {
        let flow = FlowFacts {
            l4: trial.l4,
            client: trial.client,
            server: trial.server,
            found: Some(Found {
                application: &trial.application,
                confidence: trial.confidence,
                host: trial.host.as_deref(),
                member: trial.member.as_deref(),
                infohash: trial.infohash,
            }),
            at: trial.at,
        };
        let expected = match &trial.rule {
            Some(rule) => format!("{} by {rule}", trial.action.name()),
            None => trial.action.name().to_owned(),
        };
        let (passed, got) = match self.decide(&flow) {
            // The classifier has answered, so this is never left open.
            Decision::NotYet => (false, "undecided".to_owned()),
            Decision::Settled(plan) => {
                let item = trial.item();
                let ruling = item.map_or(plan.ruling, |item| self.judge(&plan, &flow, &item));
                let name = self.name_of(&ruling);
                let right = ruling.action == trial.action
                    && trial.rule.as_deref().is_none_or(|rule| rule == name);
                (right, format!("{} by {name}", ruling.action.name()))
            }
        };
        Outcome {
            test: trial.name.clone(),
            line: trial.line,
            passed,
            expected,
            got,
        }
    }
}

impl Trial {
    fn item(&self) -> Option<Item<'_>> {
        match (&self.file, &self.message) {
            (Some(file), _) => Some(Item::File(File {
                name: file.name.as_deref(),
                kind: file.kind.as_deref(),
                size: file.size,
                part: file.part,
            })),
            (None, Some(text)) => Some(Item::Message(text)),
            (None, None) => None,
        }
    }
}
