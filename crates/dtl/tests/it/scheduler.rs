//! The host-wide scheduler: exact weights, leftovers for priority 0, never above the cap, never
//! idle for nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringway_dtl::limits::{MAX_FLOWS, MAX_GRANT, MIN_BURST};
use ringway_dtl::{FlowId, Grant, Priority, Scheduler, TooManyFlows};

use crate::{epoch, ms, secs};

fn priority(flows: f64) -> Priority {
    Priority::new(flows).unwrap()
}

/// Hands out grants for as long as `go_on` says, sleeping as told.
fn drive(
    scheduler: &mut Scheduler,
    now: &mut Instant,
    mut go_on: impl FnMut(&BTreeMap<FlowId, u64>) -> bool,
) -> BTreeMap<FlowId, u64> {
    let mut granted = BTreeMap::new();
    let mut turns = 0;
    while go_on(&granted) {
        turns += 1;
        assert!(turns < 1_000_000, "this leads nowhere: {granted:?}");
        if let Some((flow, bytes)) = scheduler.poll_grant(*now) {
            *granted.entry(flow).or_default() += bytes;
        } else if let Some(wake) = scheduler.poll_timeout() {
            assert!(wake > *now, "nothing now, yet told to come back at once");
            *now = wake;
        } else {
            break;
        }
    }
    granted
}

