//! What goes into a simulated ring, and what comes out: settings, results, failures.

use std::time::Duration;

use ringway_overlay::{Config, LookupFailure, RingKey};

use crate::network::Link;
use crate::seed::SEED_VARIABLE;

/// What a simulated ring is made of.
#[derive(Clone, Debug, Default)]
pub struct RingConfig {
    /// The settings of every member.
    pub overlay: Config,
    /// The network between them.
    pub link: Link,
    /// What is asserted after every change.
    pub check: Check,
    /// Whether members have credentials, and so groups, views and verified lookups.
    pub credentials: bool,
}

/// What is asserted after every change of a member's state; and, but for [`Check::Nothing`], that
/// what an honest member states of its group is one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// The structure while the ring forms, and the full invariant once there were r + 1 principals.
    #[default]
    Full,
    /// The structure only: for networks that lose so much that the living are taken for dead, which
    /// Zave's preconditions exclude.
    Structure,
    /// In a large ring after every so many changes
    /// ([`CHECKED_PER_CHANGE`](crate::limits::CHECKED_PER_CHANGE)): what traitors cannot change at
    /// any moment: no honest member is convicted, and the lists of honest members are in order.
    /// Zave's structure they can: a newcomer may get a list of accomplices who are no members yet,
    /// and has no others for some rounds.
    Honest,
    /// Nothing: for networks that are divided, where there are several rings by necessity.
    Nothing,
}

/// How one lookup ended.
#[derive(Clone, Debug)]
pub struct LookupResult {
    /// Who asked.
    pub from: RingKey,
    /// What for.
    pub target: RingKey,
    /// The owner that was found, or why none was.
    pub owner: Result<RingKey, LookupFailure>,
    /// The group around the target, after a verified lookup.
    pub group: Vec<RingKey>,
    /// Whether the answer was verified.
    pub verified: bool,
    /// Who answered on the way.
    pub hops: Vec<RingKey>,
    /// How many questions were asked.
    pub questions: u32,
    /// Virtual time it took.
    pub elapsed: Duration,
}

/// Why a run failed, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// Virtual time of the failure.
    pub at: Duration,
    /// How many steps had been taken.
    pub step: u64,
    /// What was wrong.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure {
            seed,
            at,
            step,
            what,
        } = self;
        write!(
            f,
            "seed {seed}, step {step}, {at:?}: {what}; replay with {SEED_VARIABLE}={seed}"
        )
    }
}

impl std::error::Error for Failure {}
