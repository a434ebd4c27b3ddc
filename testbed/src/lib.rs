//! Real processes for the tests: rings of members on loopback or in networks of their own, each a
//! process of the built program.
//!
//! A test hands in the program's file, says which members it wants, and gets a running [`Ring`].
//! Everything lives in one temporary folder; when the [`Ring`] is dropped its processes are killed
//! and the folder is removed. A process that outlives even that, because the test itself was
//! killed, ends when its stdin closes.
//!
//! | module | does |
//! |---|---|
//! | `program` | [`Program`]: runs commands to their end, within a deadline |
//! | `clamd` | [`Clamd`]: a virus scanner with signatures of the test's own |
//! | `directconnect` | [`Eiskalt`], and a hub |
//! | `edonkey` | [`Amule`], and a server for it |
//! | `irc` | [`Irssi`], and a server for it |
//! | `issuer` | [`Issuer`]: an OpenID Connect issuer of the test's own |
//! | `miniupnpd` | [`Miniupnpd`]: a home router's daemon that gives ports away |
//! | `nameserver` | [`Knot`], [`Bind`]: a zone that can be updated |
//! | `nginx` | [`Nginx`]: a web server that passes a path on |
//! | `ports` | [`free_port`]: ports that no other test gets |
//! | `postfix` | [`Postfix`]: a mail server of the test's own |
//! | `process` | [`Process`]: a daemon, its log, and the signals that it is sent |
//! | `ring` | [`Ring`]: an authority and members |
//! | `running` | [`Running`]: a program of somebody else's |
//! | `speakers` | [`Speaker`]: protocols whose programs are gone |
//! | `swarm` | [`Torrent`]: BitTorrent programs and a tracker |
//! | `unbound` | [`Unbound`]: a resolver that believes what is proven |
//! | `network` | [`Network`]: hosts, cables, gateways and their faults, in namespaces |
//! | `wait` | [`wait_until`]: looks again and again until something holds |
//! | `xmpp` | [`Talker`], and a server for them |
//!
//! ```no_run
//! use std::path::Path;
//! use ringway_testbed::{Program, RingBuilder};
//!
//! # fn main() -> Result<(), ringway_testbed::TestbedError> {
//! let program = Program::new(Path::new("target/debug/ringway"));
//! let ring = RingBuilder::new(program).router("oslo").router("lima").router("quito").leaf("alice").start()?;
//! ring.wait_until_settled()?;
//! let status = ring.member("alice")?.call(&["status"])?;
//! assert_eq!(status[0]["role"], "leaf");
//! # Ok(())
//! # }
//! ```

mod clamd;
mod directconnect;
mod edonkey;
mod irc;
mod issuer;
mod miniupnpd;
mod nameserver;
mod network;
mod nginx;
mod ports;
mod postfix;
mod process;
mod program;
mod ring;
mod running;
mod speakers;
mod swarm;
mod unbound;
mod wait;
mod xmpp;

pub use clamd::Clamd;
pub use directconnect::{Eiskalt, start_uhub};
pub use edonkey::{Amule, Source, edonkey_link, serve_edonkey};
pub use irc::{Irssi, start_ngircd};
pub use issuer::{CLIENT, Fault, Issuer};
pub use miniupnpd::Miniupnpd;
pub use nameserver::{Bind, Knot};
pub use network::{Host, Line, Link, Network, Rule, Traffic};
pub use nginx::{Nginx, WebServer};
pub use ports::{free_address, free_port};
pub use postfix::{Delivery, MAIL_DOMAIN, Postfix};
pub use process::Process;
pub use program::{Outcome, Program};
pub use ring::{Member, Ring, RingBuilder};
pub use running::Running;
pub use speakers::{
    Chatter, FastTrack, Gnutella, Invitation, Msnftp, Pusher, Shared, Speaker, Switchboard,
};
pub use swarm::{Torrent, Wire, need, serve_tracker};
pub use unbound::Unbound;
pub use wait::wait_until;
pub use xmpp::{Talker, start_prosody};

/// Why the testbed could not do what a test asked for, in words for the reader of the test's
/// output.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TestbedError(pub String);

impl TestbedError {
    /// From anything that can be shown, with what was being done.
    pub(crate) fn of(doing: &str, error: impl std::fmt::Display) -> TestbedError {
        TestbedError(format!("{doing}: {error}"))
    }
}
