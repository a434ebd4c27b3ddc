//! One sender, a path with a rate, a delay and a buffer, and one receiver, in virtual time.

use super::super::replay::ReplayWindow;
use super::*;
use crate::limits::{RECEIVE_ROOM, REPORTED_BYTES};

const PACKET: usize = 1_200;

struct Path {
    /// Bytes per second.
    rate: f64,
    delay: Duration,
    /// Bytes that may wait for the receiver.
    buffer: usize,
    /// Every which packet is lost on the way.
    loses: Option<u64>,
}

struct Outcome {
    sent: u64,
    lost: u64,
    seconds: f64,
    longest_queue: usize,
}

/// Sends `count` packets as fast as the flow allows.
fn run(path: &Path, count: u64) -> Outcome {
    let start = Instant::now();
    let mut now = start;
    let mut flow = Flow::new(start, Priority::NORMAL, PACKET, 1);
    let mut arrivals = Arrivals::default();
    let mut window = ReplayWindow::default();
    // Packets on their way by time of arrival, and reports likewise.
    let mut on_way: VecDeque<(Instant, u64)> = VecDeque::new();
    let mut reports: VecDeque<(Instant, Report)> = VecDeque::new();
    let mut free_at = start;
    let (mut sent, mut lost, mut longest_queue) = (0, 0, 0);
    let transmission = Duration::from_secs_f64(PACKET as f64 / path.rate);
    while sent < count || !on_way.is_empty() {
        assert!(
            now < start + Duration::from_secs(3_600),
            "stalled after {sent}"
        );
        while sent < count && flow.may_send(now) {
            flow.sent(now, sent, PACKET);
            let waits = free_at.saturating_duration_since(now).as_secs_f64() * path.rate;
            longest_queue = longest_queue.max(waits as usize + PACKET);
            let unlucky = path.loses.is_some_and(|every| sent % every == every - 1);
            if unlucky || waits as usize + PACKET > path.buffer {
                lost += 1;
            } else {
                free_at = free_at.max(now) + transmission;
                on_way.push_back((free_at + path.delay, sent));
            }
            sent += 1;
        }
        let next = [
            on_way.front().map(|(at, _)| *at),
            reports.front().map(|(at, _)| *at),
            arrivals.due(),
            flow.poll_timeout(sent < count),
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            break;
        };
        now = now.max(next);
        while let Some((_, counter)) = on_way.pop_front_if(|(at, _)| *at <= now) {
            window.mark(counter);
            arrivals.note(now, 1, counter);
            if arrivals.is_due(now) {
                reports.push_back((now + path.delay, report(&mut arrivals, &window, now)));
            }
        }
        if arrivals.is_due(now) {
            reports.push_back((now + path.delay, report(&mut arrivals, &window, now)));
        }
        while let Some((_, report)) = reports.pop_front_if(|(at, _)| *at <= now) {
            flow.reported(now, &report);
        }
        flow.handle_timeout(now);
    }
    let seconds = (now - start).as_secs_f64();
    Outcome {
        sent,
        lost,
        seconds,
        longest_queue,
    }
}

fn report(arrivals: &mut Arrivals, window: &ReplayWindow, now: Instant) -> Report {
    let (session, highest) = arrivals.pending().unwrap();
    let mut seen = vec![0; REPORTED_BYTES];
    for below in 0..REPORTED_BYTES as u64 * 8 {
        if highest > below && window.has_seen(highest - below - 1) {
            seen[below as usize / 8] |= 1 << (below % 8);
        }
    }
    Report {
        session,
        highest,
        delay: arrivals.reported(now),
        seen,
        room: RECEIVE_ROOM,
    }
}

#[test]
fn a_slow_receiver_loses_nothing() {
    // A buffer as Linux gives it, behind a path that is no limit: what a loopback is.
    for rate in [20e6, 100e6, 500e6] {
        let path = Path {
            rate,
            delay: Duration::from_micros(20),
            buffer: 208 * 1024,
            loses: None,
        };
        let outcome = run(&path, 50_000);
        assert_eq!(outcome.lost, 0, "at {rate} B/s");
        let share = outcome.sent as f64 * PACKET as f64 / outcome.seconds / rate;
        assert!(share > 0.8, "only {share} of {rate} B/s used");
        assert!(outcome.longest_queue <= RECEIVE_ROOM as usize + PACKET);
    }
}

