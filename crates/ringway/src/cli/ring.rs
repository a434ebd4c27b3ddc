//! `ringway ring …`: the ring owner's commands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ringway_node::authority::DnsServer;
use ringway_node::endpoint::Endpoint;

use super::addresses::{AddressArgs, MoveArgs};
use super::backup::{BackupArgs, PromoteArgs, RestoreArgs};
use super::sso::{LinkArgs, SsoArgs};
use super::values;

/// The ring owner's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum RingCommand {
    /// Found a ring: make its key and the folder of its authority
    Init(InitArgs),
    /// Run the authority: the ring's DNS zone and the enrolment of invited members
    Serve(ServeArgs),
    /// Make a one-time invitation for a new member; the code goes to stdout or to a file
    Invite(InviteArgs),
    /// Print what people need to join by signing in (`ring serve --oidc`): the ring's public key
    /// and where it enrols, no secret
    Link(LinkArgs),
    /// Admit a member that cannot reach the authority, by the request that it has written; the
    /// reply goes to stdout
    Admit(AdmitArgs),
    /// List the members and what became of their invitations
    Members(MembersArgs),
    /// Show where the authority is, or change it: members learn the new addresses by themselves
    Address(AddressArgs),
    /// Say who may see who is in the ring: the owner, or every member
    Directory(DirectoryArgs),
    /// Remove a member for good
    Revoke(RevokeArgs),
    /// Have a member change its key; its name, its role and its address stay
    Rotate(RingRotateArgs),
    /// Have a router go on at another address: its name, its files and its links stay
    Move(MoveArgs),
    /// Take over what members know more than this authority, whose folder is an old copy
    Recover(RecoverArgs),
    /// Write all that the authority is into one encrypted file
    Backup(BackupArgs),
    /// Make a standby of a backup, or look into it
    Restore(RestoreArgs),
    /// Make a standby the ring's authority, in the place of the one before
    Promote(PromoteArgs),
    /// Bring the ring's records to a DNS server of your own: as a zone file, or by signed updates
    Publish(PublishArgs),
    /// Judge evidence that a router lies: a file that members keep in their homes below `evidence`
    Judge(JudgeArgs),
}

impl RingCommand {
    /// Where the authority lives.
    pub(crate) fn folder(&self) -> &AuthorityFolder {
        match self {
            RingCommand::Init(args) => &args.folder,
            RingCommand::Serve(args) => &args.folder,
            RingCommand::Invite(args) => &args.folder,
            RingCommand::Link(args) => &args.folder,
            RingCommand::Admit(args) => &args.folder,
            RingCommand::Members(args) => &args.folder,
            RingCommand::Address(args) => &args.folder,
            RingCommand::Directory(args) => &args.folder,
            RingCommand::Revoke(args) => &args.folder,
            RingCommand::Rotate(args) => &args.folder,
            RingCommand::Move(args) => &args.folder,
            RingCommand::Backup(args) => &args.folder,
            RingCommand::Restore(args) => &args.folder,
            RingCommand::Promote(args) => &args.folder,
            RingCommand::Recover(args) => &args.folder,
            RingCommand::Publish(args) => &args.folder,
            RingCommand::Judge(args) => &args.folder,
        }
    }
}

/// Where the authority lives.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuthorityFolder {
    /// Folder of the authority [default: authority in the home folder; root's, where there is none
    /// but the service, is the service's]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// `ringway ring init`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring init ring.example.org --dns 192.0.2.1:53 --enrol 192.0.2.1:7410
  ringway ring init ring.example.org --dns authority.example.org:53 --enrol authority.example.org:7410
  ringway ring init ring.example.org --dns 192.0.2.1:53 --enrol 192.0.2.1:7410 --member oslo
  ringway ring init ring.example.org --dns 203.0.113.7:53 --dns-listen 10.0.0.2:7453 --enrol 203.0.113.7:7410

