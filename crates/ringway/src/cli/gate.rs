//! `ringway gate …`: the gateway's commands.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use ringway_gateway::eve::EveKinds;
use ringway_gateway::linux::kernel::BPFFS;
use ringway_gateway::service::EveTarget;

use super::swarms::SwarmsArgs;
use super::values;

mod preset;
mod quotas;

pub(crate) use preset::{PresetArgs, PresetChoice};
pub(crate) use quotas::QuotasArgs;

/// The gateway's folder: audit, history, kept files.
pub(crate) const STATE: &str = "/var/lib/ringway-gate";

/// The gateway's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Name the application of every flow in captures (pcap, pcapng)
    Classify(ClassifyArgs),
    /// Show a policy that comes with the program, to use or to save and edit
    Preset(PresetArgs),
    /// Read policies and run the tests in them; compile YARA rules
    Check(CheckArgs),
    /// Say what a policy would have done with captures
    Replay(ReplayArgs),
    /// Put the gateway to work on this machine: observe, or enforce a policy
    Up(Box<UpArgs>),
    /// Remove all that a gateway left in this machine's packet filter
    Down(DownArgs),
    /// Look for what the in-kernel path needs on this machine
    Doctor(DoctorArgs),
    /// What the running gateway does and has done
    Status(GateStatusArgs),
    /// The flows that cross the border, with what they carried
    Flows(FlowsArgs),
    /// What fills the line, and who: rates by application, host, rule, class or member
    Top(TopArgs),
    /// What hosts and members have used of what rules give them
    Quotas(QuotasArgs),
    /// Why a flow got what it got
    Why(WhyArgs),
    /// Give the running gateway another policy
    Apply(ApplyArgs),
    /// Keep the policy that was applied last
    Confirm(ConfirmArgs),
    /// Search what the gateway has written down
    Audit(AuditArgs),
    /// What another policy would have done with the flows that were
    Diff(DiffArgs),
    /// The torrents that were seen, and who inside was in them
    Swarms(SwarmsArgs),
}

/// Signatures beside the built-in ones.
#[derive(Clone, Debug, Args)]
pub(crate) struct SignatureArgs {
    /// A file of signatures, beside the built-in ones; can be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) signatures: Vec<PathBuf>,
}

/// How flows are looked at.
#[derive(Clone, Debug, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub(crate) signatures: SignatureArgs,

    /// Packets with data of each direction that are looked at
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) packets: u8,

    /// Where the ring's members listen: a line for each, ADDRESS:PORT and a name; a ring's own
    /// flows say who only to its members
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<PathBuf>,
}

/// `ringway gate classify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate classify border.pcapng
  tcpdump -w - -c 10000 | ringway gate classify -
  ringway gate classify --json day-*.pcap | jq 'select(.app == \"bittorrent\")'

A damaged capture gives the flows before the damage, one line on stderr and exit code 1; further files are read.")]
pub(crate) struct ClassifyArgs {
    /// The captures; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) look: LookArgs,
}

/// `ringway gate check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate check office.toml
  ringway gate check --json *.toml | jq 'select(.passed | not)'
  ringway gate check --yara /etc/ringway/rules
  ringway gate check office.toml --yara own.yar --yara /etc/ringway/rules
  ringway gate check --config /etc/ringway/gate.toml

Exit code 2 if a file is no policy, or a YARA rule is wrong (each fault has its line on stderr); 1 if one of a policy's
tests fails.")]
pub(crate) struct CheckArgs {
    /// The policies
    #[arg(required_unless_present_any = ["yara", "hashes", "config"], value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A file of options, as `gate up --config` reads it: its keys and values, and the policy, the
    /// YARA rules and the signatures that it names
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// YARA rules, compiled as `gate up` does: a file, or a folder with files that end in .yar or
    /// .yara; can be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) yara: Vec<PathBuf>,

