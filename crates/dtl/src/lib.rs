//! Priority congestion control: one number from less than best effort to N TCP flows.
//!
//! A [`Priority`] says how much a transfer is worth: 0 takes what others leave, N > 0 takes what N
//! TCP flows would take. It may change at any moment, without a reconnection. The crate decides how
//! much may be in flight and how fast it may leave. It owns no socket, clock, task or random
//! numbers, so any transport can drive it, and any simulator.
//!
//! # Modules, in the order in which data flows
//! | module | does |
//! |---|---|
//! | [`limits`] | every bound, with its unit and source |
//! | `priority`, `config` | [`Priority`], [`Config`]: what is asked for |
//! | `sample` | [`AckSample`], [`LossSample`]: what the transport saw |
//! | `detection` | [`LossDetection`]: which packets are lost, also where the path reorders them |
//! | `delay` | smoothed RTT; the paper's base and queueing delay |
//! | `controller` | [`Controller`]: one for each path; gathers samples, calls the algorithm, paces |
//! | `adaptive` | the default algorithm: an adaptive delay target at priority 0, N virtual CUBIC flows above |
//! | `paper`, `window` | the paper's algorithm (LEDBAT and MulTCP2) on one window |
//! | `report` | [`Report`]: the state, and why the flow is not faster |
//! | `group` | [`Group`]: one congestion control for all flows over one path, divided between them by priority |
//! | `coupling` | [`Coupling`]: groups to different peers that wait in one queue, divided by priority as well |
//! | `deadline` | [`Deadline`]: which priority brings a transfer in time, and no more than that |
//! | `share` | [`Scheduler`]: one upload cap for a process, divided between its transfers by priority |
//!
//! There are two algorithms. [`Algorithm::Adaptive`] is the default: at priority 0 a delay target
//! that is a fraction of the path's own delay, above it N virtual CUBIC flows. [`Algorithm::Paper`]
//! is that of Reale, Roverso, El-Ansary and Haridi, *DTL: Dynamic Transport Library for
//! Peer-to-Peer Applications*, called "the paper" throughout: LEDBAT and MulTCP2, for comparison.
//!
//! # Run loop
//! For each path one controller. Each datagram that leaves: [`Controller::on_sent`]. Each
//! acknowledgement that arrives, in this order: [`Controller::on_ack`] for every packet it names
//! for the first time, [`Controller::on_ack_batch_end`] once; then, if losses show,
//! [`Controller::on_loss`] for each lost packet and [`Controller::on_congestion`] once. A packet
//! that was deemed lost and has come after all: [`Controller::on_spurious_loss`]. After each of
//! these, and after [`Controller::set_priority`], read [`Controller::window`],
//! [`Controller::pacing_rate`] and [`Controller::burst`] again.
//! `examples/toy_transport.rs` does so over UDP; the crate's README says which packets count, and
//! what goes wrong.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use ringway_dtl::{AckSample, Config, Controller, LimitedBy, Priority};
//!
//! let mut now = Instant::now();
//! let mut controller = Controller::new(now, Config::default(), Priority::SCAVENGER);
//! let rtt = Duration::from_millis(20);
//! let mut next_packet = 0;
//! for _ in 0..3 {
//!     // Send as much as the window allows; a real driver spreads it at the pacing rate.
//!     let mut flight = Vec::new();
//!     while (flight.len() as u64 + 1) * 1200 <= controller.window() {
//!         controller.on_sent(now, next_packet, 1200);
//!         flight.push((next_packet, now));
//!         next_packet += 1;
//!     }
//!     now += rtt;
//!     for (packet, sent) in flight {
//!         controller.on_ack(now, &AckSample {
//!             packet,
//!             bytes: 1200,
//!             sent,
//!             rtt: now - sent,
//!             rtt_error: Duration::ZERO,
//!             receive_delay: Duration::ZERO,
//!             one_way_delay: None,
//!             ecn: false,
//!             app_limited: false,
//!         });
//!     }
//!     controller.on_ack_batch_end(now, 0);
//! }
//! // Slow start doubled the window in each of the three round trips.
//! assert_eq!(controller.window(), 96_000);
//! assert_eq!(controller.report().limited_by, LimitedBy::SlowStart);
//! // In the middle of the transfer it becomes worth two TCP flows. The window stays.
//! controller.set_priority(now, Priority::new(2.0)?);
//! assert_eq!(controller.window(), 96_000);
//! # Ok::<(), ringway_dtl::InvalidPriority>(())
//! ```

pub mod limits;

mod adaptive;
mod config;
mod controller;
mod coupling;
mod deadline;
mod delay;
mod detection;
mod group;
mod paper;
mod priority;
mod report;
mod sample;
mod share;
mod window;

pub use config::{Algorithm, Config, Ledbat};
pub use controller::Controller;
pub use coupling::{CoupledGroup, Coupling, CouplingIsFull, Look, Standing};
pub use deadline::{Deadline, Due, Forecast, Progress, needs};
pub use detection::LossDetection;
pub use group::{Group, GroupFlow, GroupIsFull};
pub use priority::{InvalidPriority, Priority};
pub use report::{LimitedBy, Mode, Report};
pub use sample::{AckSample, LossSample};
pub use share::{FlowId, Grant, Scheduler, TooManyFlows};

/// The moment at which unit tests begin.
#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "an Instant cannot be made any other way; only differences count"
)]
fn test_epoch() -> std::time::Instant {
    static EPOCH: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(std::time::Instant::now)
}
