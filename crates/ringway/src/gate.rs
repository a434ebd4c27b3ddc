//! `ringway gate …`: the gateway's commands.

mod ask;
mod check;
mod classify;
mod control;
mod doctor;
mod message;
mod metrics;
mod replay;
mod rules;
mod up;
mod why;

pub(crate) use ask::{apply, audit, confirm, flows, status};
pub(crate) use check::check;
pub(crate) use classify::classify;
pub(crate) use doctor::doctor;
pub(crate) use replay::replay;
pub(crate) use up::{confine, down, in_kernel, up};
pub(crate) use why::why;
