//! `ringway ring rotate`: another key for a member.

use std::path::Path;
use std::time::Duration;

use ringway_node::authority::{Authority, Rotated};
use ringway_node::rotation::RotationRequest;
use serde::Serialize;

use super::{in_words, open, publish};
use crate::cli::RingRotateArgs;
use crate::context::Context;
use crate::offline;
use ringway_terminal::Failure;

#[derive(Serialize)]
struct RotatedObject<'a> {
    name: &'a str,
    /// The new id.
    member: String,
    /// The old one.
    was: String,
    /// Number of the new certificate.
    serial: u64,
    /// Number of the one that has ended.
    replaces: u64,
    /// True if it was so before.
    again: bool,
    reply: String,
}

/// Asks the member, or answers its request.
pub(super) async fn run(context: &Context, args: &RingRotateArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir.clone())?;
    let what = match &args.request {
        Some(path) => grant(context, &mut authority, &args.name, path)?,
        None => ask(context, &mut authority, &args.name, args.within)?,
    };
    publish::after_change(context, &authority, &what, "what was before").await
}

fn ask(
    context: &Context,
    authority: &mut Authority,
    name: &str,
    within: Duration,
) -> Result<String, Failure> {
    let member = authority.ask_rotation(name, within)?;
    let asked = format!("{name} is asked for another key");
    context.output.either("ringway.member/1", &member, || {
        format!("{asked} (certificate {})", member.serial)
    })?;
    let time = in_words(within);
    context.output.note(&format!(
        "It has {time} for it, and does it by itself once it runs and reaches `ringway ring serve`; `ringway ring members` shows when it has."
    ));
    Ok(asked)
}

fn grant(
    context: &Context,
    authority: &mut Authority,
    name: &str,
    path: &Path,
) -> Result<String, Failure> {
    let text = offline::read(path, "a request")?;
    let request = RotationRequest::parse(&text).map_err(Failure::usage)?;
    let Rotated {
        certificate,
        replaces,
        reply,
        again,
    } = authority.rotate(&request, name)?;
    let object = RotatedObject {
        name,
        member: certificate.member().to_string(),
        was: request.member().to_string(),
        serial: certificate.serial(),
        replaces,
        again,
        reply: reply.to_text(),
    };
    context
        .output
        .either("ringway.rotated/1", &object, || object.reply.clone())?;
    let had = if again {
        "had another key before"
    } else {
        "has another key"
    };
    context.output.note(&format!(
        "{name} {had} (certificate {} instead of {replaces}). Where its daemon gets the ring's DNS, it goes on by itself; else give the reply to it, for `ringway rotate --with`.",
        object.serial
    ));
    Ok(format!("{name} {had}"))
}
