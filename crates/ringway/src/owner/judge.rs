//! `ringway ring judge`: is this proof that a router lies?

use std::path::{Path, PathBuf};

use ringway_node::authority::Authority;
use ringway_node::certificate::RingId;
use ringway_node::evidence::{Evidence, EvidenceError, Guilty, NotProven};
use ringway_node::state::State;
use serde::Serialize;

use crate::cli::JudgeArgs;
use crate::context::Context;
use ringway_terminal::Failure;

#[derive(Serialize)]
struct Judgement<'a> {
    file: &'a Path,
    /// Whether the file proves a lie.
    guilty: bool,
    name: Option<String>,
    member: Option<String>,
    serial: Option<u64>,
    ring: String,
    reason: String,
}

/// Judges every file; the command fails if one of them proves nothing.
pub(super) fn run(context: &Context, args: JudgeArgs) -> Result<(), Failure> {
    let ring = ring(context, args.ring, args.folder.dir)?;
    let mut all_proven = true;
    for path in &args.files {
        let evidence = Evidence::load(path);
        let outcome = match evidence {
            Ok(evidence) => evidence.judge(&ring),
            // Evidence that proves nothing is a result. Only a file that cannot be read is a
            // mistake.
            Err(EvidenceError::NotProven { reason, .. }) => Err(reason),
            Err(error) => return Err(Failure::usage(error)),
        };
        all_proven &= outcome.is_ok();
        let judgement = judgement(path, &ring, outcome);
        context
            .output
            .either("ringway.judgement/1", &judgement, || text(&judgement))?;
    }
    if all_proven {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

fn judgement<'a>(
    file: &'a Path,
    ring: &RingId,
    outcome: Result<Guilty, NotProven>,
) -> Judgement<'a> {
    let ring = ring.to_string();
    match outcome {
        Ok(guilty) => Judgement {
            file,
            guilty: true,
            name: Some(guilty.certificate.name().to_string()),
            member: Some(guilty.certificate.member().to_string()),
            serial: Some(guilty.certificate.serial()),
            ring,
            reason: guilty.reason(),
        },
        Err(reason) => Judgement {
            file,
            guilty: false,
            name: None,
            member: None,
            serial: None,
            ring,
            reason: reason.to_string(),
        },
    }
}

fn text(judgement: &Judgement<'_>) -> String {
    let (file, reason) = (judgement.file.display(), &judgement.reason);
    match (&judgement.name, judgement.serial) {
        (Some(name), Some(serial)) => format!(
            "{file}: {name} (certificate {serial}) lies: {reason}\nif its home was copied, or its machine set back, give it a new key: ringway ring rotate {name}\nto remove it for good: ringway ring revoke {name}"
        ),
        _ => format!("{file}: proves nothing: {reason}"),
    }
}

/// The ring whose owner's key decides.
fn ring(context: &Context, named: Option<String>, dir: Option<PathBuf>) -> Result<RingId, Failure> {
    if let Some(named) = named {
        return named.parse().map_err(|error| {
            Failure::usage(format_args!("--ring {named} is no identity: {error}"))
        });
    }
    let asked = dir.is_some();
    let home = context.home()?;
    match Authority::open(&super::folder(context, dir)?) {
        Ok(authority) => {
            let ring = authority.ring().ring;
            return ring.parse().map_err(Failure::failed);
        }
        Err(error) if asked => return Err(error.into()),
        Err(_) => {}
    }
    // Without an authority here the ring is the one that this machine is a member of.
    let belongs = home
        .join("state.db")
        .exists()
        .then(|| State::open(&home).and_then(|state| state.membership()));
    match belongs {
        Some(Ok(Some(membership))) => Ok(membership.ring),
        Some(Err(error)) => Err(Failure::failed(error)),
        _ => Err(Failure::usage(
            "no ring is here to judge for: name its identity with --ring, or the authority's folder with --dir",
        )),
    }
}