What --dns and --enrol say is given to members, who resolve host names each time. Behind a 1:1 NAT or
a port forward it is the outer address. `ringway ring address` changes all four later.")]
pub(crate) struct InitArgs {
    /// Domain of the ring; its members' certificates are published below it
    pub(crate) domain: String,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
    /// Where members ask the embedded DNS server, UDP and TCP
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7453")]
    pub(crate) dns: Endpoint,
    /// Where that listens [default: at the address of --dns if that is this machine's, else at all
    /// addresses with its port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::socket)]
    pub(crate) dns_listen: Option<SocketAddr>,
    /// Where invited members enrol, TCP
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7410")]
    pub(crate) enrol: Endpoint,
    /// Where that listens [default: as for --dns-listen]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::socket)]
    pub(crate) enrol_listen: Option<SocketAddr>,
    /// Make this machine a member as well, a router of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    /// Where other members reach that member [default: port 7400 at the address of --dns]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::socket, requires = "member")]
    pub(crate) listen: Option<SocketAddr>,
    /// Length of the routers' successor lists; the ring survives one fewer neighbours lost at once
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = values::successors)]
    pub(crate) successors: usize,
    /// Members of the groups that keep each other honest: an odd number from 5 to 15. More
    /// withstand more malicious routers, and exchange more messages; it cannot be changed later
    #[arg(long, value_name = "G", default_value_t = 9, value_parser = values::group)]
    pub(crate) group: usize,
    /// How long certificates are valid, from 10s to 365d; members renew theirs by themselves
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = values::duration)]
    pub(crate) lifetime: Duration,
    /// Who may see who is in the ring; `ringway ring directory` changes it later
    #[arg(long, value_enum, default_value = "owner")]
    pub(crate) directory: DirectoryArg,
}

/// Who may see who is in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectoryArg {
    /// The ring's owner; members know those that they have to do with
    Owner,
    /// Every member gets names and roles from the authority
    Members,
}

/// `ringway ring directory`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring directory
  ringway ring directory members

