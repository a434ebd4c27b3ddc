//! How a rule is written in a policy file. All that is wrong with one is found at once, each fault
//! at its key.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;

use super::applications::{group, groups, members};
use super::expression::Expression;
use super::file::{OneOrMany, resolve};
use super::listed::{FILE, Hosts, Infohashes};
use super::matcher::{Direction, Matcher};
use super::quantities::{self, Networks, Ports, Sizes};
use super::quota::{self, Over, Per, Quota};
use super::rule::{Action, Class, Failure, Rule};
use super::schedule::Schedule;
use super::words::{Keywords, Names, Words};
use crate::classify::{BITTORRENT, Confidence};
use crate::feed::FeedFolder;
use crate::inspect::FileHead;
use crate::limits::MAX_HELD_FIRST;
use crate::packet::L4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    pub(super) name: Spanned<String>,
    action: Action,
    class: Option<Spanned<String>>,
    audit: Option<bool>,
    audit_text: Option<Spanned<bool>>,
    audit_file: Option<Spanned<bool>>,
    failure: Option<Failure>,
    scan_parts: Option<Spanned<bool>>,
    hold_first: Option<Spanned<String>>,
    quota: Option<Spanned<String>>,
    per: Option<Spanned<Per>>,
    over: Option<Spanned<String>>,
    l4: Option<L4>,
    app: Option<Spanned<OneOrMany>>,
    group: Option<Spanned<OneOrMany>>,
    confidence: Option<Spanned<Confidence>>,
    direction: Option<Spanned<Direction>>,
    client: Option<Spanned<OneOrMany>>,
    server: Option<Spanned<OneOrMany>>,
    network: Option<Spanned<OneOrMany>>,
    port: Option<Spanned<OneOrMany>>,
    host: Option<Spanned<OneOrMany>>,
    infohash: Option<Spanned<OneOrMany>>,
    member: Option<Spanned<OneOrMany>>,
    time: Option<Spanned<OneOrMany>>,
    file_name: Option<Spanned<OneOrMany>>,
    file_type: Option<Spanned<OneOrMany>>,
    file_size: Option<Spanned<String>>,
    file_part: Option<bool>,
    keyword: Option<Spanned<OneOrMany>>,
    when: Option<Spanned<String>>,
}

/// What rules are compiled against.
pub(super) struct Known<'a> {
    pub(super) networks: BTreeMap<String, Networks>,
    pub(super) classes: Vec<Class>,
    pub(super) applications: &'a BTreeSet<String>,
    pub(super) feeds: &'a FeedFolder,
    pub(super) inside: bool,
    /// Something of the file could not be read: what a rule refers to may have been there.
    pub(super) partial: bool,
}

/// What is wrong with a rule.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where in the file; `None`: the rule as a whole.
    pub(super) at: Option<usize>,
    pub(super) reason: String,
}

impl Fault {
    /// At a key.
    pub(super) fn at<T>(key: &Spanned<T>, reason: impl Into<String>) -> Self {
        Self {
            at: Some(key.span().start),
            reason: reason.into(),
        }
    }
}

/// A rule on its way from the file, with what is wrong with it.
struct Compiler<'a> {
    entry: &'a RuleEntry,
    names: &'a Known<'a>,
    faults: Vec<Fault>,
    /// A fault that is none if what is missing could not be read.
    unsure: bool,
}

impl RuleEntry {
    /// The rule that begins in this line. `None`, without a fault: it refers to something of the
    /// file that could not be read.
    pub(super) fn compile(
        &self,
        line: usize,
        names: &Known<'_>,
    ) -> Result<Option<Rule>, Vec<Fault>> {
        let mut compiler = Compiler {
            entry: self,
            names,
            faults: Vec::new(),
            unsure: false,
        };
        let rule = compiler.rule(line);
        match (compiler.faults.is_empty(), compiler.unsure) {
            (true, false) => Ok(Some(rule)),
            (true, true) => Ok(None),
            (false, _) => Err(compiler.faults),
        }
    }
}

