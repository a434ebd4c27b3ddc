//! `ringway gate check`: reads policies and runs the tests in them.

use std::path::Path;

use ringway_gateway::SignatureSet;
use ringway_gateway::policy::Outcome;
use serde::Serialize;

use super::rules;
use crate::cli::CheckArgs;
use crate::failure::{Failure, report_line};
use crate::run::Context;

/// Name and version of the form of what is printed.
const SCHEMA: &str = "ringway.gate.check/1";

#[derive(Serialize)]
struct CheckedTest<'a> {
    schema: &'static str,
    file: String,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// Checks all files; a wrong one does not keep the others from being checked.
pub(crate) fn check(context: &Context, args: &CheckArgs) -> Result<(), Failure> {
    let set = rules::signatures(&args.signatures)?;
    let mut wrong = None;
    for file in &args.files {
        if let Err(failure) = check_one(context, file, &set) {
            if matches!(failure, Failure::OutputClosed) {
                return Err(failure);
            }
            if let Some(earlier) = wrong.replace(failure) {
                told(&earlier, context.output.json());
            }
        }
    }
    wrong.map_or(Ok(()), Err)
}

fn told(failure: &Failure, json: bool) {
    if !matches!(failure, Failure::Reported) {
        report_line(failure.message(), true, json);
    }
}

fn check_one(context: &Context, file: &Path, set: &SignatureSet) -> Result<(), Failure> {
    let output = context.output;
    let policy = rules::policy(file, set, output.json())?;
    let outcomes = policy.try_all();
    let name = file.display();
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
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    if failed > 0 {
        return Err(Failure::failed(format_args!(
            "{name}: {failed} of {} tests failed",
            outcomes.len()
        )));
    }
    if !output.json() {
        output.line(&format!(
            "{name}: {} rules, {} tests passed",
            policy.rules().len(),
            outcomes.len()
        ))?;
    }
    Ok(())
}
