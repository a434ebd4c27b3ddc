//! The files that say what the gateway looks for and what it does: signatures and policies.

use std::collections::BTreeSet;
use std::path::Path;

use ringway_gateway::classify::Bounds;
use ringway_gateway::limits::{MAX_POLICY_FILE, MAX_SIGNATURE_FILE};
use ringway_gateway::policy::Policy;
use ringway_gateway::{Classifier, SignatureSet};

use crate::cli::SignatureArgs;
use crate::failure::{Failure, report_line};

/// The built-in signatures with the user's own.
pub(crate) fn signatures(args: &SignatureArgs) -> Result<SignatureSet, Failure> {
    let mut set = SignatureSet::built_in();
    for file in &args.signatures {
        let text = read(file, MAX_SIGNATURE_FILE)?;
        let own = SignatureSet::parse(&text).map_err(|error| {
            Failure::usage(format_args!(
                "{}:{}: {}",
                file.display(),
                error.line,
                error.reason
            ))
        })?;
        set.extend(own);
    }
    Ok(set)
}

/// A classifier of these signatures.
pub(crate) fn classifier(set: &SignatureSet) -> Result<Classifier, Failure> {
    Classifier::new(set, Bounds::default()).map_err(Failure::usage)
}

/// Reads a policy; each fault has had its line on stderr when this fails.
pub(crate) fn policy(file: &Path, set: &SignatureSet, json: bool) -> Result<Policy, Failure> {
    let text = read(file, MAX_POLICY_FILE)?;
    parsed(file, &text, set).map_err(|errors| {
        let mut lines = errors.into_iter();
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            report_line(&line, true, json);
        }
        Failure::usage(last)
    })
}

/// A policy from its text; a line for each fault.
pub(crate) fn parsed(file: &Path, text: &str, set: &SignatureSet) -> Result<Policy, Vec<String>> {
    let known: BTreeSet<String> = set
        .signatures()
        .iter()
        .map(|signature| signature.application.clone())
        .collect();
    Policy::parse(text, &known).map_err(|errors| {
        errors
            .iter()
            .map(|error| format!("{}:{}: {}", file.display(), error.line, error.reason))
            .collect()
    })
}

fn read(file: &Path, most: usize) -> Result<String, Failure> {
    let unreadable = |reason: &dyn std::fmt::Display| {
        Failure::usage(format_args!(
            "`{}` cannot be read: {reason}",
            file.display()
        ))
    };
    let refused = |error: std::io::Error| match error.kind() {
        // `gate up` has given up root's right to read what belongs to others.
        std::io::ErrorKind::PermissionDenied => unreadable(&format_args!(
            "{error}; the file and its folders must be readable for whom the gateway runs as, also where that is root \
             (chown root, or a folder such as /etc/ringway)"
        )),
        _ => unreadable(&error),
    };
    let length = std::fs::metadata(file).map_err(refused)?.len();
    if usize::try_from(length).is_ok_and(|length| length > most) {
        return Err(unreadable(&format_args!("it is larger than {most} bytes")));
    }
    std::fs::read_to_string(file).map_err(refused)
}
