//! Priority N > 0: more flows get more, one flow gets what TCP gets.

use std::time::Duration;

use ringway_dtl::{AckSample, Config, Controller, LimitedBy, Mode, Priority};

use crate::link::{Link, PACKET, Sim, jain};
use crate::{epoch, ms, secs};

/// Throughput of one flow of priority `n` ÷ that of one Reno flow beside it.
fn against_reno(n: f64) -> f64 {
    let mut sim = Sim::new(Link::ten_megabit(40));
    let ours = sim.add(n);
    let reno = sim.add_reno();
    sim.run(secs(20));
    let shares = sim.run(secs(100));
    assert!(shares.iter().sum::<f64>() >= 0.9, "{n}: {shares:?}");
    shares[ours] / shares[reno]
}

#[test]
fn one_flow_shares_like_tcp() {
    let ratio = against_reno(1.0);
    assert!((0.5..=2.0).contains(&ratio), "{ratio}");
}

#[test]
fn more_flows_get_more_and_fractions_less() {
    let ratios: Vec<f64> = [0.25, 0.5, 1.0, 2.0, 4.0].map(against_reno).to_vec();
    assert!(ratios.is_sorted(), "{ratios:?}");
    assert!(ratios[0] < 0.8 * ratios[2], "{ratios:?}");
    assert!(ratios[3] > 1.5 * ratios[2], "{ratios:?}");
    assert!(ratios[4] > 1.5 * ratios[3], "{ratios:?}");
}

#[test]
fn equals_share_equally() {
    for n in [0.5, 1.0, 4.0] {
        let mut sim = Sim::new(Link::ten_megabit(40));
        sim.add(n);
        sim.run(secs(10));
        sim.add(n);
        sim.run(secs(30));
        let shares = sim.run(secs(100));
        assert!(jain(&shares) >= 0.95, "{n}: {shares:?}");
    }
}

/// Priority 1 with the default algorithm, behind a queue of so many packets: whether it bounds what
/// leaves at once after 20 s.
#[test]
fn losses_in_a_short_queue_bound_bursts() {
    for (packets, bounded) in [(3, true), (40, false)] {
        let mut link = Link::ten_megabit(40);
        link.buffer = packets * PACKET;
        let mut sim = Sim::new(link);
        let flow = sim.add_with(Config::default(), 1.0);
        assert_eq!(sim.controller(flow).burst(), None);
        sim.run(secs(20));
        let controller = sim.controller(flow);
        assert!(controller.report().lost_bytes > 0);
        assert_eq!(controller.burst().is_some(), bounded, "{packets}");
    }
}

#[test]
fn the_report_names_loss() {
    let mut sim = Sim::new(Link::ten_megabit(40));
    let flow = sim.add(2.0);
    sim.run(secs(20));
    let report = sim.controller(flow).report();
    assert_eq!(
        (report.mode, report.limited_by),
        (Mode::Flows, LimitedBy::Loss)
    );
    assert!(report.lost_bytes > 0 && report.ssthresh.is_some());
    assert!(report.sent_bytes >= report.acked_bytes + report.lost_bytes);
}

/// A queue that marks says nothing of how many flows a window is: each mark is that of one, as each
/// loss is.
#[test]
fn each_mark_cuts_one_flow() {
    let left = |marks: &[u64]| {
        let config = Config {
            initial_window: 160 * PACKET,
            ..Config::default()
        };
        let mut controller = Controller::new(epoch(), config, Priority::new(4.0).unwrap());
        let mut packets = 0..0;
        for round in 0..4 {
            let sent = epoch() + ms(20) * round;
            packets = packets.end..packets.end + controller.window() / PACKET;
            for packet in packets.clone() {
                controller.on_sent(sent, packet, PACKET);
            }
            for packet in packets.clone() {
                let sample = AckSample {
                    packet,
                    bytes: PACKET,
                    sent,
                    rtt: ms(20),
                    rtt_error: Duration::ZERO,
                    receive_delay: Duration::ZERO,
                    one_way_delay: None,
                    ecn: marks.contains(&packet),
                    app_limited: true,
                };
                controller.on_ack(sent + ms(20), &sample);
                let in_flight = (packets.end - packet - 1) * PACKET;
                controller.on_ack_batch_end(sent + ms(20), in_flight);
            }
        }
        controller.window() as f64
    };
    let whole = left(&[]);
    let one = left(&[3]) / whole;
    // A quarter of it is cut to seven tenths; then all four are.
    assert!((0.9..0.96).contains(&one), "{one}");
    let many = left(&Vec::from_iter(0..160)) / whole;
    assert!((0.6..0.75).contains(&many), "{many}");
}