With `members`, each member gets the list from the authority over an encrypted connection that its own
key opens; `ringway members` shows it, completion and suggestions of names use it. A malicious member
gets it as well.")]
pub(crate) struct DirectoryArgs {
    /// Who may; without it, who does now
    #[arg(value_enum)]
    pub(crate) who: Option<DirectoryArg>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring serve`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  ringway ring serve\n  ringway ring serve --dir /srv/ring --json\n  ringway ring serve --oidc https://sso.example.org --group staff\n  ringway ring serve --config /etc/ringway/authority.toml"
)]
pub(crate) struct ServeArgs {
    /// Take options from this file, too: TOML, with the names that they have here without `--`, and
    /// `home`; what is given here wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
    /// End when stdin closes, as it does when the process that holds its other end dies
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,
    /// Who may join by signing in.
    #[command(flatten)]
    pub(crate) sso: SsoArgs,
}

/// A member's place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Has a position in the ring; needs a reachable address
    Router,
    /// Reached through routers: behind NAT, roaming
    Leaf,
}

/// `ringway ring invite`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring invite oslo --out oslo.invite
  ringway ring invite alice --role leaf --expires 2h
  ringway ring invite alice --role leaf --spoken

A spoken invite is a number, three words and the ring's domain, to be read aloud over a telephone.
Three wrong tries make it worthless.")]
pub(crate) struct InviteArgs {
    /// Name of the new member, unique in the ring
    pub(crate) name: String,
    /// Router or leaf
    #[arg(long, value_enum, default_value = "router")]
    pub(crate) role: RoleArg,
    /// How long the code is good for, such as 30m, 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = values::duration)]
    pub(crate) expires: Duration,
    /// Print a number and three words to be read aloud, instead of the long line
    #[arg(long)]
    pub(crate) spoken: bool,
    /// Write the code to a new file that only you can read, instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring admit`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring admit oslo.request > oslo.reply
  ringway ring admit oslo.request --member NQ4SBXAB7GLBDXPF > oslo.reply

Anybody can make a request in anybody's name: compare the id that is shown with the one that the
new member has given by another way. Admitting the same request again gives the reply again.")]
pub(crate) struct AdmitArgs {
    /// File with the request; `-` is stdin
    pub(crate) request: PathBuf,
    /// The id that the new member gave you, or the first 16 or more characters of it; asked for at
    /// a terminal
    #[arg(long, value_name = "ID")]
    pub(crate) member: Option<String>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring members`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  ringway ring members\n  ringway ring members --json")]
pub(crate) struct MembersArgs {
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring revoke`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  ringway ring revoke alice")]
pub(crate) struct RevokeArgs {
    /// Name of the member
    pub(crate) name: String,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring rotate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring rotate oslo
  ringway ring rotate oslo --within 30d
  ringway ring rotate oslo --request oslo.request > oslo.reply

The member is notified within seconds and does the rest by itself: it makes a key that never leaves
it, gets a certificate for that, and goes on, with the files that are under way. From then on the
old certificate counts no more, as if it were revoked. A member whose daemon does not run does it
when it is started next.

With --request: for a member that cannot reach the authority. It has written the request by
`ringway rotate --offline`, and takes the reply by `ringway rotate --with`.

Not for a key that somebody has stolen: the thief could be faster. `ringway ring revoke` that
member, and invite it again.")]
pub(crate) struct RingRotateArgs {
    /// Name of the member
    pub(crate) name: String,
    /// For how long the member may do it, such as 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = values::duration, conflicts_with = "request")]
    pub(crate) within: Duration,
    /// File with the member's request; `-` is stdin; the reply goes to stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring recover`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring recover

For an authority whose folder was restored from a backup. Members bring to `ringway ring serve` what
its owner has stated since, within about a minute, and their own certificates. Until this command
has taken that over, no member is invited, admitted or revoked: a statement without it would bring
revoked members back. Let `ringway ring serve` run for some minutes first, so that many members have
come. One that joined after the backup and comes later is taken in by itself.")]
pub(crate) struct RecoverArgs {
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring publish`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway ring publish
  ringway ring publish --zone-file /etc/knot/example.org.zone
  ringway ring publish --to ns1.example.org --tsig-key ring-update.key
  ringway ring publish --to ns1.example.org --tsig-key ring-update.key --keep

With --to the server's TXT records are compared with the ring, and what differs is changed by
dynamic update (RFC 2136), signed with the key (TSIG). The key file is what `tsig-keygen NAME`
or `keymgr -t NAME hmac-sha256` writes; only its owner may be able to read it. A server with
--keep is updated by `ringway ring serve` and `ringway ring revoke` from then on, and --to
alone is enough for it.")]
pub(crate) struct PublishArgs {
    /// The file to write; without it the zone goes to stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) zone_file: Option<PathBuf>,
    /// The primary DNS server of the zone, to be updated; the port is 53 unless given
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "zone_file")]
    pub(crate) to: Option<DnsServer>,
    /// File with the key that signs the updates
    #[arg(long, value_name = "FILE", requires = "to")]
    pub(crate) tsig_key: Option<PathBuf>,
    /// Keep this server current from now on
    #[arg(long, requires = "to")]
    pub(crate) keep: bool,
    /// Keep this server current no longer; what it has stays there
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["zone_file", "to"])]
    pub(crate) forget: Option<DnsServer>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}

/// `ringway ring judge`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  ringway ring judge ~/.local/share/ringway/evidence/*.evidence\n  ringway ring judge oslo.evidence --ring RING\n\nNothing is asked of anybody: what is signed in the file and the owner's key decide. Exit code 0 if the file proves a lie, 1 if not. What\nfollows from it is the owner's decision: `ringway ring rotate NAME` gives the router a new key,\n`ringway ring revoke NAME` removes it for good."
)]
pub(crate) struct JudgeArgs {
    /// The files of evidence
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Identity of the ring [default: that of the authority in the folder, or of the ring that
    /// this member belongs to]
    #[arg(long, value_name = "RING")]
    pub(crate) ring: Option<String>,
    /// Where the authority is.
    #[command(flatten)]
    pub(crate) folder: AuthorityFolder,
}
