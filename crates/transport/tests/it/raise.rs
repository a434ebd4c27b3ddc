//! A transfer at priority 0 that hardly sends, because others need the path, is raised.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_dtl::{LimitedBy, Priority};
use ringway_transport::MemberId;
use ringway_transport::quic::{ConnectionReport, QuicEndpoint, QuicOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::slow_path::{Path, path};
use crate::support::{key, loopback, soon};

/// Transfers that are raised, each on a path of its own.
const TRANSFERS: usize = 5;

/// How long a packet waits for the one before it.
fn pause(report: &ConnectionReport) -> Duration {
    let rate = report.pacing_rate.map_or(f64::INFINITY, |rate| rate as f64);
    Duration::from_secs_f64(f64::from(report.mtu) / rate)
}

/// Raises a transfer in the middle of a pause; how long that pause was to be, and how soon a packet
/// has left.
async fn raised() -> (Duration, Duration) {
    let line = Arc::new(Path::default());
    // 50 packets a second, so that the floor of priority 0 is the least: a packet in two seconds.
    line.each.store(20, Ordering::Relaxed);
    line.set(5, 5);
    // Words about clocks would wake the connection as well.
    let options = QuicOptions {
        clocks: false,
        ..QuicOptions::default()
    };
    let bind = |number, options| {
        QuicEndpoint::bind(loopback(), &key(number), Arc::new(|_| true), options).unwrap()
    };
    let (ours, theirs) = (bind(1, options), bind(2, QuicOptions::default()));
    let address = path(theirs.local_address().unwrap(), line.clone()).await;
    let member = MemberId::from(&key(2));
    let connecting = ours.connect(address, member, Priority::SCAVENGER);
    let (out, into) = soon(async { tokio::join!(connecting, theirs.accept()) }).await;
    let (connection, into) = (out.unwrap(), into.unwrap());
    let sends = connection.clone();
    tokio::spawn(async move {
        let (mut stream, _receive) = sends.open_bi().await.unwrap();
        // More than is ever taken: the writer waits, and does not wake the connection.
        while stream.write_all(&[7; 100_000]).await.is_ok() {}
    });
    tokio::spawn(async move {
        let (_send, mut stream) = into.accept_bi().await.unwrap();
        while let Ok(Some(_)) = stream.read_chunk(65_536).await {}
    });
    let report = || connection.report();
    while report().limited_by == Some(LimitedBy::SlowStart) || report().sent < 100 {
        sleep(Duration::from_millis(20)).await;
    }
    // The queue of others, which moves: one that stands still would be taken for a longer way.
    let moves = line.clone();
    let others = tokio::spawn(async move {
        for step in 0.. {
            moves.set(100 + 40 * (step % 3), 5);
            sleep(Duration::from_millis(170)).await;
        }
    });
    let is_quiet = |report: &ConnectionReport| {
        report.limited_by == Some(LimitedBy::Yielding)
            && report.window < u64::from(report.mtu)
            && pause(report) > Duration::from_secs(1)
    };
    while !is_quiet(&report()) {
        sleep(Duration::from_millis(20)).await;
    }
    // A packet leaves and is acknowledged: from then on nothing wakes the connection but its timer.
    let before = report();
    while report().sent == before.sent {
        sleep(Duration::from_millis(5)).await;
    }
    let left = report();
    while report().received == left.received {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(100)).await;
    let quiet = report();
    let at = Instant::now();
    connection.set_priority(Priority::NORMAL);
    while report().sent == quiet.sent {
        sleep(Duration::from_millis(2)).await;
    }
    let after = at.elapsed();
    others.abort();
    (pause(&quiet), after)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raised_scavenger_sends_before_its_next_due_packet() {
    let raises: Vec<_> = (0..TRANSFERS).map(|_| tokio::spawn(raised())).collect();
    let mut all = Vec::new();
    for raise in raises {
        let raise = timeout(Duration::from_secs(120), raise).await;
        all.push(raise.expect("gives way in time").unwrap());
    }
    // A host that is busy may make one or two wait.
    let at_once = all.iter().filter(|(pause, after)| *after < *pause / 3);
    assert!(at_once.count() > TRANSFERS / 2, "{all:?}");
}
