//! A peer with several addresses, whose ways out come and go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const UDP: &str = "udp://192.0.2.1:7";
const TCP: &str = "tcp://192.0.2.1:7";
const MAIL: &str = "smtp://a@example.org?X-A=b";

fn descriptor(text: &str) -> AddressDescriptor {
    let address: Address = text.parse().unwrap();
    let cost = match address.protocol() {
        crate::Protocol::Udp => 100,
        crate::Protocol::Tcp => 200,
        _ => 10_000,
    };
    let mut descriptor = AddressDescriptor::new(address, 1200, cost);
    if text == MAIL {
        descriptor.latency = crate::LatencyClass::Minutes;
    }
    descriptor
}

/// The network: which addresses carry what is sent to them, and how long it takes there and back.
struct World {
    now: Instant,
    paths: Paths,
    ways: BTreeMap<&'static str, Option<Duration>>,
    answers: Vec<(Instant, u64)>,
    probes: usize,
    talks: bool,
}

impl World {
    fn new(rules: &[(&str, Option<u32>, bool)]) -> World {
        let rule = |(target, cost, metered): &(&str, _, _)| {
            PathRule::new(target, *cost, *metered).unwrap()
        };
        World {
            now: Instant::now(),
            paths: Paths::new(PathRules::new(rules.iter().map(rule).collect()), [7; 32]),
            ways: BTreeMap::new(),
            answers: Vec::new(),
            probes: 0,
            talks: true,
        }
    }

    fn set(&mut self, way: &'static str, rtt: Option<u64>) {
        self.ways.insert(way, rtt.map(Duration::from_millis));
    }

    fn offer(&mut self) {
        self.offer_aged(Duration::ZERO);
    }

    fn offer_aged(&mut self, age: Duration) {
        let proved: Vec<_> = self
            .ways
            .iter()
            .map(|(text, rtt)| Proved {
                descriptor: descriptor(text),
                rtt: rtt.unwrap_or_default(),
                age,
            })
            .collect();
        self.paths.offer(self.now, &proved);
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(50);
        let now = self.now;
        if self.talks && self.paths.active().is_some() {
            self.paths.sent(now);
        }
        for (at, number) in std::mem::take(&mut self.answers) {
            if at <= now {
                self.paths.handle_answer(now, number);
            } else {
                self.answers.push((at, number));
            }
        }
        if self.paths.poll_timeout().is_some_and(|at| at <= now) {
            self.paths.handle_timeout(now);
        }
        while let Some(probe) = self.paths.poll_probe(now) {
            self.probes += 1;
            let way = self.ways.get(probe.address.to_string().as_str());
            if let Some(Some(rtt)) = way {
                self.answers.push((now + *rtt, probe.number));
            }
        }
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.step();
        }
    }

    fn active(&self) -> String {
        self.paths
            .active()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    fn state(&self, text: &str) -> PathState {
        let reports = self.paths.reports(self.now);
        let report = reports.iter().find(|r| r.address.to_string() == text);
        report.unwrap().state
    }
}

/// The reports say why the others are not.
#[test]
fn cheapest_that_works_is_used() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.offer();
    assert_eq!(world.active(), TCP);
    world.set(UDP, Some(20));
    world.set(MAIL, Some(60_000));
    world.offer();
    assert_eq!(world.active(), UDP, "costs less, although it is slower");
    assert_eq!(world.state(UDP), PathState::Active);
    assert_eq!(world.state(TCP), PathState::Dearer);
    assert_eq!(world.state(MAIL), PathState::Dearer);
}

/// It is left within three seconds, and taken back when it works again.
#[test]
fn dead_path_is_left_soon_and_taken_back() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.set(UDP, Some(20));
    world.offer();
    world.run(20.0);
    assert_eq!(world.active(), UDP);
    world.set(UDP, None);
    world.run(3.0);
    assert_eq!(world.active(), TCP);
    assert!(matches!(world.state(UDP), PathState::Dead { .. }));
    world.run(2.0);
    world.set(UDP, Some(20));
    world.run(6.0);
    assert_eq!(world.active(), UDP, "nobody had to ask");
}

