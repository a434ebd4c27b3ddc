//! Members that lie to a stranger now and then: after what time they are convicted.

use std::time::Duration;

use ringway_overlay::{Config, RingKey};

use crate::adversary::Behaviour;
use crate::report::{Check, Failure, RingConfig};
use crate::ring::RingSim;

/// After so many times the interval between two of its fingers a member of a ring of 1 000 has
/// looked all of them up.
const PASS: u32 = 40;

/// How the liars of a ring fared.
#[derive(Clone, Debug, Default)]
pub struct Convictions {
    /// The times after which they were convicted, from their first day as liars on, in order. Who
    /// was not is missing.
    pub after: Vec<Duration>,
    /// How many liars there were.
    pub liars: usize,
    /// Honest members that were convicted. Must be none.
    pub innocent: usize,
}

/// In a ring of `members`, every tenth begins to lie once everybody knows the views of its fingers,
/// so that those who look them up again are no strangers. What becomes of them within `patience`,
/// where each member looks up one of its fingers every `finger_interval`: those who are asked then
/// are strangers, too.
///
/// # Errors
///
/// When the run does not get on.
pub fn furtive(
    seed: u64,
    members: usize,
    patience: Duration,
    finger_interval: Duration,
) -> Result<Convictions, Failure> {
    let config = RingConfig {
        overlay: Config {
            finger_interval,
            ..Config::default()
        },
        check: Check::Nothing,
        credentials: true,
        ..RingConfig::default()
    };
    let mut sim = RingSim::new(seed, config);
    let keys: Vec<RingKey> = (0..members).map(|_| sim.add()).collect();
    sim.settle();
    sim.run_for(finger_interval * PASS)?;
    let liars: Vec<RingKey> = keys.into_iter().step_by(10).collect();
    for key in &liars {
        sim.recruit(*key, Behaviour::Furtive);
    }
    let began = sim.now();
    sim.run_for(patience)?;
    let (guilty, innocent): (Vec<_>, Vec<_>) = sim
        .convicted()
        .iter()
        .partition(|(key, _)| liars.contains(key));
    let mut after: Vec<Duration> = guilty.iter().map(|(_, at)| **at - began).collect();
    after.sort_unstable();
    Ok(Convictions {
        after,
        liars: liars.len(),
        innocent: innocent.len(),
    })
}
