//! Whatever the calls and their times: no panic, a window within its bounds, and a way back.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringway_dtl::limits::{MAX_PRIORITY, MAX_WINDOW};
use ringway_dtl::{AckSample, Algorithm, Config, Controller, Ledbat, LossSample, Priority};

use crate::{epoch, ms, paper};

#[derive(Clone, Debug)]
enum Call {
    At(Duration),
    Sent(u64, u64),
    Ack(AckSample),
    BatchEnd(u64),
    Loss(u64, u64),
    OneWay(Duration, Duration),
    Congestion(bool, bool, Duration),
    DatagramSize(u64),
    SetPriority(Priority),
}

/// Times from nothing to beyond what an `Instant` can hold.
fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..200_000_u64).prop_map(Duration::from_micros),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_secs),
    ]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 1..2000_u64, any::<u64>()]
}

/// Numbers of few packets, so that they meet again, and any.
fn packet() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..64_u64, 1 => 0..4096_u64, 1 => any::<u32>().prop_map(u64::from)]
}

fn instant(after: Duration) -> Instant {
    epoch().checked_add(after).unwrap_or(epoch())
}

fn sample() -> impl Strategy<Value = AckSample> {
    (
        packet(),
        bytes(),
        duration(),
        (duration(), duration(), proptest::option::of(duration())),
        duration(),
        any::<(bool, bool)>(),
    )
        .prop_map(
            |(packet, bytes, sent, delays, rtt_error, (ecn, app_limited))| AckSample {
                packet,
                bytes,
                sent: instant(sent),
                rtt: delays.0,
                rtt_error,
                receive_delay: delays.1,
                one_way_delay: delays.2,
                ecn,
                app_limited,
            },
        )
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![
        Just(0.0),
        Just(f64::MIN_POSITIVE),
        Just(MAX_PRIORITY),
        0.0..10.0
    ]
    .prop_map(|flows| Priority::new(flows).unwrap())
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => duration().prop_map(Call::At),
        3 => (packet(), bytes()).prop_map(|(packet, bytes)| Call::Sent(packet, bytes)),
        6 => sample().prop_map(Call::Ack),
        4 => bytes().prop_map(Call::BatchEnd),
        2 => (packet(), bytes()).prop_map(|(packet, bytes)| Call::Loss(packet, bytes)),
        1 => (duration(), duration()).prop_map(|(rtt, way)| Call::OneWay(rtt, way)),
        1 => (any::<bool>(), any::<bool>(), duration())
            .prop_map(|(persistent, ecn, sent)| Call::Congestion(persistent, ecn, sent)),
        1 => bytes().prop_map(Call::DatagramSize),
        1 => priority().prop_map(Call::SetPriority),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    (
        bytes(),
        bytes(),
        duration(),
        any::<(f64, f64, f64)>(),
        any::<(usize, usize, bool, bool)>(),
    )
        .prop_map(
            |(datagram_size, initial_window, target, gains, rest)| Config {
                datagram_size,
                initial_window,
                pacing_gain: gains.2,
                ledbat: Ledbat {
                    target,
                    gain: gains.0,
                    decrease: gains.1,
                    base_history: rest.0,
                    noise_filter: rest.1,
                    slow_start_until_loss: rest.2,
                },
                algorithm: if rest.3 {
                    Algorithm::Paper
                } else {
                    Algorithm::Adaptive
                },
                ..Config::default()
            },
        )
}

fn apply(controller: &mut Controller, now: &mut Instant, call: Call) {
    match call {
        Call::At(after) => *now = instant(after),
        Call::Sent(packet, bytes) => controller.on_sent(*now, packet, bytes),
        Call::Ack(sample) => controller.on_ack(*now, &sample),
        Call::BatchEnd(in_flight) => controller.on_ack_batch_end(*now, in_flight),
        Call::OneWay(rtt, way) => controller.on_one_way_delay(*now, rtt, way),
        Call::Loss(packet, bytes) => {
            let sent = *now;
            let lost = LossSample {
                packet,
                bytes,
                sent,
            };
            controller.on_loss(*now, &lost);
        }
        Call::Congestion(persistent, ecn, sent) => {
            controller.on_congestion(*now, persistent, ecn, instant(sent));
        }
        Call::DatagramSize(bytes) => controller.on_datagram_size(bytes),
        Call::SetPriority(priority) => controller.set_priority(*now, priority),
    }
}