impl Compiler<'_> {
    fn fault<T>(&mut self, key: Option<&Spanned<T>>, reason: impl Into<String>) {
        self.faults.push(Fault {
            at: key.map(|key| key.span().start),
            reason: reason.into(),
        });
    }

    /// A fault if the file was read as a whole: what is missing may have been in the rest.
    fn missing<T>(&mut self, key: Option<&Spanned<T>>, reason: impl Into<String>) {
        if self.names.partial {
            self.unsure = true;
        } else {
            self.fault(key, reason);
        }
    }

    /// What a key says, or the fault noted at it.
    fn take<T, U>(
        &mut self,
        key: Option<&Spanned<T>>,
        read: impl FnOnce(&T) -> Result<U, String>,
    ) -> Option<U> {
        let entry = key?;
        match read(entry.get_ref()) {
            Ok(value) => Some(value),
            Err(reason) => {
                self.fault(key, reason);
                None
            }
        }
    }

    fn texts<U>(
        &mut self,
        key: Option<&Spanned<OneOrMany>>,
        read: impl FnOnce(&[String]) -> Result<U, String>,
    ) -> Option<U> {
        self.take(key, |value| read(&value.texts()?))
    }

    fn networks(&mut self, key: Option<&Spanned<OneOrMany>>) -> Option<Networks> {
        let entry = key?;
        match resolve(entry.get_ref(), &self.names.networks, self.names.feeds) {
            Ok(networks) => Some(networks),
            Err(reasons) => {
                // A name may be one of what could not be read; a network with its prefix is none.
                let texts = entry.get_ref().texts();
                let is_name = |text: &String| !text.contains('/') && !text.starts_with(FILE);
                let unsure = texts.is_ok_and(|texts| texts.iter().any(is_name));
                for reason in reasons {
                    if unsure {
                        self.missing(key, reason);
                    } else {
                        self.fault(key, reason);
                    }
                }
                None
            }
        }
    }

    /// What a key says that may name lists, or its faults noted at it.
    fn listed<U>(
        &mut self,
        key: Option<&Spanned<OneOrMany>>,
        read: impl FnOnce(Vec<String>, &FeedFolder) -> Result<U, Vec<String>>,
    ) -> Option<U> {
        let texts = self.take(key, OneOrMany::texts)?;
        match read(texts, self.names.feeds) {
            Ok(value) => Some(value),
            Err(reasons) => {
                for reason in reasons {
                    self.fault(key, reason);
                }
                None
            }
        }
    }

    fn rule(&mut self, line: usize) -> Rule {
        let entry = self.entry;
        let class = self.class();
        let said = |key: &Option<Spanned<bool>>| key.as_ref().is_some_and(|key| *key.get_ref());
        let (texts, files) = (said(&entry.audit_text), said(&entry.audit_file));
        let keeps = [
            ("audit_text", &entry.audit_text),
            ("audit_file", &entry.audit_file),
        ];
        for (name, key) in keeps {
            if said(key) && entry.audit == Some(false) {
                self.fault(
                    key.as_ref(),
                    format!("`{name}` without `audit` writes nothing down"),
                );
            }
        }
        let scans = entry.action == Action::Scan;
        let hold_first = self.hold_first(scans);
        let scan_parts = said(&entry.scan_parts);
        if scan_parts && !scans {
            self.fault(entry.scan_parts.as_ref(), ONLY_SCANS);
        }
        let before = self.faults.len();
        let matcher = self.matcher();
        let content = matcher.needs_content();
        // What is not known of the matcher could make these faults of its own.
        if self.faults.len() == before && (scans || content) {
            self.readable(&matcher);
        }
        if class.is_some() && content {
            self.fault(
                entry.class.as_ref(),
                "a flow cannot be put into a class for what it carries: name the class in a rule about the flow",
            );
        }
        let quota = self.quota(class, content);
        Rule {
            name: entry.name.get_ref().clone(),
            line,
            action: entry.action,
            class,
            audit: entry
                .audit
                .unwrap_or(entry.action == Action::Audit || texts || files),
            texts,
            files,
            // What could not be scanned does not pass as clean, unless the rule says so.
            failure: entry.failure.or(scans.then_some(Failure::Closed)),
            scan_parts,
            hold_first,
            quota,
            matcher,
        }
    }

    fn class(&mut self) -> Option<usize> {
        let key = self.entry.class.as_ref();
        if self.entry.action == Action::Shape && key.is_none() {
            self.fault::<String>(None, "`shape` needs a `class`");
        }
        let name = key?.get_ref();
        if self.entry.action == Action::Block {
            self.fault(key, "what is blocked needs no `class`");
        }
        let mut classes = self.names.classes.iter();
        let class = classes.position(|known| known.name == *name);
        if class.is_none() {
            self.missing(key, format!("there is no [classes.{name}]"));
        }
        class
    }

    /// `content`: the rule is about what flows carry.
    fn quota(&mut self, class: Option<usize>, content: bool) -> Option<Quota> {
        let entry = self.entry;
        let Some(key) = &entry.quota else {
            let reason = "it needs a `quota`, such as `5 GiB/day`";
            if entry.per.is_some() {
                self.fault(entry.per.as_ref(), format!("`per`: {reason}"));
            }
            if entry.over.is_some() {
                self.fault(entry.over.as_ref(), format!("`over`: {reason}"));
            }
            return None;
        };
        if entry.action == Action::Block {
            self.fault(Some(key), "what is blocked needs no `quota`");
        }
        if content {
            // A quota counts flows, and a flow has one rule: the one about the flow.
            self.fault(
                Some(key),
                "a rule on what flows carry cannot have a `quota`: name it in a rule about the flow",
            );
        }
        let amount = self.take(Some(key), |text| quota::amount(text));
        let over = self.over(class);
        let (bytes, period) = amount?;
        Some(Quota {
            bytes,
            period,
            per: entry.per.as_ref().map_or(Per::Host, |key| *key.get_ref()),
            over: over?,
        })
    }

    /// What happens above the quota of flows that are in this class below it.
    fn over(&mut self, class: Option<usize>) -> Option<Over> {
        let key = self.entry.over.as_ref();
        let Some(name) = key.map(|key| key.get_ref().as_str()) else {
            let reason = "`quota` needs `over`: a class, or `block`";
            self.fault(self.entry.quota.as_ref(), reason);
            return None;
        };
        let mut classes = self.names.classes.iter();
        let index = classes.position(|known| known.name == name);
        match (name, index) {
            ("block", None) => Some(Over::Block),
            ("block", Some(_)) => {
                let reason =
                    "`block` means that flows are blocked: give [classes.block] another name";
                self.fault(key, reason);
                None
            }
            (_, None) => {
                let reason = format!("there is no [classes.{name}]; `over` is a class, or `block`");
                self.missing(key, reason);
                None
            }
            (_, index) if index == class => {
                let reason = format!("the flows of this rule are in `{name}` below the quota, too");
                self.fault(key, reason);
                None
            }
            (_, Some(index)) => Some(Over::Class(index)),
        }
    }

    fn hold_first(&mut self, scans: bool) -> u64 {
        let key = self.entry.hold_first.as_ref();
        if key.is_some() && !scans {
            self.fault(key, ONLY_SCANS);
            return 0;
        }
        let read = self.take(key, |text| {
            quantities::bytes(text)
                .filter(|bytes| *bytes <= MAX_HELD_FIRST)
                .ok_or_else(|| format!("`hold_first` is a size of up to {MAX_HELD_FIRST} bytes"))
        });
        read.unwrap_or(0)
    }

    /// What has no decoder cannot be filtered or scanned: a rule that only names such applications
    /// would do nothing.
    fn readable(&mut self, matcher: &Matcher) {
        let Some(apps) = &matcher.apps else {
            return;
        };
        let read = |app: &str| crate::inspect::expected(app, FileHead::default()).is_some();
        if apps.iter().any(read) {
            return;
        }
        let named: Vec<&str> = apps.iter().collect();
        let reason = format!(
            "it looks into files or messages, and those of {} cannot be read (encrypted, or in pieces that come in any order)",
            named.join(", ")
        );
        self.fault(self.entry.app.as_ref(), reason);
    }

    /// The applications of the rule: where it names infohashes, only one has any.
    fn torrents(&mut self, apps: Option<Words>) -> Option<Words> {
        let key = self.entry.infohash.as_ref();
        if key.is_none() {
            return apps;
        }
        if apps.as_ref().is_some_and(|apps| !apps.contains(BITTORRENT)) {
            let reason = format!("only flows of `{BITTORRENT}` have an infohash");
            self.fault(key, reason);
        }
        Some(Words::new(&[BITTORRENT.to_owned()]))
    }

    fn matcher(&mut self) -> Matcher {
        let (entry, names) = (self.entry, self.names);
        if entry.direction.is_some() && !names.inside {
            self.missing(
                entry.direction.as_ref(),
                "`direction` needs `inside` in [gateway]: the networks that are inside",
            );
        }
        if entry.confidence.is_some() && entry.app.is_none() && entry.group.is_none() {
            let reason = "`confidence` needs `app` or `group`";
            self.fault(entry.confidence.as_ref(), reason);
        }
        if entry.app.is_some() && entry.group.is_some() {
            self.fault(
                entry.group.as_ref(),
                "`app` and `group` stand for the same: write the group's name in `app`",
            );
        }
        let named = self.texts(entry.app.as_ref(), |texts| {
            applications(texts, names.applications)
        });
        let grouped = self.texts(entry.group.as_ref(), |texts| {
            members(texts).map(|members| Words::new(&members))
        });
        let infohashes = self.listed(entry.infohash.as_ref(), Infohashes::parse);
        let apps = self.torrents(named.or(grouped));
        Matcher {
            l4: entry.l4,
            apps,
            infohashes,
            confidence: entry.confidence.as_ref().map(|key| *key.get_ref()),
            way: entry.direction.as_ref().map(|key| *key.get_ref()),
            client: self.networks(entry.client.as_ref()),
            server: self.networks(entry.server.as_ref()),
            either: self.networks(entry.network.as_ref()),
            ports: self.texts(entry.port.as_ref(), Ports::parse),
            hosts: self.listed(entry.host.as_ref(), Hosts::parse),
            members: self.texts(entry.member.as_ref(), Names::parse),
            time: self.texts(entry.time.as_ref(), Schedule::parse),
            file_names: self.texts(entry.file_name.as_ref(), Names::parse),
            file_types: self.texts(entry.file_type.as_ref(), Names::parse),
            file_size: self.take(entry.file_size.as_ref(), |text| Sizes::parse(text)),
            file_part: entry.file_part,
            keywords: self.texts(entry.keyword.as_ref(), Keywords::parse),
            when: self.take(entry.when.as_ref(), |text| Expression::parse(text)),
        }
    }
}

/// Why `scan_parts` and `hold_first` cannot stand in a rule.
const ONLY_SCANS: &str = "`scan_parts` and `hold_first` are for rules that `scan`";

/// Names of applications and groups; each must be known, because a misspelt one would never match.
fn applications(texts: &[String], known: &BTreeSet<String>) -> Result<Words, String> {
    let mut names = Vec::new();
    for text in texts {
        if let Some(group) = group(text) {
            names.extend_from_slice(&group.applications);
        } else if known.contains(text) || text == crate::classify::UNKNOWN {
            names.push(text.clone());
        } else {
            let groups: Vec<&str> = groups().iter().map(|group| group.name.as_str()).collect();
            let all: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(format!(
                "there is no application `{text}`; there are {}, {}, and the groups {}",
                all.join(", "),
                crate::classify::UNKNOWN,
                groups.join(", ")
            ));
        }
    }
    Ok(Words::new(&names))
}
