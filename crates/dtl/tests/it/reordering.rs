//! Paths that reorder packets: cuts for losses that were none are taken back.

use std::time::Instant;

use ringway_dtl::{AckSample, Config, Controller, Group, LimitedBy, LossSample, Priority};

use crate::{epoch, ms};

const BYTES: u64 = 1200;
const RTT: u64 = 40;

fn acked(packet: u64, sent: Instant, now: Instant) -> AckSample {
    AckSample {
        packet,
        bytes: BYTES,
        sent,
        rtt: now - sent,
        rtt_error: ms(0),
        receive_delay: ms(0),
        one_way_delay: None,
        ecn: false,
        app_limited: false,
    }
}

fn lost(packet: u64, sent: Instant) -> LossSample {
    LossSample {
        packet,
        bytes: BYTES,
        sent,
    }
}

/// A controller in slow start that has forty packets under way, from number 40 on, since `sent`.
fn started(priority: f64) -> (Controller, Instant) {
    let priority = Priority::new(priority).unwrap();
    let mut controller = Controller::new(epoch(), Config::default(), priority);
    (0..40).for_each(|packet| controller.on_sent(epoch(), packet, BYTES));
    let now = epoch() + ms(RTT);
    (0..40).for_each(|packet| controller.on_ack(now, &acked(packet, epoch(), now)));
    controller.on_ack_batch_end(now, 0);
    (40..80).for_each(|packet| controller.on_sent(now, packet, BYTES));
    (controller, now)
}

/// Deems packets 40 to 47 lost.
fn cut(controller: &mut Controller, now: Instant, sent: Instant) {
    (40..48).for_each(|packet| controller.on_loss(now, &lost(packet, sent)));
    controller.on_congestion(now, false, false, sent);
}

#[test]
fn a_needless_cut_is_taken_back() {
    for priority in [0.0, 0.5, 1.0, 4.0] {
        let (mut controller, sent) = started(priority);
        let (before, now) = (controller.window(), sent + ms(RTT));
        cut(&mut controller, now, sent);
        assert!(controller.window() < before, "{priority}");
        assert_eq!(controller.report().limited_by, LimitedBy::Loss);
        for packet in 40..47 {
            controller.on_spurious_loss(now + ms(3), &lost(packet, sent));
        }
        assert!(controller.window() < before, "{priority}: one is missing");
        controller.on_spurious_loss(now + ms(3), &lost(47, sent));
        assert!(controller.window() >= before, "{priority}");
        let report = controller.report();
        assert_eq!(report.limited_by, LimitedBy::SlowStart, "{priority}");
        assert_eq!(report.lost_bytes, 0);
        // What is lost in earnest then is answered, though it was under way before that cut.
        controller.on_loss(now + ms(4), &lost(50, sent));
        controller.on_congestion(now + ms(4), false, false, sent);
        assert!(controller.window() < before, "{priority}");
    }
}

#[test]
fn nothing_is_taken_back_twice() {
    for priority in [0.0, 1.0] {
        let (mut controller, sent) = started(priority);
        let (before, now) = (controller.window(), sent + ms(RTT));
        for packet in [0, 39, 60, 79, 1 << 40] {
            controller.on_spurious_loss(now, &lost(packet, sent));
        }
        cut(&mut controller, now, sent);
        for _ in 0..20 {
            controller.on_spurious_loss(now, &lost(40, sent));
            controller.on_spurious_loss(now, &lost(3, sent));
        }
        if priority > 0.0 {
            assert!(controller.window() < before);
        }
    }
}

#[test]
fn marks_and_long_silence_are_not_taken_back() {
    for (persistent, mark) in [(true, false), (false, true)] {
        for priority in [0.0, 1.0] {
            let (mut controller, sent) = started(priority);
            let (before, now) = (controller.window(), sent + ms(RTT));
            if persistent {
                (40..48).for_each(|packet| controller.on_loss(now, &lost(packet, sent)));
            }
            controller.on_congestion(now, persistent, mark, sent);
            for packet in 40..48 {
                controller.on_spurious_loss(now, &lost(packet, sent));
            }
            assert!(controller.window() < before, "{priority} {persistent}");
        }
    }
}

#[test]
fn a_groups_flows_have_their_windows_back() {
    let mut group = Group::new(Config::default());
    let flow = group.join(epoch(), Priority::NORMAL, BYTES).unwrap();
    (0..40).for_each(|packet| group.on_sent(epoch(), flow, packet, BYTES));
    let now = epoch() + ms(RTT);
    (3..40).for_each(|packet| group.on_ack(now, flow, &acked(packet, epoch(), now)));
    group.on_ack_batch_end(now, flow, 3 * BYTES);
    let before = group.window(flow);
    (0..3).for_each(|packet| group.on_loss(now, flow, &lost(packet, epoch())));
    group.on_congestion(now, flow, false, false, epoch());
    assert!(group.window(flow) < before);
    (0..3).for_each(|packet| group.on_spurious_loss(now, flow, &lost(packet, epoch())));
    assert!(group.window(flow) >= before);
    assert_eq!(group.report(flow).unwrap().lost_bytes, 0);
}
