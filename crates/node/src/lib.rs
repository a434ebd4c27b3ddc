//! A member of a ring, and the ring owner's authority.
//!
//! A member is one daemon ([`daemon`]) with a home folder ([`home`]). It has a key ([`identity`]),
//! which the ring owner has put into a certificate ([`certificate`]) when it enrolled ([`enrol`]).
//! It finds others through DNS ([`directory`]) and talks to them over encrypted links, keeps its
//! place in the ring and moves files. Commands reach it through a Unix socket ([`control`]). The
//! ring owner's side is [`authority`].
//!
//! # Modules, in the order in which data flows
//! | module | does |
//! |---|---|
//! | [`authority`], `enrol` | who becomes a member: invites, certificates, DNS, revocation |
//! | [`admission`] | the request and the reply of a member that joins by file |
//! | [`rotation`] | the request and the reply of a member that changes its key |
//! | [`renewal`] | when a certificate is renewed |
//! | `text` | the form in which people carry both |
//! | [`certificate`], [`statement`], `zone`, `invite` | what the ring owner signs, and its forms |
//! | [`home`], [`config`], [`state`], `database` | what a member keeps on disk |
//! | [`endpoint`] | a host name or an address, and a port |
//! | [`directory`] | certificates by name, id and ring key, from memory and DNS |
//! | `noise` | handshakes and sessions for links and enrolments |
//! | `link` | encrypted sessions over changing paths; sans-IO |
//! | `member` | the member's one task: wires links, overlay, validation and transports |
//! | `transfer` | files: offers, verified chunks, resumption, the caps on what is sent |
//! | `message` | messages, stored until they are signed for |
//! | `machine` | changes of the network, and what is not there yet after a boot |
//! | [`control`], [`daemon`] | the socket for commands, and the whole |
//! | [`Member`] | the whole within another program |
//!
//! ```no_run
//! # async fn run() -> Result<(), ringway_node::daemon::DaemonError> {
//! use ringway_node::daemon::{Daemon, Options};
//!
//! let home = "/var/lib/ringway".into();
//! let daemon = Daemon::start(Options { home, upload_limit: None, control: Default::default() }).await?;
//! daemon.run(async { /* until it is to stop */ }).await?;
//! # Ok(())
//! # }
//! ```

pub mod admission;
pub mod authority;
mod cbor;
pub mod certificate;
mod clock;
pub mod config;
mod connection;
pub mod control;
mod core_dumps;
mod credentials;
pub mod daemon;
mod database;
pub mod directory;
mod embedded;
pub mod endpoint;
pub mod enrol;
pub mod evidence;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod home;
pub mod identity;
mod invite;
pub mod leave;
pub mod limits;
mod link;
mod machine;
mod member;
mod member_list;
mod message;
mod noise;
mod open_files;
mod priorities;
pub mod renewal;
pub mod rotation;
mod shares;
mod signed;
pub mod sso;
pub mod state;
pub mod statement;
mod stream;
mod text;
mod transfer;
pub mod versions;
mod zone;

pub use clock::date_of;
pub use embedded::{Member, MemberError};
pub use transfer::bundle::{PackError, Packed, WalkError, pack};

/// Whether this build does not encrypt its links (feature `insecure`): for benchmarks only.
pub const INSECURE: bool = cfg!(feature = "insecure");
