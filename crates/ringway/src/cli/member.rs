//! The member's commands: `join`, `node`, `rotate`, `send`, `transfers`, `priority`, `cancel`,
//! `ping`, `path`, `route`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use ringway_node::control::AskedPriority;
use ringway_node::endpoint::Endpoint;

use super::{deadline, values};
use crate::members::{complete_path_or_peer, complete_peer};

/// `ringway join`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway join < oslo.invite
  ringway join rwl1LINK --name laptop
  ringway join --invite oslo.invite --listen 192.0.2.7:7400
  ringway join --invite oslo.invite --advertise 203.0.113.7:7400
  ringway join --at authority.example.org:7410
  ringway join --offline --name oslo --listen 192.0.2.7:7400 > oslo.request
  ringway join --with oslo.reply

At a terminal it asks for the invitation: the long line, or a spoken one such as
7-crackdown-adviser-ragtime@ring.example.org. Either case will do, spaces instead of hyphens, and the
first letters of each word. The ring's DNS says where to join; where it does not, --at does.

With a join link, which `ringway ring link` prints: you sign in at your organisation's issuer, in a
browser on any device, and this waits until you have. --name is what you call the machine.

Where the authority cannot be reached: hand the request to the ring's owner, and tell the id that
was shown by another way, such as by telephone. The owner runs `ringway ring admit` and gives a
reply back; what it says of the ring's identity is compared with what the owner gave.

A member that was revoked, or whose certificate has run out, joins again with the home that it has:
configuration, history and transfers stay.")]
pub(crate) struct JoinArgs {
    /// The ring's join link, of those who join by signing in; no invitation, which is a secret:
    /// arguments can be read by every user of the machine
    #[arg(value_name = "LINK")]
    pub(crate) code: Vec<String>,
    /// File with the invitation; `-` is stdin
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) invite: PathBuf,
    /// Address of this machine at which a router listens, and others reach it; a leaf has none
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::socket)]
    pub(crate) listen: Option<SocketAddr>,
    /// Address at which others reach a router, if that is not the one of --listen: behind a 1:1
    /// NAT or a port forward. --listen is all addresses with its port then, unless it is given
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::socket)]
    pub(crate) advertise: Option<SocketAddr>,
    /// Where the authority enrols, if not where the invitation or the ring's DNS says
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["offline", "with"])]
    pub(crate) at: Option<Endpoint>,
    /// Print a request for admission instead, for the ring's owner; a router's with --listen, else
    /// a leaf's
    #[arg(long, requires = "name", conflicts_with = "invite")]
    pub(crate) offline: bool,
    /// The name to ask for; with a join link what you call this machine [default there: its own
    /// name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// File with the owner's reply to the request; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["invite", "offline", "listen", "advertise"])]
    pub(crate) with: Option<PathBuf>,
    /// Identity of the ring that the reply must be from; asked for at a terminal
    #[arg(long, value_name = "RING", requires = "with")]
    pub(crate) ring: Option<String>,
}

/// `ringway node`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  ringway node\n  ringway node --upload-limit 20MiB -v\n  ringway node --config /etc/ringway/node.toml"
)]
pub(crate) struct NodeArgs {
    /// Take options from this file, too: TOML, with the names that they have here without `--`, and
    /// `home`; what is given here wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The control socket [default: control.sock in the home folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// A group whose members may use the control socket, as this user may
    #[arg(long, value_name = "GROUP")]
    pub(crate) control_group: Option<String>,
    /// Most bytes a second for all sent files together, such as 20MiB
    #[arg(long, value_name = "RATE", value_parser = values::bytes)]
    pub(crate) upload_limit: Option<u64>,
    /// End when stdin closes, as it does when the process that holds its other end dies
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,
}

/// `ringway leave`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway leave
  ringway leave --yes --force

