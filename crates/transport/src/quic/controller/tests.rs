//! What QUIC tells the controller, and what it is told.

use super::super::group::Groups;
use super::*;

const MTU: u16 = 1200;

fn build(priority: Priority) -> (Arc<Control>, PriorityController, Instant) {
    let control = Arc::new(Control::new(priority));
    let factory = PriorityFactory {
        control: control.clone(),
        config: Config::default(),
    };
    let now = Instant::now();
    (control, factory.controller(now, MTU), now)
}

/// Sends and acknowledges one packet per round trip of `rtt`, `count` times.
fn run(
    controller: &mut PriorityController,
    mut now: Instant,
    first: u64,
    count: u64,
    rtt: Duration,
) -> Instant {
    for pn in first..first + count {
        let sent = now;
        controller.on_packet_sent(sent, MTU, pn);
        now += rtt;
        controller.acked(now, sent, MTU.into(), pn, false);
        controller.on_end_acks(now, 0, false, Some(pn));
    }
    now
}

#[test]
fn reported_window_is_at_least_two_datagrams() {
    let (_, mut controller, mut now) = build(Priority::SCAVENGER);
    now = run(&mut controller, now, 0, 10, Duration::from_millis(20));
    for pn in 100..400 {
        controller.on_packet_sent(now, MTU, pn);
        now += Duration::from_millis(20);
        controller.on_packet_lost(MTU, pn, now);
        controller.on_congestion_event(now, now, true, false, MTU.into(), pn);
    }
    assert_eq!(controller.window(), 2 * u64::from(MTU));
    assert_eq!(controller.metrics().congestion_window, controller.window());
    // It is the rate that holds it to less than a datagram in a round trip.
    assert!(controller.inner.window() < MTU.into());
    let rate = controller.metrics().pacing_rate.unwrap();
    assert!((1..u64::from(MTU) * 1000 / 20).contains(&rate), "{rate}");
}

/// This holds at every priority.
#[test]
fn ecn_mark_lowers_the_window_without_loss() {
    for priority in [Priority::SCAVENGER, Priority::NORMAL] {
        let (control, mut controller, now) = build(priority);
        let now = run(&mut controller, now, 0, 50, Duration::from_millis(20));
        let before = controller.window();
        assert!(before > 5 * u64::from(MTU), "{priority}: {before}");
        controller.on_packet_sent(now, MTU, 50);
        let marked = now + Duration::from_millis(20);
        // As QUIC tells it: no packet is named, and nothing is lost.
        controller.on_congestion_event(marked, now, false, true, 0, 50);
        let after = controller.window();
        assert!(after <= before * 7 / 10, "{priority}: {before}, {after}");
        assert_eq!(control.report().unwrap().lost_bytes, 0);
        // Another mark of the same round trip says nothing new.
        controller.on_congestion_event(marked, now, false, true, 0, 50);
        assert_eq!(controller.window(), after);
    }
}

#[test]
fn newest_packet_of_a_batch_gives_the_rtt() {
    let (control, mut controller, start) = build(Priority::NORMAL);
    let (old, new) = (start, start + Duration::from_millis(80));
    controller.on_packet_sent(old, MTU, 0);
    controller.on_packet_sent(new, MTU, 1);
    let now = start + Duration::from_millis(100);
    controller.acked(now, old, MTU.into(), 0, false);
    controller.acked(now, new, MTU.into(), 1, false);
    controller.on_end_acks(now, 0, false, Some(1));
    let srtt = control.report().unwrap().srtt;
    assert_eq!(srtt, Some(Duration::from_millis(20)));
    // A late acknowledgement of an older packet changes nothing.
    controller.acked(now, old, MTU.into(), 0, false);
    controller.on_end_acks(now, 0, false, Some(1));
    assert_eq!(control.report().unwrap().srtt, srtt);
}

#[test]
fn acknowledged_pure_ack_hides_no_round_trip() {
    let (control, mut controller, start) = build(Priority::NORMAL);
    let rtt = |controller: &mut PriorityController, pn, ms| {
        let sent = start + Duration::from_millis(1000 * pn);
        let now = sent + Duration::from_millis(ms);
        controller.on_packet_sent(sent, MTU, pn);
        controller.acked(now, sent, MTU.into(), pn, false);
        // The next number was an acknowledgement of ours.
        controller.on_end_acks(now, 0, false, Some(pn + 1));
        controller.rtt
    };
    for (pn, ms) in [(0, 20), (2, 80), (4, 40)] {
        let shown = rtt(&mut controller, pn, ms);
        assert_eq!(shown, Some(Duration::from_millis(ms)));
    }
    assert!(control.report().unwrap().srtt > Some(Duration::from_millis(20)));
}