fn check(controller: &Controller) {
    let window = controller.window();
    let least = match controller.config().algorithm {
        Algorithm::Paper => controller.config().datagram_size,
        _ => 1,
    };
    assert!((least..=MAX_WINDOW).contains(&window), "window {window}");
    assert!(controller.pacing_rate().is_none_or(|rate| rate > 0));
    let least = 2 * controller.config().datagram_size;
    assert!(controller.burst().is_none_or(|bytes| bytes >= least));
    let report = controller.report();
    assert_eq!(report.window, window);
    assert!(report.ssthresh.is_none_or(|ssthresh| ssthresh > 0));
}

/// `rounds` undisturbed round trips of 20 ms, each using the whole window.
fn undisturbed(
    controller: &mut Controller,
    mut now: Instant,
    next: &mut u64,
    rounds: u64,
) -> Instant {
    for _ in 0..rounds {
        let sent = now;
        now = now.checked_add(ms(20)).unwrap_or(now);
        // Packets are full, however small the window is: small ones would tell nothing of the path.
        let bytes = controller.window().max(1200);
        let packet = *next;
        *next += 1;
        controller.on_sent(sent, packet, bytes);
        let sample = AckSample {
            packet,
            bytes,
            sent,
            rtt: ms(20),
            rtt_error: Duration::ZERO,
            receive_delay: Duration::ZERO,
            one_way_delay: None,
            ecn: false,
            app_limited: false,
        };
        controller.on_ack(now, &sample);
        controller.on_ack_batch_end(now, 0);
    }
    now
}

proptest! {
    #[test]
    fn any_calls_leave_a_sound_controller_that_recovers(
        config in config(),
        first in priority(),
        calls in proptest::collection::vec(call(), 0..200),
        last in prop_oneof![Just(Priority::SCAVENGER), Just(Priority::NORMAL)],
    ) {
        // With a gain of 0, or a target that noise passes, the window never grows by configuration;
        // that is no fault of the controller.
        let ledbat = Ledbat { gain: 1.0, target: ms(100), ..config.ledbat };
        let config = Config { ledbat, ..config };
        let mut controller = Controller::new(epoch(), config, first);
        let mut now = epoch();
        // Numbers go on from the greatest.
        let sent = calls.iter().filter_map(|call| match call {
            Call::Sent(packet, _) => Some(packet + 1),
            _ => None,
        });
        let mut next = sent.max().unwrap_or(0);
        for call in calls {
            apply(&mut controller, &mut now, call);
            check(&controller);
        }
        controller.on_datagram_size(1200);
        controller.set_priority(now, last);
        if controller.config().algorithm == Algorithm::Adaptive {
            // What absurd delays have taught is forgotten within a minute, or eleven where they
            // look like the work of others; then the window returns.
            for _ in 0..7 {
                now = undisturbed(&mut controller, now, &mut next, 6000);
                if controller.window() >= 20 * 1200 {
                    return Ok(());
                }
            }
            prop_assert!(false, "{}", controller.window());
            return Ok(());
        }
        // First the filters and the smoothed RTT forget, then the window must grow.
        undisturbed(&mut controller, now, &mut next, 200);
        let before = controller.window();
        undisturbed(&mut controller, now, &mut next, 50);
        let after = controller.window();
        prop_assert!(after == MAX_WINDOW || after >= before + 40 * 1200, "{before} {after}");
        let rate = controller.pacing_rate().unwrap();
        prop_assert!(rate >= after * 49, "{rate} bytes/s for {after} bytes in 20 ms");
    }
}