/// All that can be granted at one moment.
fn drain(scheduler: &mut Scheduler, now: Instant) -> Vec<(FlowId, u64)> {
    std::iter::from_fn(|| scheduler.poll_grant(now)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn shares_follow_the_weights_within_one_per_cent(
        weights in proptest::collection::vec(0.25..8.0_f64, 2..8),
        rate in 10_000..50_000_000_u64,
    ) {
        let mut now = epoch();
        let mut scheduler = Scheduler::new(Some(rate));
        let flows: Vec<_> = weights.iter().map(|&w| scheduler.add(now, priority(w)).unwrap()).collect();
        let beggar = scheduler.add(now, Priority::SCAVENGER).unwrap();
        for &flow in flows.iter().chain([&beggar]) {
            scheduler.want(now, flow, u64::MAX);
        }
        // A start-time fair queue errs by at most two pieces for a flow: 300 pieces make that less
        // than 1 %.
        let piece = (rate / 50).clamp(MIN_BURST, MAX_GRANT);
        let enough = |granted: &BTreeMap<FlowId, u64>| {
            flows.iter().any(|flow| granted.get(flow).is_none_or(|&bytes| bytes < 300 * piece))
        };
        let granted = drive(&mut scheduler, &mut now, enough);
        prop_assert_eq!(granted.get(&beggar), None);
        let total: u64 = granted.values().sum();
        let weight: f64 = weights.iter().sum();
        for (flow, w) in flows.iter().zip(&weights) {
            let share = granted[flow] as f64 / total as f64;
            let ideal = w / weight;
            prop_assert!((share / ideal - 1.0).abs() < 0.01, "{share} for {ideal} of {weights:?}");
        }
        // And the cap was used up, to the last piece.
        let capacity = rate as f64 * (now - epoch()).as_secs_f64();
        prop_assert!(total as f64 >= capacity * 0.999, "{total} of {capacity}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(f64),
    Remove(usize),
    SetPriority(usize, f64),
    Want(usize, u64),
    SetRate(u64),
    Sleep(Duration),
    SleepUntilTold,
}

fn step() -> impl Strategy<Value = Step> {
    let flows = prop_oneof![Just(0.0), Just(1e-300), Just(1000.0), 0.1..10.0];
    prop_oneof![
        2 => flows.clone().prop_map(Step::Add),
        1 => (0..8_usize).prop_map(Step::Remove),
        1 => (0..8_usize, flows).prop_map(|(flow, to)| Step::SetPriority(flow, to)),
        5 => (0..8_usize, prop_oneof![Just(0), Just(u64::MAX), 1..100_000_u64])
            .prop_map(|(flow, bytes)| Step::Want(flow, bytes)),
        1 => prop_oneof![1..5_000_000_u64, Just(u64::MAX)].prop_map(Step::SetRate),
        2 => (0..50_000_u64).prop_map(|us| Step::Sleep(Duration::from_micros(us))),
        6 => Just(Step::SleepUntilTold),
    ]
}

/// What the scheduler should know, kept beside it, and a leaky bucket that no grant may overflow.
struct Model {
    now: Instant,
    rate: u64,
    flows: Vec<(FlowId, f64, u64)>,
    level: f64,
    burst: f64,
}

impl Model {
    fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
        // 20 ms of the rate, 1 500 bytes to 1 MiB: what the documentation promises.
        self.burst = (rate as f64 * 0.02).clamp(1500.0, 1_048_576.0);
        self.level = self.level.max(0.0);
    }

    fn sleep(&mut self, time: Duration) {
        self.now += time;
        self.level = (self.level - self.rate as f64 * time.as_secs_f64()).max(0.0);
    }

    fn granted(&mut self, flow: FlowId, bytes: u64) {
        let wanted_by_others = self.flows.iter().any(|&(_, p, want)| p > 0.0 && want > 0);
        let entry = self.flows.iter_mut().find(|entry| entry.0 == flow).unwrap();
        assert!((1..=MAX_GRANT).contains(&bytes), "{bytes}");
        assert!(bytes <= entry.2, "more than it wants");
        assert!(entry.1 > 0.0 || !wanted_by_others, "priority 0 goes last");
        entry.2 -= bytes;
        self.level += bytes as f64;
    }
}

fn take_step(scheduler: &mut Scheduler, model: &mut Model, step: &Step) {
    let now = model.now;
    let count = model.flows.len().max(1);
    match *step {
        Step::Add(p) => {
            let id = scheduler.add(now, priority(p)).unwrap();
            model.flows.push((id, p, 0));
        }
        Step::Remove(nth) if !model.flows.is_empty() => {
            let (id, ..) = model.flows.remove(nth % count);
            assert!(scheduler.remove(now, id));
            assert!(!scheduler.remove(now, id) && !scheduler.want(now, id, 9));
        }
        Step::SetPriority(nth, p) => {
            if let Some(entry) = model.flows.get_mut(nth % count) {
                assert!(scheduler.set_priority(now, entry.0, priority(p)));
                entry.1 = p;
            }
        }
        Step::Want(nth, bytes) => {
            if let Some(entry) = model.flows.get_mut(nth % count) {
                assert!(scheduler.want(now, entry.0, bytes));
                entry.2 = bytes;
            }
        }
        Step::SetRate(rate) => {
            scheduler.set_rate(now, Some(rate));
            // A larger rate brings a larger burst only in time; a smaller one cuts what is saved
            // up.
            model.set_rate(rate);
        }
        Step::Sleep(time) => model.sleep(time),
        Step::SleepUntilTold => {
            if let Some(wake) = scheduler.poll_timeout() {
                model.sleep(wake.duration_since(now));
            }
        }
        Step::Remove(_) => {}
    }
}

proptest! {
    #[test]
    fn any_use_keeps_the_promises(
        rate in 1..5_000_000_u64,
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut scheduler = Scheduler::new(Some(rate));
        let mut model = Model { now: epoch(), rate, flows: Vec::new(), level: 0.0, burst: 0.0 };
        model.set_rate(rate);
        let mut slack = 0.0_f64;
        for step in &steps {
            let told = matches!(step, Step::SleepUntilTold) && scheduler.poll_timeout().is_some();
            let burst = model.burst;
            take_step(&mut scheduler, &mut model, step);
            // What was saved up under the earlier rate may still be used after a change.
            slack = if matches!(step, Step::SetRate(_)) { slack.max(burst) } else { slack };
            let mut grants = 0;
            while let Some((flow, bytes)) = scheduler.poll_grant(model.now) {
                model.granted(flow, bytes);
                grants += 1;
            }
            prop_assert!(!told || grants > 0, "woken for nothing");
            let most = model.burst.max(slack) + 1.0;
            prop_assert!(model.level <= most, "{} above the cap", model.level - most);
            let wanted = model.flows.iter().any(|&(.., want)| want > 0);
            prop_assert_eq!(scheduler.poll_timeout().is_some(), wanted);
        }
    }
}

#[test]
fn priority_zero_gets_the_rest_equally() {
    let mut now = epoch();
    let mut scheduler = Scheduler::new(Some(1_000_000));
    let first = scheduler.add(now, Priority::SCAVENGER).unwrap();
    let second = scheduler.add(now, Priority::SCAVENGER).unwrap();
    let busy = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, first, u64::MAX);
    scheduler.want(now, second, u64::MAX);
    let mut granted: BTreeMap<FlowId, u64> = BTreeMap::new();
    let mut turns = 0;
    for tick in 0..100 {
        now = epoch() + ms(100 * tick);
        // A quarter of the cap, in one piece ten times a second.
        scheduler.want(now, busy, 25_000);
        while now < epoch() + ms(100 * tick + 100) {
            turns += 1;
            assert!(turns < 100_000, "this leads nowhere");
            for (flow, bytes) in drain(&mut scheduler, now) {
                *granted.entry(flow).or_default() += bytes;
            }
            now = scheduler.poll_timeout().unwrap();
        }
    }
    assert_eq!(granted[&busy], 2_500_000);
    assert!(granted[&first].abs_diff(granted[&second]) <= 20_000);
    let left = granted[&first] + granted[&second];
    assert!(left.abs_diff(7_500_000) <= 40_000, "{left}");
}

#[test]
fn without_a_cap_everything_is_granted_at_once() {
    let now = epoch();
    let mut scheduler = Scheduler::new(None);
    let scavenger = scheduler.add(now, Priority::SCAVENGER).unwrap();
    let normal = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, scavenger, u64::MAX);
    scheduler.want(now, normal, 5);
    assert_eq!(scheduler.poll_timeout(), Some(now));
    assert_eq!(scheduler.poll_grant(now), Some((normal, 5)));
    assert_eq!(scheduler.poll_grant(now), Some((scavenger, u64::MAX)));
    assert_eq!(scheduler.poll_grant(now), None);
    assert_eq!(scheduler.poll_timeout(), None);
    assert_eq!(scheduler.request(now, normal, 7), Grant::Now(7));
}