    /// Hashes of files, as `gate up` reads them: a list in a file; can be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) hashes: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) signatures: SignatureArgs,
}

/// `ringway gate replay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate replay border.pcapng --policy office.toml
  ringway gate replay day-*.pcap --policy office.toml --json | jq 'select(.action == \"block\")'
  ringway gate replay border.pcapng --policy office.toml --yara /etc/ringway/rules

Files that a rule scans are clean here, unless --yara names rules that say otherwise. AFTER is the packet of the flow at
which it would have been decided; `-`: the flow was over before. Packets of a flow that would have been blocked are
still in the capture, and counted.")]
pub(crate) struct ReplayArgs {
    /// The captures (pcap, pcapng)
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) files: Vec<PathBuf>,

    /// The policy
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,

    /// The time zone of the policy's times, like Europe/Berlin; the machine's if none is given
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,

    /// YARA rules, for rules of the policy that scan: a file, or a folder with files that end in
    /// .yar or .yara; can be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) yara: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) look: LookArgs,
}

/// `ringway gate up`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("judged-by").required(true).multiple(true).args(["policy", "preset"]), after_help = "\
Examples:
  ringway gate up --preset vpn --inside wg0
  ringway gate up --policy office.toml --inside lan0 --outside wan0
  ringway gate up --policy office.toml --inside lan0 --outside wan0 --enforce --eve /var/log/ringway/eve.json
  ringway gate up --policy office.toml --inside lan0 --outside wan0 --eve unix:/run/collector.sock --eve-types alert,tls,dns
  ringway gate up --config /etc/ringway/gate.toml

Without --enforce everything goes on, and what would have happened is written down. Needs root, or CAP_NET_ADMIN and
CAP_NET_RAW (and CAP_BPF and CAP_PERFMON for --path kernel), and iptables; classes of bandwidth and --path kernel need tc. Runs until Ctrl-C or SIGTERM, and then takes
its rules out again. If it is killed, traffic goes on, or stops where the policy says `failure = \"closed\"`.")]
pub(crate) struct UpArgs {
    /// Take options from this file, too: TOML, with the names that they have here without `--`;
    /// what is given here wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The policy
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    /// A policy that comes with the program, in place of --policy: `ringway gate preset` lists
    /// them; `vpn` implies --late-interfaces
    #[arg(long, value_name = "PRESET", value_enum, conflicts_with = "policy")]
    pub(crate) preset: Option<PresetChoice>,

    /// An interface towards the organisation; can be given several times
    #[arg(long, value_name = "INTERFACE", required = true)]
    pub(crate) inside: Vec<String>,

