//! A change of priority while data flow: no stall, no restart, and the new share.

use std::time::{Duration, Instant};

use ringway_dtl::{AckSample, Controller, Priority};

use crate::link::{Link, Sim};
use crate::{epoch, ms, paper, secs};

#[test]
fn figure_six() {
    let mut sim = Sim::new(Link::ten_megabit(200));
    let ours = sim.add(0.0);
    let reno = sim.add_reno();
    sim.run(secs(30));
    let polite = sim.run(secs(60));
    sim.set_priority(ours, 1.0);
    sim.run(secs(60));
    let one = sim.run(secs(120));
    sim.set_priority(ours, 2.0);
    sim.run(secs(30));
    let two = sim.run(secs(120));
    sim.set_priority(ours, 0.0);
    sim.run(secs(30));
    let again = sim.run(secs(60));
    assert!(polite[ours] < 0.1, "{polite:?}");
    assert!(one[ours] > 0.3 && one[ours] < 0.7, "{one:?}");
    assert!(two[ours] > one[ours] + 0.1, "{two:?}");
    assert!(again[ours] < 0.1, "{again:?}");
    assert!(again[reno] > 0.8, "{again:?}");
}

#[test]
fn a_change_alone_never_stalls_the_link() {
    let mut sim = Sim::new(Link::ten_megabit(200));
    let flow = sim.add(0.0);
    sim.run(secs(20));
    for priority in [4.0, 0.0, 0.5, 0.0, 1.0] {
        sim.set_priority(flow, priority);
        for _ in 0..10 {
            let share = sim.run(secs(1))[flow];
            assert!(share > 0.7, "{share} after the change to {priority}");
        }
    }
}

#[test]
fn a_change_keeps_the_window() {
    let mut controller = Controller::new(epoch(), paper(), Priority::NORMAL);
    // Out of slow start, with 20 ms as the base.
    ack(&mut controller, epoch(), ms(20), 1200);
    controller.on_congestion(epoch(), false, false, epoch());
    let now = epoch() + secs(1);
    for _ in 0..3 {
        ack(&mut controller, now, ms(200), 1200);
    }
    let before = controller.window();
    controller.set_priority(now, Priority::SCAVENGER);
    assert_eq!(controller.window(), before);
    ack(&mut controller, now, ms(200), 1200);
    let polite = controller.window();
    assert!(polite < before, "180 ms of queue: priority 0 gives way");
    controller.set_priority(now, Priority::new(4.0).unwrap());
    assert_eq!(controller.window(), polite);
    ack(&mut controller, now, ms(200), 1200);
    assert!(controller.window() > polite, "flows do not heed the queue");
    assert!(
        controller.report().ssthresh.unwrap() <= before,
        "no slow start again"
    );
}

fn ack(controller: &mut Controller, now: Instant, rtt: Duration, bytes: u64) {
    let sample = AckSample {
        packet: 0,
        bytes,
        sent: now,
        rtt,
        rtt_error: Duration::ZERO,
        receive_delay: Duration::ZERO,
        one_way_delay: None,
        ecn: false,
        app_limited: false,
    };
    controller.on_ack(now, &sample);
    controller.on_ack_batch_end(now, controller.window());
}
