//! The daemon's control socket: a Unix socket that speaks JSON lines, of mode 0600, or 0660 for a
//! group.

mod descriptor;
mod members;
mod messages;
mod reason;
mod send_all;
mod server;
mod socket;
mod stream_server;
mod tallies;

pub use message::*;
pub use ringway_client::givers::Giver;
use ringway_client::message;
pub use ringway_client::send_all::{Handed, SendAll, SendPath};
pub use ringway_client::streams::{ServiceStatus, StreamStatus};
pub use ringway_client::tallies::{CountLeft, CountsToLeave, NamedCount, RouterCount, TallyFound};
pub use ringway_client::{ClientError, Connection as Client};
pub use socket::{ControlPlace, ControlServerError, ControlSocket};

pub(crate) use reason::limited_by;
pub(crate) use server::{Services, serve};