/// All are tried, those among them that were given up.
#[test]
fn race_finds_what_works_within_a_round_trip() {
    let mut world = World::new(&[]);
    let (mail, other) = (MAIL, "tcp://192.0.2.2:7");
    for (way, rtt) in [(UDP, 20), (TCP, 30), (other, 40), (mail, 60_000)] {
        world.set(way, Some(rtt));
    }
    world.offer();
    world.run(20.0);
    world.set(UDP, None);
    world.run(1.0);
    world.paths.race(world.now);
    world.run(0.2);
    assert_eq!(world.active(), TCP);
    // The next one, although what has just died was proven a moment ago.
    world.set(TCP, None);
    world.run(1.0);
    world.paths.race(world.now);
    world.run(0.2);
    assert_eq!(world.active(), other);
    // What works again is used again.
    world.set(UDP, Some(20));
    world.run(1.0);
    world.paths.race(world.now);
    world.run(1.0);
    assert_eq!(world.active(), UDP);
}

/// A wrong guess changes nothing for long, and asks no mail.
#[test]
fn race_without_need_keeps_the_path() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.set(UDP, Some(200));
    world.set(MAIL, Some(60_000));
    world.offer();
    world.run(20.0);
    let probes = world.probes;
    for _ in 0..10 {
        world.paths.race(world.now);
        world.run(0.6);
    }
    assert_eq!(world.active(), UDP, "it costs less");
    assert!(world.probes - probes < 40, "{}", world.probes - probes);
    world.run(60.0);
    assert_eq!(world.active(), UDP);
}

#[test]
fn old_proof_is_renewed_before_use() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.offer();
    world.set(UDP, None);
    world.offer_aged(Duration::from_secs(300));
    world.run(3.0);
    assert_eq!(world.active(), TCP);
    world.set(UDP, Some(10));
    world.run(10.0);
    assert_eq!(world.active(), UDP);
}

#[test]
fn returning_path_is_used_within_a_minute() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.set(UDP, Some(20));
    world.offer();
    world.run(400.0);
    for (away, back_within) in [(10.0, 6.0), (60.0, 18.0), (3000.0, 65.0)] {
        world.set(UDP, None);
        world.run(away);
        assert_eq!(world.active(), TCP);
        world.set(UDP, Some(20));
        world.run(back_within);
        assert_eq!(world.active(), UDP, "after {away} s");
        world.run(400.0);
    }
}

#[test]
fn received_packets_alone_keep_no_path_in_use() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.set(UDP, Some(20));
    world.offer();
    world.run(5.0);
    world.set(UDP, None);
    for _ in 0..60 {
        world.step();
        world.paths.handle_heard(world.now, &descriptor(UDP));
    }
    assert_eq!(world.active(), TCP, "the way out was blocked");
}

#[test]
fn flapping_path_is_followed_less_and_less() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.set(UDP, Some(20));
    world.offer();
    let (mut changes, mut last) = (Vec::new(), world.active());
    for half in 0..120 {
        world.set(UDP, (half % 2 == 0).then_some(20));
        for _ in 0..200 {
            world.step();
            if world.active() != last {
                last = world.active();
                changes.push(half);
            }
        }
    }
    let (early, late) = changes
        .iter()
        .partition::<Vec<usize>, _>(|half| **half < 60);
    assert!(early.len() > late.len(), "{early:?} {late:?}");
    assert!(changes.len() < 40, "{changes:?}");
}

#[test]
fn an_idle_link_costs_little() {
    let mut world = World::new(&[]);
    world.set(TCP, Some(1));
    world.set(UDP, Some(20));
    world.offer();
    world.talks = false;
    world.run(3600.0);
    // There and back, about 90 bytes each with UDP and IP.
    let day = world.probes * 24 * 180;
    assert!(day < 1_000_000, "{day} bytes a day");
    assert!(world.probes > 100, "the mapping of a NAT is kept open");
}

#[test]
fn mail_is_never_probed_and_used_only_alone() {
    let mut world = World::new(&[]);
    world.set(MAIL, Some(60_000));
    world.offer();
    assert_eq!(world.active(), MAIL);
    world.run(3600.0);
    assert_eq!((world.active().as_str(), world.probes), (MAIL, 0));
    world.set(TCP, Some(5));
    world.offer();
    assert_eq!(
        world.active(),
        TCP,
        "start by mail, go on over what is better"
    );
    world.set(TCP, None);
    world.run(3.0);
    assert_eq!(world.active(), MAIL);
}

