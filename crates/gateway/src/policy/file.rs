//! The policy file: TOML, strictly read, compiled to rules.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;

use super::applications::{GROUPS, group};
use super::error::PolicyError;
use super::expression::Expression;
use super::matcher::{Direction, Matcher};
use super::quantities::{self, Networks, Ports, Sizes, apart};
use super::reach::unreachable;
use super::rule::{Action, Class, Failure, Rule};
use super::schedule::Schedule;
use super::trial::Trial;
use super::trial_file::TrialEntry;
use super::words::{Keywords, Names, Words};
use super::{DEFAULT_RULE, Policy};
use crate::classify::Confidence;
use crate::inspect::FileHead;
use crate::limits::{MAX_CLASSES, MAX_HELD_FIRST, MAX_POLICY_FILE, MAX_RULES, MAX_TRIALS};
use crate::lines::line_of;
use crate::packet::L4;

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
    inside: Option<Spanned<OneOrMany>>,
    terminate: Option<Spanned<OneOrMany>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassEntry {
    rate: String,
    ceiling: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: String,
    action: Action,
    class: Option<String>,
    audit: Option<bool>,
    #[serde(default)]
    audit_text: bool,
    #[serde(default)]
    audit_file: bool,
    failure: Option<Failure>,
    #[serde(default)]
    scan_parts: bool,
    hold_first: Option<String>,
    l4: Option<L4>,
    app: Option<OneOrMany>,
    confidence: Option<Confidence>,
    direction: Option<Direction>,
    client: Option<OneOrMany>,
    server: Option<OneOrMany>,
    network: Option<OneOrMany>,
    port: Option<OneOrMany>,
    host: Option<OneOrMany>,
    member: Option<OneOrMany>,
    time: Option<OneOrMany>,
    file_name: Option<OneOrMany>,
    file_type: Option<OneOrMany>,
    file_size: Option<String>,
    file_part: Option<bool>,
    keyword: Option<OneOrMany>,
    when: Option<String>,
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
    fn texts(&self) -> Result<Vec<String>, String> {
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

/// What rules are compiled against.
struct Known<'a> {
    networks: BTreeMap<String, NetworkList>,
    classes: Vec<Class>,
    applications: &'a BTreeSet<String>,
    inside: bool,
}

type NetworkList = Vec<ipnet::IpNet>;

impl Policy {
    /// Reads a policy. `applications` are the names that the classifier may give.
    ///
    /// # Errors
    /// All that is wrong with it: what is no TOML, unknown keys and names, contradictions, rules
    /// that are never reached.
    pub fn parse(text: &str, applications: &BTreeSet<String>) -> Result<Self, Vec<PolicyError>> {
        if text.len() > MAX_POLICY_FILE {
            let reason = format!("the file is larger than {MAX_POLICY_FILE} bytes");
            return Err(vec![PolicyError::new(0, reason)]);
        }
        let file: PolicyFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            vec![PolicyError::new(line, error.message())]
        })?;
        Reading {
            text,
            errors: Vec::new(),
        }
        .policy(file, applications)
    }
}

