//! The gateway at work, as a service of this machine: queues with a thread each, rules, classes and
//! programs in the kernel, scanners, the audit, and a controller that others ask.
//!
//! ```text
//! GatewayBuilder ──border──▶ BorderedGateway ──claim──▶ ClaimedGateway ──start──▶ RunningGateway
//!   policy, scanners          interfaces are there,      the state's folder is     packets come,
//!                             marks and queues fit       this gateway's alone      until `end`
//! ```
//!
//! Each step has a type of its own, so that none can be left out or taken out of turn. Between
//! `claim` and `start` the caller binds what is its own to bind: its control socket, its metrics.
//!
//! | file | what it owns |
//! |---|---|
//! | `builder` | the steps above |
//! | `running` | the parts of a gateway at work, and their end in the right order |
//! | `controller` | the policy at work, trials of another, and what is asked of the queues |
//! | `reload` | the policy's file loaded again |
//! | `queue` | one queue's loop in a thread |
//! | `installation`, `in_kernel` | what is put into the system, and taken out again |
//! | `scanners` | YARA rules and clamd, as threads for each queue |
//! | `event_writer`, `joined` | the thread that writes events down |
//! | `eve`, `sensor` | where it writes them as EVE, and who is said to write |
//! | `accounts` | the thread that joins what the kernel counted with what was decided |
//! | `quotas` | what hosts have used of quotas: flows are charged, moved, and written down |
//! | `policies` | policies from their texts, and what they need of a run |
//! | `refusals` | what the kernel carries of torrents that a new policy refuses is ended |
//! | `history` | the thread that writes down what flows carried |
//! | `state_lock` | the folder of state belongs to one gateway |

mod accounts;
mod builder;
mod controller;
mod error;
mod eve;
mod event_writer;
mod feed_faults;
mod history;
mod in_kernel;
mod installation;
mod joined;
mod policies;
mod queue;
mod quotas;
mod refusals;
mod reload;
mod running;
mod scanners;
mod sensor;
mod state_lock;
mod status;

pub use self::accounts::{AccountsHandle, Top};
pub use self::builder::{
    BorderConfig, BorderedGateway, ClaimedGateway, ClassifierConfig, GatewayBuilder, NamedPolicy,
    make_folder,
};
pub use self::controller::{Apply, Controller, ControllerParts, CrossingFlows, System};
pub use self::error::ServiceError;
pub use self::eve::{EveConfig, EveTarget, NoTarget};
pub use self::event_writer::{Ended, StateConfig, Written};
pub use self::history::HistoryConfig;
pub use self::in_kernel::load_kernel;
pub use self::policies::parse_policy;
pub use self::reload::Reload;
pub use self::running::{RunningGateway, take_down};
pub use self::scanners::{ScannerConfig, load_hashes, load_yara};
pub use self::status::GatewayStatus;
