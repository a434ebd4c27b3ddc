//! Loopback throughput of one QUIC stream, one thread a side: `quic_throughput [MEGABYTES]
//! [ROUNDS]`.
//!
//! Alternates our controller (priority 1, 4 and 0) and the QUIC stack's CUBIC, and prints the
//! medians in Gbit/s of payload. One is by the clock, counted at the receiver. The others are per
//! core of each side, by the CPU time of its thread, which a busy machine disturbs less. Build it
//! with `--release`; Linux only.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement for people: it prints, and stops at the first error"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use ringway_dtl::{Config, Priority};
use ringway_transport::MemberId;
use ringway_transport::quic::{CongestionControl, ConnectionReport, QuicEndpoint, QuicOptions};

/// Bytes that the sender hands over at once.
const CHUNK: usize = 256 * 1024;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>().unwrap());
    let megabytes = arguments.next().unwrap_or(1000);
    let rounds = arguments.next().unwrap_or(5);
    let ours = || CongestionControl::Priority(Config::default());
    let cases = [
        ("cubic", CongestionControl::Cubic, 1.0),
        ("priority 1", ours(), 1.0),
        ("priority 4", ours(), 4.0),
        ("priority 0", ours(), 0.0),
    ];
    let mut results = vec![[const { Vec::new() }; 3]; cases.len()];
    for _ in 0..rounds {
        for ((name, congestion, priority), rates) in cases.iter().zip(&mut results) {
            let (times, report) = run(congestion.clone(), *priority, megabytes * 1_000_000);
            for (rates, time) in rates.iter_mut().zip(times) {
                rates.push(megabytes as f64 * 8e6 / time.as_secs_f64() / 1e9);
            }
            println!("{name:>10}: {}", describe(&report));
        }
    }
    println!("    median: Gbit/s by the clock, per core of the sender, per core of the receiver");
    for ((name, ..), rates) in cases.iter().zip(&mut results) {
        let [clock, sender, receiver] = rates.each_mut().map(|r| median(r));
        println!("{name:>10}: {clock:.2} {sender:.2} {receiver:.2}");
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this thread: the first number of `schedstat`, nanoseconds.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn describe(report: &ConnectionReport) -> String {
    format!(
        "rtt {:?} window {} pacing {:?} queueing {:?} sent {} lost {} mtu {}",
        report.rtt,
        report.window,
        report.pacing_rate,
        report.queueing_delay,
        report.sent,
        report.lost,
        report.mtu
    )
}

fn endpoint(seed: u8, congestion: CongestionControl) -> QuicEndpoint {
    let options = QuicOptions {
        congestion,
        ..QuicOptions::default()
    };
    let listen: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let key = SigningKey::from_bytes(&[seed; 32]);
    QuicEndpoint::bind(listen, &key, Arc::new(|_| true), options).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Moves `bytes` bytes. Returns the receiver's time, the sender's and the receiver's CPU time, and
/// the sender's last report.
fn run(
    congestion: CongestionControl,
    priority: f64,
    bytes: u64,
) -> ([Duration; 3], ConnectionReport) {
    let (address, at) = std::sync::mpsc::channel();
    let theirs = congestion.clone();
    let receiver = std::thread::spawn(move || {
        runtime().block_on(async {
            let server = endpoint(2, theirs);
            address.send(server.local_address().unwrap()).unwrap();
            let time = receive(&server, bytes).await;
            (time, cpu())
        })
    });
    let address = at.recv().unwrap();
    let before = cpu();
    let report = runtime().block_on(async {
        let client = endpoint(1, congestion);
        let member = MemberId::from(&SigningKey::from_bytes(&[2; 32]));
        let priority = Priority::new(priority).unwrap();
        let connection = client.connect(address, member, priority).await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let chunk = bytes::Bytes::from(vec![0; CHUNK]);
        let mut left = bytes;
        while left > 0 {
            let size = left.min(CHUNK as u64);
            send.write_chunk(chunk.slice(..size as usize))
                .await
                .unwrap();
            left -= size;
        }
        send.finish().unwrap();
        receive.read_to_end(16).await.unwrap();
        let report = connection.report();
        connection.close(0, "done");
        client.wait_idle().await;
        report
    });
    let sender = cpu() - before;
    let (time, receiver) = receiver.join().unwrap();
    ([time, sender, receiver], report)
}

/// Reads `bytes` bytes and says so. Returns the time from the first byte to the last.
async fn receive(server: &QuicEndpoint, bytes: u64) -> Duration {
    let connection = server.accept().await.unwrap();
    let (mut send, mut receive) = connection.accept_bi().await.unwrap();
    let start = Instant::now();
    let mut got = 0;
    while let Some(chunk) = receive.read_chunk(4 * CHUNK).await.unwrap() {
        got += chunk.len() as u64;
    }
    let time = start.elapsed();
    assert_eq!(got, bytes);
    send.write_all(b"done").await.unwrap();
    send.finish().unwrap();
    connection.closed().await;
    time
}
