//! `ringway put` and `get`.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use ringway_node::control::{RecordFound, RecordStored, Reply, Request};
use serde::Serialize;

use crate::cli::{GetArgs, PutArgs};
use crate::context::Context;
use crate::limits::RECORD_INPUT;
use crate::request::{ask, only};
use ringway_terminal::Failure;

/// How long any record may last.
const LONGEST: Duration = ringway_overlay::limits::MAX_RECORD_LIFETIME;

/// Leaves a record in the ring.
pub(crate) async fn put(context: &Context, args: PutArgs) -> Result<(), Failure> {
    let value = match (args.remove, args.value.as_deref()) {
        (true, _) => Vec::new(),
        (false, Some("-")) => standard_input()?,
        (false, text) => text.unwrap_or_default().as_bytes().to_vec(),
    };
    if value.is_empty() && !args.remove {
        return Err(Failure::usage(
            "the value is empty: name one, or remove the record with --remove",
        ));
    }
    // A router that was away when it was removed must not bring it back: that it is gone is kept
    // for as long as any record may last.
    let lifetime = if args.remove { LONGEST } else { args.lifetime };
    let request = Request::Put {
        name: args.name,
        value,
        lifetime_s: lifetime.as_secs(),
    };
    let stored = only(ask(context, &request).await?, |reply| match reply {
        Reply::Stored(stored) => Some(stored),
        _ => None,
    })
    .await?;
    context.output.either("ringway.stored/1", &stored, || {
        stored_text(&stored, args.remove)
    })
}

fn stored_text(stored: &RecordStored, removed: bool) -> String {
    let what = if removed { "removed" } else { "stored" };
    let RecordStored { copies, group, .. } = stored;
    let routers = if *group == 1 { "router" } else { "routers" };
    let doubt = doubt(stored.verified);
    format!(
        "{} {what} with {copies} of {group} {routers}{doubt}",
        stored.name
    )
}

fn doubt(verified: bool) -> &'static str {
    if verified {
        ""
    } else {
        "; whether these are the right ones is not sure: routers contradict each other, or too few answered"
    }
}

/// What there is to put, up to a byte more than may be.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    std::io::stdin()
        .take(RECORD_INPUT)
        .read_to_end(&mut value)?;
    Ok(value)
}

/// A record as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    peer: &'a str,
    name: &'a str,
    /// Where it is UTF-8.
    value: Option<&'a str>,
    value_hex: String,
    number: Option<u64>,
    expires: Option<u64>,
    answers: u32,
    group: u32,
    verified: bool,
}

/// Finds a record.
pub(crate) async fn get(context: &Context, args: GetArgs) -> Result<(), Failure> {
    let (peer, name) = (args.peer, args.name);
    let request = Request::Get { peer, name };
    let found = only(ask(context, &request).await?, |reply| match reply {
        Reply::Record(found) => Some(found),
        _ => None,
    })
    .await?;
    let Some(value) = &found.value else {
        return Err(Failure::failed(absent(&found)));
    };
    if !found.verified {
        context.output.note(&format!("found{}", doubt(false)));
    }
    if context.output.json() {
        let shown = Shown {
            peer: &found.peer,
            name: &found.name,
            value: std::str::from_utf8(value).ok(),
            value_hex: value.iter().map(|byte| format!("{byte:02x}")).collect(),
            number: found.number,
            expires: found.expires,
            answers: found.answers,
            group: found.group,
            verified: found.verified,
        };
        return context.output.object("ringway.record/1", &shown);
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(value)?;
    // For the eye only: a pipe gets the value's own bytes and no more.
    if stdout.is_terminal() && !value.ends_with(b"\n") {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

fn absent(found: &RecordFound) -> String {
    let RecordFound {
        peer,
        name,
        answers,
        group,
        ..
    } = found;
    format!(
        "{peer} has no record `{name}`: {answers} of the {group} routers that would keep it have answered{}",
        doubt(found.verified)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_told() {
        let stored = RecordStored {
            name: "printer".to_owned(),
            copies: 8,
            group: 9,
            verified: true,
        };
        assert_eq!(
            stored_text(&stored, false),
            "printer stored with 8 of 9 routers"
        );
        let alone = RecordStored {
            copies: 1,
            group: 1,
            verified: false,
            ..stored
        };
        let text = stored_text(&alone, true);
        assert!(
            text.starts_with("printer removed with 1 of 1 router;"),
            "{text}"
        );
    }
}
