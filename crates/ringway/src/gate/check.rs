//! `ringway gate check`: reads policies and runs the tests in them, and compiles YARA rules.

use std::path::{Path, PathBuf};

use indicatif::{BinaryBytes, HumanBytes};
use ringway_gateway::SignatureSet;
use ringway_gateway::feed::FeedKind;
use ringway_gateway::policy::{Action, Outcome, Over, Policy, Rule};
use ringway_gateway::scan::{YaraError, YaraFault, YaraRules};
use ringway_gateway::service::load_hashes;
use serde::Serialize;

use super::preset::PolicySource;
use super::rules;
use super::up::failure;
use crate::cli::{CheckArgs, gate_options};
use crate::context::Context;
use ringway_terminal::{Failure, report_line};

/// Name and version of the form of what is printed.
const SCHEMA: &str = "ringway.gate.check/1";
/// The same of what is printed of a file of options.
const CONFIG_SCHEMA: &str = "ringway.gate.check.config/1";
/// The same of what is printed of lists.
const LIST_SCHEMA: &str = "ringway.gate.check.list/1";
/// The same of what is printed of YARA rules.
const HASHES_SCHEMA: &str = "ringway.gate.check.hashes/1";
const YARA_SCHEMA: &str = "ringway.gate.check.yara/1";

#[derive(Serialize)]
struct CheckedTest<'a> {
    schema: &'static str,
    file: String,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// A file of options without a fault.
#[derive(Serialize)]
struct CheckedOptions<'a> {
    file: String,
    /// How many it sets.
    options: usize,
    enforce: bool,
    inside: &'a [String],
    outside: &'a [String],
}

/// A list that a policy names.
#[derive(Serialize)]
struct CheckedList<'a> {
    policy: &'a str,
    file: String,
    kind: FeedKind,
    entries: usize,
    /// Bytes, about.
    memory: u64,
}

/// What is found of YARA rules.
#[derive(Serialize)]
struct CheckedRules<'a> {
    paths: Vec<String>,
    passed: bool,
    /// Rules, the one for test files included; absent where some are wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<usize>,
    faults: Vec<CheckedFault<'a>>,
}

#[derive(Serialize)]
struct CheckedHashes {
    lists: usize,
    hashes: usize,
}

#[derive(Serialize)]
struct CheckedFault<'a> {
    file: String,
    line: Option<usize>,
    reason: &'a str,
}

/// Checks all files; a wrong one does not keep the others from being checked.
pub(crate) fn check(context: &Context, args: &CheckArgs) -> Result<(), Failure> {
    let set = rules::signatures(&args.signatures)?;
    let mut wrong = None;
    let policies = args.files.iter().map(|file| {
        let source = PolicySource::File(file.clone());
        check_one(context, &source, &set)
    });
    let rules = (!args.yara.is_empty()).then(|| check_rules(context, &args.yara));
    let hashes = (!args.hashes.is_empty()).then(|| check_hashes(context, &args.hashes));
    let options = args.config.as_deref();
    let options = options.map(|file| check_options(context, file));
    for checked in policies.chain(rules).chain(hashes).chain(options) {
        if let Err(failure) = checked {
            if matches!(failure, Failure::OutputClosed) {
                return Err(failure);
            }
            if let Some(earlier) = wrong.replace(failure) {
                show_earlier(&earlier, context.output.json());
            }
        }
    }
    wrong.map_or(Ok(()), Err)
}

/// Checks a file of options, and the files that it names, as `gate up` reads them.
fn check_options(context: &Context, file: &Path) -> Result<(), Failure> {
    let (args, options) = gate_options(file).map_err(Failure::usage)?;
    // In the order in which `gate up` would find what is wrong.
    let set = rules::signatures(&args.look.signatures)?;
    check_one(context, &PolicySource::of(&args)?, &set)?;
    rules::classifier(set, &args.look)?;
    if !args.yara.is_empty() {
        check_rules(context, &args.yara)?;
    }
    if !args.hashes.is_empty() {
        check_hashes(context, &args.hashes)?;
    }
    let checked = CheckedOptions {
        file: file.display().to_string(),
        options,
        enforce: args.enforce,
        inside: &args.inside,
        outside: &args.outside,
    };
    context.output.either(CONFIG_SCHEMA, &checked, || {
        let does = if args.enforce { "enforces" } else { "observes" };
        let outside = match args.outside.as_slice() {
            [] => "where the default routes lead".to_owned(),
            named => named.join(" "),
        };
        let inside = args.inside.join(" ");
        format!(
            "{}: {options} options; it {does} {inside} <-> {outside}",
            checked.file
        )
    })
}

