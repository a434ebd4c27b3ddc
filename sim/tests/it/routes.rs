//! Messages through the ring: they arrive whichever routers stand on the way, and none can make one
//! up.

use std::time::Duration;

use ringway_sim::attack::{Attack, Receivers, deliveries};
use ringway_sim::seeds;

use crate::{attackers, ok};

/// Members that come or go while others send messages.
const CHANGES: u32 = 6;

#[test]
fn messages_arrive_once_in_rings_of_any_size() {
    for (seed, members) in seeds(6).into_iter().zip([2, 3, 5, 20, 60, 255]) {
        for receivers in [Receivers::Members, Receivers::Points] {
            let outcome = ok(deliveries(&Attack::new(seed, members, 0.0, 200), receivers));
            assert!(outcome.sent > 50, "seed {seed}, {members}: {outcome:?}");
            let all = outcome.sent;
            assert_eq!(
                outcome.delivered, all,
                "seed {seed}, {members}: {outcome:?}"
            );
            assert_eq!(outcome.known, all, "seed {seed}, {members}: {outcome:?}");
            assert_eq!(outcome.amiss, 0, "seed {seed}, {members}: {outcome:?}");
            let at_once = outcome.at_once();
            assert!(at_once > 0.99, "seed {seed}, {members}: {outcome:?}");
        }
    }
}

#[test]
fn hops_are_few() {
    let outcome = ok(deliveries(
        &Attack::new(1, 255, 0.0, 300),
        Receivers::Members,
    ));
    // Half of log2(255).
    assert!(outcome.hops <= 4.0, "{outcome:?}");
}

#[test]
fn three_of_ten_malicious_routers_stop_no_message() {
    for seed in seeds(1) {
        for (behaviour, mixture) in attackers() {
            let attack = Attack {
                behaviour,
                mixture,
                loss: 0.01,
                churn: 0.5,
                ..Attack::new(seed, 128, 0.3, 100)
            };
            let outcome = ok(deliveries(
                &attack.until_changes(CHANGES),
                Receivers::Members,
            ));
            assert!(
                outcome.changes >= 5,
                "seed {seed} {behaviour:?}: {outcome:?}"
            );
            assert_eq!(outcome.amiss, 0, "seed {seed} {behaviour:?}: {outcome:?}");
            assert_eq!(outcome.verified, outcome.known, "seed {seed} {behaviour:?}");
            assert!(
                outcome.delivered + 1 >= outcome.sent,
                "seed {seed} {behaviour:?}: {outcome:?}"
            );
        }
    }
}

#[test]
fn loss_and_deaths_delay_messages_and_lose_none() {
    for seed in seeds(3) {
        let attack = Attack {
            loss: 0.05,
            churn: 5.0,
            over: Duration::from_secs(60),
            ..Attack::new(seed, 100, 0.0, 300)
        };
        let outcome = ok(deliveries(&attack, Receivers::Members));
        // Some receivers die meanwhile.
        let least = outcome.sent - outcome.sent / 50;
        assert!(outcome.delivered >= least, "seed {seed}: {outcome:?}");
        assert_eq!(outcome.amiss, 0, "seed {seed}: {outcome:?}");
    }
}
