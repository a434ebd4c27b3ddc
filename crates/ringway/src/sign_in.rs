//! `ringway join LINK`: becoming a member by signing in at the organisation's issuer.

use std::path::Path;

use ringway_node::enrol::{SignInOptions, SignInPrompt, SignedInAs, sign_in};
use ringway_node::sso::JoinLink;

use crate::cli::JoinArgs;
use crate::context::Context;
use crate::status::{time_left, unix_seconds};
use ringway_terminal::Failure;

/// Joins the ring of the link; gives the member.
pub(crate) async fn join(
    context: &Context,
    home: &Path,
    link: &str,
    args: &JoinArgs,
) -> Result<SignedInAs, Failure> {
    let link: JoinLink = link.parse().map_err(Failure::usage)?;
    let machine = match &args.name {
        Some(name) => name.clone(),
        None => host_name().ok_or_else(|| {
            Failure::usage(
                "this machine has no name that a member could have: give one with --name",
            )
        })?,
    };
    let options = SignInOptions {
        machine,
        listen: args.listen,
        advertise: args.advertise,
        at: args.at.clone(),
        resolver: None,
    };
    // What could not be shown is told at the end: the person may have seen the page anyway.
    let mut shown = Ok(());
    let joined = sign_in(home, &link, &options, |prompt| {
        shown = show(context, prompt)
    })
    .await?;
    shown?;
    let until = joined
        .until
        .map(|until| until.saturating_sub(unix_seconds()));
    if let Some(left) = until {
        context.output.note(&format!(
            "{} has to sign in again in {}: run this command once more before then.",
            joined.person,
            time_left(left)
        ));
    }
    if joined.stays {
        context.output.note(
            "This machine was a member already, and stays it: its daemon renews the certificate by itself.",
        );
    }
    Ok(joined)
}

/// What the person has to do, for people on stderr and for programs on stdout.
fn show(context: &Context, prompt: &SignInPrompt) -> Result<(), Failure> {
    if context.output.json() {
        return context.output.object("ringway.sign-in/1", prompt);
    }
    let minutes = prompt.seconds.div_ceil(60);
    let how = match &prompt.complete_url {
        Some(complete) => format!("{complete}\nand compare the code: {}", prompt.code),
        None => format!("{}\nand enter the code: {}", prompt.url, prompt.code),
    };
    context.output.note(&format!(
        "Sign in within {minutes} min, in a browser on any device. Open\n  {how}\nOnly go on if you have started this yourself."
    ));
    Ok(())
}

/// The first label of what the system is called; none if no one has named it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let first = name.trim().split('.').next()?.to_ascii_lowercase();
    let named = !first.is_empty() && first != "localhost" && first != "(none)";
    named.then_some(first)
}
