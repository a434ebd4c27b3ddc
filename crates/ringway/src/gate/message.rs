//! What the gateway's daemon is asked over its control socket, and what it answers: one JSON object
//! a line, one request a connection.

use std::path::PathBuf;

use ringway_gateway::accounting::{FlowAccount, Grouping};
use ringway_gateway::quota::QuotaRow;
use ringway_gateway::service::{GatewayStatus, Top};
use ringway_gateway::verdict::{LiveFlow, Mode, Why};
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(super) enum Request {
    /// What the gateway does and has done.
    Status,
    /// The flows that are not over.
    Flows {
        /// At most so many of each queue.
        most: usize,
    },
    /// What crossed the border.
    Top {
        /// What rows stand for.
        by: Grouping,
    },
    /// The flows that are about torrents.
    Torrents,
    /// What was used of quotas.
    Quotas,
    /// Why a flow got what it got.
    Why {
        /// Its number.
        flow: u64,
    },
    /// Another policy.
    Apply {
        /// What it is called in messages.
        file: PathBuf,
        /// Its text.
        text: String,
        /// Whether decisions are carried out; unchanged if absent.
        mode: Option<Mode>,
        /// Seconds after which everything is as before unless it is confirmed.
        confirm: Option<u64>,
    },
    /// The latest policy stays.
    Confirm,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// To `Status`.
    Status(Box<GatewayStatus>),
    /// To `Flows`.
    Flows {
        /// Those that queues know.
        known: Vec<LiveFlow>,
        /// The others that cross.
        others: Vec<FlowAccount>,
    },
    /// To `Top`, if there are accounts.
    Top(Option<Box<Top>>),
    /// To `Torrents`.
    Torrents(Vec<FlowAccount>),
    /// To `Quotas`, if there are accounts.
    Quotas(Option<Vec<QuotaRow>>),
    /// To `Why`, if the flow is known.
    Why(Option<Box<Why>>),
    /// To `Apply` and `Confirm`: it was done.
    Done(String),
    /// It was not, and why: a line each.
    Refused(Vec<String>),
}
