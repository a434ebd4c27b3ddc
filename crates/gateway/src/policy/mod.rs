//! What the organisation allows: ordered rules, of which the first that matches decides.
//!
//! A policy is a TOML file ([`Policy::parse`]; its form is in `docs/reference/policy.md`). It is
//! asked once per flow, when enough is known ([`Policy::decide`]), and once per file or message of
//! flows that rules on content concern ([`Policy::judge`]), never per packet. Tests of the policy
//! stand in the same file ([`Policy::try_all`]).

mod applications;
mod concern;
mod error;
mod expression;
mod facts;
mod file;
mod folded;
mod form;
mod listed;
mod matcher;
mod preset;
mod quantities;
mod quota;
mod reach;
mod rule;
mod rule_file;
mod schedule;
mod trial;
mod trial_file;
mod words;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::feed::Feed;
use crate::limits::MAX_CLASSES;
pub use applications::{Group, group_of, groups};
pub use concern::Concern;
pub use error::PolicyError;
pub use facts::{File, FlowFacts, Found, Item};
use listed::Feeds;
pub use matcher::Direction;
use matcher::Match;
pub use preset::Preset;
use quantities::Networks;
pub use quantities::apart;
pub use quota::{Over, Per, Period, Quota};
pub use rule::{Action, Class, Failure, Names, Rule};
pub use schedule::Moment;
pub use trial::{Outcome, Trial};

/// The name that stands for no rule: what happens to flows that none matches.
pub const DEFAULT_RULE: &str = "default";

/// A policy that was read and found to be in order.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    classes: Vec<Class>,
    inside: Networks,
    terminated: Vec<RangeInclusive<u16>>,
    default: Action,
    other: Action,
    failure: Failure,
    names: Names,
    trials: Vec<Trial>,
    names_torrents: bool,
}

/// What the policy says of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The classifier's answer is needed first.
    NotYet,
    /// This is what happens.
    Settled(Plan),
}

/// What happens to a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What happens to the flow, and to each file and message that no rule on content takes.
    pub ruling: Ruling,
    /// Indices of the rules on content that come before the one that decided; each file and message
    /// is put to them.
    pub content: Vec<usize>,
}

impl Plan {
    /// What the flow carries has to be read for it.
    #[must_use]
    pub fn looks_into_content(&self) -> bool {
        let ruling = &self.ruling;
        let goes_on = ruling.action != Action::Block;
        !self.content.is_empty() || (goes_on && (ruling.action == Action::Scan || ruling.audit))
    }
}

/// Who decided what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What happens.
    pub action: Action,
    /// Index of the rule in [`Policy::rules`]; `None` is the default.
    pub rule: Option<usize>,
    /// Index of the class in [`Policy::classes`].
    pub class: Option<usize>,
    /// It is written down.
    pub audit: bool,
    /// A file is kept itself.
    pub keep: bool,
    /// The quota of the rule is used up, and this is what happens above it.
    pub over: bool,
}

impl Ruling {
    /// The same of a flow whose quota is used up.
    #[must_use]
    pub fn above(self, over: Over) -> Self {
        match over {
            Over::Block => Self {
                action: Action::Block,
                class: None,
                over: true,
                ..self
            },
            Over::Class(class) => Self {
                action: match self.action {
                    Action::Allow => Action::Shape,
                    other => other,
                },
                class: Some(class),
                over: true,
                ..self
            },
        }
    }

    /// It goes on, by no rule.
    pub(crate) const ALLOW: Self = Self {
        action: Action::Allow,
        rule: None,
        class: None,
        audit: false,
        keep: false,
        over: false,
    };
}

impl Policy {
    /// Its rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The lists in files that it names, each once.
    #[must_use]
    pub fn feeds(&self) -> Vec<Arc<Feed>> {
        let rules = self.rules.iter().flat_map(|rule| rule.matcher.feeds());
        let mut feeds: Vec<Arc<Feed>> = Vec::new();
        for feed in rules.chain([&self.inside.feeds]).flat_map(Feeds::iter) {
            if !feeds.iter().any(|known| Arc::ptr_eq(known, feed)) {
                feeds.push(Arc::clone(feed));
            }
        }
        feeds
    }

    /// The same policy with these lists as they were read now.
    #[must_use]
    pub fn renewed(mut self, feeds: &[Arc<Feed>]) -> Self {
        self.inside.feeds.renew(feeds);
        let rules = self.rules.iter_mut();
        for lists in rules.flat_map(|rule| rule.matcher.feeds_mut()) {
            lists.renew(feeds);
        }
        self
    }

    /// Some rule names torrents: flows of which each message may be about another one have to be
    /// asked about message by message.
    #[must_use]
    pub fn names_torrents(&self) -> bool {
        self.names_torrents
    }

