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
/// Looks at a transfer at least.
const LOOKS: usize = 4;

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
        self.measure_while(|| std::thread::sleep(Duration::from_secs(seconds)))
    }

    /// The same over as long as something else takes.
    fn measure_while(&self, something: impl FnOnce()) -> f64 {
        let (begin, before) = (Instant::now(), self.received.load(Ordering::Relaxed));
        something();
        let bytes = self.received.load(Ordering::Relaxed) - before;
        bytes as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e6
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join().unwrap();
    }
}

/// What a transfer said of itself over a time, about once a second.
struct Looks {
    seconds: f64,
    transfers: Vec<Value>,
}

impl Looks {
    fn take(ring: &Ring, name: &str, id: &str, seconds: u64) -> Looks {
        let member = ring.member(name).unwrap();
        let begin = Instant::now();
        let mut transfers = vec![member.transfer(id).unwrap()];
        // On a busy machine a look may take seconds, and what grows shows by several.
        while begin.elapsed() < Duration::from_secs(seconds) || transfers.len() < LOOKS {
            std::thread::sleep(Duration::from_secs(1));
            transfers.push(member.transfer(id).unwrap());
        }
        Looks {
            seconds: begin.elapsed().as_secs_f64(),
            transfers,
        }
    }

    /// One of its figures at each look: each must be a number.
    fn numbers(&self, pointer: &str) -> Vec<f64> {
        let number = |transfer: &Value| {
            let number = transfer.pointer(pointer).and_then(Value::as_f64);
            number.unwrap_or_else(|| panic!("{pointer}: {transfer}"))
        };
        self.transfers.iter().map(number).collect()
    }

    fn most(&self, pointer: &str) -> f64 {
        self.numbers(pointer).into_iter().fold(0.0, f64::max)
    }

    /// How much a figure that only grows has grown.
    fn grown(&self, pointer: &str) -> f64 {
        let numbers = self.numbers(pointer);
        numbers[numbers.len() - 1] - numbers[0]
    }

    /// Megabits per second that were sent.
    fn rate(&self) -> f64 {
        self.grown("/bytes") * 8e-6 / self.seconds
    }

    /// Why it was not faster at each look.
    fn reasons(&self) -> Vec<&str> {
        let reasons = self.transfers.iter().map(|t| t["limited_by"].as_str());
        reasons.map(|reason| reason.unwrap_or("-")).collect()
    }

    /// All that is shown of the way is there, and is what can be on this line beside a TCP that
    /// fills its queue.
    fn are_filled(&self) {
        let shown = format!("{:#?}", self.transfers);
        for rtt in self.numbers("/path_report/rtt_ms") {
            // Four crossings are 20 ms, and the queue holds as much; what a busy machine adds has
            // no bound.
            assert!((20.0..5_000.0).contains(&rtt), "{shown}");
        }
        let window = self.numbers("/path_report/window");
        assert!(window.iter().all(|bytes| *bytes >= 1.0), "{shown}");
        assert!(self.most("/path_report/queueing_ms") >= 1.0, "{shown}");
        assert!(self.grown("/path_report/packets_sent") >= 1.0, "{shown}");
        // At priority 0 a block may take more than the second that the rate looks back.
        assert!(
            self.numbers("/rate").iter().all(|rate| *rate >= 0.0),
            "{shown}"
        );
        let lost = self.numbers("/path_report/packets_lost");
        let sent = self.numbers("/path_report/packets_sent");
        assert!(
            lost.iter().zip(&sent).all(|(lost, sent)| lost < sent),
            "{shown}"
        );
    }
}

/// Rates are measured over a time, and the kernel's TCP needs some seconds to find its own.
#[test]
fn priority_decides_whether_transfer_yields_to_tcp() {
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
    let (content, id) = queue(&ring, "oslo", "lima", 16 << 20);
    let beside = |priority: &str| {
        let member = ring.member("oslo").unwrap();
        member.call(&["priority", &id, priority]).unwrap();
        tcp.measure(4);
        let mut looks = None;
        let kept = tcp.measure_while(|| looks = Some(Looks::take(&ring, "oslo", &id, 8)));
        let looks = looks.unwrap();
        looks.are_filled();
        (kept, looks.rate(), looks)
    };
    let zero = beside("0");
    // One that begins in a queue that others fill may take it for the path at first, and a loss
    // counts for ten seconds.
    transfer_when(&ring, "oslo", &id, |transfer| {
        transfer["limited_by"] == "yielding"
    });
    let [four, again] = ["4", "0"].map(beside);
    let shown =
        [("0", &zero), ("4", &four), ("0", &again)].map(|(priority, (kept, rate, looks))| {
            let reasons = looks.reasons().join(", ");
            format!("TCP {kept:.2} and transfer {rate:.2} at {priority} ({reasons})")
        });
    let shown = format!("TCP alone {alone:.2} Mbit/s; {}", shown.join("; "));
    // Bounds with room for a busy machine, on which this line is carried by a thread.
    let kept = zero.0.min(again.0);
    assert!(kept >= 0.8 * alone, "{shown}");
    assert!(
        four.1 >= 1.0 && four.1 >= 3.0 * zero.1.max(again.1),
        "{shown}"
    );
    // A busy machine adds delays and losses of its own, which show as other reasons at times.
    for (looks, reason) in [(&four.2, "loss-limited"), (&again.2, "yielding")] {
        assert!(looks.reasons().contains(&reason), "{shown}");
    }
    assert!(four.2.most("/rate") >= 1e5, "{shown}");
    assert!(four.2.most("/path_report/packets_lost") >= 1.0, "{shown}");
    tcp.end();
    // At priority 0 it would yield to what a busy machine adds to the delay, too.
    let member = ring.member("oslo").unwrap();
    member.call(&["priority", &id, "1"]).unwrap();
    arrives(&ring, "lima", &id, &content);
}
