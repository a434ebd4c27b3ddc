//! A deterministic network simulator and scenarios for the protocol cores.
//!
//! Time is virtual: one base instant and a duration that jumps from event to event. All chance
//! comes from one seed, so the same seed gives the same run to the last bit; [`Trace`] is the
//! proof. What happens passes through the modules in this order:
//!
//! - [`network`]: what is under way and when it arrives: delay, jitter (and so reordering), loss,
//!   duplicates, partitions. [`load`]: machines that take time, and are late when they have too
//!   much to do.
//! - [`report`]: settings, results, failures.
//! - [`ring`]: [`RingSim`], many [`Chord`](ringway_overlay::Chord) members on one such network,
//!   with crashes and restarts. Zave's invariant is checked after every step that changes a
//!   member's state.
//! - [`trust`]: the ring's owner and signatures; [`adversary`]: members that lie, and know of each
//!   other.
//! - [`scenario`]: what tests have in common: forming a ring, killing safely, asking everybody.
//! - [`trace`] and [`seed`]: what makes a run comparable and repeatable.
//!
//! Beside it, for congestion control:
//!
//! - [`bottleneck`]: one queue that flows share, its discipline, and what each flow gets.
//! - [`rivals`]: models of TCP, and the priority controller, as flows of it.
//! - [`trials`]: what priority 0 has to stand there, and how it does.
//!
//! A failed run names its seed. `RINGWAY_SIM_SEED=SEED cargo test -p ringway-sim TEST` plays it
//! again.

pub mod adversary;
pub mod attack;
pub mod bottleneck;
pub mod limits;
pub mod load;
pub mod network;
pub mod report;
pub mod ring;
pub mod rivals;
pub mod scenario;
pub mod seed;
pub mod trace;
pub mod trials;
pub mod trust;

pub use adversary::{Adversary, Behaviour, LIE};
pub use bottleneck::{Bottleneck, Path};
pub use load::Load;
pub use network::{Link, Network};
pub use report::{Check, Failure, LookupResult, RingConfig};
pub use ring::RingSim;
pub use seed::seeds;
pub use trace::Trace;