/// Collects all faults, so that they are mended in one go.
struct Reading<'a> {
    text: &'a str,
    errors: Vec<PolicyError>,
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
            let resolved = resolve(inside.get_ref(), &networks);
            self.keep(inside, resolved)
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
            inside: inside.is_some(),
        };
        let rules = self.rules(&file.rule, &names);
        let default = self.default(file.gateway.default.as_ref());
        let other = self.other(file.gateway.other.as_ref(), default);
        let names_of_rules: BTreeSet<&str> = file
            .rule
            .iter()
            .map(|rule| rule.get_ref().name.as_str())
            .collect();
        let trials = self.trials(&file.test, &names_of_rules);
        // Faulty rules are missing from the list, and would make others look reachable or not.
        if self.errors.is_empty() {
            self.errors = unreachable(&rules);
        }
        if self.errors.is_empty() {
            Ok(Policy {
                rules,
                classes: names.classes,
                inside: Networks::new(inside.unwrap_or_default()),
                terminated: terminated
                    .map(|ports| apart(ports.ranges()))
                    .unwrap_or_default(),
                default,
                other,
                failure: file.gateway.failure,
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

    fn networks(
        &mut self,
        entries: &BTreeMap<String, Spanned<OneOrMany>>,
    ) -> BTreeMap<String, NetworkList> {
        let nothing = BTreeMap::new();
        entries
            .iter()
            .filter_map(|(name, entry)| {
                let networks = self.keep(entry, resolve(entry.get_ref(), &nothing))?;
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
            .filter_map(|(name, entry)| self.keep(entry, class(name, entry.get_ref())))
            .collect()
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
        for spanned in entries {
            let (line, entry) = (self.line(spanned), spanned.get_ref());
            // Events, tests and `why` name a rule by this, so there is one of each name.
            if entry.name == DEFAULT_RULE || entry.name.trim().is_empty() {
                self.fault(line, format!("a rule cannot be named `{}`", entry.name));
            } else if let Some(other) = rules.iter().find(|rule| rule.name == entry.name) {
                let reason = format!(
                    "there is a rule named `{}` already, in line {}",
                    entry.name, other.line
                );
                self.fault(line, reason);
            }
            let compiled = rule(entry, line, names);
            rules.extend(self.keep(
                spanned,
                compiled.map_err(|reason| format!("rule `{}`: {reason}", entry.name)),
            ));
        }
        rules
    }

    fn trials(&mut self, entries: &[Spanned<TrialEntry>], rules: &BTreeSet<&str>) -> Vec<Trial> {
        let known = |name: &str| name == DEFAULT_RULE || rules.contains(name);
        entries
            .iter()
            .filter_map(|entry| {
                let line = self.line(entry);
                let trial = entry.get_ref().resolve(line).and_then(|trial| {
                    match trial.rule.as_deref().filter(|rule| !known(rule)) {
                        Some(rule) => {
                            Err(format!("test `{}`: there is no rule `{rule}`", trial.name))
                        }
                        None => Ok(trial),
                    }
                });
                self.keep(entry, trial)
            })
            .collect()
    }
}

fn class(name: &str, entry: &ClassEntry) -> Result<Class, String> {
    let at = |reason| format!("class `{name}`: {reason}");
    let rate = quantities::rate(&entry.rate).map_err(at)?;
    let ceiling = match &entry.ceiling {
        Some(ceiling) => quantities::rate(ceiling).map_err(at)?,
        None => rate,
    };
    if ceiling < rate {
        return Err(at("its ceiling is below its rate".to_owned()));
    }
    Ok(Class {
        name: name.to_owned(),
        rate,
        ceiling,
    })
}

fn rule(entry: &RuleEntry, line: usize, names: &Known<'_>) -> Result<Rule, String> {
    let class = match &entry.class {
        Some(class) => Some(
            names
                .classes
                .iter()
                .position(|known| known.name == *class)
                .ok_or_else(|| format!("there is no [classes.{class}]"))?,
        ),
        None => None,
    };
    if entry.action == Action::Shape && class.is_none() {
        return Err("`shape` needs a `class`".to_owned());
    }
    if entry.audit_text && entry.audit == Some(false) {
        return Err("`audit_text` without `audit` writes nothing down".to_owned());
    }
    if entry.audit_file && entry.audit == Some(false) {
        return Err("`audit_file` without `audit` writes nothing down".to_owned());
    }
    if entry.action == Action::Block && class.is_some() {
        return Err("what is blocked needs no `class`".to_owned());
    }
    let scans = entry.action == Action::Scan;
    if !scans && (entry.scan_parts || entry.hold_first.is_some()) {
        return Err("`scan_parts` and `hold_first` are for rules that `scan`".to_owned());
    }
    let hold_first = match &entry.hold_first {
        Some(text) => quantities::bytes(text)
            .filter(|bytes| *bytes <= MAX_HELD_FIRST)
            .ok_or_else(|| format!("`hold_first` is a size of up to {MAX_HELD_FIRST} bytes"))?,
        None => 0,
    };
    let matcher = matcher(entry, names)?;
    if entry.action == Action::Scan || matcher.needs_content() {
        readable(&matcher)?;
    }
    if class.is_some() && matcher.needs_content() {
        return Err(
            "a flow cannot be put into a class for what it carries: name the class in a rule about the flow"
                .to_owned(),
        );
    }
    Ok(Rule {
        name: entry.name.clone(),
        line,
        action: entry.action,
        class,
        audit: entry
            .audit
            .unwrap_or(entry.action == Action::Audit || entry.audit_text || entry.audit_file),
        texts: entry.audit_text,
        files: entry.audit_file,
        // What could not be scanned does not pass as clean, unless the rule says so.
        failure: entry.failure.or(scans.then_some(Failure::Closed)),
        scan_parts: entry.scan_parts,
        hold_first,
        matcher,
    })
}

/// What has no decoder cannot be filtered or scanned: a rule that only names such applications
/// would do nothing.
fn readable(matcher: &Matcher) -> Result<(), String> {
    let Some(apps) = &matcher.apps else {
        return Ok(());
    };
    let read = |app: &str| crate::inspect::expected(app, FileHead::default()).is_some();
    if apps.iter().any(read) {
        return Ok(());
    }
    let named: Vec<&str> = apps.iter().collect();
    Err(format!(
        "it looks into files or messages, and those of {} cannot be read (encrypted, or in pieces that come in any order)",
        named.join(", ")
    ))
}

fn matcher(entry: &RuleEntry, names: &Known<'_>) -> Result<Matcher, String> {
    if entry.direction.is_some() && !names.inside {
        return Err(
            "`direction` needs `inside` in [gateway]: the networks that are inside".to_owned(),
        );
    }
    if entry.confidence.is_some() && entry.app.is_none() {
        return Err("`confidence` needs `app`".to_owned());
    }
    let texts = |value: &Option<OneOrMany>| value.as_ref().map(OneOrMany::texts).transpose();
    let networks = |value: &Option<OneOrMany>| {
        let resolved = value.as_ref().map(|value| resolve(value, &names.networks));
        resolved
            .transpose()
            .map(|networks| networks.map(Networks::new))
    };
    let wild =
        |value: &Option<OneOrMany>| texts(value)?.map(|texts| Names::parse(&texts)).transpose();
    let apps = texts(&entry.app)?
        .map(|texts| applications(&texts, names.applications))
        .transpose()?;
    Ok(Matcher {
        l4: entry.l4,
        apps,
        confidence: entry.confidence,
        way: entry.direction,
        client: networks(&entry.client)?,
        server: networks(&entry.server)?,
        either: networks(&entry.network)?,
        ports: texts(&entry.port)?
            .map(|texts| Ports::parse(&texts))
            .transpose()?,
        hosts: wild(&entry.host)?,
        members: wild(&entry.member)?,
        time: texts(&entry.time)?
            .map(|texts| Schedule::parse(&texts))
            .transpose()?,
        file_names: wild(&entry.file_name)?,
        file_types: wild(&entry.file_type)?,
        file_size: entry.file_size.as_deref().map(Sizes::parse).transpose()?,
        file_part: entry.file_part,
        keywords: texts(&entry.keyword)?
            .map(|texts| Keywords::parse(&texts))
            .transpose()?,
        when: entry.when.as_deref().map(Expression::parse).transpose()?,
    })
}

/// Names of applications and groups; each must be known, because a misspelt one would never match.
fn applications(texts: &[String], known: &BTreeSet<String>) -> Result<Words, String> {
    let mut names = Vec::new();
    for text in texts {
        if let Some(members) = group(text) {
            names.extend(members.iter().map(|&member| member.to_owned()));
        } else if known.contains(text) || text == crate::classify::UNKNOWN {
            names.push(text.clone());
        } else {
            let groups: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
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

/// Networks written out, or named in `[networks]`.
fn resolve(
    value: &OneOrMany,
    named: &BTreeMap<String, NetworkList>,
) -> Result<NetworkList, String> {
    let mut networks = Vec::new();
    for text in value.texts()? {
        match named.get(&text) {
            Some(known) => networks.extend_from_slice(known),
            None => networks.push(Networks::parse_one(&text).map_err(|reason| {
                if named.is_empty() {
                    reason
                } else {
                    format!("{reason}; nor is it a name in [networks]")
                }
            })?),
        }
    }
    Ok(networks)
}