/// A reading is stale if it was taken long before the socket was read.
#[test]
fn stale_clock_reading_lowers_no_base_delay() {
    let (control, mut controller, _) = build(Priority::SCAVENGER);
    let rtt = Duration::from_millis(20);
    let mut acknowledge = |pn: u64, stale: Duration| {
        let came = Instant::now();
        let (sent, read) = (came - rtt, came - stale);
        controller.on_packet_sent(sent, MTU, pn);
        controller.acked(read, sent, MTU.into(), pn, false);
        controller.on_end_acks(read, 0, false, Some(pn));
        controller.rtt
    };
    acknowledge(0, Duration::ZERO);
    let stale = Duration::from_millis(5);
    assert_eq!(acknowledge(1, stale), Some(rtt - stale));
    let base = control.report().unwrap().base_delay.unwrap();
    assert!(base >= rtt, "{base:?}");
}

#[test]
fn a_lost_packet_without_data_costs_nothing() {
    for priority in [Priority::SCAVENGER, Priority::new(4.0).unwrap()] {
        let lose = |empty: bool| {
            let (control, mut controller, now) = build(priority);
            let now = run(&mut controller, now, 0, 50, Duration::from_millis(20));
            controller.on_packet_sent(now, MTU, 60);
            for pn in 50..60 {
                if empty {
                    controller.on_packet_lost(0, pn, now);
                }
            }
            controller.on_packet_lost(MTU, 60, now);
            controller.on_congestion_event(now, now, false, false, MTU.into(), 60);
            (controller.window(), control.report().unwrap().lost_bytes)
        };
        assert_eq!(lose(true), lose(false), "{priority}");
        assert_eq!(lose(true).1, u64::from(MTU));
    }
}

#[test]
fn losses_before_the_keys_arrive_cost_nothing() {
    for priority in [Priority::SCAVENGER, Priority::NORMAL] {
        let (control, mut controller, start) = build(priority);
        let rtt = Duration::from_millis(20);
        // Number 0 carries the keys; the others of its flight come before it.
        (0..6).for_each(|pn| controller.on_packet_sent(start, MTU, pn));
        let now = start + rtt;
        let acknowledge = |controller: &mut PriorityController, pn, sent| {
            controller.acked(sent + rtt, sent, MTU.into(), pn, false);
            controller.on_end_acks(sent + rtt, 0, false, Some(pn));
        };
        acknowledge(&mut controller, 0, start);
        acknowledge(&mut controller, 5, start);
        let before = controller.inner.window();
        controller.on_packet_lost(MTU, 4, now);
        controller.on_congestion_event(now, start, false, false, MTU.into(), 4);
        assert_eq!(controller.inner.window(), before, "{priority}");
        assert_eq!(control.report().unwrap().lost_bytes, 0);
        // What leaves from then on is answered.
        (6..12).for_each(|pn| controller.on_packet_sent(now, MTU, pn));
        acknowledge(&mut controller, 11, now);
        assert!(controller.inner.window() < before, "{priority}");
    }
}

#[test]
fn spurious_loss_restores_the_window() {
    let (control, mut controller, now) = build(Priority::NORMAL);
    let now = run(&mut controller, now, 0, 10, Duration::from_millis(20));
    let before = controller.inner.window();
    (10..12).for_each(|pn| controller.on_packet_sent(now, MTU, pn));
    let later = now + Duration::from_millis(30);
    controller.on_packet_lost(MTU, 10, later);
    controller.on_congestion_event(later, now, false, false, MTU.into(), 10);
    assert!(controller.inner.window() < before);
    controller.on_spurious_congestion_event();
    controller.on_end_acks(later, 0, false, Some(11));
    assert_eq!(controller.inner.window(), before);
    assert_eq!(control.report().unwrap().lost_bytes, 0);
}