#[test]
fn rules_set_costs_and_metered_paths() {
    let mut world = World::new(&[("tcp", Some(1), false)]);
    world.set(TCP, Some(5));
    world.set(UDP, Some(5));
    world.offer();
    assert_eq!(world.active(), TCP);

    let mut world = World::new(&[("192.0.2.0/24", None, true)]);
    world.set(UDP, Some(5));
    world.set("tcp://198.51.100.1:7", Some(5));
    world.offer();
    assert_eq!(world.active(), "tcp://198.51.100.1:7");
    assert_eq!(world.state(UDP), PathState::Metered);
}

#[test]
fn change_at_equal_cost_needs_clearly_less_latency() {
    let other = "udp://198.51.100.1:7";
    let mut world = World::new(&[]);
    world.set(UDP, Some(50));
    world.offer();
    world.run(60.0);
    world.set(other, Some(45));
    world.offer();
    world.run(60.0);
    assert_eq!(world.active(), UDP);
    assert_eq!(world.state(other), PathState::NotFaster);
    world.set("udp://203.0.113.1:7", Some(10));
    world.offer();
    assert_eq!(world.active(), "udp://203.0.113.1:7");
}

#[test]
fn observed_address_is_used_only_after_an_answer() {
    let moved = "udp://192.0.2.99:7";
    let mut world = World::new(&[]);
    world.paths.adopt(world.now, &descriptor(UDP));
    world.set(UDP, None);
    world.set(moved, None);
    world.paths.handle_heard(world.now, &descriptor(moved));
    world.run(10.0);
    assert_eq!(world.active(), "", "neither carries anything");
    assert!(
        world
            .paths
            .reports(world.now)
            .iter()
            .all(|r| r.address.to_string() != moved)
    );
    world.set(moved, Some(10));
    world.paths.handle_heard(world.now, &descriptor(moved));
    world.run(1.0);
    assert_eq!(world.active(), moved);
}

#[test]
fn peer_restarted_elsewhere_is_reached_at_once() {
    let mut world = World::new(&[]);
    let elsewhere = "udp://192.0.2.1:8";
    world.set(UDP, Some(10));
    world.offer();
    world.run(3.0);
    // It has another port now, or is behind something dearer.
    for new in [elsewhere, TCP] {
        world.paths.adopt(world.now, &descriptor(UDP));
        world.run(1.0);
        world.set(UDP, None);
        world.set(new, Some(10));
        world.paths.adopt(world.now, &descriptor(new));
        assert_eq!(world.active(), new);
        world.run(3.0);
        assert_eq!(world.active(), new);
        world.set(new, None);
        world.set(UDP, Some(10));
    }
}

/// The path in use works, and stays in use.
#[test]
fn handshake_over_a_dearer_path_moves_no_link() {
    let mut world = World::new(&[]);
    world.set(UDP, Some(10));
    world.set(TCP, Some(10));
    world.set(MAIL, Some(60_000));
    world.offer();
    world.run(3.0);
    world.paths.adopt(world.now, &descriptor(TCP));
    world.run(0.5);
    assert_eq!(world.active(), UDP, "it has answered again");
    world.paths.adopt(world.now, &descriptor(MAIL));
    assert_eq!(world.active(), UDP, "nothing is lost by waiting");
}

