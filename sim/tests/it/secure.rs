//! Rings of members with credentials: groups, views, verified lookups, convictions.

use std::collections::BTreeSet;
use std::time::Duration;

use ringway_overlay::{Config, Membership, RingKey, Rule};
use ringway_sim::attack::{Attack, furtive, news, run};
use ringway_sim::scenario::{Arrival, ask_everybody, at_rest, choose_victims, churn, form};
use ringway_sim::{Behaviour, Check, Link, RingConfig, RingSim, seeds};

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::{attackers, ok, seconds};

/// Members that come or go while others look points up: at 128 members, of which half go and as
/// many come in an hour, in three minutes.
const CHANGES: u32 = 6;

fn secure() -> RingConfig {
    RingConfig {
        credentials: true,
        ..RingConfig::default()
    }
}

/// A ring formed by joins, whose groups have had time to fill.
fn formed(seed: u64, count: usize) -> (RingSim, Vec<RingKey>) {
    let mut sim = RingSim::new(seed, secure());
    let arrival = Arrival::Every(Duration::from_millis(200));
    let (mut keys, _) = ok(form(&mut sim, count, arrival, seconds(120)));
    ok(sim.run_for(seconds(30)));
    keys.sort_unstable();
    (sim, keys)
}

/// The group of g around the member at `place`, from the keys of all.
fn true_group(keys: &[RingKey], place: usize, g: usize) -> BTreeSet<RingKey> {
    let all = keys.len();
    let g = g.min(all);
    let nth = |n: usize| keys[(place + all - g / 2 + n) % all];
    (0..g).map(nth).collect()
}

/// Time-outs that are all false: for a minute every answer comes later than anybody waits for it
/// who has not noticed yet.
#[test]
fn late_answers_leave_one_ring_without_convictions() {
    const MEMBERS: usize = 24;
    for seed in seeds(3) {
        let (mut sim, keys) = formed(seed, MEMBERS);
        let given_up = |sim: &RingSim| -> u64 {
            let chords = keys.iter().filter_map(|key| sim.chord(key));
            chords.map(|chord| chord.counters().unanswered).sum()
        };
        let before = given_up(&sim);
        sim.set_check(Check::Honest);
        sim.set_link(Link {
            delay: seconds(1),
            ..Link::default()
        });
        ok(sim.run_for(seconds(60)));
        let false_timeouts = given_up(&sim) - before;
        assert!(
            false_timeouts > 50,
            "seed {seed}: only {false_timeouts} gave up"
        );
        sim.set_link(Link::default());
        ok(sim.run_until(seconds(240), |sim| at_rest(sim, MEMBERS)));
        ok(sim.run_for(seconds(30)));
        let convicted = sim.convicted();
        assert!(convicted.is_empty(), "seed {seed}: {convicted:?}");
        ok(at_rest(&sim, MEMBERS));
    }
}

/// The member enrolled first has been told of no other, and is a ring of its own when it is started
/// last.
#[test]
fn a_first_member_started_last_is_found_soon() {
    for seed in seeds(10) {
        for late in [12, 20, 40, 300] {
            let mut sim = RingSim::new(seed, secure());
            let keys: Vec<_> = (0..3).map(|_| sim.add()).collect();
            sim.restart_with(keys[1], &keys[..1]);
            sim.restart_with(keys[2], &keys[..2]);
            // Rings of their own for now.
            sim.set_check(Check::Nothing);
            ok(sim.run_for(seconds(late)));
            sim.start(keys[0]);
            ok(sim.run_until(seconds(60), |sim| at_rest(sim, 3)));
        }
    }
}

#[test]
fn newcomers_know_their_groups_and_find_owners() {
    for (seed, count) in seeds(2).into_iter().zip([5, 40]) {
        let (mut sim, keys) = formed(seed, count);
        for (place, key) in keys.iter().enumerate() {
            let group: BTreeSet<RingKey> = sim
                .chord(key)
                .expect("it runs")
                .group()
                .into_iter()
                .collect();
            assert_eq!(group, true_group(&keys, place, 9), "seed {seed}, {key:?}");
        }
        let targets = [RingKey::point(b"a"), keys[2], RingKey::ZERO];
        let results = ok(ask_everybody(&mut sim, &targets, seconds(20)));
        assert_eq!(results.len(), 3 * count);
        assert!(results.iter().all(|result| result.verified), "seed {seed}");
    }
}