/// Two connections of priority 0 with one congestion control, of which the first has filled the
/// path and then been driven to the floor.
fn driven_to_the_floor() -> (PriorityController, PriorityController, Instant) {
    let member = MemberId([7; 32]);
    let address = "127.0.0.1:1".parse().unwrap();
    let groups = Groups::default();
    let config = Config::default();
    let group = groups.of(member, address, &config, None);
    let now = Instant::now();
    let connection = || {
        let factory = PriorityFactory {
            control: Arc::new(Control::in_group(
                Priority::SCAVENGER,
                Some(Arc::clone(&group)),
            )),
            config: config.clone(),
        };
        factory.controller(now, MTU)
    };
    let (mut busy, mut idle) = (connection(), connection());
    let rtt = Duration::from_millis(20);
    let mut now = run(&mut idle, now, 0, 20, rtt);
    now = run(&mut busy, now, 0, 50, rtt);
    for pn in 50..90 {
        busy.on_packet_sent(now, MTU, pn);
        now += rtt;
        busy.on_packet_lost(MTU, pn, now);
        busy.on_congestion_event(now, now, true, false, MTU.into(), pn);
    }
    (busy, idle, now)
}

#[test]
fn idle_connection_restarts_at_its_groups_rate() {
    let (busy, mut idle, now) = driven_to_the_floor();
    let rate = |controller: &PriorityController| controller.metrics().pacing_rate.unwrap();
    assert!(rate(&idle) > 10 * rate(&busy), "what it knew");
    idle.on_packet_sent(now, MTU, 20);
    assert!(rate(&idle) <= rate(&busy).max(u64::from(MTU)), "{idle:?}");
    assert_eq!(idle.window(), 2 * u64::from(MTU));
}

/// Its first packets have a rate of their own, and one leaves each [`CONTROLLER_SLOWEST`].
#[test]
fn group_at_the_floor_permits_a_new_connection() {
    let (busy, _idle, mut now) = driven_to_the_floor();
    let mut new = PriorityFactory {
        control: Arc::clone(&busy.control),
        config: Config::default(),
    }
    .controller(now, MTU);
    let rate = |controller: &PriorityController| controller.metrics().pacing_rate.unwrap();
    for pn in 0..CONTROLLER_FIRST {
        assert!(rate(&new) >= CONTROLLER_FIRST_RATE * u64::from(MTU), "{pn}");
        new.on_packet_sent(now, MTU, pn);
        now += Duration::from_millis(100);
    }
    let slow = rate(&new);
    assert!(slow < u64::from(MTU), "{slow}");
    assert!(
        slow >= u64::from(MTU) / CONTROLLER_SLOWEST.as_secs(),
        "{slow}"
    );
}

#[test]
fn new_priority_counts_from_the_next_packet() {
    let (control, mut controller, now) = build(Priority::NORMAL);
    let now = run(&mut controller, now, 0, 2, Duration::from_millis(10));
    control.set_priority(Priority::SCAVENGER);
    assert_eq!(control.report().unwrap().priority, Priority::NORMAL);
    run(&mut controller, now, 2, 1, Duration::from_millis(10));
    assert_eq!(control.report().unwrap().priority, Priority::SCAVENGER);
}

/// It need not wait for its next packet.
#[test]
fn raised_scavenger_gets_a_rate_at_once() {
    let (control, mut controller, mut now) = build(Priority::SCAVENGER);
    now = run(&mut controller, now, 0, 10, Duration::from_millis(20));
    for pn in 10..40 {
        controller.on_packet_sent(now, MTU, pn);
        now += Duration::from_millis(20);
        controller.on_packet_lost(MTU, pn, now);
        controller.on_congestion_event(now, now, true, false, MTU.into(), pn);
    }
    let rate = |controller: &PriorityController| controller.metrics().pacing_rate.unwrap();
    let slow = rate(&controller);
    assert!(slow < 10 * u64::from(MTU), "{slow}");
    control.set_priority(Priority::SCAVENGER);
    assert_eq!(rate(&controller), slow);
    control.set_priority(Priority::NORMAL);
    assert_eq!(rate(&controller), CONTROLLER_RAISED_RATE * u64::from(MTU));
    // From then on it is the controller that says.
    controller.on_packet_sent(now, MTU, 40);
    assert_eq!(rate(&controller), controller.rate.unwrap());
}

