//! A router that starts again is in the ring soon, and with few messages, whichever other is off.

use std::time::Duration;

use ringway_overlay::{Chord, Membership, RingKey};
use ringway_sim::scenario::at_rest;
use ringway_sim::{Link, RingConfig, RingSim, seeds};

use crate::{at_rest_by, ok, seconds};

/// Messages that a router sends and gets until it is in the ring: fewer than the aim.
const MOST: u64 = 200;

/// Seven routers on a fast network that keeps the order, as a link does: what feeds itself by
/// answers shows there.
fn seven(seed: u64) -> (RingSim, Vec<RingKey>) {
    let config = RingConfig {
        credentials: true,
        link: Link {
            delay: Duration::from_micros(300),
            jitter: Duration::ZERO,
            ..Link::default()
        },
        ..RingConfig::default()
    };
    let (mut sim, keys) = at_rest_by(seed, 7, config);
    ok(sim.run_for(seconds(30)));
    (sim, keys)
}

/// One of them that is off, and another one that starts again, by the number of the run.
fn two_of(keys: &[RingKey], seed: u64) -> (RingKey, RingKey) {
    let at = |n: u64| keys[usize::try_from(n).unwrap() % keys.len()];
    (at(seed), at(seed + 1 + seed / 7 % 6))
}

/// How many messages `key` has sent and got.
fn messages(sim: &RingSim, key: &RingKey) -> u64 {
    let (sent, came) = sim.traffic_of(key);
    sent + came
}

fn is_member(sim: &RingSim, key: &RingKey) -> Result<(), String> {
    let state = sim.chord(key).map(Chord::state);
    match state == Some(Membership::Member) {
        true => Ok(()),
        false => Err(format!("{key:?} is {state:?}")),
    }
}

/// How long `key` took to be in the ring again, and its messages until then.
fn returns(sim: &mut RingSim, key: RingKey) -> (Duration, u64) {
    let before = messages(sim, &key);
    sim.restart(key);
    let took = ok(sim.run_until(seconds(60), |sim| is_member(sim, &key)));
    (took, messages(sim, &key) - before)
}

/// Within seconds, and with fewer than 200 messages.
#[test]
fn a_router_returns_soon_while_another_is_off() {
    let mut times = Vec::new();
    for seed in seeds(50) {
        let (mut sim, keys) = seven(seed);
        let (off, back) = two_of(&keys, seed);
        // Half of them come back at once, before anybody knows that they were gone.
        let away = if seed % 2 == 0 { 20_000 } else { 50 };
        sim.crash(off);
        ok(sim.run_for(Duration::from_millis(away)));
        sim.crash(back);
        ok(sim.run_for(Duration::from_millis(away)));
        times.push(returns(&mut sim, back));
        ok(sim.run_until(seconds(30), |sim| at_rest(sim, 6)));
    }
    times.sort();
    let few = |(_, messages): &(Duration, u64)| *messages < MOST;
    assert!(times.iter().all(few), "{times:?}");
    assert!(times[times.len() / 2].0 <= seconds(3), "{times:?}");
    assert!(
        times.iter().all(|(took, _)| *took <= seconds(6)),
        "{times:?}"
    );
}

#[test]
fn a_clock_ten_minutes_ahead_delays_no_return() {
    for seed in seeds(10) {
        let (mut sim, keys) = seven(seed);
        let (off, back) = two_of(&keys, seed);
        sim.crash(back);
        if seed % 2 == 0 {
            sim.crash(off);
        }
        ok(sim.run_for(seconds(20)));
        sim.set_clock(back, 600);
        let (took, messages) = returns(&mut sim, back);
        assert!(
            messages < MOST && took <= seconds(6),
            "{took:?}, {messages}"
        );
    }
}

/// The router reports what it waits for.
#[test]
fn a_clock_a_day_ahead_makes_requests_rare() {
    for seed in seeds(5) {
        let (mut sim, keys) = seven(seed);
        let (_, back) = two_of(&keys, seed);
        sim.crash(back);
        sim.set_clock(back, 86_400);
        let before = messages(&sim, &back);
        sim.restart(back);
        ok(sim.run_for(seconds(20)));
        let sent = messages(&sim, &back) - before;
        assert!(sent < 20 * 50, "{sent} messages in 20 s");
        let waiting = sim.chord(&back).and_then(Chord::waiting).unwrap();
        assert!(
            waiting.ended_views > 0 && waiting.failures > 0,
            "{waiting:?}"
        );
    }
}

/// All others are up.
#[test]
fn a_router_returns_with_few_messages() {
    for seed in seeds(20) {
        let (mut sim, keys) = seven(seed);
        let (_, back) = two_of(&keys, seed);
        sim.crash(back);
        ok(sim.run_for(seconds(20)));
        let before = messages(&sim, &back);
        let (took, until) = returns(&mut sim, back);
        assert!(took <= seconds(1) && until < MOST, "{took:?}, {until}");
        ok(sim.run_for(seconds(2)));
        let all = messages(&sim, &back) - before;
        assert!(all < 2 * MOST, "{all} messages in the first two seconds");
    }
}