    /// An interface towards the world; can be given several times; without it those of the default
    /// routes at the start
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) outside: Vec<String>,

    /// Begin also while an interface is missing, as one of a VPN or a dialled line may be: what
    /// crosses it is looked at once it is there
    #[arg(long)]
    pub(crate) late_interfaces: bool,

    /// The interfaces are ports of a bridge
    #[arg(long)]
    pub(crate) bridged: bool,

    /// Carry the policy out
    #[arg(long)]
    pub(crate) enforce: bool,

    /// Observe, whatever the file of --config says
    #[arg(long, conflicts_with = "enforce")]
    pub(crate) observe: bool,

    /// The folder of the audit
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    pub(crate) state: PathBuf,

    /// For how long the audit is kept, and files with it
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = values::duration)]
    pub(crate) keep_audit: Duration,

    /// How often a flow is reported while it lives
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration)]
    pub(crate) flows_every: Duration,

    /// For how long the history of flows is kept
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = values::duration)]
    pub(crate) keep_flows: Duration,

    /// Bytes that the history of flows may have; its oldest flows make room
    #[arg(long, value_name = "BYTES", default_value_t = 1_073_741_824)]
    pub(crate) flows_size: u64,

    /// Bytes that the audit may have; its oldest events make room
    #[arg(long, value_name = "BYTES", default_value_t = 1_073_741_824)]
    pub(crate) audit_size: u64,

    /// Bytes of the largest file that is kept itself, where a rule says `audit_file`
    #[arg(long, value_name = "BYTES", default_value_t = 67_108_864)]
    pub(crate) kept_file: u64,

    /// Bytes of all files that are kept; the oldest make room
    #[arg(long, value_name = "BYTES", default_value_t = 1_073_741_824)]
    pub(crate) kept_files: u64,

    /// Where events are written as EVE, Suricata's form: a file, `unix:PATH` for a reader at a Unix
    /// socket, or `syslog:`; can be given several times
    #[arg(long, value_name = "WHERE")]
    pub(crate) eve: Vec<EveTarget>,

    /// Kinds of events that are written as EVE; there is one of http, tls, dns and quic for each
    /// flow
    #[arg(long, value_name = "KINDS", default_value_t = EveKinds::default())]
    pub(crate) eve_types: EveKinds,

    /// Bytes that an EVE file and its predecessor, FILE.1, may have together
    #[arg(long, value_name = "BYTES", default_value_t = 1_073_741_824)]
    pub(crate) eve_size: u64,

    /// The sensor's name in events, `host`; without it the machine's name
    #[arg(long, value_name = "NAME")]
    pub(crate) sensor: Option<String>,

    /// Where Prometheus gets its figures, at /metrics; another address than one of loopback needs
    /// --metrics-public
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Let everybody who reaches the address of --metrics read the figures
    #[arg(long, requires = "metrics")]
    pub(crate) metrics_public: bool,

    /// The control socket
    #[arg(long, value_name = "PATH", default_value = CONTROL)]
    pub(crate) control: PathBuf,

    /// The first of the kernel's queues to use; each of --queues takes two
    #[arg(long, value_name = "N", default_value_t = 7_110)]
    pub(crate) queue: u16,

    /// How many pairs of queues share the flows, by their addresses, each with a thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) queues: u16,

    /// The bits of packet and connection marks to use: eight in a row
    #[arg(long, value_name = "MASK", default_value = "0x7f800000", value_parser = values::mask)]
    pub(crate) mask: u32,

    /// For how long new connections that match a blocked one are dropped at once
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration)]
    pub(crate) blocked_for: Duration,

    /// Where decisions are carried out: `kernel` also within the kernel (see `gate doctor`),
    /// `user` in this process alone, `auto` each part of it where this machine can
    #[arg(long, value_name = "PATH", value_enum, default_value_t = PathChoice::User)]
    pub(crate) path: PathChoice,

    /// Where the kernel refuses new connections that match a blocked one, with --path kernel:
    /// `xdp` in the interfaces' drivers, `tc` behind them, `auto` in those that keep their
    /// offloads
    #[arg(long, value_name = "PLACE", value_enum, default_value_t = CachePlace::Auto)]
    pub(crate) cache_at: CachePlace,

    #[command(flatten)]
    pub(crate) bpffs: BpffsArgs,

    /// The time zone of the policy's times, like Europe/Berlin; the machine's if none is given
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,

    /// Where clamd listens, for rules that scan: the path of its socket, or HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) clamd: Option<String>,

    /// YARA rules, for rules of the policy that scan: a file, or a folder with files that end in
    /// .yar or .yara; can be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) yara: Vec<PathBuf>,

    /// Hashes of files that rules which scan stop: a list in a file, a SHA-256 a line; read again
    /// when it changes; can be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) hashes: Vec<PathBuf>,

    /// Threads that scan, for each queue
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) scanners: u16,

    /// Bytes of a file that are looked at at once
    #[arg(long, value_name = "BYTES", default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(1_024..=16_777_216))]
    pub(crate) scan_window: u32,

    /// Let new connections that match a blocked one through, for measurements
    #[arg(long, hide = true)]
    pub(crate) no_connection_cache: bool,

    /// Hold packets behind a gap until it is filled, for measurements
    #[arg(long, hide = true)]
    pub(crate) no_fast_pass: bool,

    /// Let all packets wait while one waits for its scan, for measurements
    #[arg(long, hide = true)]
    pub(crate) no_hold_list: bool,

    /// Time between two looks whether the rules are as they were put in, for tests
    #[arg(long, hide = true, value_name = "TIME", value_parser = values::duration)]
    pub(crate) rules_look: Option<Duration>,

    /// A file to write once the gateway is confined, for tests
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) try_write: Vec<PathBuf>,

    /// Leave the rules in the kernel at the end, so that what is decided stays so until the next
    /// start
    #[arg(long)]
    pub(crate) leave: bool,

    /// End when stdin closes
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,

    #[command(flatten)]
    pub(crate) look: LookArgs,
}

