//! `ringway ring admit`: a new member by its request, which the owner has looked at.

use ringway_node::admission::AdmissionRequest;
use serde::Serialize;

use super::open;
use crate::cli::AdmitArgs;
use crate::context::Context;
use crate::limits::ID_BEGINNING;
use crate::offline;
use ringway_terminal::Failure;

#[derive(Serialize)]
struct AdmittedObject<'a> {
    name: &'a str,
    member: String,
    role: &'static str,
    address: Option<String>,
    serial: u64,
    /// Identity of the ring, which the new member has to know.
    ring: String,
    /// True if it was a member already.
    again: bool,
    reply: String,
}

/// Shows the request, asks, and prints the reply.
pub(super) fn run(context: &Context, args: &AdmitArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir.clone())?;
    let text = offline::read(&args.request, "a request")?;
    let request = AdmissionRequest::parse(&text).map_err(Failure::usage)?;
    // Shown before the question, because the owner decides by it.
    context.output.note(&shown(&request));
    confirm(&request, args)?;
    let admitted = authority.admit(&request)?;
    let object = AdmittedObject {
        name: request.name().as_str(),
        member: request.member().to_string(),
        role: request.role().as_str(),
        address: request.address().map(|address| address.to_string()),
        serial: admitted.certificate.serial(),
        ring: admitted.reply.ring().to_string(),
        again: admitted.again,
        reply: admitted.reply.to_text(),
    };
    context
        .output
        .either("ringway.admitted/1", &object, || object.reply.clone())?;
    let was = if object.again {
        "was admitted before"
    } else {
        "is admitted"
    };
    context.output.note(&format!(
        "{} {was} (certificate {}). Give the reply to it, and tell it by another way that the ring is {}",
        object.name, object.serial, object.ring
    ));
    Ok(())
}

fn shown(request: &AdmissionRequest) -> String {
    let address = request
        .address()
        .map_or_else(String::new, |address| format!("\naddress {address}"));
    format!(
        "name    {}\nrole    {}{address}\nid      {}",
        request.name(),
        request.role().as_str(),
        request.member()
    )
}

/// The owner has to know the new member's id from elsewhere: the request proves nothing but that
/// its maker has the key.
fn confirm(request: &AdmissionRequest, args: &AdmitArgs) -> Result<(), Failure> {
    let id = request.member().to_string();
    let typed = match &args.member {
        Some(typed) => typed.clone(),
        None => offline::ask(
            &args.request,
            "Type the first 16 or more characters of the id that the new member gave you, to admit it: ",
            "--member ID, the id that the new member gave you",
        )?,
    };
    let typed = typed.trim();
    // Some first characters can be had by trying keys. So many cannot.
    if typed.len() < ID_BEGINNING {
        return Err(Failure::usage(format_args!(
            "`{typed}` is too short for an id: the first {ID_BEGINNING} characters are needed; nothing was changed"
        )));
    }
    match id.get(..typed.len()) {
        Some(beginning) if beginning.eq_ignore_ascii_case(typed) => Ok(()),
        _ => Err(Failure::usage(format_args!(
            "the request is by {id} and not by `{typed}`: its author has another key than the member that you mean; nothing was changed"
        ))),
    }
}