#[test]
fn groups_and_lookups_survive_deaths_and_churn() {
    for seed in seeds(2) {
        let (mut sim, _) = formed(seed, 24);
        let mut rng = StdRng::seed_from_u64(seed);
        if let Some(victims) = choose_victims(&sim, &mut rng, 2, 100) {
            victims.into_iter().for_each(|key| sim.crash(key));
        }
        let running = ok(churn(&mut sim, &mut rng, 30));
        let at_rest = |sim: &RingSim| ringway_sim::scenario::at_rest(sim, running);
        ok(sim.run_until(seconds(120), at_rest));
        ok(sim.run_for(seconds(60)));
        let targets = [RingKey::point(b"a"), RingKey::point(b"b")];
        ok(ask_everybody(&mut sim, &targets, seconds(20)));
        assert!(
            sim.convicted().is_empty(),
            "seed {seed}: {:?}",
            sim.convicted()
        );
    }
}

/// Lookups are verified ones.
#[test]
fn three_of_ten_malicious_routers_mislead_no_lookup() {
    for seed in seeds(1) {
        let mut wrong = Vec::new();
        for (behaviour, mixture) in attackers() {
            let attack = Attack {
                behaviour,
                mixture,
                loss: 0.01,
                churn: 0.5,
                ..Attack::new(seed, 128, 0.3, 100)
            };
            let outcome = ok(run(&attack.until_changes(CHANGES)));
            let kinds = mixture.len();
            assert_eq!(outcome.innocent, 0, "seed {seed} {behaviour:?} of {kinds}");
            assert!(
                outcome.right + 1 >= outcome.lookups
                    && outcome.lookups >= 95
                    && outcome.changes >= 5,
                "seed {seed} {behaviour:?} of {kinds}: {outcome:?}"
            );
            wrong.extend((0..outcome.wrong).map(|_| behaviour));
        }
        // An owner to whom three questions in a row were lost is taken for dead, in one of some
        // thousand lookups.
        assert!(wrong.len() <= 1, "seed {seed}: {wrong:?}");
    }
}

/// What convicts no member misleads none either.
#[test]
fn lies_under_new_starts_mislead_no_verified_lookup() {
    for seed in seeds(1) {
        let attack = Attack {
            behaviour: Some(Behaviour::NewStarts),
            loss: 0.01,
            churn: 0.5,
            ..Attack::new(seed, 128, 0.3, 100)
        };
        let outcome = ok(run(&attack.until_changes(CHANGES)));
        assert_eq!((outcome.innocent, outcome.wrong), (0, 0), "{outcome:?}");
        assert!(outcome.right + 1 >= outcome.lookups, "{outcome:?}");
    }
}

#[test]
fn returning_members_found_no_ring_while_others_answer() {
    // With the first two, lookups through those who die took longer than a member waits before it
    // founds its own ring.
    for seed in [1, 2].into_iter().chain(seeds(2)) {
        let (mut sim, _) = formed(seed, 24);
        let mut rng = StdRng::seed_from_u64(seed);
        if let Some(victims) = choose_victims(&sim, &mut rng, 2, 100) {
            victims.into_iter().for_each(|key| sim.crash(key));
        }
        ok(churn(&mut sim, &mut rng, 60));
    }
}

#[test]
fn newcomers_get_in_past_any_malicious_predecessor() {
    for behaviour in Behaviour::ALL.into_iter().chain(Behaviour::OTHERS) {
        let mut sim = RingSim::new(
            1,
            RingConfig {
                check: Check::Nothing,
                ..secure()
            },
        );
        let keys: Vec<RingKey> = (0..60).map(|_| sim.add()).collect();
        let (traitors, honest) = keys.split_at(18);
        traitors.iter().for_each(|key| sim.recruit(*key, behaviour));
        sim.settle();
        ok(sim.run_for(seconds(10)));
        let newcomers: Vec<RingKey> = (0..12)
            .map(|n| {
                let key = sim.add();
                sim.join(key, &[honest[n], honest[n + 12], honest[n + 24]]);
                key
            })
            .collect();
        ok(sim.run_for(seconds(60)));
        for key in &newcomers {
            let state = sim.chord(key).map(|chord| chord.state());
            assert_eq!(state, Some(Membership::Member), "{behaviour:?} {key:?}");
            assert!(sim.lookup(honest[40], *key));
        }
        ok(sim.run_for(seconds(12)));
        let results = sim.take_results();
        assert_eq!(results.len(), newcomers.len());
        for result in results {
            assert_eq!(result.owner, Ok(result.target), "{behaviour:?}");
        }
        let innocent = sim.convicted().keys().filter(|key| !traitors.contains(key));
        assert_eq!(innocent.count(), 0, "{behaviour:?}");
    }
}

