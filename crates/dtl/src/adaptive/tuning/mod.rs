//! The constants of the default algorithm, as data: each with its unit, its meaning, and its
//! source.
//!
//! A source is a paper's or an RFC's section, another implementation, a decision, or a measured or
//! simulated run. "20 s fails `trials::a_longer_route`" says that this test fails with 20 s in
//! place of the value: `trials` are the simulator's (`sim/tests/it/trials.rs`), the others this
//! crate's. "Chosen" are those for which no test is known that fails with half or with twice of
//! it; tried were this crate's quick tests and the trials that take less than half a second.
//! `tidy` counts the constants, refuses one without a source, and looks for the tests that are
//! named.
//!
//! Change one, and the simulator's figures change: `sim/tests/it/digests.rs` shows which.

mod flows;
mod path;
mod scavenger;
mod units;

use self::flows::{Cubic, Falls, Flows, Probe};
use self::path::{Base, Losses, Packets, Queueing, Shallow, Target};
use self::scavenger::{Contention, Drain, Floor, Growth, Managed, Returns, Share};

/// Defines a struct of constants and its value, so that each stands in one place.
macro_rules! constants {
    (
        $(#[$about:meta])*
        $name:ident { $( $(#[$doc:meta])+ $field:ident: $unit:ty = $value:expr, )+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            $( $(#[$doc])+ pub(crate) $field: $unit, )+
        }

        impl $name {
            pub(super) const CHOSEN: $name = $name { $( $field: $value, )+ };
        }
    };
}
use constants;

/// All constants of the default algorithm, by the part that uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Which packets and rounds count.
    pub(crate) packets: Packets,
    /// The path's delay without a queue.
    pub(crate) base: Base,
    /// What delays of a round say of the queue.
    pub(crate) queueing: Queueing,
    /// How long the queue of priority 0 may be.
    pub(crate) target: Target,
    /// Whether a queue is to blame for losses.
    pub(crate) losses: Losses,
    /// Whether the queue is too short for bursts.
    pub(crate) shallow: Shallow,
    /// How priority 0 grows.
    pub(crate) growth: Growth,
    /// How it drains its queue.
    pub(crate) drain: Drain,
    /// How it returns after contention.
    pub(crate) returns: Returns,
    /// How it learns its usual share.
    pub(crate) share: Share,
    /// When others are taken to need the path.
    pub(crate) contention: Contention,
    /// Losses and managed queues at priority 0.
    pub(crate) managed: Managed,
    /// Its slowest rate.
    pub(crate) floor: Floor,
    /// N virtual flows.
    pub(crate) flows: Flows,
    /// One virtual flow's window.
    pub(crate) cubic: Cubic,
    /// How often others were cut.
    pub(crate) falls: Falls,
    /// The probe after a change from 0.
    pub(crate) probe: Probe,
}

/// The constants in force.
pub(crate) const TUNING: Tuning = Tuning {
    packets: Packets::CHOSEN,
    base: Base::CHOSEN,
    queueing: Queueing::CHOSEN,
    target: Target::CHOSEN,
    losses: Losses::CHOSEN,
    shallow: Shallow::CHOSEN,
    growth: Growth::CHOSEN,
    drain: Drain::CHOSEN,
    returns: Returns::CHOSEN,
    share: Share::CHOSEN,
    contention: Contention::CHOSEN,
    managed: Managed::CHOSEN,
    floor: Floor::CHOSEN,
    flows: Flows::CHOSEN,
    cubic: Cubic::CHOSEN,
    falls: Falls::CHOSEN,
    probe: Probe::CHOSEN,
};
