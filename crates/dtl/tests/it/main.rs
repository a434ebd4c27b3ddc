//! What the crate promises, by behaviour.

#![allow(
    clippy::unwrap_used,
    reason = "the lint spares #[test] functions only, and here every function is a test's"
)]

mod change;
mod example;
mod flows;
mod group;
mod link;
mod reasons;
mod reordering;
mod robustness;
mod scavenger;
mod scheduler;

use std::time::{Duration, Instant};

/// The paper's algorithm, which these tests pin; the default one is tested where there is a
/// bottleneck to share, in the simulator.
fn paper() -> ringway_dtl::Config {
    ringway_dtl::Config {
        algorithm: ringway_dtl::Algorithm::Paper,
        ..ringway_dtl::Config::default()
    }
}

/// The moment at which every test begins.
#[allow(
    clippy::disallowed_methods,
    reason = "an Instant cannot be made any other way; only differences count"
)]
fn epoch() -> Instant {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
