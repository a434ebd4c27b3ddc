//! Flows that share one congestion control: exact shares, and no more than their sum to others.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringway_dtl::{
    AckSample, Config, Controller, Group, GroupFlow, LimitedBy, LossSample, Priority,
};

use crate::link::{Link, PACKET, Sender, Sim};
use crate::{epoch, ms, secs};

type Shared = Rc<RefCell<Group>>;

struct Member {
    group: Shared,
    id: GroupFlow,
}

impl Sender for Member {
    fn window(&self) -> u64 {
        self.group.borrow().window(self.id)
    }
    fn pacing_rate(&self) -> Option<u64> {
        self.group.borrow().pacing_rate(self.id)
    }
    fn on_sent(&mut self, now: Instant, packet: u64) {
        let mut group = self.group.borrow_mut();
        group.on_sent(now, self.id, packet, PACKET);
    }
    fn on_ack(&mut self, now: Instant, packet: u64, sent: Instant, in_flight: u64) {
        let mut group = self.group.borrow_mut();
        group.on_ack(now, self.id, &acked(now, packet, sent, false));
        group.on_ack_batch_end(now, self.id, in_flight);
    }
    fn on_losses(&mut self, now: Instant, lost: &[(u64, Instant)], persistent: bool) {
        let mut group = self.group.borrow_mut();
        for &(packet, sent) in lost {
            let bytes = PACKET;
            let sample = LossSample {
                packet,
                bytes,
                sent,
            };
            group.on_loss(now, self.id, &sample);
        }
        if let Some(newest) = lost.iter().map(|&(_, sent)| sent).max() {
            group.on_congestion(now, self.id, persistent, false, newest);
        }
    }
}

fn acked(now: Instant, packet: u64, sent: Instant, app_limited: bool) -> AckSample {
    AckSample {
        packet,
        bytes: PACKET,
        sent,
        rtt: now - sent,
        rtt_error: Duration::ZERO,
        receive_delay: Duration::ZERO,
        one_way_delay: None,
        ecn: false,
        app_limited,
    }
}

fn priority(value: f64) -> Priority {
    Priority::new(value).unwrap()
}

/// A simulation with one group, and the group's flows by the numbers that the simulation gives
/// them.
struct Bench {
    sim: Sim,
    group: Shared,
    ids: Vec<GroupFlow>,
}

impl Bench {
    fn new(link: Link) -> Bench {
        Bench {
            sim: Sim::new(link),
            group: Rc::new(RefCell::new(Group::new(Config::default()))),
            ids: Vec::new(),
        }
    }

    fn add(&mut self, value: f64) -> usize {
        let joined = self
            .group
            .borrow_mut()
            .join(self.sim.now(), priority(value), PACKET);
        let id = joined.unwrap();
        self.ids.push(id);
        let group = Rc::clone(&self.group);
        self.sim.add_sender(Box::new(Member { group, id }))
    }

    fn set_priority(&mut self, flow: usize, value: f64) {
        let (now, id) = (self.sim.now(), self.ids[flow]);
        assert!(
            self.group
                .borrow_mut()
                .set_priority(now, id, priority(value))
        );
    }

    /// What each flow gets of what all get, and what all get of the link.
    fn shares(&mut self, time: Duration) -> (Vec<f64>, f64) {
        let got = self.sim.run(time);
        let all: f64 = got.iter().sum();
        (got.iter().map(|one| one / all).collect(), all)
    }
}

fn assert_near(shares: &[f64], weights: &[f64], tolerance: f64, what: &str) {
    let sum: f64 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(weights) {
        let wanted = weight / sum;
        assert!(
            (share - wanted).abs() <= tolerance * wanted,
            "{what}: {shares:?} for {weights:?}"
        );
    }
}

fn links() -> Vec<Link> {
    let link = |mbit: u64, rtt: u64, products: f64| {
        let rate = mbit * 125_000;
        let rtt = ms(rtt);
        let buffer = (rate as f64 * rtt.as_secs_f64() * products) as u64;
        Link { rate, buffer, rtt }
    };
    vec![
        link(10, 20, 1.0),
        link(10, 20, 4.0),
        link(10, 60, 1.0),
        link(100, 20, 1.0),
    ]
}

#[test]
fn weights_hold_on_any_path() {
    for link in links() {
        let what = format!("{link:?}");
        let mut bench = Bench::new(link);
        for weight in [1.0, 2.0, 4.0] {
            bench.add(weight);
        }
        bench.sim.run(secs(20));
        let (shares, all) = bench.shares(secs(20));
        assert_near(&shares, &[1.0, 2.0, 4.0], 0.03, &what);
        assert!(all > 0.85, "{what}: {all}");
        bench.set_priority(0, 4.0);
        bench.set_priority(2, 1.0);
        // What is in the queue still has the old shares.
        bench.sim.run(3 * link.rtt);
        let (shares, _) = bench.shares(secs(5));
        assert_near(&shares, &[4.0, 2.0, 1.0], 0.06, &format!("swapped, {what}"));
        let (shares, all) = bench.shares(secs(20));
        assert_near(&shares, &[4.0, 2.0, 1.0], 0.03, &format!("swapped, {what}"));
        assert!(all > 0.85, "{what}: {all}");
    }
}

