//! The command line: one clap definition from which the parser, `--help`, the man pages, the
//! completions and `docs/reference/cli.md` are made.

mod addresses;
mod backup;
mod deadline;
mod doctor;
mod file;
mod gate;
mod inbox;
mod member;
mod msg;
mod ring;
mod service;
mod sso;
mod stream;
mod swarms;
mod transfers;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

pub(crate) use addresses::{AddressArgs, MoveArgs};
pub(crate) use backup::{BackupArgs, PromoteArgs, RestoreArgs};
pub(crate) use deadline::shown;
pub(crate) use doctor::CheckupArgs;
pub(crate) use file::{gate_options, serve_options, with_file};
pub(crate) use gate::{
    ApplyArgs, AuditArgs, CachePlace, CheckArgs, ClassifyArgs, ConfirmArgs, DiffArgs, DoctorArgs,
    DownArgs, FlowsArgs, GateCommand, GateStatusArgs, LookArgs, PathChoice, PresetArgs, QuotasArgs,
    ReplayArgs, STATE, SignatureArgs, TopArgs, TopBy, UpArgs, WhyArgs,
};
pub(crate) use inbox::{InboxArgs, InboxCommand};
pub(crate) use member::{
    CancelArgs, GetArgs, JoinArgs, LeaveArgs, NodeArgs, PathArgs, PingArgs, PriorityArgs, PutArgs,
    RotateArgs, RouteArgs, SendArgs,
};
pub(crate) use msg::MsgArgs;
pub(crate) use ring::{
    AdmitArgs, DirectoryArg, DirectoryArgs, InitArgs, InviteArgs, JudgeArgs, PublishArgs,
    RevokeArgs, RingCommand, RingRotateArgs, RoleArg, ServeArgs,
};
pub(crate) use service::{ServiceCommand, ServiceInstallArgs, ServiceName, ServiceRemoveArgs};
pub(crate) use sso::{LinkArgs, SsoArgs};
pub(crate) use stream::{ConnectArgs, ForwardArgs, ServicesArgs};
pub(crate) use swarms::SwarmsArgs;
pub(crate) use transfers::TransfersArgs;

/// What stands below the options in `ringway members --help`.
const MEMBERS_HELP: &str = "\
Examples:
  ringway members
  ringway members --json

The ring has no list of its members: these are the ones whose certificates this member has seen, with
whom it has links or transfers, and those on the owner's list where the owner gives it
(`ringway ring directory members`). REACHABLE is `yes` where there is a link now, `no` where the last
try to make one has failed. LAST HEARD counts from this daemon's start. VERSION is what the member
says of itself.";

/// What stands below the options in `ringway --help`.
const EXAMPLES: &str = "\
Examples:
  ringway demo --once                      the whole of it on this machine, no root
  ringway ring init example.org            found a ring; this machine is its authority
  ringway ring invite alice --role leaf    a one-time code for a new member
  ringway join < invitation.txt            enrol this machine
  ringway send report.pdf oslo             send a file to a member by name
  ringway forward 2222 oslo/ssh            reach a service of a member
  ringway gate classify border.pcapng      name the application of every flow
  ringway doctor                           what stands in the way, and the mend

`ringway help COMMAND` is `ringway COMMAND --help`.
Exit codes: 0 done, 1 failed, 2 wrong usage.
Environment: RINGWAY_HOME (as --home), RINGWAY_LOG or RUST_LOG (log filter, such as
ringway_node=debug), NO_COLOR.";

/// Words that people try for a command that is called otherwise.
pub(crate) const MEANT: &[(&str, &str)] = &[
    ("create", "ring init"),
    ("new", "ring init"),
    ("authority", "ring serve"),
    ("add", "ring invite"),
    ("remove", "ring revoke"),
    ("kick", "ring revoke"),
    ("ban", "ring revoke"),
    ("backup", "ring backup"),
    ("restore", "ring restore"),
    ("promote", "ring promote"),
    ("enrol", "join"),
    ("enroll", "join"),
    ("quit", "leave"),
    ("start", "node"),
    ("run", "node"),
    ("daemon", "node"),
    ("cp", "send"),
    ("copy", "send"),
    ("push", "send"),
    ("list", "transfers"),
    ("ls", "transfers"),
    ("recv", "inbox"),
    ("receive", "inbox"),
    ("received", "inbox"),
    ("incoming", "inbox"),
    ("accept", "inbox accept"),
    ("allow", "inbox accept"),
    ("refuse", "inbox refuse"),
    ("reject", "inbox refuse"),
    ("decline", "inbox refuse"),
    ("deny", "inbox refuse"),
    ("history", "inbox"),
    ("tunnel", "forward"),
    ("proxy", "forward"),
    ("peers", "members"),
    ("who", "members"),
    ("firewall", "gate up"),
    ("block", "gate up"),
    ("log", "gate audit"),
    ("logs", "gate audit"),
    ("stop", "cancel"),
    ("check", "doctor"),
    ("diagnose", "doctor"),
    ("debug", "doctor"),
    ("health", "doctor"),
    ("troubleshoot", "doctor"),
    ("verify", "doctor"),
];

/// What `--version` says: the release, and the commit with its date.
pub(crate) const VERSION: &str = if ringway_node::INSECURE {
    concat!(
        env!("CARGO_PKG_VERSION"),
        " (",
        env!("RINGWAY_COMMIT"),
        ") INSECURE: links are not encrypted; for benchmarks only"
    )
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("RINGWAY_COMMIT"), ")")
};