    /// Names of torrents are looked for: some rule names torrents, or all flows are named.
    #[must_use]
    pub fn seeks_torrent_names(&self) -> bool {
        self.names_torrents || self.names == Names::All
    }

    /// A rule about torrents has decided this, and blocks: it is about one message or connection,
    /// and its ends may go on with another torrent.
    #[must_use]
    pub fn refuses_torrent(&self, ruling: &Ruling) -> bool {
        let rule = ruling.rule.and_then(|rule| self.rules.get(rule));
        ruling.action == Action::Block && rule.is_some_and(Rule::names_torrents)
    }

    /// Its classes of bandwidth in their order.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The policy that comes after another one, whose flows go on: they are marked with the slots
    /// of its classes. A class of the same name takes its place, and one that this policy has
    /// no more stays for the flows in it. Where that makes more than [`MAX_CLASSES`], new
    /// classes take the places of such.
    #[must_use]
    pub fn after(mut self, earlier: &Self) -> Self {
        let mut classes = earlier.classes.clone();
        let mut slots = Vec::new();
        for class in &self.classes {
            slots.push(classes.iter().position(|other| other.name == class.name));
        }
        let named: BTreeSet<&str> = self.classes.iter().map(|class| &*class.name).collect();
        let mut left = (0..classes.len()).filter(|&index| {
            let class = earlier.classes.get(index);
            class.is_some_and(|class| !named.contains(&*class.name))
        });
        for (class, slot) in self.classes.iter().zip(&mut slots) {
            let free = || match classes.len() {
                count if count < MAX_CLASSES => Some(count),
                _ => left.next(),
            };
            let Some(index) = slot.or_else(free) else {
                continue;
            };
            *slot = Some(index);
            match classes.get_mut(index) {
                Some(other) => *other = class.clone(),
                None => classes.push(class.clone()),
            }
        }
        for rule in &mut self.rules {
            rule.class = rule
                .class
                .and_then(|class| slots.get(class).copied().flatten());
            if let Some(quota) = &mut rule.quota
                && let Over::Class(class) = quota.over
                && let Some(slot) = slots.get(class).copied().flatten()
            {
                quota.over = Over::Class(slot);
            }
        }
        self.classes = classes;
        self
    }

    /// Ports to which connections from inside end at the gateway, and go on with a socket of its
    /// own.
    #[must_use]
    pub fn terminated(&self) -> &[RangeInclusive<u16>] {
        &self.terminated
    }

    /// Packets that are neither TCP nor UDP are dropped: no rule is about them. Errors that belong
    /// to a flow (ICMP) are not.
    #[must_use]
    pub fn blocks_other(&self) -> bool {
        self.other == Action::Block
    }

