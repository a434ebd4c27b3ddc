//! The policy file: TOML, strictly read, compiled to rules.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;

use super::error::PolicyError;
use super::form;
use super::listed::Feeds;
use super::quantities::{self, Networks, Ports, apart};
use super::reach::unreachable;
use super::rule::{Action, Class, Failure, Names, Rule};
use super::rule_file::{Fault, Known, RuleEntry};
use super::trial::Trial;
use super::trial_file::TrialEntry;
use super::{DEFAULT_RULE, Policy};
use crate::feed::{FeedFolder, FeedKind};
use crate::limits::{MAX_CLASSES, MAX_POLICY_FILE, MAX_RULES, MAX_TRIALS};
use crate::lines::line_of;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    gateway: GatewayEntry,
    #[serde(default)]
    networks: BTreeMap<String, Spanned<OneOrMany>>,
    #[serde(default)]
    classes: BTreeMap<String, Spanned<ClassEntry>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleEntry>>,
    #[serde(default)]
    test: Vec<Spanned<TrialEntry>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayEntry {
    default: Option<Spanned<Action>>,
    other: Option<Spanned<Action>>,
    #[serde(default)]
    failure: Failure,
    #[serde(default)]
    names: Names,
    inside: Option<Spanned<OneOrMany>>,
    terminate: Option<Spanned<OneOrMany>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassEntry {
    rate: Spanned<String>,
    ceiling: Option<Spanned<String>>,
}

/// One value or a list of them; numbers are taken as their text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected one value or a list of them")]
pub(super) enum OneOrMany {
    One(Word),
    Many(Vec<Word>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected text or a number")]
pub(super) enum Word {
    Number(u64),
    Text(String),
}

impl OneOrMany {
    pub(super) fn texts(&self) -> Result<Vec<String>, String> {
        let words = match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Many(words) => words.as_slice(),
        };
        if words.is_empty() {
            return Err("an empty list would never match; leave the key out".to_owned());
        }
        Ok(words
            .iter()
            .map(|word| match word {
                Word::Number(number) => number.to_string(),
                Word::Text(text) => text.clone(),
            })
            .collect())
    }
}

impl Policy {
    /// Reads a policy that names no lists in files. `applications` are the names that the
    /// classifier may give.
    ///
    /// # Errors
    /// As of [`parse_beside`](Self::parse_beside).
    pub fn parse(text: &str, applications: &BTreeSet<String>) -> Result<Self, Vec<PolicyError>> {
        Self::parse_beside(text, applications, &FeedFolder::none())
    }

    /// Reads a policy, and the lists in this folder that its rules name (`file:NAME`).
    ///
    /// # Errors
    /// All that is wrong with it: what is no TOML, unknown keys and names, contradictions, rules
    /// that are never reached, lines of lists.
    pub fn parse_beside(
        text: &str,
        applications: &BTreeSet<String>,
        feeds: &FeedFolder,
    ) -> Result<Self, Vec<PolicyError>> {
        if text.len() > MAX_POLICY_FILE {
            let reason = format!("the file is larger than {MAX_POLICY_FILE} bytes");
            return Err(vec![PolicyError::new(0, reason)]);
        }
        let (file, errors) = form::read(text);
        let Some(file) = file else {
            return Err(errors);
        };
        Reading {
            text,
            partial: !errors.is_empty(),
            errors,
            feeds,
        }
        .policy(file, applications)
    }
}

/// Collects all faults, so that they are mended in one go.
struct Reading<'a> {
    text: &'a str,
    /// Something of the file could not be read: what is missing may have been there.
    partial: bool,
    errors: Vec<PolicyError>,
    feeds: &'a FeedFolder,
}

impl Reading<'_> {
    fn policy(
        mut self,
        file: PolicyFile,
        applications: &BTreeSet<String>,
    ) -> Result<Policy, Vec<PolicyError>> {
        self.bound("rules", file.rule.len(), MAX_RULES);
        self.bound("classes", file.classes.len(), MAX_CLASSES);
        self.bound("tests", file.test.len(), MAX_TRIALS);
        let networks = self.networks(&file.networks);
        let inside = file.gateway.inside.as_ref();
        let inside = inside.and_then(|inside| {
            let resolved = resolve(inside.get_ref(), &networks, self.feeds);
            self.keep_all(inside, resolved)
        });
        let terminated = file.gateway.terminate.as_ref();
        let terminated = terminated.and_then(|ports| {
            let read = ports.get_ref().texts();
            self.keep(ports, read.and_then(|texts| Ports::parse(&texts)))
        });
        let names = Known {
            classes: self.classes(&file.classes),
            networks,
            applications,
            feeds: self.feeds,
            inside: inside.is_some(),
            partial: !self.errors.is_empty(),
        };
        let rules = self.rules(&file.rule, &names);
        let default = self.default(file.gateway.default.as_ref());
        let other = self.other(file.gateway.other.as_ref(), default);
        let names_of_rules: BTreeSet<&str> = file
            .rule
            .iter()
            .map(|rule| rule.get_ref().name.get_ref().as_str())
            .collect();
        let trials = self.trials(&file.test, &names_of_rules);
        // Faulty rules are missing from the list, and would make others look reachable or not.
        if self.errors.is_empty() {
            self.errors = unreachable(&rules);
        }
        if self.errors.is_empty() {
            Ok(Policy {
                names_torrents: rules.iter().any(Rule::names_torrents),
                rules,
                classes: names.classes,
                inside: inside.unwrap_or_default(),
                terminated: terminated
                    .map(|ports| apart(ports.ranges()))
                    .unwrap_or_default(),
                default,
                other,
                failure: file.gateway.failure,
                names: file.gateway.names,
                trials,
            })
        } else {
            self.errors.sort_by_key(|error| error.line);
            Err(self.errors)
        }
    }

    fn fault(&mut self, line: usize, reason: impl Into<String>) {
        self.errors.push(PolicyError::new(line, reason));
    }

    /// Notes what is wrong with an entry that begins in this line.
    fn faults(&mut self, line: usize, what: &str, faults: Vec<Fault>) {
        for fault in faults {
            let line = fault.at.map_or(line, |at| line_of(self.text, at));
            self.fault(line, format!("{what}: {}", fault.reason));
        }
    }

    fn bound(&mut self, what: &str, count: usize, most: usize) {
        if count > most {
            self.fault(0, format!("there are {count} {what}; {most} are the most"));
        }
    }

    fn line<T>(&self, entry: &Spanned<T>) -> usize {
        line_of(self.text, entry.span().start)
    }

    /// The value, or the fault noted at the entry's line.
    fn keep<T, U>(&mut self, entry: &Spanned<T>, value: Result<U, String>) -> Option<U> {
        value
            .map_err(|reason| self.fault(self.line(entry), reason))
            .ok()
    }

    /// The same where several things may be wrong.
    fn keep_all<T, U>(&mut self, entry: &Spanned<T>, value: Result<U, Vec<String>>) -> Option<U> {
        let line = self.line(entry);
        let note = |reasons: Vec<String>| {
            for reason in reasons {
                self.fault(line, reason);
            }
        };
        value.map_err(note).ok()
    }

    fn networks(
        &mut self,
        entries: &BTreeMap<String, Spanned<OneOrMany>>,
    ) -> BTreeMap<String, Networks> {
        let nothing = BTreeMap::new();
        entries
            .iter()
            .filter_map(|(name, entry)| {
                let resolved = resolve(entry.get_ref(), &nothing, self.feeds);
                let networks = self.keep_all(entry, resolved)?;
                Some((name.clone(), networks))
            })
            .collect()
    }

    /// In the order of the file: one that is added at its end leaves the others at their positions.
    fn classes(&mut self, entries: &BTreeMap<String, Spanned<ClassEntry>>) -> Vec<Class> {
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.span().start);
        entries
            .into_iter()
            .filter_map(|(name, entry)| self.class(name, entry.get_ref()))
            .collect()
    }

    fn class(&mut self, name: &str, entry: &ClassEntry) -> Option<Class> {
        let read = |text: &Spanned<String>| {
            let rate = quantities::rate(text.get_ref());
            rate.map_err(|reason| format!("class `{name}`: {reason}"))
        };
        let rate = self.keep(&entry.rate, read(&entry.rate));
        let ceiling = match &entry.ceiling {
            Some(ceiling) => self.keep(ceiling, read(ceiling)),
            None => rate,
        };
        let (rate, ceiling) = (rate?, ceiling?);
        if ceiling < rate {
            let key = entry.ceiling.as_ref().unwrap_or(&entry.rate);
            let reason = format!("class `{name}`: its ceiling is below its rate");
            self.fault(self.line(key), reason);
            return None;
        }
        Some(Class {
            name: name.to_owned(),
            rate,
            ceiling,
        })
    }

    fn default(&mut self, entry: Option<&Spanned<Action>>) -> Action {
        let Some(entry) = entry else {
            return Action::Allow;
        };
        let action = *entry.get_ref();
        if !matches!(action, Action::Allow | Action::Block | Action::Audit) {
            let reason = format!(
                "the default cannot be `{}`: it is allow, block or audit",
                action.name()
            );
            self.fault(self.line(entry), reason);
        }
        action
    }

    /// What is neither TCP nor UDP follows the default, where nothing is said.
    fn other(&mut self, entry: Option<&Spanned<Action>>, default: Action) -> Action {
        let Some(entry) = entry else {
            return default;
        };
        let action = *entry.get_ref();
        if !matches!(action, Action::Allow | Action::Block) {
            let reason = format!(
                "other packets cannot be `{}`: it is allow or block",
                action.name()
            );
            self.fault(self.line(entry), reason);
        }
        action
    }

    fn rules(&mut self, entries: &[Spanned<RuleEntry>], names: &Known<'_>) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for spanned in entries {
            let (line, entry) = (self.line(spanned), spanned.get_ref());
            let name = entry.name.get_ref().as_str();
            // Events, tests and `why` name a rule by this, so there is one of each name.
            if name == DEFAULT_RULE || name.trim().is_empty() {
                let reason = format!("a rule cannot be named `{name}`");
                self.fault(self.line(&entry.name), reason);
            } else if let Some(other) = named.get(name) {
                let reason = format!("there is a rule named `{name}` already, in line {other}");
                self.fault(self.line(&entry.name), reason);
            }
            named.entry(name).or_insert(line);
            match entry.compile(line, names) {
                Ok(rule) => rules.extend(rule),
                Err(faults) => self.faults(line, &format!("rule `{name}`"), faults),
            }
        }
        rules
    }

    fn trials(&mut self, entries: &[Spanned<TrialEntry>], rules: &BTreeSet<&str>) -> Vec<Trial> {
        let mut trials = Vec::new();
        for spanned in entries {
            let (line, entry) = (self.line(spanned), spanned.get_ref());
            let mut faults = Vec::new();
            match entry.resolve(line) {
                Ok(trial) => trials.push(trial),
                Err(found) => faults = found,
            }
            let rule = entry.rule.as_ref().filter(|_| !self.partial);
            if let Some(rule) = rule.filter(|rule| {
                let name = rule.get_ref().as_str();
                name != DEFAULT_RULE && !rules.contains(name)
            }) {
                let reason = format!("there is no rule `{}`", rule.get_ref());
                faults.push(Fault::at(rule, reason));
            }
            self.faults(line, &format!("test `{}`", entry.name), faults);
        }
        trials
    }
}

/// Networks written out, in lists, or named in `[networks]`.
pub(super) fn resolve(
    value: &OneOrMany,
    named: &BTreeMap<String, Networks>,
    folder: &FeedFolder,
) -> Result<Networks, Vec<String>> {
    let texts = value.texts().map_err(|reason| vec![reason])?;
    let (texts, feeds) = Feeds::split(texts, FeedKind::Networks, folder)?;
    let (mut written, mut known) = (Vec::new(), Networks::default());
    for text in texts {
        match named.get(&text) {
            Some(networks) => known.extend(networks),
            None => written.push(Networks::parse_one(&text).map_err(|reason| {
                vec![if named.is_empty() {
                    reason
                } else {
                    format!("{reason}; nor is it a name in [networks]")
                }]
            })?),
        }
    }
    let mut networks = Networks::new(written, feeds);
    networks.extend(&known);
    Ok(networks)
}
