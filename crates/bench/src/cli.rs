//! The command line of `ringway-bench`: one clap definition for the parser and `--help`.

use std::path::PathBuf;

use crate::report::{RecordArgs, ReportArgs};

use clap::{ArgAction, Args, Parser, Subcommand};

/// The project's own figures, measured on this machine, beside their limits and their peers.
#[derive(Debug, Parser)]
#[command(name = "ringway-bench", version, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Options of every benchmark.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to measure.
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// Options of every benchmark.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// Print figures as JSON, one object a line, and errors as such on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// More of the log on stderr; may be repeated
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Messages over each transport: one after the other, as many as go, and what an idle pair
    /// costs
    Transport(TransportArgs),
    /// Stored messages between programs of two members: daemons, databases and signatures included
    Messages(MessagesArgs),
    /// Priorities beside the kernel's TCP over emulated lines, in namespaces of their own
    Dtl(DtlArgs),
    /// Lookups in rings with malicious routers, churn and loss: by the verified rule, the paper's
    /// and plain Chord
    Overlay(OverlayArgs),
    /// What crosses the gateway, beside plain forwarding and NAT, in namespaces of their own
    Gate(GateBenchArgs),
    /// Many small files from one host to another, beside rsync, tar, croc and sendme, in namespaces
    /// of their own
    Files(FilesArgs),
    /// Streams to services: throughput beside socat, HAProxy and dumbpipe, first bytes, keystrokes
    /// beside a transfer
    Streams(StreamsArgs),
    /// Make docs/benchmarks.md from the runs in benches/results
    Report(ReportArgs),
    /// Keep the figures of a benchmark as runs in benches/results
    Record(RecordArgs),
}

/// `ringway-bench streams`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench streams --quick
  ringway-bench streams --only throughput
  ringway-bench streams --json > streams.json

Two members run the program `ringway`, which stands beside this one. throughput: one connection on loopback through a forward, socat, HAProxy
and a pair of dumbpipes in turns; a proxy that is missing is left out, and said so on stderr, and so is dumbpipe where there is a route
out of the machine (`unshare -n`). first-byte, of a service that greets, in round trips of a line of 20 ms; keystrokes, the slowest of a hundred beyond that round trip, alone and beside a transfer at priority 0 on 10 Mbit/s: these need
root, iproute2 and nftables.")]
pub(crate) struct StreamsArgs {
    /// One round, and fewer first bytes and keystrokes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds of throughput
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = rounds)]
    pub(crate) rounds: usize,
    /// Only these of throughput, first-byte, keystrokes
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// At least one.
fn rounds(text: &str) -> Result<usize, String> {
    let rounds = text
        .parse()
        .ok()
        .filter(|rounds| (1..=1_000).contains(rounds));
    rounds.ok_or_else(|| "1 to 1000 rounds are measured".to_owned())
}

/// `ringway-bench messages`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench messages
  ringway-bench messages --count 100000 --size 1000 --runs 1

Starts a ring of two members by the program `ringway` beside this one, on loopback. One program
gives a member its messages in batches of 1 000; another follows the other member's, compares each,
and marks them as read.")]
pub(crate) struct MessagesArgs {
    /// Messages of a run
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,
    /// Bytes of each, 8 at least
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) size: usize,
    /// Runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
}

/// Where the gateway carries decisions out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PathChoice {
    /// Within the kernel, too.
    Kernel,
    /// In user space alone.
    User,
    /// Within the kernel where it can.
    Auto,
}

/// Whether cards join packets (TSO, GSO, GRO).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Offloads {
    /// Up to 64 kB.
    On,
    /// Each has at most 1 500 bytes.
    Off,
}