fn show_earlier(failure: &Failure, json: bool) {
    if !matches!(failure, Failure::Reported) {
        report_line(failure.message(), true, json);
    }
}

fn check_one(context: &Context, source: &PolicySource, set: &SignatureSet) -> Result<(), Failure> {
    let output = context.output;
    let policy = rules::policy_of(source, set, output.json())?;
    let outcomes = policy.try_all();
    let name = source.name();
    let name = name.display();
    for outcome in &outcomes {
        if output.json() {
            output.plain_object(&CheckedTest {
                schema: SCHEMA,
                file: name.to_string(),
                outcome,
            })?;
        } else if !outcome.passed {
            output.line(&format!(
                "{name}:{}: test `{}` failed: expected {}, got {}",
                outcome.line, outcome.test, outcome.expected, outcome.got
            ))?;
        }
    }
    lists(context, &name.to_string(), &policy)?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    if failed > 0 {
        return Err(Failure::failed(format_args!(
            "{name}: {failed} of {} tests failed",
            outcomes.len()
        )));
    }
    if !output.json() {
        let scans = |rule: &Rule| rule.action == Action::Scan;
        let needs = if policy.rules().iter().any(scans) {
            "; `gate up` needs a scanner for it: --yara, --hashes or --clamd"
        } else {
            ""
        };
        output.line(&format!(
            "{name}: {} rules, {} tests passed{needs}",
            policy.rules().len(),
            outcomes.len()
        ))?;
        for line in policy
            .rules()
            .iter()
            .filter_map(|rule| quota(&policy, rule))
        {
            output.line(&format!("{name}:{line}"))?;
        }
    }
    Ok(())
}

/// What the quota of a rule means, behind the rule's line.
fn quota(policy: &Policy, rule: &Rule) -> Option<String> {
    let quota = rule.quota?;
    let above = match quota.over {
        Over::Block => "they are blocked".to_owned(),
        Over::Class(class) => {
            let class = policy.classes().get(class)?;
            format!("they go on in class `{}`", class.name)
        }
    };
    Some(format!(
        "{}: rule `{}`: above {} a {} of a {}'s flows {above}",
        rule.line,
        rule.name,
        BinaryBytes(quota.bytes),
        quota.period.name(),
        quota.per.name(),
    ))
}

/// Shows the lists that a policy names.
fn lists(context: &Context, policy: &str, checked: &Policy) -> Result<(), Failure> {
    for feed in checked.feeds() {
        let memory = u64::try_from(feed.entries().memory()).unwrap_or(u64::MAX);
        let list = CheckedList {
            policy,
            file: feed.path().display().to_string(),
            kind: feed.kind(),
            entries: feed.entries().len(),
            memory,
        };
        let (kind, memory) = (list.kind.name(), HumanBytes(memory));
        context.output.either(LIST_SCHEMA, &list, || {
            format!("{}: {} {kind}, {memory} of memory", list.file, list.entries)
        })?;
    }
    Ok(())
}

/// Reads lists of hashes as `gate up` does, and says how many there are.
fn check_hashes(context: &Context, files: &[PathBuf]) -> Result<(), Failure> {
    let hashes = load_hashes(files).map_err(failure)?;
    let count = hashes.map_or(0, |lists| lists.len());
    let checked = CheckedHashes {
        lists: files.len(),
        hashes: count,
    };
    context.output.either(HASHES_SCHEMA, &checked, || {
        format!("{count} hashes of files in {} lists", files.len())
    })
}

/// Compiles rules as `gate up` does.
fn check_rules(context: &Context, paths: &[PathBuf]) -> Result<(), Failure> {
    let output = context.output;
    let checked = YaraRules::check(paths);
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let (rules, faults) = match &checked {
        Ok(count) => (Some(*count), [].as_slice()),
        Err(YaraError(faults)) => (None, faults.as_slice()),
    };
    if output.json() {
        let faults = faults.iter().map(|fault| CheckedFault {
            file: fault.file.display().to_string(),
            line: fault.line,
            reason: &fault.reason,
        });
        output.object(
            YARA_SCHEMA,
            &CheckedRules {
                paths: names.clone(),
                passed: rules.is_some(),
                rules,
                faults: faults.collect(),
            },
        )?;
    } else if let Some(count) = rules {
        output.line(&format!(
            "{}: {count} YARA rules, the one for test files included",
            names.join(" ")
        ))?;
    }
    wrong_rules(faults, output.json())
}

/// A line for each fault.
fn wrong_rules(faults: &[YaraFault], json: bool) -> Result<(), Failure> {
    let Some((last, before)) = faults.split_last() else {
        return Ok(());
    };
    for fault in before {
        report_line(&fault.to_string(), true, json);
    }
    Err(Failure::usage(last))
}