/// Where the in-kernel path keeps its programs and maps.
#[derive(Clone, Debug, Args)]
pub(crate) struct BpffsArgs {
    /// The bpf file system, where the in-kernel path's programs and maps are; it is mounted there
    /// if it is not
    #[arg(long, value_name = "FOLDER", default_value = BPFFS)]
    pub(crate) bpffs: PathBuf,
}

/// Where decisions are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PathChoice {
    /// Within the kernel, too.
    Kernel,
    /// In user space alone.
    User,
    /// Within the kernel where it can.
    Auto,
}

/// Where the kernel refuses new connections that match a blocked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CachePlace {
    /// In drivers that keep their offloads, elsewhere behind them.
    Auto,
    /// Behind the drivers.
    Tc,
    /// In the drivers, whatever that costs.
    Xdp,
}

/// `ringway gate doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate doctor
  ringway gate doctor --clamd /run/clamav/clamd.ctl
  ringway gate doctor --json | jq -r 'select(.missing) | .name'

Exit code 1 if anything is missing that is not `optional`; `gate up --path auto` does without,
`--path kernel` refuses. Needs root, as `gate up` does.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) bpffs: BpffsArgs,

    /// Also ask this clamd how long its streams may be: the path of its socket, or HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) clamd: Option<String>,
}

/// Where the running gateway is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct ControlArgs {
    /// The control socket
    #[arg(long = "control", value_name = "PATH", default_value = CONTROL)]
    pub(crate) socket: PathBuf,
}

/// Where the daemon is asked.
pub(super) const CONTROL: &str = "/run/ringway/gate.sock";

/// `ringway gate down`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate down lan0 wan0

Nothing of the gateway is left then. While one runs, stop that first: it would put its rules back.")]
pub(crate) struct DownArgs {
    /// Interfaces whose classes of bandwidth and in-kernel filters are removed too
    #[arg(value_name = "INTERFACE")]
    pub(crate) interfaces: Vec<String>,

    /// The gateway's folder, which says how the kernel counted before
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    pub(crate) state: PathBuf,

    #[command(flatten)]
    pub(crate) bpffs: BpffsArgs,
}

/// `ringway gate status`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate status
  ringway gate status --json | jq .events_lost")]
pub(crate) struct GateStatusArgs {
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// `ringway gate flows`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate flows
  ringway gate flows --app bittorrent --json | jq .evidence

Packets and bytes are the kernel's own counts. Flows that passed without being asked about stand there as `not asked`.
Where the kernel cannot count (`ringway gate doctor`), they are those that reached the gateway.")]
pub(crate) struct FlowsArgs {
    /// Only this application
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,

    /// At most so many of each queue, the latest first, and of those that passed without being
    /// asked about, the largest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) most: usize,

    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// `ringway gate top`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate top
  ringway gate top --by host --once
  ringway gate top --by rule --json | jq 'select(.rate_to_client > 1000000)'

Keys: a, h, r, c, m group by application, host, rule, class, member; b, f, n sort by rate, flows, name;
/ filters by name; q ends.")]
pub(crate) struct TopArgs {
    /// What rows stand for
    #[arg(long, value_name = "WHAT", default_value = "app")]
    pub(crate) by: TopBy,

