//! What virtual flows let go, and what cuts them.

use super::*;

/// Round trip of these tests, seconds.
const RTT: f64 = 0.02;

/// Flows that do not grow by themselves, each with `window` datagrams, all of it under way.
struct Path {
    flows: Flows,
    now: Instant,
    sent: u64,
    arrived: u64,
    /// Packets that will neither arrive nor be reported as lost.
    vanished: std::ops::Range<u64>,
}

impl Path {
    fn full(count: f64, window: f64) -> Path {
        let mut path = Path {
            flows: Flows::new(count, window * count, 0.0),
            now: crate::test_epoch(),
            sent: 0,
            arrived: 0,
            vanished: 0..0,
        };
        path.send();
        path
    }

    fn under_way(&self) -> f64 {
        let vanished = self.vanished.end - self.vanished.start;
        (self.sent - self.arrived - vanished) as f64
    }

    /// Sends what may be sent, and says how much that was.
    fn send(&mut self) -> u64 {
        let before = self.sent;
        while self.under_way() + 1.0 <= self.flows.window() {
            self.flows.on_sent(self.sent, 1.0);
            self.sent += 1;
        }
        self.sent - before
    }

    /// The oldest packet under way arrives, `micros` after the last.
    fn arrive(&mut self, micros: u64) {
        self.now += Duration::from_micros(micros);
        if !self.vanished.is_empty() && self.arrived == self.vanished.start {
            self.arrived = self.vanished.end;
            self.vanished = 0..0;
        }
        self.flows.on_arrived(self.now, self.arrived, RTT);
        self.arrived += 1;
    }

    /// The end of a batch, in which windows grow.
    fn grow(&mut self) {
        self.flows.on_acked(self.now, self.arrived, RTT, true);
    }
}

fn weights(flows: &Flows) -> Vec<f64> {
    flows.flows.iter().map(|flow| flow.cubic.weight).collect()
}

#[test]
fn weights_add_up_to_the_priority() {
    for (count, wanted) in [
        (0.25, vec![0.25]),
        (1.0, vec![1.0]),
        (2.5, vec![1.0, 1.0, 0.5]),
        (4.0, vec![1.0; 4]),
        (64.0, vec![2.0; 32]),
    ] {
        assert_eq!(weights(&Flows::new(count, 10.0, f64::INFINITY)), wanted);
    }
    let sum: f64 = weights(&Flows::new(1000.0, 10.0, f64::INFINITY))
        .iter()
        .sum();
    assert!((sum - 1000.0).abs() < 1e-6, "{sum}");
}

#[test]
fn packets_leave_in_pairs_as_from_tcp() {
    for count in [1.0, 2.0, 4.0] {
        let mut path = Path::full(count, 10.0);
        assert_eq!(path.sent as f64, 10.0 * count);
        let mut trains = Vec::new();
        for _ in 0..80 {
            path.arrive(500);
            trains.push(path.send());
        }
        let sent: u64 = trains.iter().sum();
        assert!((76..=80).contains(&sent), "{count}: {trains:?}");
        let pairs = trains.iter().filter(|train| **train == 2).count() as u64;
        // At most a few are out of step.
        assert!(pairs * 2 + 6 >= sent, "{count}: {trains:?}");
        assert!(path.under_way() <= 10.0 * count, "{}", path.under_way());
    }
}

/// One flow that sends in pairs, the last of them just now.
fn in_pairs(window: f64) -> Path {
    let mut path = Path::full(1.0, window);
    for _ in 0..4 {
        path.arrive(500);
        path.arrive(500);
        assert_eq!(path.send(), 2);
    }
    path
}

#[test]
fn a_third_packet_waits_for_a_near_acknowledgement() {
    // An acknowledgement every 2 ms is too far away to wait for; one every half is not.
    for (window, sent) in [(10.0, 3), (40.0, 2)] {
        let mut path = in_pairs(window);
        path.flows.flows[0].cubic.window += 1.0;
        path.arrive(200);
        path.arrive(200);
        assert_eq!(path.send(), sent, "{window}");
    }
}

#[test]
fn what_has_waited_a_millisecond_leaves() {
    let mut path = in_pairs(40.0);
    path.flows.flows[0].cubic.window -= 1.0;
    path.arrive(200);
    path.arrive(200);
    assert_eq!(path.send(), 0);
    path.arrive(400);
    path.flows.flows[0].cubic.window -= 1.0;
    path.arrive(400);
    assert_eq!(path.send(), 2);
    path.flows.flows[0].cubic.window -= 1.0;
    path.arrive(700);
    path.arrive(700);
    assert_eq!(path.send(), 1);
}

