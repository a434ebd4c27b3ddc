//! Events as Suricata writes them (EVE).
//!
//! What stands there under a name of Suricata's means what it means there, and validates against
//! Suricata's own schema. What Suricata knows nothing of stands under one object, `ringway`.
//!
//! | file | what it writes |
//! |---|---|
//! | `event` | what the machine of flows reports: `alert`, `drop`, `fileinfo`, and protocols' names |
//! | `flow` | a flow that is over, with what it carried: `flow` |
//! | `stats` | the gateway's figures: `stats` |
//! | `header` | what all of them have: time, ends, sensor |
//! | `community` | the identifier by which other monitors know the same flow |
//! | `kind` | which kinds there are, and which are wanted |

mod community;
mod event;
mod flow;
mod header;
mod kind;
mod stats;

pub use self::community::community_id;
pub use self::event::signature_id;
pub use self::flow::FlowLog;
pub use self::header::Sensor;
pub use self::kind::{EveKind, EveKinds, NoKind};
pub use self::stats::StatsLog;

pub(crate) use self::event::EventForm;

/// Name and version of what stands under `ringway`.
pub const SCHEMA: &str = "ringway.event/2";