/// `ringway-bench gate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench gate --quick
  ringway-bench gate --clamd /run/clamav/clamd.ctl --json > gate.json
  ringway-bench gate --only nat,filter --rounds 5
  ringway-bench gate --only cache,stages,memory,ndpi
  ringway-bench gate --only fast-pass --rattan target/tools/bin/rattan --rounds 1 --seconds 15
  ringway-bench gate --only nat,classify,rules-20,rules-200 --path user,kernel --offloads on,off --plots target/bench
  ringway-bench gate --only drops,programs,others --path user,kernel --clamd /run/clamav/clamd.ctl
  ringway-bench gate --windows --clamd /run/clamav/clamd.ctl
  ringway-bench gate --chat --only nat,scan --clamd /run/clamav/clamd.ctl

Three namespaces; a hundred clients load files of 2 MB over HTTP, and iperf3 has one and eight connections. Forwarding, NAT and
the gateway's configurations take turns, and each is shown as a share of NAT; beside them squid, to which the files'
connections are redirected, with the same filter of names, and with c-icap and clamd. Client, server and gateway share
this machine's cores. Needs root, iproute2, iptables and iperf3; stages, memory and ndpi do without.

rules-20 and rules-200: so many rules on applications of which nothing comes. telegram: a rule on what may begin with any bytes.
suricata: the same load through Suricata, if it is installed.

cache: 64 clients reconnect to a blocked service all the time, alone and beside 8 that load files. drops: one core sends SYNs to it as fast as it
can, and 20000 a second, for at most 30 seconds each; nft copies them on their way. fast-pass: a file of 300 MB over lines with loss
and delay, whole where nothing is lost at random, else for at most --seconds. others: 8 connections of iperf3 beside files that clamd scans. class: four
downloads in a class of 2 Mbit/s for three times --seconds, and questions of a few bytes in it meanwhile. programs: what
a packet costs on each path, what the kernel's programs take of it, and the memory of their maps. stages: each stage of a packet
alone, from memory. memory: what a process grows by for 10 000 to 1 000 000 flows. ndpi: recall and precision beside ndpiReader.
--quick measures the throughput by configuration only, unless --only asks for more.")]
pub(crate) struct GateBenchArgs {
    /// One round of 1.5 seconds each; the configurations take three minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// How throughput depends on the size of scan windows instead, from 1 to 120 KiB; scanned by
    /// rules if there is no --clamd
    #[arg(long, conflicts_with_all = ["chat", "only"])]
    pub(crate) windows: bool,
    /// How long a line of chat takes there and back instead, alone and beside 50 downloads; what
    /// scans is measured without the list of packets that wait as well, so that all wait while
    /// one does
    #[arg(long)]
    pub(crate) chat: bool,
    /// Only these of forward, nat, queue, classify, rules-20, rules-200, telegram, filter, audit,
    /// scan, yara, proxy, proxy-scan, suricata (shares are stated where nat is one of them), and of
    /// the parts beside them: cache, drops, fast-pass, class, others, programs, stages, memory,
    /// ndpi, history
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Where the gateway carries its decisions out: `user`, `kernel`, or one after the other in
    /// each round
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "user"
    )]
    pub(crate) path: Vec<PathChoice>,
    /// Whether packets travel joined up to 64 kB, as network cards' offloads join them (`on`), or
    /// each with at most 1 500 bytes (`off`), or one after the other in each round: `on,off`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "on")]
    pub(crate) offloads: Vec<Offloads>,
    /// How many queues the gateway has, each with a thread
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) queues: u16,
    /// Where clamd listens, for the configuration that scans
    #[arg(long, value_name = "PATH")]
    pub(crate) clamd: Option<PathBuf>,
    /// The emulator of lines, for `fast-pass`: rattan 0.1.1, which `make bench-gate` installs
    #[arg(long, value_name = "PATH")]
    pub(crate) rattan: Option<PathBuf>,
    /// Folder for plots, as SVG: figure-7 (throughput) and figure-8 (processor time) by
    /// configuration, figure-9 (drops of the connection cache), figure-10 (fast pass), of what is
    /// measured
    #[arg(long, value_name = "DIR", conflicts_with_all = ["windows", "chat"])]
    pub(crate) plots: Option<PathBuf>,
    /// A folder with labels.tsv and given/, captures whose flows are known, for `ndpi`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) captures: Option<PathBuf>,
    /// Make so many flows and say what the process grew by
    #[arg(long, hide = true, value_name = "STATE:FLOWS")]
    pub(crate) memory_of: Option<crate::gate::Held>,
}

