//! The daemon's control socket: a Unix socket of mode 0600 that speaks JSON lines.

mod client;
mod message;
mod server;

pub use client::{Client, ClientError};
pub use message::*;
pub use server::{ControlServerError, ControlSocket};

pub(crate) use server::{Services, serve};
