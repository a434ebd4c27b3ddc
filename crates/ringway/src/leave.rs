//! `ringway leave`: the end of this member, with or without its daemon.

use std::io::{self, IsTerminal as _, Write as _};

use ringway_node::control::{Client, ClientError, Reply, Request};
use ringway_node::home;
use ringway_node::leave::{self, LeaveOptions, Left};
use ringway_terminal::Failure;
use tokio::time::{sleep, timeout};

use crate::cli::LeaveArgs;
use crate::context::Context;
use crate::limits::{LEAVE_LOOK, LEAVE_TIME};
use crate::request;

/// Asks, leaves, and says what is left to do.
pub(crate) async fn run(context: &Context, args: &LeaveArgs) -> Result<(), Failure> {
    confirm(args)?;
    let options = LeaveOptions {
        force: args.force,
        offline: args.offline,
    };
    // The daemon has the home to itself, and perhaps another user.
    let left = match ask_daemon(context, options).await? {
        Some(left) => left,
        None => leave::leave(&context.home()?, options).await?,
    };
    context.output.either("ringway.left/1", &left, || {
        format!("{} has left {}: its key is gone", left.name, left.ring)
    })?;
    if left.given_up > 0 {
        context
            .output
            .note(&format!("{} transfers were given up.", left.given_up));
    }
    if !left.told {
        context.output.note(&format!(
            "The certificate of {name} is good until its owner ends it: have the ring's owner run `ringway ring revoke {name}`.",
            name = left.name
        ));
    }
    context.output.note(&format!(
        "Received files stay in {}. `ringway join` takes another invite.",
        left.inbox.display()
    ));
    Ok(())
}

/// None if no daemon runs.
async fn ask_daemon(context: &Context, options: LeaveOptions) -> Result<Option<Left>, Failure> {
    let request = Request::Leave(options);
    let client = match Client::request(&context.socket()?, &request).await {
        Err(ClientError::NotRunning { .. }) => return Ok(None),
        client => client?,
    };
    let left = request::only(client, |reply| match reply {
        Reply::Left(left) => Some(left),
        _ => None,
    });
    let left = left.await?;
    await_end(context).await?;
    Ok(Some(left))
}

/// The daemon answers before it ends, and removes the key at its very end.
async fn await_end(context: &Context) -> Result<(), Failure> {
    let home = context.home()?;
    let gone = async {
        while home::has_member(&home) {
            sleep(LEAVE_LOOK).await;
        }
    };
    timeout(LEAVE_TIME, gone).await.map_err(|_| {
        Failure::failed(format_args!(
            "the membership has ended, but the daemon runs still, and its key is in `{}`: see its log",
            home.display()
        ))
    })
}

fn confirm(args: &LeaveArgs) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let unsure = "nothing was changed: `ringway leave --yes` does not ask";
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(unsure));
    }
    let question = "Leave the ring for good? The key is removed, and only another invite brings this member back [y/N] ";
    let mut answer = String::new();
    io::stderr().write_all(question.as_bytes())?;
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::usage(unsure)),
    }
}
