//! The files that say what the gateway looks for and what it does: signatures, members and
//! policies.

use std::net::SocketAddr;
use std::path::Path;

use ringway_gateway::classify::Bounds;
use ringway_gateway::limits::{MAX_MEMBERS, MAX_POLICY_FILE, MAX_SIGNATURE_FILE};
use ringway_gateway::policy::Policy;
use ringway_gateway::service::{ClassifierConfig, parse_policy};
use ringway_gateway::{Classifier, SignatureSet};

use super::preset::PolicySource;
use crate::cli::{LookArgs, SignatureArgs};
use crate::limits::MAX_MEMBERS_FILE;
use ringway_terminal::{Failure, report_line};

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

/// A classifier of these signatures, and the members that it knows.
pub(crate) fn classifier(
    signatures: SignatureSet,
    look: &LookArgs,
) -> Result<ClassifierConfig, Failure> {
    let bounds = Bounds {
        packets: look.packets,
    };
    Ok(ClassifierConfig {
        classifier: Classifier::new(&signatures, bounds).map_err(Failure::usage)?,
        members: members(look.members.as_deref())?,
        packets: look.packets,
        signatures,
    })
}

/// The members of this file; none without one.
fn members(file: Option<&Path>) -> Result<Vec<(SocketAddr, String)>, Failure> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let text = read(file, MAX_MEMBERS_FILE)?;
    let mut members = Vec::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        let words: Vec<&str> = line.split_whitespace().collect();
        let member = match words.as_slice() {
            [] => continue,
            [endpoint, id] => endpoint.parse().ok().map(|endpoint| (endpoint, *id)),
            _ => None,
        };
        let Some((endpoint, id)) = member else {
            return Err(Failure::usage(format_args!(
                "{}:{number}: not ADDRESS:PORT and a member's name, such as `192.0.2.7:7946 oslo` or `[2001:db8::7]:7946 oslo`",
                file.display()
            )));
        };
        members.push((endpoint, id.to_owned()));
    }
    if members.len() > MAX_MEMBERS {
        return Err(Failure::usage(format_args!(
            "{}: {} members, and at most {MAX_MEMBERS} are remembered",
            file.display(),
            members.len()
        )));
    }
    Ok(members)
}

/// Reads a policy; each fault has had its line on stderr when this fails.
pub(crate) fn policy(file: &Path, set: &SignatureSet, json: bool) -> Result<Policy, Failure> {
    policy_of(&PolicySource::File(file.to_owned()), set, json)
}

/// The same of one that may be the program's own.
pub(super) fn policy_of(
    source: &PolicySource,
    set: &SignatureSet,
    json: bool,
) -> Result<Policy, Failure> {
    let text = source.text()?;
    parse_policy(&source.name(), &text, set).map_err(|errors| {
        let mut lines = errors.into_iter();
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            report_line(&line, true, json);
        }
        Failure::usage(last)
    })
}

/// The text of a policy's file.
pub(super) fn policy_text(file: &Path) -> Result<String, Failure> {
    read(file, MAX_POLICY_FILE)
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