#[test]
fn a_trains_end_is_acknowledged_at_once() {
    // Three left together, of which two are acknowledged together; the third, as the last of its
    // train, does not wait for the next. A packet that left alone, the sixth, does.
    let mut path = Path::full(1.0, 3.0);
    let sent: Vec<u64> = (0..9)
        .map(|_| {
            path.arrive(5_000);
            path.send()
        })
        .collect();
    assert_eq!(sent, [0, 2, 1, 0, 2, 0, 2, 1, 0]);
}

#[test]
fn one_packet_is_never_held_back() {
    let mut path = Path::full(1.0, 1.0);
    for _ in 0..10 {
        path.arrive(20_000);
        assert_eq!(path.send(), 1);
    }
}

#[test]
fn a_cut_flow_does_not_delay_the_others() {
    let mut path = Path::full(2.0, 40.0);
    // Its first packet was the first of all.
    assert!(path.flows.on_lost(0, path.sent));
    path.arrived += 1;
    let mut sent = 0;
    for _ in 0..12 {
        path.arrive(500);
        sent += path.send();
    }
    // Half of what arrived was the other's, which sends as much again.
    assert!(sent >= 4, "{sent}");
    // And after a round trip all is within both windows.
    for _ in 0..160 {
        path.arrive(500);
        path.send();
    }
    assert!(path.under_way() <= 68.0, "{}", path.under_way());
}

#[test]
fn unreported_packets_leave_the_window() {
    let mut path = Path::full(1.0, 10.0);
    // Probes of the path's MTU, each as long as several datagrams, and no report comes that they
    // were lost.
    path.vanished = path.sent..path.sent + 5;
    for _ in 0..5 {
        path.flows.on_sent(path.sent, 4.5);
        path.sent += 1;
    }
    let mut trains = Vec::new();
    for _ in 0..200 {
        path.arrive(500);
        path.grow();
        path.flows.flows[0].cubic.window = 10.0;
        trains.push(path.send());
    }
    assert!(
        (9.0..=10.0).contains(&path.under_way()),
        "{}",
        path.under_way()
    );
    // With a rest under way for ever nothing would be held back for a pair.
    let late = &trains[150..];
    assert!(
        late.iter().filter(|train| **train == 2).count() >= 24,
        "{late:?}"
    );
}

#[test]
fn a_raise_takes_time_and_a_drop_none() {
    let mut path = Path::full(1.0, 40.0);
    path.flows.set_count(4.0);
    assert!(path.flows.window() <= 40.0 + 3.0 * TUNING.cubic.least.get());
    rounds(&mut path, 12);
    assert!((150.0..300.0).contains(&parts(&path)), "{}", parts(&path));
    path.flows.set_count(1.0);
    assert!(parts(&path) < 80.0, "{}", parts(&path));
}

fn parts(path: &Path) -> f64 {
    let flows = path.flows.flows.iter();
    flows.map(|flow| flow.cubic.part()).sum()
}

/// Round trips in which all that may be sent is sent and arrives.
fn rounds(path: &mut Path, count: u32) {
    for _ in 0..count {
        path.send();
        for _ in 0..path.under_way() as u64 {
            path.arrive(100);
        }
        path.grow();
        path.flows.on_round(path.now, 0.0, true, None);
    }
}

#[test]
fn a_raised_part_of_a_flow_doubles() {
    for (from, to, of_each) in [(0.25, 1.0, 160.0), (0.5, 2.0, 40.0), (32.0, 64.0, 20.0)] {
        let mut path = Path::full(from, of_each);
        let before = parts(&path);
        let goal = of_each * to;
        path.flows.set_count(to);
        // New flows begin with a packet.
        let most = before + (to - from).max(1.0) * TUNING.cubic.least.get();
        assert!(parts(&path) <= most, "{from}: {before}, {}", parts(&path));
        rounds(&mut path, 1);
        assert!(parts(&path) <= 2.2 * most, "{from}: {}", parts(&path));
        rounds(&mut path, 12);
        let there = parts(&path) / goal;
        assert!((0.9..1.5).contains(&there), "{from}: {there}");
    }
}