/// `ringway-bench files`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench files --quick
  ringway-bench files --json > files.json
  ringway-bench files --only ringway,rsync --files 20000 --round-trip 100

Sender, receiver and authority are hosts of their own on a switch; each cable has a quarter of the round trip, and no limit of
its rate. The same folder goes by `ringway send`, by `rsync -a` to a daemon of rsync, by tar into tar over one TCP connection
(neither encrypts), by croc and sendme without others' relays, and by tar over Tailscale. Needs root, iproute2, nftables and
/dev/net/tun; what is beside us needs rsync, socat, tar, croc (`go install github.com/schollz/croc/v10@latest`), sendme
(`cargo install sendme`), and tailscaled, tailscale and tailscale-control (benches/tailscale/control_test.go).")]
pub(crate) struct FilesArgs {
    /// 10000 files once; ends within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Files [default: 100000, with --quick 10000]
    #[arg(long, value_name = "N")]
    pub(crate) files: Option<usize>,
    /// Bytes of each
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) bytes: usize,
    /// Milliseconds there and back
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub(crate) round_trip: u64,
    /// Runs [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Only these
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<crate::files::Sender>,
}

/// `ringway-bench transport`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench transport --quick
  ringway-bench transport --only udp,quic
  ringway-bench transport --json --plots target/bench > transport.json

smtp needs root and Postfix, which `./setup.sh --tests` of the source installs; without them it is left out, and said so on stderr.")]
pub(crate) struct TransportArgs {
    /// One run of each with fewer messages, and no idle pair; ends within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these of udp, tcp, quic, ws, smtp, and the bare sockets beside them; the idle pair
    /// belongs to udp
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Folder for plots, as SVG: figure-5 (one after the other), figure-6 and figure-7
    /// (throughput, few and many at once)
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Program that does the same work with other libraries, measured in turns with ours:
    /// target/release/transport-peers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) beside: Option<PathBuf>,
}

/// `ringway-bench dtl`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench dtl --quick
  ringway-bench dtl --results runs.jsonl --plots target/bench --jobs 4
  ringway-bench dtl --only 10/20/1bdp --contender kernel,ringway --case worth-1,worth-4 --runs 3

A cell is RATE/RTT/QUEUE in Mbit/s and ms; the queue is in products of the two, or codel. What is measured: `alone`; `upload`, the
same beside a kernel CUBIC on the way back; `tcp-TCP`, the kernel's TCP alone; `beside-TCP`, a scavenger while it comes and goes; `late-N`, scavengers that start one after the other; `worth-N`, priority N against one
CUBIC; `equal`; `weights`, 1 : 2 : 4 from one program to one peer; `weights-peers`, to three; `weights-apart`, from three programs; `change`, what 1 to 4, 4 to 0 and 0 to 1 take and cost; `deadline`, 100 MB in 180 s (of 10 Mbit/s) beside one CUBIC; `figure-6` and
`figure-7`, the paper's. All of it takes many hours: with --results it can be broken off and taken up
again, and what has been measured is shown at once.

Needs root, util-linux and rattan (`cargo install rattan --version 0.1.1 --locked`; `make bench-dtl` of the source installs it).")]
pub(crate) struct DtlArgs {
    /// One cell, a few cases of each contender, half the time, one run; ends within about a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these cells
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only these of kernel, ringway, ringway-rtt (without readings of clocks), noq-cubic, paper,
    /// and what --beside brings
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) contender: Vec<String>,
    /// Only these cases
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Runs of each case [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Slow lines (below 20 Mbit/s) that are measured side by side [default: 1, with --quick 5]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<u32>,
    /// The same for fast ones, of which each takes two fifths of a core with dtl-line and most of
    /// one with rattan
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fast_jobs: u32,
    /// File that keeps every run as it ends; runs that it has are not repeated: begin another
    /// after a change of the program
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Folder for plots, as SVG: figures 6 and 7 over time, what N is worth, and everything else
    /// that is measured as bars
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Program with scavengers of other libraries: target/release/dtl-peers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) beside: Option<PathBuf>,
    /// The emulator, if it is not on the PATH; or a program that takes the same arguments, as
    /// dtl-line does
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) rattan: Option<PathBuf>,
}

