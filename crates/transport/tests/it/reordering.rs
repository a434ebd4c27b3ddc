//! Paths that reorder packets or hold three of them, beside what the kernel's TCP makes of each.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use ringway_dtl::{Config, Priority};
use ringway_testbed::{Host, Line, Network};
use ringway_transport::MemberId;
use ringway_transport::quic::{CongestionControl, QuicEndpoint, QuicOptions};

/// Bytes of a file.
const FILE: usize = 6_000_000;
const RATE: u64 = 20_000_000;
const DELAY_MS: u64 = 20;
/// A bandwidth-delay product.
const QUEUE: usize = 100_000;

/// How long the kernel's TCP takes, from the first byte to the last, in seconds.
fn tcp(from: &Host, to: &Host, address: IpAddr) -> f64 {
    let listener = to.enter(|| TcpListener::bind((address, 0)).unwrap());
    let listener = listener.unwrap();
    let there = listener.local_addr().unwrap();
    let sender = from.enter(|| TcpStream::connect(there).unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let sends = std::thread::spawn(move || {
        let mut sender = sender;
        sender.write_all(&vec![7; FILE]).unwrap();
        sender
    });
    let (begin, mut got, mut buffer) = (Instant::now(), 0, vec![0; 1 << 16]);
    while got < FILE {
        got += receiver.read(&mut buffer).unwrap();
    }
    let took = begin.elapsed().as_secs_f64();
    drop(sends.join().unwrap());
    took
}

fn on<T: Send>(host: &Host, work: impl AsyncFnOnce() -> T + Send) -> T {
    let entered = host.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(work())
    });
    entered.unwrap()
}

fn endpoint(seed: u8, listen: IpAddr) -> QuicEndpoint {
    let options = QuicOptions {
        congestion: CongestionControl::Priority(Config::default()),
        ..QuicOptions::default()
    };
    let key = SigningKey::from_bytes(&[seed; 32]);
    QuicEndpoint::bind((listen, 0).into(), &key, Arc::new(|_| true), options).unwrap()
}

/// The same for a stream of ours.
fn ours(from: &Host, to: &Host, priority: f64) -> f64 {
    let [here, there] = [from, to].map(|host| host.address().unwrap());
    let (tell, address) = std::sync::mpsc::channel::<SocketAddr>();
    std::thread::scope(|scope| {
        let receives = scope.spawn(|| {
            on(to, async || {
                let server = endpoint(2, there);
                tell.send(server.local_address().unwrap()).unwrap();
                let connection = server.accept().await.unwrap();
                let (mut send, mut receive) = connection.accept_bi().await.unwrap();
                let (begin, mut got) = (Instant::now(), 0);
                while let Some(chunk) = receive.read_chunk(1 << 20).await.unwrap() {
                    got += chunk.len();
                }
                assert_eq!(got, FILE);
                let took = begin.elapsed().as_secs_f64();
                send.write_all(b"done").await.unwrap();
                send.finish().unwrap();
                connection.closed().await;
                took
            })
        });
        let address = address.recv().unwrap();
        on(from, async || {
            let client = endpoint(1, here);
            let member = MemberId::from(&SigningKey::from_bytes(&[2; 32]));
            let priority = Priority::new(priority).unwrap();
            let connection = client.connect(address, member, priority).await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_chunk(Bytes::from(vec![7; FILE])).await.unwrap();
            send.finish().unwrap();
            receive.read_to_end(16).await.unwrap();
            connection.close(0, "done");
            client.wait_idle().await;
        });
        receives.join().unwrap()
    })
}

/// What a file takes over a line: the kernel's TCP, priority 1 and 0.
fn takes(line: &Line) -> Option<[f64; 3]> {
    let mut network = Network::or_skip("files beside the kernel's TCP").unwrap()?;
    let (switch, one, two) = (
        network.switch("switch").unwrap(),
        network.host("one").unwrap(),
        network.host("two").unwrap(),
    );
    network.attach(&one, &switch, "10.78.0.1/24", line).unwrap();
    network
        .attach(&two, &switch, "10.78.0.2/24", &Line::plain())
        .unwrap();
    let cubic = tcp(&one, &two, two.address().unwrap());
    Some([cubic, ours(&one, &two, 1.0), ours(&one, &two, 0.0)])
}

/// The fastest of up to five runs each are as fast: beside others the machine may have been busy.
/// Priority 0 takes packets that a busy processor delays for a queue, so it is compared with what
/// it takes over a line that keeps the order, in the same minutes.
fn is_as_fast(line: &Line, ordered: Option<&Line>, of_cubic: f64) {
    let mut fastest = [f64::INFINITY; 3];
    let mut zero_in_order = f64::INFINITY;
    for _ in 0..5 {
        let Some(run) = takes(line) else {
            return;
        };
        fastest = std::array::from_fn(|index| run[index].min(fastest[index]));
        let [cubic, one, zero] = fastest;
        if one <= of_cubic * cubic && zero <= 1.3 * one.max(zero_in_order) {
            return;
        }
        if let Some([_, _, zero]) = ordered.and_then(takes) {
            zero_in_order = zero_in_order.min(zero);
        }
    }
    panic!(
        "CUBIC, priority 1 and 0 take, in seconds: {fastest:.2?}; priority 0 in order \
         {zero_in_order:.2}"
    );
}

/// A line that reorders by so much.
fn scatters(scatter_ms: u64) {
    let line = Line::plain().delay_ms(DELAY_MS).rate(RATE, QUEUE);
    is_as_fast(&line.scatter_ms(scatter_ms), Some(&line), 1.3);
}

/// Three full packets, as small switches and old modems have: bursts do not fit. A sender that
/// wakes late sends bursts, so a busy machine loses packets here: 1.13 times CUBIC on a quiet one,
/// 1.27 to 1.45 beside builds. The simulator's trial holds the behaviour in every run.
#[test]
#[ignore = "needs a quiet machine: one that wakes the sender late fills the three places at once"]
fn a_queue_of_three_packets() {
    let line = Line::plain().delay_ms(DELAY_MS / 2);
    is_as_fast(&line.rate(RATE / 2, 3 * 1_514), None, 1.2);
}

/// What the cases below are compared with. Alone on its line even a scavenger has most of it.
#[test]
fn where_packets_keep_their_order() {
    let line = Line::plain().delay_ms(DELAY_MS).rate(RATE, QUEUE);
    let mut runs = Vec::new();
    // Beside others the machine may have been busy.
    for _ in 0..5 {
        let Some(run) = takes(&line) else {
            return;
        };
        runs.push(run);
        let [cubic, one, zero] = run;
        if one <= 2.0 * cubic && zero <= 4.0 * cubic {
            return;
        }
    }
    panic!("CUBIC, priority 1 and 0 take, in seconds: {runs:.2?}");
}

#[test]
fn one_millisecond() {
    scatters(1);
}

#[test]
fn three_milliseconds() {
    scatters(3);
}

#[test]
fn five_milliseconds() {
    scatters(5);
}

#[test]
#[ignore = "on a busy machine priority 0 yields for minutes, see docs/dev/open.md"]
fn half_of_a_round_trip() {
    scatters(20);
}
