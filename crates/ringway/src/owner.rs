//! `ringway ring …`: the ring owner's commands.

mod address;
mod admit;
mod backup;
mod directory;
mod first;
mod judge;
mod members;
mod moving;
mod passphrase;
mod publish;
mod rotate;
mod sso;

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use ringway_node::authority::{Authority, InitOptions, InviteOptions, Server, ServerHandle, Site};
use ringway_node::certificate::Role;
use ringway_node::home;
use serde::Serialize;

use self::first::First;
use crate::acting::{Acting, another_owner};
use crate::cli::{InitArgs, InviteArgs, RevokeArgs, RingCommand, RoleArg, ServeArgs};
use crate::context::{Context, SERVICE_AUTHORITY};
use crate::signals::{Asked, DaemonSignals, Reloads};
use crate::supervisor::Supervisor;
use crate::{daemon, service};
use ringway_terminal::Failure;

/// Where a member on the authority's machine listens, unless the owner says otherwise.
const MEMBER_PORT: u16 = 7400;

#[derive(Serialize)]
struct Serving {
    domain: String,
    ring: String,
    dns: String,
    enrol: String,
    /// DNS servers of the owner's own that are kept current.
    keeps: Vec<String>,
    pid: u32,
}

#[derive(Serialize)]
struct InviteObject<'a> {
    name: &'a str,
    role: &'static str,
    /// None if it is in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    invite: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spoken: Option<String>,
    /// The file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    expires: u64,
    withdraws: bool,
}

/// Runs one of them.
pub(crate) async fn run(context: &Context, command: RingCommand) -> Result<(), Failure> {
    // The authority's daemon has threads already, each with a user of its own.
    let _acting = match &command {
        RingCommand::Serve(_) => None,
        command => {
            let dir = folder(context, command.folder().dir.clone())?;
            Some(Acting::owner_of(&dir)?)
        }
    };
    match command {
        RingCommand::Init(args) => init(context, args),
        RingCommand::Serve(args) => serve(context, &args).await,
        RingCommand::Invite(args) => invite(context, args),
        RingCommand::Link(args) => sso::link(context, args),
        RingCommand::Admit(args) => admit::run(context, &args),
        RingCommand::Members(args) => members::run(context, args.folder.dir),
        RingCommand::Address(args) => address::run(context, args).await,
        RingCommand::Directory(args) => directory::run(context, args),
        RingCommand::Revoke(args) => revoke(context, &args).await,
        RingCommand::Rotate(args) => rotate::run(context, &args).await,
        RingCommand::Move(args) => moving::run(context, args).await,
        RingCommand::Recover(args) => recover(context, args.folder.dir).await,
        RingCommand::Backup(args) => backup::back_up(context, &args),
        RingCommand::Restore(args) => backup::restore(context, &args),
        RingCommand::Promote(args) => backup::promote(context, &args).await,
        RingCommand::Publish(args) => publish::run(context, &args).await,
        RingCommand::Judge(args) => judge::run(context, args),
    }
}

/// The authority's folder: the one that was named, else the one in the home folder. Root has the
/// service's, where there is none of its own.
fn folder(context: &Context, dir: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(dir) = dir {
        return Ok(dir);
    }
    let own = context.own_home()?.join("authority");
    let service = Path::new(SERVICE_AUTHORITY);
    let chosen = context.chosen_home().is_some() || own.exists();
    let theirs = !chosen && another_owner(service).is_some();
    Ok(if theirs { service.to_owned() } else { own })
}

fn open(context: &Context, dir: Option<PathBuf>) -> Result<Authority, Failure> {
    Ok(Authority::open(&folder(context, dir)?)?)
}