    /// Only rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,

    /// Print one table, of a second's rates, and end; so without a terminal
    #[arg(long)]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// What rows of `gate top` stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopBy {
    /// Applications
    App,
    /// Hosts of the own network
    Host,
    /// Rules of the policy
    Rule,
    /// Classes of bandwidth
    Class,
    /// Members of a ring
    Member,
}

/// `ringway gate why`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate flows --app bittorrent
  ringway gate why 17
  ringway gate why 17 --pcap flow-17.pcap

Of each flow the first packets are kept until it is decided, 512 bytes of each, and those that named its application, decided
it or had it stopped; also of flows that are over, until 32 MiB are full and the oldest make room.")]
pub(crate) struct WhyArgs {
    /// The flow's number in `ringway gate flows` or `gate audit --json`
    #[arg(value_name = "FLOW")]
    pub(crate) flow: u64,

    /// Write the packets that were kept into a capture
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// `ringway gate apply`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate apply office.toml --confirm 60s && ringway gate confirm
  ringway gate apply office.toml --enforce --confirm 5m

The policy is checked and its tests are run first; nothing changes if anything is wrong with it. With --confirm the
earlier policy and mode come back by themselves unless `ringway gate confirm` comes in time. Decided flows stay decided.")]
pub(crate) struct ApplyArgs {
    /// The policy
    #[arg(value_name = "FILE")]
    pub(crate) policy: PathBuf,

    /// Go back after this time unless it is confirmed
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) confirm: Option<Duration>,

    /// Carry the policy out from now on
    #[arg(long, conflicts_with = "observe")]
    pub(crate) enforce: bool,

    /// Only observe from now on
    #[arg(long)]
    pub(crate) observe: bool,

    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// `ringway gate confirm`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate apply office.toml --confirm 60s && ringway gate confirm")]
pub(crate) struct ConfirmArgs {
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// `ringway gate audit`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate audit --since 1h --app bittorrent
  ringway gate audit --json --most 100000 > events.json
  ringway gate audit --flows --since 7d --app bittorrent --by host")]
pub(crate) struct AuditArgs {
    /// Search the history of flows, with what each carried, in place of events
    #[arg(long)]
    pub(crate) flows: bool,

    /// With --flows: add up what flows carried, by this
    #[arg(long, value_name = "WHAT", requires = "flows")]
    pub(crate) by: Option<TopBy>,

    /// Only events of this application
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Option<String>,

    /// Only events of this rule
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,

    /// Only events in which this address takes part
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,

    /// Only events of the flow of this number
    #[arg(long, value_name = "N", conflicts_with = "flows")]
    pub(crate) flow: Option<u64>,

    /// Only events of this last span of time
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) since: Option<Duration>,

    /// At most so many, the latest; with --by all are added up
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) most: usize,

    /// The folder of the audit
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    pub(crate) state: PathBuf,
}

/// `ringway gate diff`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway gate diff stricter.toml --since 7d
  ringway gate diff stricter.toml --json | jq 'select(.to.action == \"block\") | .hosts'

Flows are decided again from what the history says of them. What it does not tell is counted, not guessed: flows that passed
without being asked about where the policy asks for applications, and what files and messages would have decided.")]
pub(crate) struct DiffArgs {
    /// The other policy
    #[arg(value_name = "POLICY")]
    pub(crate) policy: PathBuf,

    /// Only flows of this last span of time
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) since: Option<Duration>,

    /// The time zone of the policy's times, like Europe/Berlin; the machine's if none is given
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,

    #[command(flatten)]
    pub(crate) signatures: SignatureArgs,

    /// The folder of the gateway
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    pub(crate) state: PathBuf,
}