    /// What happens when the gateway cannot do its work.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.failure
    }

    /// What happens to the flows of this rule when scanning is not possible.
    #[must_use]
    pub fn failure_of(&self, ruling: &Ruling) -> Failure {
        ruling
            .rule
            .and_then(|rule| self.rules.get(rule))
            .and_then(|rule| rule.failure)
            .unwrap_or(self.failure)
    }

    /// The name of the rule that decided, or [`DEFAULT_RULE`].
    #[must_use]
    pub fn name_of(&self, ruling: &Ruling) -> &str {
        ruling
            .rule
            .and_then(|rule| self.rules.get(rule))
            .map_or(DEFAULT_RULE, |rule| rule.name.as_str())
    }

    /// What the rule of a ruling says of its flows, whatever was made of it since.
    #[must_use]
    pub fn ruling_of(&self, ruled: &Ruling) -> Option<Ruling> {
        let index = ruled.rule?;
        Some(ruling(index, self.rules.get(index)?))
    }

    /// The quota of the rule of this name.
    #[must_use]
    pub fn quota_of(&self, rule: &str) -> Option<Quota> {
        self.rules.iter().find(|known| known.name == rule)?.quota
    }

    /// Whether what flows carry has a say anywhere, is scanned or is written down.
    #[must_use]
    pub fn looks_into_content(&self) -> bool {
        self.default == Action::Audit || self.rules.iter().any(asks_for_content)
    }

    /// Whether anything but being let pass may happen to flows because they are of this
    /// application.
    #[must_use]
    pub fn touches(&self, application: &str) -> bool {
        let acts = |rule: &Rule| !rule.only_allows() && rule.is_about(application);
        self.rules.iter().any(acts)
    }

    /// Why a connection is stopped whose contents were asked for and cannot be read, by an unknown
    /// application: the first rule that may have asked, and says so, or the default. `None`: it
    /// goes on.
    #[must_use]
    pub fn stops_unread(&self, flow: &FlowFacts<'_>) -> Option<Ruling> {
        let way = self.way(flow.client.ip(), flow.server.ip());
        let asking = self.rules.iter().enumerate().filter(|(_, rule)| {
            asks_for_content(rule) && rule.matcher.matches(flow, way) != Match::No
        });
        asking
            .map(|(index, rule)| ruling(index, rule))
            .chain((self.default == Action::Audit).then(|| self.default_ruling()))
            .find(|ruling| self.failure_of(ruling) == Failure::Closed)
    }

    /// What happens where no rule says anything.
    fn default_ruling(&self) -> Ruling {
        Ruling {
            action: self.default,
            rule: None,
            class: None,
            audit: self.default == Action::Audit,
            keep: false,
            over: false,
        }
    }

    /// What happens where contents that this plan asks for cannot be read, and by which rule: the
    /// first that may have asked and fails closed, or else the one that decided.
    #[must_use]
    pub fn failure_of_plan(&self, plan: &Plan) -> (Ruling, Failure) {
        let asking = plan.content.iter().filter_map(|&index| {
            let rule = self.rules.get(index)?;
            Some(ruling(index, rule))
        });
        asking
            .chain([plan.ruling])
            .map(|ruling| (ruling, self.failure_of(&ruling)))
            .find(|(_, failure)| *failure == Failure::Closed)
            .unwrap_or((plan.ruling, self.failure_of(&plan.ruling)))
    }

    /// Some file of a flow with this plan may be scanned.
    #[must_use]
    pub fn scans(&self, plan: &Plan) -> bool {
        let rules = plan
            .content
            .iter()
            .filter_map(|&index| self.rules.get(index));
        rules
            .map(|rule| rule.action)
            .chain([plan.ruling.action])
            .any(|action| action == Action::Scan)
    }

    /// The rule that decided scans parts of files by themselves.
    #[must_use]
    pub fn scans_parts(&self, ruling: &Ruling) -> bool {
        ruling
            .rule
            .and_then(|rule| self.rules.get(rule))
            .is_some_and(|rule| rule.scan_parts)
    }

    /// Bytes of a file's beginning that wait together, by the rule that decided.
    #[must_use]
    pub fn holds_first(&self, ruling: &Ruling) -> u64 {
        ruling
            .rule
            .and_then(|rule| self.rules.get(rule))
            .map_or(0, |rule| rule.hold_first)
    }

    /// Whether texts of messages are written down by the rule that decided.
    #[must_use]
    pub fn keeps_texts(&self, ruling: &Ruling) -> bool {
        ruling
            .rule
            .and_then(|rule| self.rules.get(rule))
            .is_some_and(|rule| rule.texts)
    }

    /// Where a flow from one address to another goes.
    #[must_use]
    pub fn way(&self, client: IpAddr, server: IpAddr) -> Direction {
        match (self.inside.contains(client), self.inside.contains(server)) {
            (true, false) => Direction::Outbound,
            (false, true) => Direction::Inbound,
            (true, true) => Direction::Internal,
            (false, false) => Direction::Transit,
        }
    }

    /// What happens to a flow.
    #[must_use]
    pub fn decide(&self, flow: &FlowFacts<'_>) -> Decision {
        let way = self.way(flow.client.ip(), flow.server.ip());
        let mut content = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.matcher.matches(flow, way) {
                Match::No => {}
                Match::NotYet => return Decision::NotYet,
                Match::Content => content.push(index),
                Match::Yes => return settled(flow, ruling(index, rule), content),
            }
        }
        settled(flow, self.default_ruling(), content)
    }

    /// What goes on with this ruling is decided once it has a name, for the sake of the figures.
    #[must_use]
    pub fn waits_for_name(&self, ruling: &Ruling) -> bool {
        self.names == Names::All && ruling.action != Action::Block
    }

    /// What happens to a file or message of a flow with this plan.
    #[must_use]
    pub fn judge(&self, plan: &Plan, flow: &FlowFacts<'_>, item: &Item<'_>) -> Ruling {
        plan.content
            .iter()
            .filter_map(|&index| Some((index, self.rules.get(index)?)))
            .find(|(_, rule)| rule.matcher.takes(flow, item))
            .map_or(plan.ruling, |(index, rule)| ruling(index, rule))
    }
}

fn asks_for_content(rule: &Rule) -> bool {
    rule.is_about_content() || rule.action == Action::Scan || rule.audit
}

fn ruling(index: usize, rule: &Rule) -> Ruling {
    Ruling {
        action: rule.action,
        rule: Some(index),
        class: rule.class,
        audit: rule.audit || rule.action == Action::Audit,
        keep: rule.files,
        over: false,
    }
}

/// Rules on content have to know the application, by which what the flow carries is read.
fn settled(flow: &FlowFacts<'_>, ruling: Ruling, content: Vec<usize>) -> Decision {
    if !content.is_empty() && flow.found.is_none() {
        return Decision::NotYet;
    }
    Decision::Settled(Plan { ruling, content })
}