/// It sends them at once; other priorities send as many as they may.
#[test]
fn scavenger_sends_two_packets_after_a_pause() {
    let rtt = Duration::from_millis(20);
    for (priority, held) in [(Priority::SCAVENGER, true), (Priority::NORMAL, false)] {
        let (_, mut controller, mut now) = build(priority);
        now = run(&mut controller, now, 0, 50, rtt);
        controller.on_packet_sent(now, MTU, 50);
        let rate = controller.metrics().pacing_rate.unwrap();
        let pause = Duration::from_millis(100);
        now += pause;
        controller.acked(now, now - rtt, MTU.into(), 50, false);
        controller.on_end_acks(now, 0, false, Some(50));
        // QUIC's pacer multiplies the two.
        let told = controller.metrics().pacing_rate.unwrap();
        let saved = told as f64 * pause.as_secs_f64();
        let burst = (2.0 * f64::from(MTU)).max(rate as f64 * 1e-3);
        assert!(rate as f64 * pause.as_secs_f64() > 2.0 * burst);
        assert_eq!(saved <= burst, held, "{priority:?}: {saved}");
        assert!(saved >= f64::from(MTU), "{priority:?}: {saved}");
        controller.on_packet_sent(now, MTU, 51);
        assert!(controller.metrics().pacing_rate.unwrap() >= rate / 2);
    }
}

#[test]
fn a_lost_packet_has_its_own_send_time() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut times = SendTimes::default();
    for (packet, ms) in [(0, 0), (1, 0), (2, 5), (3, 5), (4, 9)] {
        times.record(at(ms), packet);
    }
    assert_eq!(times.of(1), Some(at(0)));
    assert_eq!(times.of(3), Some(at(5)));
    assert_eq!(times.of(9), Some(at(9)));
    for packet in 5..5000 {
        times.record(at(packet), packet);
    }
    assert_eq!(times.runs.len(), CONTROLLER_SEND_RUNS);
    assert_eq!(times.of(0), times.runs.front().map(|(_, sent)| *sent));
    times.record(at(6000), 0);
    assert_eq!(times.runs.len(), 1);
}

/// Asks for the peer's clock, whose word comes to the packet that leaves `later`, and is
/// acknowledged after a round trip of 20 ms.
fn ask(controller: &mut PriorityController, now: Instant, pn: u64, later: Duration) -> u8 {
    let question = controller.control.asks();
    run(controller, now + later, pn, 1, RTT);
    question
}

const RTT: Duration = Duration::from_millis(20);

impl Control {
    fn one_way(&self) -> Option<Duration> {
        let told = self.take_one_way()?;
        told.delay.checked_sub(Duration::from_nanos(CLOCK_ZERO))
    }
}

#[test]
fn one_way_delay_counts_from_the_questions_packet() {
    std::sync::LazyLock::force(&super::super::clock::ZERO);
    let (control, mut controller, now) = build(Priority::SCAVENGER);
    let start = now + Duration::from_secs(1);
    // It waits for its packet, and the answer is read when it is: neither says anything of the way.
    for (pn, (waits, read)) in [(0, 0), (300, 0), (0, 15), (300, 15)]
        .into_iter()
        .enumerate()
    {
        let [waits, read] = [waits, read].map(Duration::from_millis);
        let begun = start + Duration::from_secs(pn as u64);
        let question = ask(&mut controller, begun, pn as u64, waits);
        let came = begun + waits + Duration::from_millis(7);
        let answered = begun + waits + RTT;
        control.on_reading(answered + read, question, nanos(came));
        assert_eq!(control.one_way(), Some(Duration::from_millis(7)));
    }
}

#[test]
fn unasked_or_late_readings_are_ignored() {
    let (control, mut controller, now) = build(Priority::SCAVENGER);
    let start = now + Duration::from_secs(1);
    let question = ask(&mut controller, start, 0, Duration::ZERO);
    let answered = start + RTT;
    control.on_reading(answered, question.wrapping_add(1), nanos(start));
    assert_eq!(control.one_way(), None, "never asked");
    control.on_reading(answered + QUIC_CLOCK_APART * 2, question, nanos(start));
    assert_eq!(control.one_way(), None, "the queues have changed since");
    control.on_reading(answered, question, nanos(start));
    assert_eq!(control.one_way(), None, "answered before");
    // It has not left.
    let question = control.asks();
    control.on_reading(answered, question, nanos(start));
    assert_eq!(control.one_way(), None);
    let first = control.asks();
    for _ in 0..QUIC_CLOCK_QUESTIONS {
        control.asks();
    }
    run(&mut controller, answered, 1, 1, RTT);
    control.on_reading(answered + RTT, first, nanos(answered));
    assert_eq!(control.one_way(), None, "forgotten");
}