fn init(context: &Context, args: InitArgs) -> Result<(), Failure> {
    let dir = folder(context, args.folder.dir)?;
    let at_dns = args.dns.address();
    let at_dns = at_dns.map(|dns| SocketAddr::new(dns.ip(), MEMBER_PORT));
    let first = match (args.member, args.listen.or(at_dns)) {
        (Some(name), Some(listen)) => Some(First { name, listen }),
        (Some(_), None) => {
            return Err(Failure::usage(
                "--member needs --listen where --dns is a host name: routers are reached at addresses",
            ));
        }
        (None, _) => None,
    };
    if let Some(first) = &first {
        first.check(context)?;
    }
    let options = InitOptions {
        domain: args.domain,
        dns: Site {
            advertised: args.dns,
            listen: args.dns_listen,
        },
        enrol: Site {
            advertised: args.enrol,
            listen: args.enrol_listen,
        },
        successors: args.successors,
        group: args.group,
        lifetime: args.lifetime,
    };
    let ring = directory::found(Authority::init(&dir, &options)?, args.directory)?;
    context.output.either("ringway.ring/1", &ring, || {
        format!(
            "ring {} founded in {}\nits identity is {}",
            ring.domain,
            dir.display(),
            ring.ring
        )
    })?;
    if let Some(first) = &first {
        daemon::show_joined(context, &first.join(context, &dir)?)?;
    }
    let next = match (service::begin(context, &dir)?, &first) {
        (true, Some(_)) => {
            service::begin(context, &context.home()?)?;
            "Next: `ringway ring invite NAME` for each other member."
        }
        (true, None) => "Next: `ringway ring invite NAME` for each member.",
        (false, Some(_)) => {
            "Next: `ringway ring serve`, `ringway node`, and `ringway ring invite NAME` for each other member."
        }
        (false, None) => {
            "Next: `ringway ring serve`, and `ringway ring invite NAME` for each member."
        }
    };
    context.output.note(next);
    if ring.dns.is_loopback() || ring.enrol.is_loopback() {
        context.output.note(
            "Only this machine can join: `ringway ring address --dns HOST:PORT --enrol HOST:PORT` says where other machines reach the authority.",
        );
    }
    Ok(())
}

async fn serve(context: &Context, args: &ServeArgs) -> Result<(), Failure> {
    // Before anything is begun: a mistake costs nothing.
    let sign_in = sso::settings(&args.sso)?;
    let (shutdown, reloads) = DaemonSignals::catch()?.split(args.exit_with_stdin);
    let supervisor = Supervisor::of_environment();
    let mut shutdown = pin!(supervisor.told_of(shutdown));
    let authority = open(context, args.folder.dir.clone())?;
    let ring = authority.ring();
    let kept = authority.kept().all()?;
    if let Err(error) = authority.check_current() {
        // Its records are better than none: nothing new is signed.
        context
            .output
            .note(&format!("No member is admitted: {error}"));
    }
    // It may wait for the machine's network.
    let server = tokio::select! {
        server = Server::bind(authority) => server?,
        () = &mut shutdown => return Ok(()),
        () = supervisor.starting() => return Ok(()),
    };
    let serving = Serving {
        domain: ring.domain,
        ring: ring.ring,
        dns: server.dns_address().to_string(),
        enrol: server.enrol_address().to_string(),
        keeps: kept.iter().map(|kept| kept.server.to_string()).collect(),
        pid: std::process::id(),
    };
    context.output.either("ringway.serving/1", &serving, || {
        format!(
            "authority of {}: DNS at {}, enrolment at {}",
            serving.domain, serving.dns, serving.enrol
        )
    })?;
    if !serving.keeps.is_empty() {
        let servers = serving.keeps.join(", ");
        context.output.note(&format!("Keeps {servers} current."));
    }
    let handle = server.handle();
    sso::apply(&handle, sign_in)?;
    let ended = tokio::select! {
        ended = server.run(shutdown) => ended,
        never = republish(reloads, &handle, &supervisor) => match never {},
        () = supervisor.watch(|| handle.beat()) => Ok(()),
    };
    Ok(ended?)
}

/// Has the zone built again whenever a signal asks for it.
async fn republish(
    mut reloads: Reloads,
    server: &ServerHandle,
    supervisor: &Supervisor,
) -> Infallible {
    loop {
        // There are no files of its own to open again.
        if reloads.next().await == Asked::Reload {
            supervisor.reloading();
            let published = server.republish().await;
            let status = match sso::reload(server) {
                Err(reason) => {
                    tracing::error!(reason, "single sign-on goes on as before");
                    format!("the options were NOT loaded again: {reason}")
                }
                Ok(()) if published => server.beat().await.unwrap_or_default(),
                Ok(()) => "the zone was NOT published again: see the log".to_owned(),
            };
            supervisor.ready(&status);
        }
    }
}

