//! Transfers beside the kernel's own TCP, over a slow line that both share.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;

/// Bits a second of the line.
const RATE: u64 = 10_000_000;
/// 20 ms of round trip, and as much again in the queue.
const DELAY_MS: u64 = 5;
const QUEUE: usize = 25_000;

/// A bulk transfer of the kernel's TCP from one host to another.
struct Bulk {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    sender: JoinHandle<()>,
}

impl Bulk {
    fn start(lan: &Lan, from: &str, to: &str) -> Bulk {
        let there = SocketAddr::new(lan.host(to).address().unwrap(), 5001);
        let listener = lan.host(to).enter(|| TcpListener::bind(there).unwrap());
        let (received, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (listener, counted) = (listener.unwrap(), Arc::clone(&received));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 16];
            // Its end, or that of the test.
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                counted.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        let stream = lan.host(from).enter(|| TcpStream::connect(there).unwrap());
        let (mut stream, told) = (stream.unwrap(), Arc::clone(&stop));
        let sender = std::thread::spawn(move || {
            let buffer = vec![7; 1 << 14];
            while !told.load(Ordering::Relaxed) {
                stream.write_all(&buffer).unwrap();
            }
        });
        Bulk {
            received,
            stop,
            sender,
        }
    }

    /// Megabits per second over so many seconds.
    fn measure(&self, seconds: u64) -> f64 {
        let (begin, before) = (Instant::now(), self.received.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs(seconds));
        let bytes = self.received.load(Ordering::Relaxed) - before;
        bytes as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e6
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join().unwrap();
    }
}

/// Bytes of a transfer that have been sent.
fn moved(ring: &Ring, name: &str, id: &str) -> u64 {
    let transfer = ring.member(name).unwrap().transfer(id).unwrap();
    transfer["bytes"]
        .as_u64()
        .unwrap_or_else(|| panic!("{transfer}"))
}

#[test]
fn a_transfer_gives_way_to_the_kernels_tcp_or_does_not_as_its_priority_says() {
    let Some(network) = Network::or_skip("priorities beside TCP").unwrap() else {
        return;
    };
    let line = Line::plain().delay_ms(DELAY_MS).rate(RATE, QUEUE);
    let lan = Lan::new(network, &["oslo", "lima"], &line);
    let ring = started(lan.routers(&["oslo", "lima"]));
    ping(&ring, "oslo", "lima", "udp://");
    let tcp = Bulk::start(&lan, "oslo", "lima");
    tcp.measure(3);
    let alone = tcp.measure(8);
    let (content, id) = queue(&ring, "oslo", "lima", 12 << 20);
    let beside = |priority: &str| {
        let member = ring.member("oslo").unwrap();
        member.call(&["priority", &id, priority]).unwrap();
        tcp.measure(4);
        let before = moved(&ring, "oslo", &id);
        let kept = tcp.measure(8);
        let moved = moved(&ring, "oslo", &id) - before;
        (kept, moved as f64 * 8.0 / 8e6)
    };
    let [zero, four, again] = ["0", "4", "0"].map(beside);
    let shown = format!(
        "TCP alone {alone:.2} Mbit/s; TCP and transfer at 0 {zero:?}, at 4 {four:?}, at 0 {again:?}"
    );
    // Bounds with room for a busy machine, on which this line is carried by a thread.
    let kept = zero.0.min(again.0);
    assert!(kept >= 0.8 * alone, "{shown}");
    assert!(
        four.1 >= 1.0 && four.1 >= 3.0 * zero.1.max(again.1),
        "{shown}"
    );
    tcp.end();
    arrives(&ring, "lima", &id, &content);
}
