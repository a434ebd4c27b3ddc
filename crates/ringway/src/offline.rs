//! `ringway join --offline` and `--with`: becoming a member by files that travel by any way.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;

use ringway_node::admission::AdmissionReply;
use ringway_node::certificate::RingId;
use ringway_node::enrol::{self, Joined};
use serde::Serialize;

use crate::context::Context;
use crate::limits;
use ringway_terminal::Failure;

#[derive(Serialize)]
struct RequestObject<'a> {
    name: &'a str,
    member: String,
    role: &'static str,
    address: Option<SocketAddr>,
    request: String,
}

/// Prints a request for the ring's owner.
pub(crate) fn request(
    context: &Context,
    home: &Path,
    name: &str,
    listen: Option<SocketAddr>,
    advertise: Option<SocketAddr>,
) -> Result<(), Failure> {
    let request = enrol::request(home, name, listen, advertise)?;
    let object = RequestObject {
        name: request.name().as_str(),
        member: request.member().to_string(),
        role: request.role().as_str(),
        address: request.address(),
        request: request.to_text(),
    };
    context
        .output
        .either("ringway.admission-request/1", &object, || {
            object.request.clone()
        })?;
    context.output.note(&format!(
        "The request of {} ({}) is no secret. Give it to the ring's owner, for `ringway ring admit`, and tell the owner by another way that your id is {}",
        object.name, object.role, object.member
    ));
    Ok(())
}

/// Takes the owner's reply in.
pub(crate) fn complete(
    context: &Context,
    home: &Path,
    path: &Path,
    ring: Option<&str>,
) -> Result<Joined, Failure> {
    let reply = AdmissionReply::parse(&read(path, "a reply")?).map_err(Failure::usage)?;
    context.output.note(&format!(
        "The reply is from ring {} ({}).",
        reply.ring(),
        reply.domain()
    ));
    // The ring's identity comes from the owner by another way: a forged reply could name its own.
    let named = match ring {
        Some(ring) => ring.to_owned(),
        None => ask(
            path,
            "Type the ring's identity as its owner gave it to you, to join it: ",
            "--ring RING, the identity that the ring's owner gave you",
        )?,
    };
    let named: RingId = named.trim().parse().map_err(|_| {
        Failure::usage(format_args!(
            "`{}` is no ring's identity: it is what `ringway ring init` printed, and `ringway ring admit`",
            named.trim()
        ))
    })?;
    Ok(enrol::complete(home, &reply, &named)?)
}

/// The text in a file, or on stdin; `what` it should be, for the error.
pub(crate) fn read(path: &Path, what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let (source, read) = if path == Path::new("-") {
        let stdin = io::stdin().lock();
        let read = stdin.take(limits::ADMISSION).read_to_string(&mut text);
        ("stdin".to_owned(), read)
    } else {
        let read = File::open(path)
            .and_then(|file| file.take(limits::ADMISSION).read_to_string(&mut text));
        (format!("`{}`", path.display()), read)
    };
    read.map_err(|error| {
        Failure::usage(format_args!("reading {what} from {source} failed: {error}"))
    })?;
    Ok(text)
}

/// Asks the person at the terminal. Where there is none, or stdin was `file`, `instead` has to be
/// given.
pub(crate) fn ask(file: &Path, question: &str, instead: &str) -> Result<String, Failure> {
    if file == Path::new("-") || !io::stdin().is_terminal() {
        return Err(Failure::usage(format_args!(
            "there is no terminal to ask at: give {instead}; nothing was changed"
        )));
    }
    let mut stderr = io::stderr().lock();
    stderr.write_all(question.as_bytes())?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin()
        .lock()
        .take(limits::INVITATION)
        .read_line(&mut answer)?;
    Ok(answer)
}