/// A members-only peer-to-peer network, and the gateway that governs its border.
#[derive(Debug, Parser)]
#[command(name = "ringway", version = VERSION, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Folder with this member's identity, certificate and transfers [default: $RINGWAY_HOME, else
    /// $XDG_DATA_HOME/ringway, else ~/.local/share/ringway]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) home: Option<PathBuf>,
    /// Print results as JSON, one object a line, each with a `schema` field, and errors as such on
    /// stderr; `man`, `completions`, `--help` and `--version` print text all the same
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no notes on stderr, and of a daemon's log warnings only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// More of the log on stderr; may be repeated
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main job on one machine: a ring of separate processes on loopback, real transfers,
    /// a killed router, classified captures, and a gateway at work in namespaces of its own
    Demo(DemoArgs),
    /// The part of the demo in namespaces of its own; it begins it
    #[command(hide = true)]
    DemoBorder,
    /// The ring owner's work: found a ring, serve it, invite and revoke members, have them change
    /// their keys
    #[command(subcommand, arg_required_else_help = true)]
    Ring(RingCommand),
    /// Enrol this machine as a member: by an invitation read from stdin or a file, or by a request
    /// and the owner's reply
    Join(JoinArgs),
    /// Run the member daemon in the foreground
    Node(NodeArgs),
    /// Change this member's key where the authority cannot be reached: by a request and the owner's
    /// reply
    Rotate(RotateArgs),
    /// Leave the ring for good
    Leave(LeaveArgs),
    /// Show what the member daemon sees: the ring around it, its links, its counters
    #[command(after_help = "Examples:\n  ringway status\n  ringway status --json")]
    Status,
    /// List the members that this one knows of: who is reachable, when they were last heard, and
    /// which release they run
    #[command(after_help = MEMBERS_HELP)]
    Members,
    /// Send files and folders to members by name
    Send(SendArgs),
    /// List what other members have offered, and accept or refuse what waits for an answer
    Inbox(InboxArgs),
    /// List the transfers of the member daemon
    Transfers(TransfersArgs),
    /// List the services of this member, or those that a member offers to it
    Services(ServicesArgs),
    /// Have a port or a Unix socket of this machine lead to a service of a member, or be a SOCKS5
    /// proxy to all of them
    Forward(ForwardArgs),
    /// Join standard input and output with a service of a member, as for ssh's ProxyCommand
    Connect(ConnectArgs),
    /// List the open streams to and from services
    #[command(after_help = "Examples:\n  ringway streams\n  ringway streams --json")]
    Streams,
    /// Change the priority of a transfer or a stream, also while it runs
    Priority(PriorityArgs),
    /// Give a transfer up
    Cancel(CancelArgs),
    /// Measure the way to a member
    Ping(PingArgs),
    /// Show every way to a member, which one is used, and why the others are not
    Path(PathArgs),
    /// Find the router that is responsible for a member or a key, and the hops to it
    Route(RouteArgs),
    /// Send messages to members, and read those that come
    Msg(MsgArgs),
    /// Leave a small signed record in the ring
    Put(PutArgs),
    /// Find a record of a member
    Get(GetArgs),
    /// The gateway: which application each flow is, and what happens to it
    #[command(subcommand, arg_required_else_help = true)]
    Gate(GateCommand),
    /// The daemons as services of systemd, where no package has made them so
    #[command(subcommand, arg_required_else_help = true)]
    Service(ServiceCommand),
    /// Says where the benchmarks are: `ringway-bench`
    #[command(hide = true, disable_help_flag = true)]
    Bench(MovedArgs),
    /// Look for what stands in the way on this machine, and name the mend: clock, DNS, ports, NAT,
    /// firewall, permissions, certificate, disk
    Doctor(CheckupArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  ringway completions bash > ~/.local/share/bash-completion/completions/ringway"
    )]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one page per command into a folder
    #[command(
        after_help = "Examples:\n  ringway man | man -l -\n  ringway man --dir ~/.local/share/man/man1"
    )]
    Man(ManArgs),
}

/// `ringway demo`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  ringway demo\n  ringway demo --once --json\n  ringway demo --once --size 64 --captures border.pcapng"
)]
pub(crate) struct DemoArgs {
    /// End by itself: 0 if every check passed, 1 if not; otherwise the ring stays up until Ctrl-C
    #[arg(long)]
    pub(crate) once: bool,
    /// Size of the first file in MiB; the second has half of it
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(crate) size: u32,
    /// Captures (pcap, pcapng) to classify beside the built-in samples
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) captures: Vec<PathBuf>,
    /// Keep the temporary folder with all homes and logs
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Arguments of a command that has moved.
#[derive(Clone, Debug, Args)]
pub(crate) struct MovedArgs {
    /// Whatever it took
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<OsString>,
}

/// `ringway completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `ringway man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for one page per command; without it the main page goes to stdout
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The whole reference as one Markdown page on stdout
    #[arg(long, hide = true, conflicts_with = "dir")]
    pub(crate) markdown: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        fn walk(command: &clap::Command) {
            let leaf = command.get_subcommands().next().is_none() && !command.is_hide_set();
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                !leaf || help.contains("ringway "),
                "`{}` has no example",
                command.get_name()
            );
            command.get_subcommands().for_each(walk);
        }
        walk(&Cli::command());
    }
}
