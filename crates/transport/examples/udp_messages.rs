//! What messages of 1 200 bytes over loopback UDP cost: `udp_messages [MESSAGES] [ROUNDS]`.
//!
//! Compares the `udp` transport, message by message and in batches, with bare sockets: one call for
//! each datagram, and trains of datagrams (GSO and GRO). Prints the medians in nanoseconds of CPU
//! time for each message, at the sender and at the receiver, each a thread of its own, and messages
//! lost. Build it with `--release`; Linux only.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement for people: it prints, and stops at the first error"
)]

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noq::udp::{RecvMeta, Transmit, UdpSocketState};
use ringway_transport::{Address, Transport, UdpOptions, UdpTransport};
use tokio::sync::mpsc;

const SIZE: usize = 1200;

/// Messages handed over at once.
const BATCH: usize = 54;

/// Messages under way at most, so that the receiver's buffer holds them.
const WINDOW: u64 = 600;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>().unwrap());
    let messages = arguments.next().unwrap_or(100_000);
    let rounds = arguments.next().unwrap_or(5);
    let cases: [(&str, Case); 4] = [
        ("bare socket, one by one", bare_single),
        ("bare socket, trains", bare_trains),
        ("udp transport, send", |n| transport(n, 1)),
        ("udp transport, send_batch", |n| transport(n, BATCH)),
    ];
    let mut results = vec![[const { Vec::new() }; 3]; cases.len()];
    for _ in 0..rounds {
        for ((_, case), results) in cases.iter().zip(&mut results) {
            for (values, value) in results.iter_mut().zip(case(messages)) {
                values.push(value);
            }
        }
    }
    println!("median ns for each message: sender, receiver; messages lost");
    for ((name, _), results) in cases.iter().zip(&mut results) {
        let [sender, receiver, lost] = results.each_mut().map(|values| median(values));
        println!("{name:>26}: {sender:6.0} {receiver:6.0} {lost:6.0}");
    }
}

type Case = fn(u64) -> [f64; 3];

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this thread: the first number of `schedstat`, nanoseconds.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Counts what has arrived, and lets the sender wait for it.
#[derive(Debug, Default)]
struct Progress(AtomicU64);

impl Progress {
    fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until at most `under_way` of `sent` are missing, or no more come; false in that case.
    fn wait(&self, sent: u64, under_way: u64) -> bool {
        let mut quiet = 0;
        let mut last = self.get();
        while last + under_way < sent {
            std::thread::sleep(Duration::from_micros(100));
            quiet = if self.get() == last { quiet + 1 } else { 0 };
            last = self.get();
            if quiet > 2000 {
                return false;
            }
        }
        true
    }
}

/// Sends `messages` messages by `send`, which takes how many and says how many went; CPU time for
/// each, and how many were lost.
fn send_all(messages: u64, progress: &Progress, mut send: impl FnMut(usize) -> usize) -> [f64; 2] {
    let (mut sent, mut lost) = (0, 0);
    let before = cpu();
    while sent < messages {
        let most = (messages - sent).min(BATCH as u64) as usize;
        sent += send(most) as u64;
        if !progress.wait(sent - lost, WINDOW) {
            lost = sent - progress.get();
        }
    }
    let time = cpu() - before;
    if !progress.wait(sent - lost, 0) {
        lost = sent - progress.get();
    }
    [time.as_nanos() as f64 / sent as f64, lost as f64]
}

/// Runs a receiver, which says where it listens, until the sender's socket has said goodbye with an
/// empty datagram.
fn run(
    receive: impl FnOnce(std::sync::mpsc::Sender<SocketAddr>, &Progress) + Send + 'static,
    send: impl FnOnce(SocketAddr, &Progress) -> [f64; 2],
) -> [f64; 3] {
    let progress = Arc::new(Progress::default());
    let (listens, at) = std::sync::mpsc::channel();
    let theirs = progress.clone();
    let receiver = std::thread::spawn(move || {
        let before = cpu();
        receive(listens, &theirs);
        cpu() - before
    });
    let address = at.recv().unwrap();
    let [sender, lost] = send(address, &progress);
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .send_to(&[], address)
        .unwrap();
    let time = receiver.join().unwrap();
    let receiver = time.as_nanos() as f64 / progress.get().max(1) as f64;
    [sender, receiver, lost]
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(2 << 20).unwrap();
    options.set_send_buffer_size(2 << 20).unwrap();
    socket
}

fn bare_single(messages: u64) -> [f64; 3] {
    run(
        |listens, progress| {
            let socket = socket();
            listens.send(socket.local_addr().unwrap()).unwrap();
            let mut buffer = vec![0; 2048];
            while socket.recv_from(&mut buffer).unwrap().0 > 0 {
                progress.add(1);
            }
        },
        |address, progress| {
            let socket = socket();
            let message = [7; SIZE];
            send_all(messages, progress, |count| {
                for _ in 0..count {
                    socket.send_to(&message, address).unwrap();
                }
                count
            })
        },
    )
}

fn bare_trains(messages: u64) -> [f64; 3] {
    run(
        |listens, progress| {
            let socket = socket();
            let state = UdpSocketState::new((&socket).into()).unwrap();
            socket.set_nonblocking(false).unwrap();
            listens.send(socket.local_addr().unwrap()).unwrap();
            let mut buffer = vec![0; 1 << 16];
            let mut meta = [RecvMeta::default()];
            loop {
                let mut slices = [IoSliceMut::new(&mut buffer)];
                state
                    .recv((&socket).into(), &mut slices, &mut meta)
                    .unwrap();
                if meta[0].len == 0 {
                    break;
                }
                progress.add(meta[0].len.div_ceil(meta[0].stride));
            }
        },
        |address, progress| {
            let socket = socket();
            let state = UdpSocketState::new((&socket).into()).unwrap();
            socket.set_nonblocking(false).unwrap();
            let train = vec![7; SIZE * BATCH];
            send_all(messages, progress, |count| {
                let transmit = Transmit {
                    destination: address,
                    ecn: None,
                    contents: &train[..count * SIZE],
                    segment_size: Some(SIZE),
                    src_ip: None,
                };
                state.try_send((&socket).into(), &transmit).unwrap();
                count
            })
        },
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn start() -> (UdpTransport, mpsc::Receiver<ringway_transport::Incoming>) {
    let (queue, messages) = mpsc::channel(2048);
    let options = UdpOptions {
        listen: Some((Ipv4Addr::LOCALHOST, 0).into()),
        ..UdpOptions::default()
    };
    (UdpTransport::start(options, queue).unwrap(), messages)
}

fn transport(messages: u64, batch: usize) -> [f64; 3] {
    run(
        |listens, progress| {
            runtime().block_on(async {
                let (transport, mut messages) = start();
                listens.send(transport.local_address()).unwrap();
                let mut incoming = Vec::new();
                loop {
                    messages.recv_many(&mut incoming, 64).await;
                    let last = incoming.iter().any(|incoming| incoming.message.is_empty());
                    progress.add(incoming.len() - usize::from(last));
                    incoming.clear();
                    if last {
                        break;
                    }
                }
            });
        },
        |address, progress| {
            runtime().block_on(async {
                let (transport, _messages) = start();
                let session = transport.connect(&Address::Udp(address)).await.unwrap();
                let message = vec![7; SIZE];
                let all = vec![message.as_slice(); BATCH];
                send_all(messages, progress, |count| match batch {
                    1 => {
                        for _ in 0..count {
                            session.send(&message).unwrap();
                        }
                        count
                    }
                    _ => session.send_batch(&all[..count]).unwrap(),
                })
            })
        },
    )
}