The authority ends this member's certificate, and its name is free. Then the key and the state go
from this machine; received files, evidence and ringway.toml stay. A daemon that runs leaves the
ring in order, and ends. Only another invite brings the member back, with another key.

Where the authority cannot be reached nothing happens, unless --offline is given. Then the ring's
owner has to run `ringway ring revoke NAME`.")]
pub(crate) struct LeaveArgs {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Give up files that are under way
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not tell the authority
    #[arg(long)]
    pub(crate) offline: bool,
}

/// `ringway rotate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway rotate --offline > oslo.request
  ringway rotate --with oslo.reply

For a member that cannot reach the ring's authority. Where it can, nothing has to be done here: the
ring's owner runs `ringway ring rotate NAME`, and `ringway node` does the rest.

The new key is made at once and stays in the home; the request is no secret. The owner takes it by
`ringway ring rotate NAME --request FILE`.")]
#[group(required = true, multiple = false)]
pub(crate) struct RotateArgs {
    /// Print a request for another certificate, for the ring's owner
    #[arg(long)]
    pub(crate) offline: bool,
    /// File with the owner's reply to the request; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) with: Option<PathBuf>,
}

/// `ringway send`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway send report.pdf oslo
  ringway send photos notes.txt oslo
  ringway send release.iso --to 'lab-*' --to oslo
  pg_dump shop | ringway send - oslo --name shop.sql
  ringway send backup oslo --priority 0    takes only what nobody else wants
  ringway send backup oslo --priority backup
  ringway send image.iso oslo --by 18:00
  ringway send release.iso oslo --detach

Without --to the last argument is the member. A folder arrives with all that is in it: names, modes,
times, empty folders, and links that stay inside. What is left out is said at the end: links that
lead out of the folder, sockets, pipes and devices, and this member's own home.

With --by the transfer has priority 0 as long as that is in time, and is raised only as far as it
must be, to 8 at most; `ringway transfers` shows when it is expected. After the time it goes on at
priority 1. `ringway priority ID P` takes it from its deadline, `ringway priority ID --by TIME` sets
another.

One file for several members crosses this member's line about once: those that have accepted it
learn of each other, and give each other what they have verified. With --direct all of it comes from
here, and no receiver learns of another.

Ctrl-C leaves the transfer running in the daemon; `ringway cancel ID` ends it.")]
#[command(
    override_usage = "ringway send [OPTIONS] <PATH>... <PEER>\n       ringway send [OPTIONS] <PATH>... --to <PEER>..."
)]
pub(crate) struct SendArgs {
    /// Files and folders, and last the member's name unless --to gives it; `-` is standard input
    #[arg(required = true, value_name = "PATH", add = ArgValueCompleter::new(complete_path_or_peer))]
    pub(crate) paths: Vec<PathBuf>,
    /// Name of a member, its id, or a pattern of names such as 'lab-*'; for several members give it
    /// several times
    #[arg(long, value_name = "PEER", add = ArgValueCompleter::new(complete_peer))]
    pub(crate) to: Vec<String>,
    /// What the receiver is to call it: for standard input, or a single file
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// From 0 to 1000: 0 takes only idle capacity, 1 is one TCP flow, N is N of them; or the name
    /// of a class: backup (0), work (1) or live (8), where ringway.toml has no others
    #[arg(long, value_name = "P", default_value = "1", value_parser = values::priority, allow_hyphen_values = true)]
    pub(crate) priority: AskedPriority,
    /// When it has to have arrived: 18:00, `tomorrow 06:00`, 2026-12-01T06:00 or +2h
    #[arg(long, value_name = "TIME", value_parser = deadline::by, conflicts_with = "priority")]
    pub(crate) by: Option<u64>,
    /// Send all of a file to each of several members: otherwise those that have accepted it learn
    /// of each other, and give it to each other
    #[arg(long)]
    pub(crate) direct: bool,
    /// Return as soon as the daemon has recorded the transfer
    #[arg(long)]
    pub(crate) detach: bool,
}