#[test]
fn a_late_comer_has_its_share_soon() {
    for link in links() {
        let mut bench = Bench::new(link);
        bench.add(1.0);
        bench.sim.run(secs(20));
        bench.add(3.0);
        bench.sim.run(secs(1));
        let (shares, _) = bench.shares(secs(5));
        assert_near(&shares, &[1.0, 3.0], 0.08, &format!("{link:?}"));
    }
}

#[test]
fn a_group_is_worth_its_sum() {
    let link = links()[1];
    let mut one = Sim::new(link);
    let single = Controller::new(epoch(), Config::default(), priority(4.0));
    let ours = one.add_sender(Box::new(single));
    one.add_reno();
    one.run(secs(20));
    let alone = one.run(secs(120))[ours];
    let mut bench = Bench::new(link);
    for weight in [0.5, 1.0, 2.5] {
        bench.add(weight);
    }
    let reno = bench.sim.add_reno();
    bench.sim.run(secs(20));
    let together = 1.0 - bench.sim.run(secs(120))[reno];
    assert!(
        (together - alone).abs() < 0.1,
        "together {together}, as one {alone}"
    );
}

#[test]
fn priority_zero_gets_the_rest_equally() {
    let mut bench = Bench::new(links()[1]);
    let (worth, first, second) = (bench.add(1.0), bench.add(0.0), bench.add(0.0));
    bench.sim.run(secs(20));
    let (shares, _) = bench.shares(secs(20));
    assert!(shares[first] + shares[second] < 0.03, "{shares:?}");
    bench.sim.stop(worth);
    bench.sim.run(secs(10));
    let (shares, all) = bench.shares(secs(20));
    assert_near(&shares[1..], &[1.0, 1.0], 0.03, "left over");
    assert!(all > 0.9, "{all}");
}

#[test]
fn a_flow_crosses_priority_zero_without_a_pause() {
    let mut bench = Bench::new(links()[1]);
    bench.add(2.0);
    let crossing = bench.add(0.0);
    bench.sim.run(secs(10));
    bench.set_priority(crossing, 2.0);
    bench.sim.run(secs(1));
    let (shares, all) = bench.shares(secs(10));
    assert_near(&shares, &[1.0, 1.0], 0.05, "crossed");
    assert!(all > 0.85, "{all}");
    bench.set_priority(crossing, 0.0);
    bench.sim.run(secs(2));
    let (shares, all) = bench.shares(secs(10));
    assert!(shares[crossing] < 0.03 && all > 0.85, "{shares:?} {all}");
}

/// Acknowledges `count` packets of a flow that each were under way for 20 ms.
fn exchange(
    group: &mut Group,
    now: Instant,
    id: GroupFlow,
    packets: &mut u64,
    (count, app_limited): (u64, bool),
) {
    let sent = now - ms(20);
    for packet in *packets..*packets + count {
        group.on_sent(sent, id, packet, PACKET);
    }
    for packet in *packets..*packets + count {
        group.on_ack(now, id, &acked(now, packet, sent, app_limited));
    }
    group.on_ack_batch_end(now, id, 0);
    *packets += count;
}

#[test]
fn unused_shares_go_to_the_others() {
    let mut group = Group::new(Config::default());
    let mut now = epoch() + secs(1);
    let busy = group.join(now, priority(1.0), PACKET).unwrap();
    let idle = group.join(now, priority(100.0), PACKET).unwrap();
    let (mut of_busy, mut of_idle) = (0, 0);
    for _ in 0..8 {
        now += ms(20);
        let count = group.window(busy) / PACKET + 1;
        exchange(&mut group, now, busy, &mut of_busy, (count, false));
        exchange(&mut group, now, idle, &mut of_idle, (1, true));
    }
    let report = group.report(idle).unwrap();
    assert_eq!(report.limited_by, LimitedBy::Application);
    // One packet of the idle flow is in flight at most; all else is the other's.
    assert!(group.window(busy) > 20 * PACKET, "{}", group.window(busy));
    let whole = group.window(busy);
    // It is worth one flow: a loss costs 0.3 of the window at least.
    let lost = LossSample {
        packet: of_busy - 1,
        bytes: PACKET,
        sent: now - ms(20),
    };
    group.on_loss(now, busy, &lost);
    group.on_congestion(now, busy, false, false, now - ms(20));
    let left = group.window(busy);
    assert!(left * 10 <= whole * 8, "{left} of {whole}");
    // The idle one begins with its share at once.
    assert!(group.window(idle) > group.window(busy) / 2);
}