#[test]
fn any_number_of_observed_addresses_takes_bounded_room() {
    let mut world = World::new(&[]);
    world.paths.adopt(world.now, &descriptor(UDP));
    for port in 1..1000 {
        let text = format!("udp://192.0.2.2:{port}");
        world.paths.handle_heard(world.now, &descriptor(&text));
    }
    assert_eq!(world.active(), UDP);
    assert_eq!(world.paths.reports(world.now).len(), limits::PATHS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_breaks_a_way_that_works_is_found(
        schedule in proptest::collection::vec((0..3_usize, proptest::bool::ANY), 1..12),
        last in 0..3_usize,
    ) {
        let ways = [UDP, TCP, "tcp://198.51.100.1:7"];
        let mut world = World::new(&[]);
        for way in ways {
            world.set(way, Some(10));
        }
        world.offer();
        for (way, up) in schedule {
            world.set(ways[way], up.then_some(10));
            world.run(4.0);
            let active = world.active();
            if !active.is_empty() {
                let proved = world.paths.reports(world.now);
                prop_assert!(proved[0].proved.is_some(), "never a path that has not answered");
            }
        }
        for (index, way) in ways.into_iter().enumerate() {
            world.set(way, (index == last).then_some(10));
        }
        // The longest rest, a round of probes for each of the others.
        world.run(limits::PATH_REST_LONGEST.as_secs_f64() + 20.0);
        prop_assert_eq!(world.active(), ways[last]);
    }
}

/// One that answers is taken as soon as if a single path had died.
#[test]
fn several_dead_paths_cost_no_extra_time() {
    const OTHER: &str = "udp://192.0.2.2:7";
    let mut world = World::new(&[]);
    world.set(UDP, Some(20));
    world.set(OTHER, Some(40));
    world.set(TCP, Some(30));
    world.offer();
    world.run(60.0);
    assert_eq!(world.active(), UDP);
    // A firewall begins to drop all UDP.
    world.set(UDP, None);
    world.set(OTHER, None);
    world.run(3.2);
    assert_eq!(world.active(), TCP, "not after trying every other in turn");
}

#[test]
fn path_without_quota_is_left_until_next_day() {
    let member = crate::MemberId::new([9; 32]);
    let quotas = Quotas::default();
    let mut w = World::new(&[]);
    w.paths = Paths::new(PathRules::default(), [7; 32]).with_quotas(member, quotas.clone());
    w.set(UDP, Some(10));
    w.set(MAIL, Some(1_000));
    let modest = AddressDescriptor {
        quota: Some(20),
        ..descriptor(UDP)
    };
    quotas.learn(member, &[&modest]);
    w.offer();
    let udp = modest.address;
    let mut left = 0;
    while w.paths.active() == Some(&udp) {
        left += usize::from(w.paths.spend(w.now, &udp, 1));
        w.step();
    }
    // Probes count, too.
    assert!(
        left <= 20 && left + w.probes >= 20,
        "{left} and {}",
        w.probes
    );
    let spent = left + w.probes;
    assert_eq!(spent, 20);
    assert_eq!(
        w.paths.active().map(ToString::to_string).as_deref(),
        Some(MAIL)
    );
    assert!(!w.paths.spend(w.now, &udp, 1), "not one more");
    let report = |w: &World| w.paths.reports(w.now);
    let of_udp = report(&w).into_iter().find(|r| r.address == udp).unwrap();
    assert!(matches!(of_udp.state, PathState::QuotaUsed { .. }));
    assert!(
        of_udp.state.to_string().contains("quota"),
        "{}",
        of_udp.state
    );
    let probes = w.probes;
    w.run(3600.0);
    assert_eq!(w.probes, probes, "probing stops");
    w.now += Duration::from_secs(25 * 3600);
    w.run(2.0);
    assert_eq!(w.paths.active(), Some(&udp), "{:?}", w.paths.reports(w.now));
}

/// No time-out is due at once, so that nothing spins.
#[test]
fn without_quota_no_path_is_active_or_probed() {
    let member = crate::MemberId::new([9; 32]);
    let quotas = Quotas::default();
    let mut w = World::new(&[]);
    w.paths = Paths::new(PathRules::default(), [7; 32]).with_quotas(member, quotas.clone());
    w.set(UDP, Some(10));
    let none = AddressDescriptor {
        quota: Some(0),
        ..descriptor(UDP)
    };
    quotas.learn(member, &[&none]);
    w.offer();
    w.paths.adopt(w.now, &none);
    assert_eq!(w.paths.active(), None);
    for _ in 0..100 {
        w.paths.handle_heard(w.now, &none);
        w.step();
        while w.paths.poll_probe(w.now).is_some() {}
        w.paths.handle_timeout(w.now);
        assert!(w.paths.poll_timeout().is_none_or(|due| due > w.now));
    }
    assert_eq!(w.probes, 0);
}