#[test]
fn drivers_may_move_copy_and_share_it() {
    fn check<T: Clone + std::fmt::Debug + Send + Sync + 'static>() {}
    check::<Controller>();
    check::<ringway_dtl::Scheduler>();
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut controller = Controller::new(epoch(), paper(), Priority::NORMAL);
    let mut sample = AckSample {
        packet: 0,
        bytes: 1200,
        sent: epoch(),
        rtt: ms(20),
        rtt_error: Duration::ZERO,
        receive_delay: Duration::ZERO,
        one_way_delay: None,
        ecn: false,
        app_limited: false,
    };
    let before = controller.window();
    controller.on_ack(epoch(), &sample);
    controller.on_ack_batch_end(epoch(), 0);
    assert_eq!(controller.window(), before, "a tenth of it was in use");
    sample.app_limited = true;
    controller.on_ack(epoch(), &sample);
    controller.on_ack_batch_end(epoch(), before);
    assert_eq!(controller.window(), before, "the application had no more");
    sample.app_limited = false;
    controller.on_ack(epoch(), &sample);
    controller.on_ack_batch_end(epoch(), before);
    assert_eq!(controller.window(), before + 1200);
}

#[test]
fn one_round_trip_is_cut_once() {
    let mut controller = Controller::new(epoch(), paper(), Priority::NORMAL);
    let at = |n| epoch() + ms(n);
    controller.on_congestion(at(100), false, false, at(80));
    assert_eq!(controller.window(), 6000);
    controller.on_congestion(at(110), false, false, at(100));
    controller.on_congestion(at(111), false, true, at(90));
    assert_eq!(controller.window(), 6000, "sent before the cut");
    controller.on_congestion(at(130), false, false, at(101));
    assert_eq!(controller.window(), 3000);
    controller.on_congestion(at(140), true, false, at(110));
    assert_eq!(
        controller.window(),
        1200,
        "persistent congestion always counts"
    );
}

#[test]
fn a_mark_counts_as_a_loss() {
    let mut controller = Controller::new(epoch(), paper(), Priority::NORMAL);
    let sample = AckSample {
        packet: 0,
        bytes: 1200,
        sent: epoch() + ms(1),
        rtt: ms(20),
        rtt_error: Duration::ZERO,
        receive_delay: Duration::ZERO,
        one_way_delay: None,
        ecn: true,
        app_limited: true,
    };
    controller.on_ack(epoch() + ms(21), &sample);
    controller.on_ack_batch_end(epoch() + ms(21), 0);
    assert_eq!(controller.window(), 6000);
    let mut controller = Controller::new(epoch(), Config::default(), Priority::NORMAL);
    controller.on_ack(epoch() + ms(21), &sample);
    controller.on_ack_batch_end(epoch() + ms(21), 0);
    assert!(controller.window() < 12_000);
}

#[test]
fn one_way_delays_take_precedence() {
    let mut controller = Controller::new(epoch(), paper(), Priority::SCAVENGER);
    let offset = Duration::from_secs(40 * 365 * 86_400);
    for (step, queue) in [0, 30, 40, 50].into_iter().enumerate() {
        let now = epoch() + ms(20 * step as u64);
        let sample = AckSample {
            packet: 0,
            bytes: 1200,
            sent: now,
            // The way back is congested, which must not count.
            rtt: ms(500),
            rtt_error: Duration::ZERO,
            receive_delay: Duration::ZERO,
            one_way_delay: Some(offset + ms(10 + queue)),
            ecn: false,
            app_limited: false,
        };
        controller.on_ack(now, &sample);
        controller.on_ack_batch_end(now, 12_000);
    }
    let report = controller.report();
    assert_eq!(report.queueing_delay, Some(ms(30)));
    assert_eq!(report.base_delay, Some(offset + ms(10)));
    assert_eq!(report.srtt, Some(ms(500)));
}
