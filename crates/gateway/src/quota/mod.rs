//! Quotas: how much the flows of a rule have carried for each host or member in the current hour,
//! day, week or month, and which of them are above what the rule gives.
//!
//! ```text
//!  kernel's counts of flows ──▶ QuotaMeter ──▶ QuotaBook ──▶ OverQuota ──▶ every queue's gateway
//!  flows that are over     ──▶  what each      what each     who is above    rules by it
//!                               flow was       host has
//!                               charged        used
//!                                  └──▶ marks of flows that go on without being asked about
//! ```
//!
//! Nothing here does I/O. `service/quotas.rs` brings what the accounts have and writes it to
//! `quotas.db`; `verdict` decides by [`OverQuota`]; `linux/conntrack` sets marks.

mod book;
mod counter;
mod meter;
mod over;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use self::book::{Passed, QuotaBook, QuotaRow, QuotaTotals, SavedCounter};
pub(crate) use self::meter::blocked;
pub use self::meter::{Above, Kept, QuotaMeter, SavedFlow};
pub(crate) use self::over::Owner;
pub use self::over::{AboveNow, OverQuota};
use crate::accounting::FlowAccount;
use crate::policy::Per;

/// For whom bytes are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A host of the own network.
    Host(IpAddr),
    /// A member of a ring, by its name.
    Member(String),
}

impl Subject {
    /// Whose flow it is. `None`: a flow of no member counts for none.
    #[must_use]
    pub fn of(per: Per, flow: &FlowAccount) -> Option<Self> {
        match per {
            Per::Host => Some(Self::Host(flow.host.to_canonical())),
            Per::Member => flow.details.member.clone().map(Self::Member),
        }
    }

    /// The kind of it.
    #[must_use]
    pub fn per(&self) -> Per {
        match self {
            Self::Host(_) => Per::Host,
            Self::Member(_) => Per::Member,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::Member(member) => f.write_str(member),
        }
    }
}
