//! `ringway doctor`: what of this machine stands in the way of a member, an authority or a gateway,
//! and the mend of each thing. Nothing is changed.
//!
//! | file | does |
//! |---|---|
//! | `subject` | what is on this machine: folders, daemons, and what those say |
//! | `finding` | one line of the answer |
//! | `program` | other programs, asked with a bound on time and length |
//! | `sockets` | which process has which port |
//! | `support` | one file with all of it, for the one who helps |
//! | each of [`CHECKS`] | one thing that is looked at |
//!
//! A check is a file with a constant `CHECK`; its place in [`CHECKS`] is its place in the answer.
//! It is silent about what is not on this machine. A check whose time is over keeps what it has
//! found.

mod certificate;
mod clock;
mod configuration;
mod daemon;
mod disk;
mod dns;
mod finding;
mod firewall;
mod gateway;
mod mtu;
mod nat;
mod open_files;
mod permissions;
mod ports;
mod program;
mod sockets;
mod subject;
mod support;
mod versions;

use std::pin::Pin;

use ringway_terminal::Failure;
use serde::Serialize;
use tokio::time::timeout;

use self::finding::{Finding, Findings, Level};
use self::subject::Subject;
use self::support::Bundle;
use crate::cli::CheckupArgs;
use crate::context::Context;
use crate::limits::DOCTOR_CHECK;

/// A look that may wait for a program or for the network.
type Looking<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One thing that is looked at.
struct Check {
    /// Its name in the answer.
    name: &'static str,
    /// Adds what it finds.
    look: Look,
}

/// How it is looked at.
enum Look {
    /// What files and the daemons' answers say.
    AtOnce(fn(&Subject, &mut Findings)),
    /// It waits for a program or for the network, and may be dropped before it has ended.
    InTime(for<'a> fn(&'a Subject, &'a mut Findings) -> Looking<'a>),
}

/// All of them, in the order of the answer: what other things depend on comes first.
const CHECKS: &[Check] = &[
    configuration::CHECK,
    permissions::CHECK,
    disk::CHECK,
    clock::CHECK,
    certificate::CHECK,
    daemon::CHECK,
    versions::CHECK,
    open_files::CHECK,
    dns::CHECK,
    ports::CHECK,
    firewall::CHECK,
    nat::CHECK,
    mtu::CHECK,
    gateway::CHECK,
];

/// How many lines say what, as the last object of `--json`.
#[derive(Debug, Serialize)]
struct Summary {
    ok: usize,
    notes: usize,
    wrong: usize,
}

/// Looks at everything and shows it.
pub(crate) async fn doctor(context: &Context, args: &CheckupArgs) -> Result<(), Failure> {
    let subject = Subject::find(context, args).await?;
    let findings = examine(&subject).await;
    if let Some(path) = &args.support {
        let bundle = Bundle {
            path,
            anonymise: args.anonymise,
        };
        return support::write(context, &subject, &findings, bundle).await;
    }
    show(context, &findings)?;
    if findings.iter().any(|found| found.level == Level::Wrong) {
        // It has been shown, with its mend.
        return Err(Failure::Reported);
    }
    Ok(())
}

/// All findings, in the order of the checks.
async fn examine(subject: &Subject) -> Vec<Finding> {
    let mut all = Vec::new();
    for check in CHECKS {
        let mut findings = Findings::new(check.name);
        let in_time = match check.look {
            Look::AtOnce(look) => {
                look(subject, &mut findings);
                true
            }
            Look::InTime(look) => {
                let looked = timeout(DOCTOR_CHECK, look(subject, &mut findings));
                looked.await.is_ok()
            }
        };
        // What it has found until then counts.
        if !in_time {
            let seen = format!("not finished within {} s", DOCTOR_CHECK.as_secs());
            findings.note("the rest of it", &seen, "run `ringway doctor` again");
        }
        all.extend(findings.into_found());
    }
    all
}

fn show(context: &Context, findings: &[Finding]) -> Result<(), Failure> {
    let count = |level| findings.iter().filter(|found| found.level == level).count();
    let summary = Summary {
        ok: count(Level::Ok),
        notes: count(Level::Note),
        wrong: count(Level::Wrong),
    };
    let output = context.output;
    if output.json() {
        for found in findings {
            output.object("ringway.doctor/1", found)?;
        }
        return output.object("ringway.doctor.summary/1", &summary);
    }
    for found in findings {
        output.line(&found.text())?;
    }
    let Summary { ok, notes, wrong } = summary;
    output.line(&format!("{ok} ok, {notes} to note, {wrong} wrong"))
}