#[test]
fn plain_lookups_are_misled_where_verified_are_not() {
    let attack = Attack {
        behaviour: Some(Behaviour::Collude),
        ..Attack::new(1, 128, 0.2, 100)
    };
    let verified = ok(run(&attack));
    let by = |rule| {
        ok(run(&Attack {
            rule,
            ..attack.clone()
        }))
    };
    let (plain, paper) = (by(Rule::Plain), by(Rule::Paper));
    assert_eq!(verified.right, 100);
    assert!(plain.right < 95, "{plain:?}");
    // One of a group who confirms helps, and is not enough.
    assert!(plain.right < paper.right && paper.right < 100, "{paper:?}");
    let honest = ok(run(&Attack {
        rule: Rule::Paper,
        ..Attack::new(1, 128, 0.0, 100)
    }));
    assert_eq!(honest.right, 100, "{honest:?}");
}

#[test]
fn only_equivocating_members_are_convicted() {
    for seed in seeds(3) {
        let mut sim = RingSim::new(
            seed,
            RingConfig {
                check: Check::Nothing,
                ..secure()
            },
        );
        let keys: Vec<RingKey> = (0..64).map(|_| sim.add()).collect();
        let liars: BTreeSet<RingKey> = keys.iter().step_by(16).copied().collect();
        for key in &liars {
            sim.recruit(*key, Behaviour::Equivocate);
        }
        sim.settle();
        ok(
            sim.run_until(seconds(10), |sim| match sim.convicted().len() {
                4 => Ok(()),
                few => Err(format!("only {few} convicted")),
            }),
        );
        ok(sim.run_for(seconds(10)));
        let convicted: BTreeSet<RingKey> = sim.convicted().keys().copied().collect();
        assert_eq!(convicted, liars, "seed {seed}");
        // Everybody has heard of it, and none has a liar in its group.
        for key in keys.iter().filter(|key| !liars.contains(*key)) {
            let chord = sim.chord(key).expect("it runs");
            let known: BTreeSet<RingKey> = chord.convicted().map(|(member, _)| member).collect();
            assert_eq!(known, liars, "seed {seed}, {key:?}");
            assert!(chord.group().iter().all(|member| !liars.contains(member)));
        }
    }
}

#[test]
fn groups_of_other_sizes_find_owners() {
    for (group, traitors) in [(5, 0.0), (7, 0.1), (15, 0.3)] {
        let overlay = Config {
            group,
            ..Config::default()
        };
        let attack = Attack {
            overlay,
            loss: 0.01,
            ..Attack::new(1, 128, traitors, 100)
        };
        let outcome = ok(run(&attack));
        let which = format!("groups of {group}: {outcome:?}");
        assert_eq!((outcome.innocent, outcome.wrong), (0, 0), "{which}");
        assert!(outcome.right + 1 >= outcome.lookups, "{which}");
    }
}

/// A member that accuses in its own name is convicted by it. In the name of an honest member none
/// can, and none gets an honest one convicted.
#[test]
fn only_false_accusers_are_convicted() {
    for seed in seeds(3) {
        let config = RingConfig {
            check: Check::Honest,
            ..secure()
        };
        let mut sim = RingSim::new(seed, config);
        let keys: Vec<RingKey> = (0..64).map(|_| sim.add()).collect();
        let accusers: BTreeSet<RingKey> = keys.iter().step_by(16).copied().collect();
        let accuse = |key: &RingKey| sim.recruit(*key, Behaviour::Accuse);
        accusers.iter().for_each(accuse);
        sim.settle();
        ok(
            sim.run_until(seconds(60), |sim| match sim.convicted().len() {
                4 => Ok(()),
                few => Err(format!("only {few} convicted")),
            }),
        );
        ok(sim.run_for(seconds(10)));
        for key in keys.iter().filter(|key| !accusers.contains(*key)) {
            let chord = sim.chord(key).expect("it runs");
            let known: BTreeSet<RingKey> = chord.convicted().map(|(member, _)| member).collect();
            assert_eq!(known, accusers, "seed {seed}, {key:?}");
        }
    }
}