#[test]
fn a_cap_of_zero_grants_nothing() {
    let now = epoch();
    let mut scheduler = Scheduler::new(Some(0));
    let flow = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, flow, 10);
    assert_eq!(scheduler.poll_grant(now + secs(9)), None);
    assert_eq!(scheduler.poll_timeout(), None);
    assert_eq!(scheduler.request(now, flow, 10), Grant::Never);
    scheduler.set_rate(now + secs(9), Some(1000));
    let wake = scheduler.poll_timeout().unwrap();
    assert_eq!(scheduler.poll_grant(wake), Some((flow, 10)));
    scheduler.set_rate(wake, None);
    scheduler.want(wake, flow, 1_000_000);
    assert_eq!(scheduler.poll_grant(wake), Some((flow, 1_000_000)));
}

#[test]
fn a_raised_priority_counts_at_once() {
    let mut now = epoch();
    let mut scheduler = Scheduler::new(Some(1_000_000));
    let raised = scheduler.add(now, priority(0.001)).unwrap();
    let other = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, raised, u64::MAX);
    scheduler.want(now, other, u64::MAX);
    let total = |granted: &BTreeMap<FlowId, u64>| granted.values().sum::<u64>();
    let before = drive(&mut scheduler, &mut now, |g| total(g) < 10_000_000);
    assert!(before[&other] > 9_900_000);
    scheduler.set_priority(now, raised, priority(3.0));
    let after = drive(&mut scheduler, &mut now, |g| total(g) < 10_000_000);
    let share = after[&raised] as f64 / total(&after) as f64;
    assert!((share - 0.75).abs() < 0.01, "{share}");
    scheduler.set_priority(now, raised, Priority::SCAVENGER);
    let yielded = drive(&mut scheduler, &mut now, |g| total(g) < 1_000_000);
    assert_eq!(yielded.get(&raised), None);
}

#[test]
fn flows_that_ask_for_themselves_share_by_weight() {
    let mut scheduler = Scheduler::new(Some(1_000_000));
    let mut now = epoch();
    // One more has asked once and never comes back: it must not hold the others up.
    let gone = scheduler.add(now, priority(5.0)).unwrap();
    scheduler.request(now, gone, u64::MAX);
    let flows = [1.0, 3.0].map(|p| scheduler.add(now, priority(p)).unwrap());
    let mut got = [0_u64; 2];
    let mut wake = [now; 2];
    let mut turns = 0;
    while now < epoch() + secs(60) {
        turns += 1;
        assert!(turns < 1_000_000, "this leads nowhere: {got:?}");
        let nth = if wake[0] <= wake[1] { 0 } else { 1 };
        now = now.max(wake[nth]);
        match scheduler.request(now, flows[nth], 10_000) {
            Grant::Now(bytes) => got[nth] += bytes,
            // A sleeper wakes a little late, never early.
            Grant::Wait(until) => wake[nth] = until.max(now) + Duration::from_micros(100),
            Grant::Never => panic!("both flows are known"),
        }
    }
    let share = got[1] as f64 / (got[0] + got[1]) as f64;
    assert!((share - 0.75).abs() < 0.01, "{got:?}");
    assert!(got[0] + got[1] >= 59_000_000, "{got:?}");
}