fn invite(context: &Context, args: InviteArgs) -> Result<(), Failure> {
    let role = match args.role {
        RoleArg::Router => Role::Router,
        RoleArg::Leaf => Role::Leaf,
    };
    let mut authority = open(context, args.folder.dir)?;
    let options = InviteOptions {
        name: args.name,
        role,
        valid_for: args.expires,
        spoken: args.spoken,
    };
    // Before the invite is made: it would withdraw an earlier one.
    let file = args.out.as_deref().map(SecretFile::create).transpose()?;
    let invite = authority.invite(&options)?;
    let code = match invite.spoken() {
        Some(spoken) => spoken.to_string(),
        None => invite.to_string(),
    };
    let printed = file.is_none();
    if let Some(file) = file {
        file.write(&code)?;
    }
    let object = InviteObject {
        name: &options.name,
        role: role.as_str(),
        invite: printed.then(|| invite.to_string()),
        spoken: invite
            .spoken()
            .filter(|_| printed)
            .map(|spoken| spoken.to_string()),
        file: args.out.clone(),
        expires: invite.expires,
        withdraws: invite.withdraws,
    };
    context
        .output
        .either("ringway.invite/1", &object, || match &args.out {
            Some(path) => path.display().to_string(),
            None => code.clone(),
        })?;
    let (name, time) = (&options.name, in_words(options.valid_for));
    let how = match invite.spoken() {
        None => "hand it over by a way that others cannot read; there, `ringway join`.".to_owned(),
        Some(_) => format!(
            "read it to somebody whose voice you know; there, `ringway join`, with `--at {}` where DNS does not know {}.",
            authority.ring().enrol,
            authority.ring().domain
        ),
    };
    context.output.note(&format!(
        "A one-time secret for {name}, good for {time}: {how}"
    ));
    if invite.withdraws {
        context
            .output
            .note(&format!("The earlier invite for {name} is good no more."));
    }
    Ok(())
}

/// A new file for a secret; it goes again if nothing is written to it.
struct SecretFile<'a> {
    path: &'a Path,
    file: std::fs::File,
    written: bool,
}

impl<'a> SecretFile<'a> {
    fn create(path: &'a Path) -> Result<SecretFile<'a>, Failure> {
        let file = home::create_secret(path).map_err(|error| {
            Failure::usage(format_args!(
                "{error}: name a file that is not there yet; nothing was changed"
            ))
        })?;
        Ok(SecretFile {
            path,
            file,
            written: false,
        })
    }

    fn write(mut self, secret: &str) -> Result<(), Failure> {
        let written = writeln!(self.file, "{secret}").and_then(|()| self.file.sync_all());
        written.map_err(|error| {
            Failure::failed(format_args!(
                "writing `{}` failed: {error}",
                self.path.display()
            ))
        })?;
        self.written = true;
        Ok(())
    }
}

impl Drop for SecretFile<'_> {
    fn drop(&mut self) {
        if !self.written && std::fs::remove_file(self.path).is_err() {
            tracing::warn!(path = %self.path.display(), "an empty file stays behind");
        }
    }
}

/// In the largest unit that gives a whole number.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let fitting = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit));
    match fitting {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// Names of members, or that there are none.
fn names(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

async fn recover(context: &Context, dir: Option<PathBuf>) -> Result<(), Failure> {
    let mut authority = open(context, dir)?;
    let recovered = authority.recover()?;
    context
        .output
        .either("ringway.recovered/1", &recovered, || {
            format!(
                "the ring goes on from statement {}\nended since: {}\njoined since: {}",
                recovered.statement,
                names(&recovered.ended),
                names(&recovered.members)
            )
        })?;
    if recovered.unknown > 0 {
        context.output.note(&format!(
            "{} more certificates have ended whose members are not known here.",
            recovered.unknown
        ));
    }
    publish::after_change(
        context,
        &authority,
        "what members knew is taken over",
        "what was before",
    )
    .await
}

async fn revoke(context: &Context, args: &RevokeArgs) -> Result<(), Failure> {
    let mut authority = open(context, args.folder.dir.clone())?;
    let member = match authority.revoke(&args.name) {
        Ok(member) => member,
        // No member has the name, but an open invite may still give it out.
        Err(error) if error.is_usage() && authority.invites().withdraw(&args.name)? => {
            let object = serde_json::json!({ "name": args.name });
            return context
                .output
                .either("ringway.invite-withdrawn/1", &object, || {
                    format!("the invite for {} is good no more", args.name)
                });
        }
        Err(error) => return Err(error.into()),
    };
    context.output.either("ringway.member/1", &member, || {
        format!("{} is revoked (certificate {})", member.name, member.serial)
    })?;
    let what = format!("{} is revoked", member.name);
    publish::after_change(context, &authority, &what, &member.name).await
}
