//! Rings that form while some of those who join are traitors from their first moment on.

use std::time::Duration;

use ringway_sim::attack::{Attack, Forming, forming};
use ringway_sim::{Behaviour, seeds};

use crate::{ok, seconds};

/// Each kind of traitor alone, and all of them mixed.
fn kinds() -> impl Iterator<Item = Option<Behaviour>> {
    Behaviour::ALL.into_iter().map(Some).chain([None])
}

fn forms(seed: u64, traitors: f64, behaviour: Option<Behaviour>, burst: usize) {
    let attack = Attack {
        behaviour,
        before: seconds(60),
        ..Attack::new(seed, 60, traitors, 100)
    };
    let which = format!("seed {seed}, {behaviour:?}, {traitors}, {burst} at once");
    // What traitors cannot change is asserted after every change: `Check::Honest`.
    let formed = ok(forming(&Forming {
        burst,
        ..Forming::new(attack)
    }));
    assert_eq!(formed.joined_after.len() + 1, formed.honest, "{which}");
    let slowest = formed.joined_after.last().copied().unwrap_or_default();
    assert!(slowest < seconds(60), "{which}: {slowest:?}");
    let settled = formed.settled_after.unwrap_or(Duration::MAX);
    // A member that has found its place among accomplices only comes out of there by a probe, one
    // every 30 s at first.
    assert!(settled < seconds(180), "{which}: {settled:?}");
    assert_eq!(formed.outcome.innocent, 0, "{which}");
    let found = formed.outcome.right;
    assert!(found >= 97, "{which}: {:?}", formed.outcome);
}

#[test]
fn malicious_routers_one_by_one_prevent_no_ring() {
    for seed in seeds(1) {
        forms(seed, 0.05, None, 1);
        forms(seed, 0.2, None, 1);
        kinds().for_each(|behaviour| forms(seed, 0.3, behaviour, 1));
    }
}

#[test]
fn malicious_routers_ten_at_once_prevent_no_ring() {
    // Those that a ring has most trouble with.
    let kinds = [Some(Behaviour::Collude), Some(Behaviour::Pending), None];
    for seed in seeds(1) {
        kinds
            .into_iter()
            .for_each(|behaviour| forms(seed, 0.3, behaviour, 10));
    }
}