#[test]
fn an_absent_flows_grant_is_kept() {
    let now = epoch();
    let mut scheduler = Scheduler::new(Some(100_000));
    let away = scheduler.add(now, priority(4.0)).unwrap();
    let here = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, away, 1_000_000);
    assert!(matches!(scheduler.request(now, here, 2000), Grant::Wait(_)));
    let later = now + ms(100);
    assert_eq!(scheduler.request(later, here, 2000), Grant::Now(2000));
    assert_eq!(scheduler.poll_timeout(), Some(later));
    assert_eq!(scheduler.poll_grant(later), Some((away, 2000)));
    // A change of priority meanwhile brings no second grant on top of the one that is kept.
    for tick in 2..10 {
        let now = now + ms(100 * tick);
        scheduler.request(now, here, 100);
        scheduler.set_priority(now, away, priority(3.0));
    }
    assert_eq!(scheduler.poll_grant(now + secs(1)), Some((away, 2000)));
}

#[test]
fn withdrawing_a_demand_returns_its_grant() {
    let now = epoch();
    let mut scheduler = Scheduler::new(Some(100_000));
    let away = scheduler.add(now, Priority::NORMAL).unwrap();
    let here = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, away, 2000);
    assert!(matches!(scheduler.request(now, here, 2000), Grant::Wait(_)));
    scheduler.want(now, away, 500);
    scheduler.want(now, away, 0);
    assert_eq!(scheduler.request(now, here, 2000), Grant::Now(2000));
    let later = now + secs(1);
    scheduler.want(later, away, 2000);
    scheduler.request(later, here, 2000);
    scheduler.remove(later, away);
    assert_eq!(scheduler.request(later, here, 2000), Grant::Now(2000));
}

#[test]
fn an_idle_flow_has_nothing_to_catch_up() {
    let mut now = epoch();
    let mut scheduler = Scheduler::new(Some(1_000_000));
    let idle = scheduler.add(now, Priority::NORMAL).unwrap();
    let busy = scheduler.add(now, Priority::NORMAL).unwrap();
    scheduler.want(now, busy, u64::MAX);
    let total = |granted: &BTreeMap<FlowId, u64>| granted.values().sum::<u64>();
    drive(&mut scheduler, &mut now, |g| total(g) < 10_000_000);
    scheduler.want(now, idle, u64::MAX);
    let after = drive(&mut scheduler, &mut now, |g| total(g) < 1_000_000);
    assert!(after[&busy].abs_diff(after[&idle]) <= 40_000, "{after:?}");
}

#[test]
fn empty_requests_and_unknown_flows_are_harmless() {
    let now = epoch();
    let mut scheduler = Scheduler::new(Some(1000));
    let flow = scheduler.add(now, Priority::NORMAL).unwrap();
    let gone = scheduler.add(now, Priority::NORMAL).unwrap();
    assert!(scheduler.remove(now, gone));
    assert!(!scheduler.remove(now, gone));
    assert!(!scheduler.set_priority(now, gone, Priority::NORMAL));
    assert!(!scheduler.want(now, gone, 10));
    assert_eq!(scheduler.request(now, gone, 10), Grant::Never);
    assert!(scheduler.want(now, flow, 10) && scheduler.want(now, flow, 0));
    assert_eq!(scheduler.poll_grant(now), None);
    assert_eq!(scheduler.request(now, flow, 0), Grant::Now(0));
    // Time that runs backwards fills nothing.
    scheduler.want(now, flow, 1500);
    assert_eq!(scheduler.poll_grant(now + secs(5)), Some((flow, 1500)));
    scheduler.want(now, flow, 1500);
    assert_eq!(scheduler.poll_grant(now), None);
    assert_eq!(scheduler.poll_timeout(), Some(now + ms(6500)));
}

#[test]
fn flows_are_bounded_and_removal_makes_room() {
    let now = epoch();
    let mut scheduler = Scheduler::new(None);
    let first = scheduler.add(now, Priority::NORMAL).unwrap();
    for _ in 1..MAX_FLOWS {
        scheduler.add(now, Priority::NORMAL).unwrap();
    }
    assert_eq!(scheduler.add(now, Priority::NORMAL), Err(TooManyFlows));
    scheduler.remove(now, first);
    assert_ne!(scheduler.add(now, Priority::NORMAL), Ok(first));
}