#[test]
fn a_long_path_is_filled_in_the_end() {
    let path = Path {
        rate: 2.5e6,
        delay: Duration::from_millis(20),
        buffer: 100_000,
        loses: None,
    };
    let outcome = run(&path, 20_000);
    let share = outcome.sent as f64 * PACKET as f64 / outcome.seconds / path.rate;
    assert!(share > 0.7, "{share}");
    assert!(outcome.lost * 50 < outcome.sent, "{} lost", outcome.lost);
}

#[test]
fn losses_slow_and_never_stop_the_sender() {
    let path = Path {
        rate: 1e6,
        delay: Duration::from_millis(10),
        buffer: 100_000,
        loses: Some(50),
    };
    let outcome = run(&path, 5_000);
    assert_eq!(outcome.lost, 100);
    let share = outcome.sent as f64 * PACKET as f64 / outcome.seconds / path.rate;
    assert!(share > 0.1, "{share}");
}

#[test]
fn total_loss_leaves_occasional_probes() {
    let path = Path {
        rate: 1e6,
        delay: Duration::from_millis(10),
        buffer: 0,
        loses: None,
    };
    let outcome = run(&path, 60);
    assert_eq!(outcome.lost, 60);
    assert!(
        outcome.seconds > 30.0,
        "{} s for 60 packets",
        outcome.seconds
    );
}

#[test]
fn any_report_keeps_the_books_consistent() {
    let now = Instant::now();
    let mut flow = Flow::new(now, Priority::NORMAL, PACKET, 0);
    for counter in 0..5 {
        flow.sent(now, counter * 3, PACKET);
    }
    for (highest, seen) in [
        (u64::MAX, vec![0xff; 16]),
        (0, vec![]),
        (7, vec![0xff; 500]),
        (u64::MAX, vec![]),
    ] {
        let report = Report {
            session: 0,
            highest,
            delay: Duration::MAX,
            seen,
            room: 0,
        };
        flow.reported(now, &report);
    }
    assert_eq!(flow.state().1, 0);
    assert!(flow.may_send(now));
}

#[test]
fn new_keys_keep_window_and_flight() {
    let start = Instant::now();
    let mut flow = Flow::new(start, Priority::NORMAL, PACKET, 1);
    let report = |session, highest: u64, seen: u8| Report {
        session,
        highest,
        delay: Duration::ZERO,
        seen: vec![seen; REPORTED_BYTES],
        room: RECEIVE_ROOM,
    };
    for counter in 0..6 {
        flow.sent(start, counter, PACKET);
    }
    let now = start + Duration::from_millis(10);
    flow.reported(now, &report(1, 3, 0xff));
    let (window, in_flight) = flow.state();
    assert_eq!(in_flight, 2 * PACKET as u64);
    flow.renew(2);
    assert_eq!(flow.state(), (window, in_flight));
    // Counters begin again, and are not taken for those of before.
    for counter in 0..2 {
        flow.sent(now, counter, PACKET);
    }
    flow.reported(now, &report(2, 1, 0xff));
    assert_eq!(
        flow.state().1,
        in_flight,
        "the old session's are not lost yet"
    );
    flow.reported(now, &report(1, 5, 0xff));
    assert_eq!(flow.state().1, 0);
    assert!(flow.state().0 >= window, "nothing was lost");
    flow.reported(now, &report(3, 1, 0xff));
    assert_eq!(flow.state().1, 0);
    // A packet of the old session that never comes is given up as any other.
    flow.renew(3);
    flow.sent(now, 0, PACKET);
    flow.renew(4);
    for counter in 0..REORDERED {
        flow.sent(now, counter, PACKET);
    }
    let before = flow.state().0;
    flow.reported(now, &report(4, REORDERED, 0xff));
    assert_eq!(flow.state().1, 0);
    assert!(flow.state().0 < before, "that was a loss");
}

#[test]
fn two_sessions_are_reported_separately() {
    let now = Instant::now();
    let mut arrivals = Arrivals::default();
    for (session, counter) in [(1, 7), (1, 8), (2, 0), (1, 9)] {
        arrivals.note(now, session, counter);
    }
    assert_eq!(arrivals.pending(), Some((1, 9)));
    arrivals.reported(now);
    assert_eq!(arrivals.pending(), Some((2, 0)));
    assert!(arrivals.is_due(now + REPORT_AFTER));
    arrivals.reported(now);
    assert_eq!(arrivals.pending(), None);
    assert!(!arrivals.is_due(now + REPORT_AFTER) && arrivals.due().is_none());
}
