//! `ringway rotate`: another key for this member, by files that travel by any way.

use std::path::Path;

use ringway_node::enrol;
use serde::Serialize;

use crate::cli::RotateArgs;
use crate::context::Context;
use crate::offline;
use ringway_terminal::Failure;

#[derive(Serialize)]
struct RequestObject {
    member: String,
    next: String,
    serial: u64,
    request: String,
}

/// Prints a request, or takes the reply in.
pub(crate) fn run(context: &Context, args: &RotateArgs) -> Result<(), Failure> {
    let home = context.home()?;
    match &args.with {
        Some(reply) => complete(context, &home, reply),
        None => request(context, &home),
    }
}

fn request(context: &Context, home: &Path) -> Result<(), Failure> {
    let request = enrol::request_rotation(home)?;
    let object = RequestObject {
        member: request.member().to_string(),
        next: request.next().to_string(),
        serial: request.serial(),
        request: request.to_text(),
    };
    context
        .output
        .either("ringway.rotation-request/1", &object, || {
            object.request.clone()
        })?;
    context.output.note(
        "The request is no secret. Give it to the ring's owner, for `ringway ring rotate NAME --request FILE`; nothing has changed yet.",
    );
    Ok(())
}

fn complete(context: &Context, home: &Path, reply: &Path) -> Result<(), Failure> {
    let text = offline::read(reply, "a reply")?;
    let rotated = enrol::complete_rotation(home, &text)?;
    context
        .output
        .either("ringway.rotated-member/1", &rotated, || {
            format!(
                "{} of {} has another key: its id is {} now (certificate {} instead of {})",
                rotated.name, rotated.ring, rotated.member, rotated.serial, rotated.replaces
            )
        })?;
    context
        .output
        .note("A `ringway node` that runs goes on with it by itself.");
    Ok(())
}
