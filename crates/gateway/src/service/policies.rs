//! Policies from their texts, and what they need of a run.

use std::path::Path;

use super::error::ServiceError;
use crate::SignatureSet;
use crate::feed::FeedFolder;
use crate::policy::{Action, Policy, Rule};

/// What this policy asks and this run cannot do is refused, not passed over.
pub(super) fn check_requirements(policy: &Policy, scans: bool) -> Result<(), ServiceError> {
    let lacking = |rule: &&Rule| rule.action == Action::Scan && !scans;
    match policy.rules().iter().find(lacking) {
        None => Ok(()),
        Some(rule) => Err(ServiceError::usage(format_args!(
            "rule `{}` in line {} scans files, and there is no scanner: name one with --yara, --hashes or --clamd",
            rule.name, rule.line
        ))),
    }
}

/// A policy from its text, by these signatures, with the lists beside its file that it names.
///
/// # Errors
/// A line for each fault.
pub fn parse_policy(file: &Path, text: &str, set: &SignatureSet) -> Result<Policy, Vec<String>> {
    let known = set.applications();
    Policy::parse_beside(text, &known, &FeedFolder::beside(file)).map_err(|errors| {
        errors
            .iter()
            .map(|error| format!("{}:{}: {}", file.display(), error.line, error.reason))
            .collect()
    })
}
