//! The daemon's control socket: a Unix socket that speaks JSON lines, of mode 0600, or 0660 for a
//! group.

mod client;
mod descriptor;
mod members;
mod reason;
mod server;
mod socket;

pub use client::{Client, ClientError};
pub use message::*;
use ringway_client::message;
pub use socket::{ControlPlace, ControlServerError, ControlSocket};

pub(crate) use reason::limited_by;
pub(crate) use server::{Services, serve};