/// `ringway-bench overlay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway-bench overlay --quick
  ringway-bench overlay --members 1000 --malicious 30 --behaviour collude,camouflage,silent
  ringway-bench overlay --forming --behaviour silent,pending,mixed
  ringway-bench overlay --json --plots target/bench > overlay.json
  ringway-bench overlay --real --quick
  ringway-bench overlay --real --only-lookups --malicious 5,20,30 --beside target/release/overlay-peers

Members are real, the network between them and the time are simulated, malicious routers know the whole ring and each other. A message is lost in a
hundred, and a tenth of the members crashes in an hour while as many join, honest ones and malicious routers. All of it takes many hours, nearly all of them for 100000 members, who need 11 GB; without those about two.")]
pub(crate) struct OverlayArgs {
    /// Two small rings, one run; ends within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Members of the rings [default: 255,1000,10000,100000]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) members: Vec<usize>,
    /// Per cent of the members that are malicious [default: 0,5,10,20,25,30; with --real none]
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "traitors")]
    pub(crate) malicious: Vec<f64>,
    /// What malicious routers do: silent, collude, camouflage, equivocate, two-faced, invent,
    /// pending, selective, stale, misroute, replay, accuse, leave, or mixed: the first eight
    /// [default: mixed]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) behaviour: Vec<String>,
    /// Per cent of the members that crash in an hour, and of those that join [default: 10];
    /// lookups go on until ten members have come or gone, but with --quick
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["memory", "real"])]
    pub(crate) churn: Option<f64>,
    /// Lookups of each run [default: 10000, with --quick 1000; with --real 300 and 100]
    #[arg(long, value_name = "N")]
    pub(crate) lookups: Option<usize>,
    /// Runs of each ring, with different members [default: 2, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Routers over UDP on loopback in real time, 255 without --members. Measures lookups (300,
    /// with --quick 100), round trips and packets through the ring, and how many messages it
    /// carries. Lookups are also measured with the shares of --malicious fallen silent, each in a
    /// ring of its own
    #[arg(long, conflicts_with = "behaviour")]
    pub(crate) real: bool,
    /// With --real: routers that all start at the same moment, as after a power cut, and nothing
    /// but how long they take to form a ring
    #[arg(long, requires = "real", conflicts_with_all = ["beside", "plots"])]
    pub(crate) at_once: bool,
    /// With --real: only the lookups
    #[arg(long, requires = "real")]
    pub(crate) only_lookups: bool,
    /// With --real: another build of this program that measures the same, such as one without
    /// encryption, or a program that does the lookups with another overlay:
    /// target/release/overlay-peers
    #[arg(long, value_name = "PROGRAM", requires = "real")]
    pub(crate) beside: Option<PathBuf>,
    /// Only the memory of a simulated member, in rings of 1000 and 10000 if --members says nothing
    /// else
    #[arg(long, conflicts_with_all = ["behaviour", "lookups", "plots", "quick", "real", "runs", "malicious"])]
    pub(crate) memory: bool,
    /// Rings that form while malicious routers join with the others, one router after another and
    /// ten at once, and lookups in them: of 60 and 255 members with 5, 20 and 30 per cent
    /// malicious routers, 1000 lookups each, if nothing else is said
    #[arg(long, conflicts_with_all = ["memory", "plots", "real"])]
    pub(crate) forming: bool,
    /// Folder for plots, as SVG: overlay-lookups; with --real overlay-capacity (the paper's Figure
    /// 4) and overlay-lookup-time
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}
