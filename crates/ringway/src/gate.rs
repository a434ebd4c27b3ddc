//! `ringway gate …`: the gateway's commands.

mod check;
mod classify;
mod replay;
mod rules;

pub(crate) use check::check;
pub(crate) use classify::classify;
pub(crate) use replay::replay;
