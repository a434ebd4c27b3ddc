//! What the default algorithm says of itself: why it is not faster, and what waits in the queue.

use std::time::Duration;

use ringway_dtl::{AckSample, Config, Controller, LimitedBy, Mode, Priority, Report};

use crate::link::{Link, PACKET, Sim};
use crate::{epoch, ms, secs};

/// The reports of a flow at the end of each second.
fn reports(sim: &mut Sim, flow: usize, seconds: u64) -> Vec<Report> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        sim.run(secs(1));
        all.push(sim.controller(flow).report());
    }
    all
}

fn reasons(reports: &[Report]) -> Vec<LimitedBy> {
    reports.iter().map(|report| report.limited_by).collect()
}

#[test]
fn a_scavenger_alone_is_limited_by_the_path() {
    let mut sim = Sim::new(Link::ten_megabit(80));
    let flow = sim.add_with(Config::default(), 0.0);
    sim.run(secs(5));
    let reports = reports(&mut sim, flow, 30);
    let reasons = reasons(&reports);
    assert!(reasons.iter().all(|r| *r == LimitedBy::Path), "{reasons:?}");
    for report in &reports {
        let (base, queueing) = (report.base_delay.unwrap(), report.queueing_delay.unwrap());
        // 20 ms and a packet's own millisecond; an eighth of it, and what stands there until it is
        // seen.
        assert!(base >= ms(20) && base <= ms(22), "{base:?}");
        assert!(queueing <= ms(10), "{queueing:?}");
    }
}

#[test]
fn beside_tcp_it_yields_until_tcp_has_gone() {
    let mut sim = Sim::new(Link::ten_megabit(80));
    let flow = sim.add_with(Config::default(), 0.0);
    sim.run(secs(5));
    let reno = sim.add_reno();
    sim.run(secs(5));
    let beside = reports(&mut sim, flow, 20);
    let yields = reasons(&beside);
    let most = yields.iter().filter(|r| **r == LimitedBy::Yielding).count();
    assert!(most >= 18, "{yields:?}");
    let smallest = beside.iter().map(|report| report.window).min().unwrap();
    assert!(smallest < PACKET, "{smallest}");
    sim.stop(reno);
    sim.run(secs(20));
    let after = reasons(&reports(&mut sim, flow, 5));
    assert!(after.iter().all(|r| *r == LimitedBy::Path), "{after:?}");
}

#[test]
fn a_change_to_zero_forgets_a_loss() {
    let mut sim = Sim::new(Link::ten_megabit(40));
    let flow = sim.add_with(Config::default(), 2.0);
    sim.run(secs(10));
    let before = reports(&mut sim, flow, 10);
    let losing = reasons(&before);
    assert!(losing.iter().all(|r| *r == LimitedBy::Loss), "{losing:?}");
    assert_eq!(before[0].mode, Mode::Flows);
    sim.set_priority(flow, 0.0);
    let report = sim.controller(flow).report();
    assert_eq!(report.mode, Mode::Scavenger);
    assert_eq!(report.limited_by, LimitedBy::Growth);
    sim.run(secs(5));
    let after = reasons(&reports(&mut sim, flow, 5));
    assert!(after.iter().all(|r| *r == LimitedBy::Path), "{after:?}");
    // And back: neither rule's cut is told of the other.
    sim.set_priority(flow, 1.0);
    assert_ne!(sim.controller(flow).report().limited_by, LimitedBy::Path);
}

#[test]
fn the_reported_queue_is_the_present_routes() {
    let mut sim = Sim::new(Link::ten_megabit(200));
    let flow = sim.add_with(Config::default(), 0.0);
    sim.run(secs(30));
    sim.set_rtt(ms(60));
    // The paper's history of thirteen minutes would show forty milliseconds more.
    sim.run(secs(90));
    for report in reports(&mut sim, flow, 5) {
        let (base, queueing) = (report.base_delay.unwrap(), report.queueing_delay.unwrap());
        assert!(base >= ms(59) && base <= ms(75), "{base:?}");
        assert!(queueing <= ms(20), "{queueing:?}");
    }
}

#[test]
fn a_loss_of_long_ago_is_no_reason() {
    // So much buffer that nothing else cuts the window for a long while.
    let mut sim = Sim::new(Link::ten_megabit(4000));
    let flow = sim.add_with(Config::default(), 1.0);
    sim.run(ms(300));
    let now = sim.now();
    let controller = sim.controller(flow);
    controller.on_congestion(now, false, true, now);
    assert_eq!(controller.report().limited_by, LimitedBy::Loss);
    sim.run(secs(14));
    let after = reasons(&reports(&mut sim, flow, 3));
    assert!(after.iter().all(|r| *r == LimitedBy::Growth), "{after:?}");
}

#[test]
fn an_application_with_little_to_send_is_reported() {
    for priority in [Priority::SCAVENGER, Priority::NORMAL] {
        let mut controller = Controller::new(epoch(), Config::default(), priority);
        for packet in 0..100 {
            let now = epoch() + ms(20) * packet;
            controller.on_sent(now, u64::from(packet), PACKET);
            let sample = AckSample {
                packet: u64::from(packet),
                bytes: PACKET,
                sent: now,
                rtt: ms(20),
                rtt_error: Duration::ZERO,
                receive_delay: Duration::ZERO,
                one_way_delay: None,
                ecn: false,
                app_limited: true,
            };
            controller.on_ack(now + ms(20), &sample);
            controller.on_ack_batch_end(now + ms(20), 0);
        }
        let report = controller.report();
        assert_eq!(report.limited_by, LimitedBy::Application, "{priority:?}");
        assert_eq!(report.queueing_delay, Some(Duration::ZERO));
    }
}
