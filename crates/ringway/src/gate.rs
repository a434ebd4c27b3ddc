//! `ringway gate …`: the gateway's commands.

mod ask;
mod check;
mod classify;
mod daemon;
mod doctor;
mod eve;
mod installation;
mod joined;
mod kernel;
mod lock;
mod message;
mod metrics;
mod replay;
mod rules;
mod scanners;
mod up;
mod why;
mod writer;

pub(crate) use ask::{apply, audit, confirm, flows, status};
pub(crate) use check::check;
pub(crate) use classify::classify;
pub(crate) use doctor::doctor;
pub(crate) use kernel::in_kernel;
pub(crate) use replay::replay;
pub(crate) use up::{confine, down, up};
pub(crate) use why::why;