/// `ringway priority`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway priority 4f1c 0
  ringway priority 4f1c 2.5
  ringway priority 4f1c live
  ringway priority 4f1c --by 18:00

A priority that is given counts from then on, also for a transfer that has a deadline: the deadline
is still shown, and no longer raises anything. --by gives it a deadline, or another one.

Users of the socket's group may ask for 8 at most, or for what `max_priority` below [limits] in
ringway.toml says; the daemon's own user and root for any.")]
pub(crate) struct PriorityArgs {
    /// Id of the transfer, the stream, or a message that waits, or an unambiguous beginning of it
    pub(crate) id: String,
    /// From 0 to 1000: 0 takes only idle capacity, 1 is one TCP flow, N is N of them; or the name
    /// of a class
    #[arg(value_name = "P", value_parser = values::priority, allow_hyphen_values = true, required_unless_present = "by")]
    pub(crate) priority: Option<AskedPriority>,
    /// When it has to have arrived: 18:00, `tomorrow 06:00`, 2026-12-01T06:00 or +2h
    #[arg(long, value_name = "TIME", value_parser = deadline::by, conflicts_with = "priority")]
    pub(crate) by: Option<u64>,
}

/// `ringway cancel`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  ringway cancel 4f1c")]
pub(crate) struct CancelArgs {
    /// Id of the transfer, or an unambiguous beginning of it
    pub(crate) id: String,
}

/// `ringway ping`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  ringway ping oslo\n  ringway ping oslo --count 10\n  ringway ping oslo --through-ring"
)]
pub(crate) struct PingArgs {
    /// Name of a member, or its id
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) peer: String,
    /// How many
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    /// From router to router through the ring: by other routers, each time by another way, or
    /// directly once the peer has answered; routers only
    #[arg(long)]
    pub(crate) through_ring: bool,
}

/// `ringway path`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  ringway path oslo\n  ringway path oslo --json")]
pub(crate) struct PathArgs {
    /// Name of a member, or its id
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) peer: String,
}

/// `ringway route`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  ringway route oslo\n  ringway route --key reports/2026")]
#[group(required = true, multiple = false)]
pub(crate) struct RouteArgs {
    /// Name of a member, or its id
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) peer: Option<String>,
    /// Any text; its SHA-256 is the point on the ring
    #[arg(long, value_name = "TEXT")]
    pub(crate) key: Option<String>,
}

/// `ringway put`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway put printer ipp://192.0.2.7/queue
  date | ringway put last-backup - --for 2d
  ringway put printer --remove

A record stands under this member's name: nobody else can change or squat it, everybody in the ring can read it
(`ringway get`). It is kept by the routers around its place in the ring, which give it on as they come and go,
until its time is over; this member puts it again every hour while it runs. At most 400 bytes, and 256 records:
send a file for more.")]
pub(crate) struct PutArgs {
    /// What to call it: 1 to 64 bytes
    pub(crate) name: String,
    /// Its value; `-` reads standard input
    #[arg(required_unless_present = "remove", conflicts_with = "remove")]
    pub(crate) value: Option<String>,
    /// How long it is to last, such as 90s, 10m, 2d; at most 30d
    #[arg(long = "for", value_name = "TIME", default_value = "7d", value_parser = values::duration)]
    pub(crate) lifetime: std::time::Duration,
    /// There is to be no such record any more
    #[arg(long)]
    pub(crate) remove: bool,
}

/// `ringway get`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway get oslo printer
  ringway get oslo last-backup --json

Prints the value as it is. Ends with 1 if there is no such record. With --json: `value` is text where it is UTF-8,
`value_hex` always there; `verified` says whether the routers that keep it are known for sure.")]
pub(crate) struct GetArgs {
    /// Whose: name of a member, or its id
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) peer: String,
    /// The name that its author gave it
    pub(crate) name: String,
}