#[test]
fn many_that_begin_together_share_the_window() {
    let mut group = Group::new(Config::default());
    let mut now = epoch() + secs(1);
    let ids: Vec<GroupFlow> = (0..64)
        .map(|_| group.join(now, priority(1.0), PACKET).unwrap())
        .collect();
    let mut packets = 0;
    for _ in 0..8 {
        now += ms(20);
        let count = group.window(ids[0]) / PACKET + 1;
        exchange(&mut group, now, ids[0], &mut packets, (count, false));
    }
    let whole = group.window(ids[0]);
    assert!(whole > 100 * PACKET, "{whole}");
    // Each sends what it may, and nothing has been acknowledged yet.
    let mut sent = 0;
    for id in &ids[1..] {
        for packet in 0..group.window(*id) / PACKET {
            group.on_sent(now, *id, packet, PACKET);
            sent += PACKET;
        }
    }
    // The last have two packets each.
    let most = whole + 2 * PACKET * ids.len() as u64;
    assert!(sent <= most, "{sent} of {whole}");
}

#[test]
fn many_scavengers_at_the_floor_send_as_one() {
    let got = |count: usize| {
        let mut bench = Bench::new(links()[1]);
        let flows: Vec<usize> = (0..count).map(|_| bench.add(0.0)).collect();
        bench.sim.run(secs(10));
        bench.sim.add_reno();
        bench.sim.run(secs(20));
        let got = bench.sim.run(secs(60));
        flows.iter().map(|flow| got[*flow]).sum::<f64>()
    };
    let (one, many) = (got(1), got(64));
    assert!(one < 0.02, "{one}");
    assert!(many < 1.5 * one, "{many} and {one}");
}

#[test]
fn a_group_of_one_is_a_controller() {
    let link = links()[0];
    let mut alone = Sim::new(link);
    alone.add_sender(Box::new(Controller::new(
        epoch(),
        Config::default(),
        priority(3.0),
    )));
    let mut bench = Bench::new(link);
    bench.add(3.0);
    for _ in 0..20 {
        assert_eq!(alone.run(secs(1)), bench.sim.run(secs(1)));
    }
}

#[test]
fn only_scavengers_keep_from_bursts() {
    let mut group = Group::new(Config::default());
    let mut now = epoch() + secs(1);
    let flow = group.join(now, priority(0.0), PACKET).unwrap();
    let mut packets = 0;
    assert_eq!(group.burst(flow), None);
    for _ in 0..100 {
        now += ms(20);
        let count = group.window(flow) / PACKET + 1;
        exchange(&mut group, now, flow, &mut packets, (count, false));
    }
    let due = group.pacing_rate(flow).unwrap() / 1_000;
    assert_eq!(group.burst(flow), Some(due.max(2 * PACKET)));
    group.set_priority(now, flow, priority(1.0));
    assert_eq!(group.burst(flow), None);
}

#[test]
fn a_flow_that_left_gets_nothing() {
    let mut group = Group::new(Config::default());
    let first = group.join(epoch(), Priority::NORMAL, PACKET).unwrap();
    let second = group.join(epoch(), Priority::NORMAL, PACKET).unwrap();
    assert!(group.leave(epoch(), first) && !group.leave(epoch(), first));
    assert_eq!((group.window(first), group.pacing_rate(first)), (1, None));
    assert!(!group.set_priority(epoch(), first, Priority::SCAVENGER));
    group.on_sent(epoch(), first, 0, PACKET);
    assert!(group.report(first).is_none());
    assert!(group.window(second) >= 10 * PACKET);
    while group.join(epoch(), Priority::NORMAL, PACKET).is_ok() {}
    assert!(group.leave(epoch(), second));
    assert!(group.join(epoch(), Priority::NORMAL, PACKET).is_ok());
}

proptest! {
    /// Whatever happens in whatever order: windows and rates stay finite and above zero.
    #[test]
    fn anything_may_happen_in_any_order(
        steps in proptest::collection::vec((0_u8..8, 0_usize..4, 0_u64..60, 0.0_f64..9.0), 1..300),
    ) {
        let mut group = Group::new(Config::default());
        let mut flows: Vec<(GroupFlow, u64)> = Vec::new();
        let mut now = epoch() + secs(1);
        for (step, which, number, value) in steps {
            now += ms(number);
            let value = if value < 1.0 { 0.0 } else { value };
            if step == 0 || flows.is_empty() {
                flows.push((group.join(now, priority(value), PACKET).unwrap(), 0));
                continue;
            }
            let index = which % flows.len();
            let (id, mut next) = flows[index];
            match step {
                1 if number < 20 => {
                    group.leave(now, id);
                    flows.remove(index);
                    continue;
                }
                1 | 2 => {
                    group.set_priority(now, id, priority(value));
                }
                3 => {
                    let sample = LossSample { packet: number, bytes: PACKET, sent: now };
                    group.on_loss(now, id, &sample);
                    group.on_congestion(now, id, number > 50, number < 3, now);
                }
                4 => group.on_datagram_size(id, 1000 + number),
                5 => group.on_sent(now, id, number, PACKET),
                _ => exchange(&mut group, now, id, &mut next, (number, step == 7)),
            }
            flows[index].1 = next;
            for (id, _) in &flows {
                prop_assert!(group.window(*id) >= 1);
                prop_assert!(group.pacing_rate(*id).is_none_or(|rate| rate >= 1));
                let report = group.report(*id).unwrap();
                prop_assert!(report.window <= 1 << 33);
            }
        }
        for (id, _) in &flows {
            prop_assert!(group.leave(now, *id));
        }
        prop_assert!(group.is_empty());
    }
}
