//! `ringway msg`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;

use ringway_node::control::AskedPriority;

use super::values;
use crate::members::complete_peer;

/// `ringway msg`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  ringway msg oslo \"the backup is done\"
  df -h | ringway msg oslo
  ringway msg --to 'lab-*' --to oslo \"reboot at six\"
  ringway msg oslo \"see the plan\" --attach plan.pdf
  ringway msg oslo --lines < measurements.txt
  ringway msg --follow
  ringway msg --follow oslo --json
  ringway msg --list oslo

A message has at most 64 KiB, and need not be text. It is on this machine's disk when the command
ends, and stays there until the receiver has signed for it, over whatever way there is, mail
included: the receiver may be off. `--list` shows how far it is: pending, signed, read, failed.

With --lines each line of standard input that is not empty is a message, in order, until the input
ends or Ctrl-C. Many that are there go together, one that comes alone goes at once. The command
waits while too many wait for the receiver to sign, and ends once all are on the disk.

--follow shows what was not read, and then what comes. What it has written out counts as read, and
is not shown again; if it is killed between both, it is shown once more, with the same id.

With --json: `body` is text where it is UTF-8, else `body_base64` stands there.")]
pub(crate) struct MsgArgs {
    /// Name of a member, or its id; with --to the text
    #[arg(add = ArgValueCompleter::new(complete_peer))]
    pub(crate) peer: Option<String>,
    /// What to say; `-`, or nothing, reads standard input
    #[arg(conflicts_with_all = ["follow", "list"])]
    pub(crate) text: Option<String>,
    /// Another member that it goes to: a name, an id, or a pattern of names such as 'lab-*'
    #[arg(long, value_name = "PEER", conflicts_with_all = ["follow", "list"])]
    pub(crate) to: Vec<String>,
    /// Send each line of standard input as a message
    #[arg(long, conflicts_with_all = ["follow", "list", "attach"])]
    pub(crate) lines: bool,
    /// From 0 to 1000: the members with the highest are sent to first; at 0 little by little
    #[arg(long, value_name = "P", default_value = "1", value_parser = values::priority, allow_hyphen_values = true)]
    pub(crate) priority: AskedPriority,
    /// A file to send with it, as `ringway send` does; the message names the transfer
    #[arg(long, value_name = "FILE", conflicts_with_all = ["follow", "list"])]
    pub(crate) attach: Vec<PathBuf>,
    /// Show what was not read and what comes, until Ctrl-C
    #[arg(long, conflicts_with = "list")]
    pub(crate) follow: bool,
    /// End after so many messages
    #[arg(long, value_name = "N", requires = "follow", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Show the newest messages of both directions, at most 256
    #[arg(long)]
    pub(crate) list: bool,
    /// Show the 256 behind the message with this id
    #[arg(long, value_name = "ID", requires = "list")]
    pub(crate) after: Option<String>,
}
