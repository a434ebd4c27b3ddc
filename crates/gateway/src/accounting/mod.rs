//! What crossed the border, to the byte: the kernel counts what it carries, and the gateway knows
//! what it decided. Here both are joined, and every flow is reported once when it ends, and in
//! between while it lives.
//!
//! ```text
//!  gateway: a flow began, was decided, is over ──┐
//!                                                ├─▶ Ledger ──▶ FlowAccount: events, history
//!  kernel: counted, closes, destroyed ───────────┘       └────▶ totals by application, host, rule,
//!                                                                class, member: `gate top`
//! ```
//!
//! Neither side waits for the other, so that their reports may come in any order. The
//! [ledger](Ledger) does no I/O: `linux/conntrack` brings what the kernel has, and
//! `service/accounting.rs` is the thread between.
//!
//! | of a flow that | the kernel has | the gateway has | it is |
//! |---|---|---|---|
//! | was asked about | counts | a decision | reported with both |
//! | passed without being asked about | counts | nothing | [`Asked::No`], with the kernel's bytes |
//! | was dropped at its first packet | nothing | a decision | reported with the gateway's own counts |
//! | began before the gateway did | counts | nothing yet | [`Asked::Before`] |

mod account;
mod compare;
mod ledger;
mod totals;

pub use account::{Asked, EndReason, Ends, FlowAccount, KernelFlow, Named};
pub use compare::{Compared, Fate, Untold, compare};
pub use ledger::{Ledger, Side, Sides};
pub use totals::{Grouping, Row, Sum, Totals};
