//! `ringway join` and `ringway node`: becoming a member, and being one.

use std::convert::Infallible;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::Command;

use ringway_node::control::ControlPlace;
use ringway_node::daemon::{Daemon, Ended, Options, Pulse, Reloader};
use ringway_node::enrol::{self, JoinOptions, Joined};
use ringway_node::sso::JoinLink;

use crate::acting::Acting;
use crate::cli::{JoinArgs, NodeArgs};
use crate::context::{Context, SERVICE_HOME};
use crate::limits;
use crate::offline;
use crate::service;
use crate::sign_in;
use crate::signals::{Asked, DaemonSignals, Reloads};
use crate::supervisor::Supervisor;
use ringway_terminal::Failure;

/// Enrols this machine.
pub(crate) async fn join(context: &Context, args: JoinArgs) -> Result<(), Failure> {
    let link = args.code.first().filter(|code| JoinLink::is_meant(code));
    if let Some(link) = link.filter(|_| args.code.len() == 1) {
        return join_by_link(context, link, &args).await;
    }
    if !args.code.is_empty() {
        return Err(Failure::usage(
            "an invitation is a secret, and arguments can be read by every user of the machine: \
             use `ringway join --invite FILE` or `ringway join < FILE`",
        ));
    }
    let home = context.home()?;
    let _acting = Acting::owner_of(&home)?;
    if let (true, Some(name)) = (args.offline, &args.name) {
        return offline::request(context, &home, name, args.listen, args.advertise);
    }
    if let Some(reply) = &args.with {
        let joined = offline::complete(context, &home, reply, args.ring.as_deref())?;
        return welcome(context, &home, &joined);
    }
    let invite = read_invitation(context, &args.invite)?;
    if JoinLink::is_meant(&invite) {
        return join_by_link(context, &invite, &args).await;
    }
    if args.name.is_some() {
        return Err(Failure::usage(
            "--name is for --offline and for join links: an invitation has the member's name",
        ));
    }
    let options = JoinOptions {
        listen: args.listen,
        advertise: args.advertise,
        at: args.at,
        resolver: None,
    };
    let joined = enrol::join_with(&home, &invite, &options).await?;
    welcome(context, &home, &joined)
}

/// Shows that it is a member, and starts it where it is a service.
fn welcome(context: &Context, home: &Path, joined: &Joined) -> Result<(), Failure> {
    show_joined(context, joined)?;
    let next = if service::begin(context, home)? {
        "Next: `ringway send PATH PEER`; people in the group ringway can do so, too."
    } else if home == Path::new(SERVICE_HOME) {
        "Next: `sudo systemctl enable --now ringway-node`."
    } else {
        "Next: `ringway node`."
    };
    context.output.note(next);
    Ok(())
}

async fn join_by_link(context: &Context, link: &str, args: &JoinArgs) -> Result<(), Failure> {
    if args.offline || args.with.is_some() {
        return Err(Failure::usage(
            "--offline and --with take no join link: the owner looks at the request instead",
        ));
    }
    let home = context.home()?;
    let joined = sign_in::join(context, &home, link, args).await?;
    if context.output.json() {
        return context.output.object("ringway.joined/1", &joined);
    }
    welcome(context, &home, &joined.joined)
}

/// Shows that it is a member.
pub(crate) fn show_joined(context: &Context, joined: &Joined) -> Result<(), Failure> {
    context.output.either("ringway.joined/1", joined, || {
        let position = joined
            .ring_key
            .as_ref()
            .map_or_else(String::new, |key| format!("\nring key {key}"));
        let again = if joined.again { " again" } else { "" };
        format!(
            "joined {}{again} as {} ({}){position}",
            joined.ring, joined.name, joined.role
        )
    })
}

fn read_invitation(context: &Context, path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path != Path::new("-") {
        std::fs::File::open(path)
            .and_then(|file| file.take(limits::INVITATION).read_to_string(&mut text))
    } else if io::stdin().is_terminal() {
        // One line: an invitation that is typed ends with Enter, not with the input's end.
        context
            .output
            .note("Paste or type the invitation and press Enter:");
        io::stdin()
            .lock()
            .take(limits::INVITATION)
            .read_line(&mut text)
    } else {
        io::stdin()
            .lock()
            .take(limits::INVITATION)
            .read_to_string(&mut text)
    };
    let source = if path == Path::new("-") {
        "stdin".to_owned()
    } else {
        format!("`{}`", path.display())
    };
    read.map_err(|error| {
        Failure::usage(format_args!(
            "reading the invitation from {source} failed: {error}"
        ))
    })?;
    match text.trim() {
        "" => Err(Failure::usage(format_args!(
            "no invitation in {source}: `ringway ring invite NAME` makes one"
        ))),
        invite => Ok(invite.to_owned()),
    }
}

/// Runs the member daemon until a signal ends it.
pub(crate) async fn node(context: &Context, args: &NodeArgs) -> Result<(), Failure> {
    let (shutdown, reloads) = DaemonSignals::catch()?.split(args.exit_with_stdin);
    let options = Options {
        home: context.home()?,
        upload_limit: args.upload_limit,
        control: ControlPlace {
            path: args.control.clone(),
            group: args.control_group.clone(),
        },
    };
    let supervisor = Supervisor::of_environment();
    let mut shutdown = pin!(supervisor.told_of(shutdown));
    // A start may wait for the machine's clock and network.
    let daemon = tokio::select! {
        daemon = Daemon::start(options) => daemon?,
        () = &mut shutdown => return Ok(()),
        () = supervisor.starting() => return Ok(()),
    };
    let ready = daemon.ready();
    context.output.either("ringway.node/1", &ready, || {
        format!(
            "{} ({}) of {} is up, commands at {}",
            ready.name,
            ready.role,
            ready.ring,
            ready.socket.display()
        )
    })?;
    let (reloader, pulse) = (daemon.reloader(), daemon.pulse());
    let ended = tokio::select! {
        ended = daemon.run(shutdown) => ended?,
        never = reload(reloads, reloader, &supervisor, &pulse) => match never {},
        () = supervisor.watch(|| pulse.beat()) => return Ok(()),
    };
    match ended {
        Ended::Stopped => Ok(()),
        Ended::Left => {
            context
                .output
                .note("This member has left its ring for good.");
            Ok(())
        }
        Ended::Rotated => {
            context
                .output
                .note("This member has another key and goes on with that.");
            Err(restart())
        }
    }
}

/// Has the member follow its configuration whenever a signal asks for it.
async fn reload(
    mut reloads: Reloads,
    mut reloader: Reloader,
    supervisor: &Supervisor,
    pulse: &Pulse,
) -> Infallible {
    loop {
        // There are no files of its own to open again.
        if reloads.next().await == Asked::Reload {
            supervisor.reloading();
            let status = match reloader.reload().await {
                Ok(_) => pulse.beat().await.unwrap_or_default(),
                // It stands in the log as well.
                Err(error) => format!("the configuration was NOT loaded again: {error}"),
            };
            supervisor.ready(&status);
        }
    }
}

/// Puts this program in its own place, in the same process: nothing of the member that it was
/// stays behind, neither a socket nor the old key in memory, and a supervisor of the process sees
/// none end.
fn restart() -> Failure {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "ringway".into());
    // The file that runs, also if another version has been installed in its place: that one counts
    // from the next start.
    let mut command = Command::new("/proc/self/exe");
    let error = command.arg0(name).args(arguments).exec();
    Failure::failed(format_args!(
        "this member has another key, but could not go on by itself ({error}): start `ringway node` again"
    ))
}