/// A quarter of a ring of sixty come and go all the time, each every three seconds, for a hundred
/// seconds.
#[test]
fn lookups_survive_a_flood_of_joins_and_leaves() {
    for seed in seeds(2) {
        let config = RingConfig {
            check: Check::Honest,
            ..secure()
        };
        let mut sim = RingSim::new(seed, config);
        let keys: Vec<RingKey> = (0..60).map(|_| sim.add()).collect();
        let (flooders, honest) = keys.split_at(15);
        sim.settle();
        ok(sim.run_for(seconds(20)));
        let (mut asked, mut right) = (0, 0);
        for turn in 0..480 {
            let key = flooders[turn % flooders.len()];
            match (sim.chord(&key).is_some(), turn % 2) {
                (false, _) => sim.join(key, &honest[..3]),
                (true, 0) => sim.crash(key),
                (true, _) => {
                    sim.leave(key);
                    ok(sim.run_for(Duration::from_millis(50)));
                    sim.crash(key);
                }
            }
            if turn % 4 == 0 {
                let target = honest[(turn / 4) % honest.len()];
                asked += usize::from(sim.lookup(honest[(turn / 4 + 7) % honest.len()], target));
            }
            ok(sim.run_for(Duration::from_millis(200)));
            let results = sim.take_results().into_iter();
            right += results.filter(|r| r.owner == Ok(r.target)).count();
        }
        flooders.iter().for_each(|key| sim.crash(*key));
        ok(sim.run_for(seconds(12)));
        let results = sim.take_results().into_iter();
        right += results.filter(|r| r.owner == Ok(r.target)).count();
        assert_eq!((asked, right), (120, 120), "seed {seed}");
        assert!(sim.convicted().is_empty(), "seed {seed}");
        ok(sim.run_until(seconds(60), |sim| at_rest(sim, 45)));
    }
}

/// Chord's successor lists have r entries. Whose whole list dies still knows its group, and where
/// that has no more on that side either, those it met elsewhere.
#[test]
fn the_group_bridges_a_dead_successor_list() {
    for seed in seeds(2) {
        for more in [0, 1] {
            let (mut sim, keys) = formed(seed, 40);
            sim.set_check(Check::Nothing);
            let dead = sim.r() + more;
            keys[7..7 + dead].iter().for_each(|key| sim.crash(*key));
            ok(sim.run_until(seconds(120), |sim| at_rest(sim, 40 - dead)));
            let targets = [keys[7], keys[7 + dead]];
            ok(ask_everybody(&mut sim, &targets, seconds(20)));
        }
    }
}

/// Fingers are looked up ten times as often as by default, so that they are known in a minute of
/// virtual time and not in eleven.
const QUICK_FINGERS: Duration = Duration::from_millis(1_500);

#[test]
fn members_lying_rarely_are_convicted_within_minutes() {
    for seed in seeds(2) {
        let found = ok(furtive(seed, 60, seconds(400), QUICK_FINGERS));
        assert_eq!(found.innocent, 0, "seed {seed}");
        // A mean of about two minutes; without audits most are not convicted at all.
        let median = found.after.get(found.liars / 2);
        let soon = median.is_some_and(|median| *median < seconds(300));
        assert!(soon, "seed {seed}: {found:?}");
    }
}

#[test]
fn members_that_restart_do_not_contradict_themselves() {
    for seed in seeds(2) {
        let (mut sim, keys) = formed(seed, 16);
        for key in keys.iter().step_by(3) {
            sim.crash(*key);
            ok(sim.run_for(seconds(3)));
            sim.restart(*key);
            ok(sim.run_for(seconds(5)));
        }
        ok(sim.run_for(seconds(20)));
        assert!(
            sim.convicted().is_empty(),
            "seed {seed}: {:?}",
            sim.convicted()
        );
    }
}

/// One message of twenty is lost.
#[test]
fn owner_statements_reach_all_past_malicious_routers() {
    for seed in seeds(2) {
        let attack = Attack {
            loss: 0.05,
            ..Attack::new(seed, 200, 0.3, 0)
        };
        let (times, others) = ok(news(&attack, seconds(5)));
        assert_eq!(times.len(), others, "seed {seed}");
    }
}
