//! Arguments of `ringway transfers`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::values;
use crate::members::complete_peer;

/// `ringway transfers`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway transfers
  ringway transfers --to oslo --state waiting
  ringway transfers --receive --since 24h
  ringway transfers --watch
  ringway transfers --watch --json

BEGAN and ENDED are times of this machine's zone. PATH is where a file is read from, or stored.
RATE is the mean over all the time that data flowed once it does not flow any more.
Of one that is being sent: RTT is the round trip, QUEUE what packets wait on the way,
with +, at priority 0, what their acknowledgements wait on the way back; LOST the share
of packets sent again, WINDOW what may be under way (`path_report` of --json).
NOTE says why a transfer waits or has failed. `queue shared with oslo` behind it: what is
sent to oslo waits in the same queue, and priorities divide what both have (`shares_with`
of --json). `90 % from 3 other receivers`: the file goes to several members, who give it to each
other (`givers` of --json). Of one with a deadline it says first by when, and when it is expected
(`deadline`, `expected`, `in_time` and `steered` of --json). Of one that is being sent it says
what keeps it from being faster (in brackets: `limited_by` of --json):
  upload limit                     all transfers share it by priority (capped); `of eth0`
                                   where it is an interface's (`capped_by` of --json)
  upload limit: others come first  its priority is 0 (behind-others)
  gives way to other traffic       its priority is 0 (yielding)
  takes all that is free           its priority is 0 (path-limited)
  the network is full              it loses packets (loss-limited)
  trying to go faster              the way may carry more (slow-start, growing)
  the receiver takes no more       its disk is slow, or it is (receiver-limited)
  as fast as one file may          1.5 MiB may be under way, and are (window-limited)
  the receiver does not answer     it is stopped, or the way is broken (unanswered)
  slower than the network          the disk here is (application-limited)")]
pub(crate) struct TransfersArgs {
    /// Follow them until Ctrl-C: a table that is drawn again in its place on a terminal, elsewhere
    /// a line for each change; with --json, an object whenever one has changed
    #[arg(long)]
    pub(crate) watch: bool,
    /// Only those that this member receives from PEER
    #[arg(long, value_name = "PEER", conflicts_with_all = ["to", "send"])]
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) from: Option<String>,
    /// Only those that this member sends to PEER
    #[arg(long, value_name = "PEER", conflicts_with = "receive")]
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) to: Option<String>,
    /// Only those in this state; may be repeated
    #[arg(long, value_enum)]
    pub(crate) state: Vec<StateArg>,
    /// Only what this member sends
    #[arg(long, conflicts_with = "receive")]
    pub(crate) send: bool,
    /// Only what this member receives
    #[arg(long)]
    pub(crate) receive: bool,
    /// Only what began or ended since then: a time such as 2026-11-28T21:14:05, or how long ago,
    /// such as 24h
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Duration>,
    /// Only the latest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// States of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    /// Waits for the other member, for an answer, or for its turn
    Waiting,
    /// Is read for its hash
    Hashing,
    /// Looks for the other member
    Connecting,
    /// Data flows
    Active,
    /// Has arrived
    Done,
    /// Has failed
    Failed,
    /// Was given up here
    Cancelled,
}

impl StateArg {
    /// As the daemon calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            StateArg::Waiting => "waiting",
            StateArg::Hashing => "hashing",
            StateArg::Connecting => "connecting",
            StateArg::Active => "active",
            StateArg::Done => "done",
            StateArg::Failed => "failed",
            StateArg::Cancelled => "cancelled",
        }
    }
}

/// Time since the Unix epoch.
fn since(text: &str) -> Result<Duration, String> {
    if let Ok(ago) = values::duration(text) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        return Ok(now.unwrap_or_default().saturating_sub(ago));
    }
    values::moment(text).map_err(|error| format!("{error}, or as a time span like 24h"))
}
