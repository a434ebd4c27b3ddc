//! `ringway gate …`: the gateway's commands.

mod ask;
mod check;
mod classify;
mod control;
mod diff;
mod doctor;
mod earlier;
mod flows;
mod history;
mod message;
mod metrics;
mod preset;
mod quotas;
mod reload;
mod replay;
mod rules;
mod swarms;
mod top;
mod up;
mod why;

pub(crate) use ask::{apply, ask_status, audit, confirm, status};
pub(crate) use check::check;
pub(crate) use classify::classify;
pub(crate) use diff::diff;
pub(crate) use doctor::{doctor, needs};
pub(crate) use earlier::move_state;
pub(crate) use flows::flows;
pub(crate) use history::flow_history;
pub(crate) use preset::preset;
pub(crate) use quotas::quotas;
pub(crate) use replay::replay;
pub(crate) use swarms::swarms;
pub(crate) use top::top;
pub(crate) use up::{confine, down, in_kernel, up};
pub(crate) use why::why;