#[test]
fn two_raises_go_as_far_as_one() {
    let mut path = Path::full(0.25, 160.0);
    path.flows.set_count(1.0);
    path.flows.set_count(4.0);
    rounds(&mut path, 12);
    let there = parts(&path) / (4.0 * 160.0);
    assert!((0.9..1.5).contains(&there), "{there}");
}

#[test]
fn going_up_and_down_at_once_costs_nothing() {
    let mut path = Path {
        flows: Flows::new(1.0, 160.0, f64::INFINITY),
        ..Path::full(1.0, 160.0)
    };
    for _ in 0..100 {
        path.flows.set_count(0.25);
        path.flows.set_count(1.0);
    }
    assert_eq!(parts(&path), 160.0, "in the first slow start");
    let mut path = Path::full(39.0, 40.0);
    for _ in 0..100 {
        path.flows.set_count(40.0);
        assert!((parts(&path) - 1600.0).abs() < 1e-6, "{}", parts(&path));
        path.flows.set_count(39.0);
    }
    assert!((parts(&path) - 1560.0).abs() < 1e-6, "{}", parts(&path));
    // Many of them are as a large one.
    let mut path = Path::full(0.25, 160.0);
    for step in 1..=300 {
        path.flows.set_count(0.25 + 0.0025 * f64::from(step));
        assert!(parts(&path) <= 1.3 * 40.0, "{step}: {}", parts(&path));
    }
    let mut path = Path::full(0.25, 160.0);
    for _ in 0..100 {
        path.flows.set_count(1.0);
        path.flows.set_count(0.25);
    }
    assert_eq!(parts(&path), 40.0);
    rounds(&mut path, 1);
    assert!(parts(&path) < 50.0, "{}", parts(&path));
}

#[test]
fn rest_does_not_count_for_growth() {
    let grown = |rest: &dyn Fn(&mut Path)| {
        let mut path = Path::full(4.0, 40.0);
        for packet in 0..160 {
            path.flows.on_lost(packet, 160);
            path.arrived = packet + 1;
        }
        rounds(&mut path, 10);
        let before = parts(&path);
        rest(&mut path);
        rounds(&mut path, 10);
        parts(&path) / before
    };
    let without = grown(&|_| {});
    assert!(without < 1.5, "{without}");
    let silent = |path: &mut Path| path.now += Duration::from_secs(300);
    let idle = |path: &mut Path| {
        for _ in 0..300 {
            path.now += Duration::from_secs(1);
            path.flows.on_acked(path.now, path.arrived, RTT, false);
        }
    };
    for with in [grown(&silent), grown(&idle)] {
        assert!((with - without).abs() < 0.1, "{with} and {without}");
    }
}

#[test]
fn marks_cut_each_flow_once_a_round_trip() {
    let mut path = Path::full(4.0, 100.0);
    let cuts = (0..400).filter(|packet| path.flows.on_mark(*packet, 400));
    assert_eq!(cuts.count(), 4);
    assert!(path.flows.on_mark(400, 800));
}

#[test]
fn losses_cut_each_flow_once_a_round_trip() {
    let mut path = Path::full(4.0, 100.0);
    let cuts = (0..100).filter(|packet| path.flows.on_lost(*packet, 1000));
    assert_eq!(cuts.count(), 4);
    assert!(!path.flows.on_lost(999, 1100));
    assert!(path.flows.on_lost(1000, 1100));
}

#[test]
fn whole_packets_are_cut_as_linux_cuts_them() {
    let mut cubic = Cubic::new(7.0, 0.0);
    cubic.cut(0, 1.0);
    assert_eq!(cubic.window, 4.0);
    cubic.cut(0, 1.0);
    cubic.cut(0, 1.0);
    assert_eq!(cubic.window, 2.0);
    let mut cubic = Cubic::new(100.0, 0.0);
    cubic.cut(0, 1.0);
    assert_eq!(cubic.window, 70.0);
}

#[test]
fn small_windows_grow_as_renos() {
    let mut now = crate::test_epoch();
    let mut cubic = Cubic::new(20.0, 0.0);
    cubic.cut(0, 1.0);
    for _ in 0..8 {
        now += Duration::from_millis(20);
        cubic.grow(now, cubic.window, RTT);
    }
    // 8 · 0.53 = 4.2 above 14, in whole packets and up to a round trip late.
    assert!((17.0..=18.0).contains(&cubic.window), "{}", cubic.window);
}
