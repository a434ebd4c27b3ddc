//! The program `ringway`: the commands, the daemons behind two of them, and the demo.
//!
//! | module | does |
//! |---|---|
//! | `cli` | the one clap definition of all commands |
//! | `run` | from arguments to an exit code |
//! | `ringway_terminal` | results on stdout, errors and the log on stderr; a library, for `ringway-bench` too |
//! | `progress` | progress on stderr |
//! | `acting` | root acts as the user whose folder it works in |
//! | `owner` | `ring …`: the authority's commands |
//! | `daemon`, `offline` | `join` and `node`; joining by files |
//! | `sign_in` | joining by single sign-on |
//! | `rotate` | another key for this member, by files |
//! | `leave` | the end of this member |
//! | `request` | the control socket as the commands see it |
//! | `status`, `members`, `transfers`, `inbox`, `reach` | the commands that ask the daemon |
//! | `streams`, `forward`, `socks` | services of members, and what leads to them |
//! | `gate` | `gate classify` |
//! | `doctor` | what stands in the way on this machine, and the mend |
//! | `service` | `service …`: what systemd needs to run the daemons |
//! | `pages` | completions, man pages and the Markdown reference |
//! | `demo` | the main job on one machine, as separate processes of this very program |
//! | `ports` | free ports on loopback, for the demo |
//! | `signals`, `supervisor` | what ends and reloads daemons, and who is notified of how they do |
//! | `limits` | every bound |
//!
//! A command never reads the member's files by itself: it asks the daemon, over the socket in the
//! home folder. Only `join`, `node`, `rotate`, `leave`, `doctor` and `ring …` open them.

mod acting;
mod cli;
mod context;
mod daemon;
mod demo;
mod doctor;
mod forward;
mod gate;
mod inbox;
mod leave;
mod limits;
mod members;
mod msg;
mod offline;
mod owner;
mod pages;
mod ports;
mod progress;
mod reach;
mod records;
mod request;
mod rotate;
mod run;
mod send;
mod service;
mod sign_in;
mod signals;
mod socks;
mod status;
mod streams;
mod supervisor;
mod transfers;

use std::process::ExitCode;

fn main() -> ExitCode {
    run::main()
}
