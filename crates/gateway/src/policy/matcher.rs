//! What a rule asks of a flow and of what it carries, and whether one rule leaves anything to
//! another.

use super::expression::Expression;
use super::facts::{FlowFacts, Item};
use super::listed::{Feeds, Hosts, Infohashes};
use super::quantities::{Networks, Ports, Sizes};
use super::schedule::Schedule;
use super::words::{Keywords, Names, Words};
use crate::classify::Confidence;
use crate::packet::L4;

/// Where a flow goes, seen from the networks that are inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From inside to outside.
    Outbound,
    /// From outside to inside.
    Inbound,
    /// Both sides are inside.
    Internal,
    /// Neither side is inside.
    Transit,
}

/// Whether a rule matches a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It does.
    Yes,
    /// It does not and never will.
    No,
    /// The classifier's answer decides.
    NotYet,
    /// As far as the flow goes it does; what the flow carries decides.
    Content,
}

/// The conditions of one rule. What is absent asks nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    pub(super) l4: Option<L4>,
    pub(super) apps: Option<Words>,
    pub(super) confidence: Option<Confidence>,
    pub(super) way: Option<Direction>,
    pub(super) client: Option<Networks>,
    pub(super) server: Option<Networks>,
    pub(super) either: Option<Networks>,
    pub(super) ports: Option<Ports>,
    pub(super) hosts: Option<Hosts>,
    pub(super) infohashes: Option<Infohashes>,
    pub(super) members: Option<Names>,
    pub(super) time: Option<Schedule>,
    pub(super) file_names: Option<Names>,
    pub(super) file_types: Option<Names>,
    pub(super) file_size: Option<Sizes>,
    pub(super) file_part: Option<bool>,
    pub(super) keywords: Option<Keywords>,
    pub(super) when: Option<Expression>,
}

impl Matcher {
    /// Whether the rule matches this flow, whose way is given.
    pub(super) fn matches(&self, flow: &FlowFacts<'_>, way: Direction) -> Match {
        if !self.early(flow, way) {
            return Match::No;
        }
        if self.needs_found() {
            if flow.found.is_none() {
                return Match::NotYet;
            }
            if !self.late(flow) {
                return Match::No;
            }
        }
        // A `when` about content is not asked here: `takes` asks it for each file and message.
        if self.needs_content() {
            return Match::Content;
        }
        let holds = |expression: &Expression| expression.holds(flow, None);
        if self.when.as_ref().is_none_or(holds) {
            Match::Yes
        } else {
            Match::No
        }
    }

    /// Whether the conditions on content hold for this file or message.
    pub(super) fn takes(&self, flow: &FlowFacts<'_>, item: &Item<'_>) -> bool {
        let about_files = self.file_names.is_some()
            || self.file_types.is_some()
            || self.file_size.is_some()
            || self.file_part.is_some();
        let (file, text) = match item {
            Item::File(file) => (*file, file.name.unwrap_or("")),
            Item::Message(_) if about_files => return false,
            Item::Message(text) => (super::facts::File::default(), *text),
        };
        let named =
            |names: &Names, name: Option<&str>| name.is_some_and(|name| names.matches(name));
        self.file_names
            .as_ref()
            .is_none_or(|names| named(names, file.name))
            && self
                .file_types
                .as_ref()
                .is_none_or(|names| named(names, file.kind))
            && self
                .file_size
                .as_ref()
                .is_none_or(|sizes| file.size.is_some_and(|size| sizes.contains(size)))
            && self.file_part.is_none_or(|part| part == file.part)
            && self
                .keywords
                .as_ref()
                .is_none_or(|words| words.find(text).is_some())
            && self
                .when
                .as_ref()
                .is_none_or(|when| when.holds(flow, Some(item)))
    }

    /// Conditions that the first packet decides.
    fn early(&self, flow: &FlowFacts<'_>, way: Direction) -> bool {
        let (client, server) = (flow.client.ip(), flow.server.ip());
        self.l4.is_none_or(|l4| l4 == flow.l4)
            && self.way.is_none_or(|wanted| wanted == way)
            && self
                .ports
                .as_ref()
                .is_none_or(|ports| ports.contains(flow.server.port()))
            && self
                .client
                .as_ref()
                .is_none_or(|networks| networks.contains(client))
            && self
                .server
                .as_ref()
                .is_none_or(|networks| networks.contains(server))
            && self
                .either
                .as_ref()
                .is_none_or(|networks| networks.contains(client) || networks.contains(server))
            && self
                .time
                .as_ref()
                .is_none_or(|schedule| schedule.contains(flow.at))
    }

    /// Conditions on what the classifier found.
    fn late(&self, flow: &FlowFacts<'_>) -> bool {
        let Some(found) = flow.found else {
            return false;
        };
        let named =
            |names: &Names, name: Option<&str>| name.is_some_and(|name| names.matches(name));
        let app = self.apps.as_ref().is_none_or(|apps| {
            // A guess is fit to look at, not to act upon, unless the rule asks for guesses.
            let least = self.confidence.unwrap_or(Confidence::Likely);
            let sure = found.confidence >= least || found.application == crate::classify::UNKNOWN;
            sure && apps.contains(found.application)
        });
        app && self
            .hosts
            .as_ref()
            .is_none_or(|hosts| found.host.is_some_and(|host| hosts.matches(host)))
            && self
                .infohashes
                .as_ref()
                .is_none_or(|hashes| found.infohash.is_some_and(|hash| hashes.contains(&hash)))
            && self
                .members
                .as_ref()
                .is_none_or(|names| named(names, found.member))
    }

    fn needs_found(&self) -> bool {
        self.apps.is_some()
            || self.hosts.is_some()
            || self.infohashes.is_some()
            || self.members.is_some()
            || self.when.as_ref().is_some_and(Expression::needs_found)
    }

    /// Whether what a flow carries has a say.
    pub(super) fn needs_content(&self) -> bool {
        self.file_names.is_some()
            || self.file_types.is_some()
            || self.file_size.is_some()
            || self.file_part.is_some()
            || self.keywords.is_some()
            || self.when.as_ref().is_some_and(Expression::needs_content)
    }

    /// The lists that it names.
    pub(super) fn feeds(&self) -> impl Iterator<Item = &Feeds> {
        let networks = [&self.client, &self.server, &self.either].into_iter();
        let networks = networks.flatten().map(|networks| &networks.feeds);
        let hosts = self.hosts.iter().map(|hosts| &hosts.feeds);
        let hashes = self.infohashes.iter().map(|hashes| &hashes.feeds);
        networks.chain(hosts).chain(hashes)
    }

    /// The same, to put other readings in their place.
    pub(super) fn feeds_mut(&mut self) -> impl Iterator<Item = &mut Feeds> {
        let networks = [&mut self.client, &mut self.server, &mut self.either].into_iter();
        let networks = networks.flatten().map(|networks| &mut networks.feeds);
        let hosts = self.hosts.iter_mut().map(|hosts| &mut hosts.feeds);
        let hashes = self.infohashes.iter_mut().map(|hashes| &mut hashes.feeds);
        networks.chain(hosts).chain(hashes)
    }

    /// Whether all that the other one matches is matched here.
    pub(super) fn covers(&self, other: &Self) -> bool {
        // A rule that names no confidence matches from `likely` on.
        let least = |matcher: &Self| matcher.confidence.unwrap_or(Confidence::Likely);
        self.l4.is_none_or(|l4| other.l4 == Some(l4))
            && self.way.is_none_or(|way| other.way == Some(way))
            && wider(self.apps.as_ref(), other.apps.as_ref(), Words::covers)
            && (self.apps.is_none() || least(self) <= least(other))
            && wider(
                self.client.as_ref(),
                other.client.as_ref(),
                Networks::covers,
            )
            && wider(
                self.server.as_ref(),
                other.server.as_ref(),
                Networks::covers,
            )
            && wider(
                self.either.as_ref(),
                other.either.as_ref(),
                Networks::covers,
            )
            && wider(self.ports.as_ref(), other.ports.as_ref(), Ports::covers)
            && wider(self.hosts.as_ref(), other.hosts.as_ref(), Hosts::covers)
            && wider(
                self.infohashes.as_ref(),
                other.infohashes.as_ref(),
                Infohashes::covers,
            )
            && wider(self.members.as_ref(), other.members.as_ref(), Names::covers)
            && wider(self.time.as_ref(), other.time.as_ref(), Schedule::covers)
            && wider(
                self.file_names.as_ref(),
                other.file_names.as_ref(),
                Names::covers,
            )
            && wider(
                self.file_types.as_ref(),
                other.file_types.as_ref(),
                Names::covers,
            )
            && wider(
                self.file_size.as_ref(),
                other.file_size.as_ref(),
                Sizes::covers,
            )
            && self
                .file_part
                .is_none_or(|part| other.file_part == Some(part))
            && wider(
                self.keywords.as_ref(),
                other.keywords.as_ref(),
                Keywords::covers,
            )
            && wider(self.when.as_ref(), other.when.as_ref(), Expression::is_same)
    }
}

/// Whether a condition that may be absent leaves nothing to another one.
fn wider<T>(ours: Option<&T>, theirs: Option<&T>, covers: impl Fn(&T, &T) -> bool) -> bool {
    match (ours, theirs) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(ours), Some(theirs)) => covers(ours, theirs),
    }
}
