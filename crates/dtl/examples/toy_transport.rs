//! A toy transport that adopts the controller: numbered datagrams over loopback UDP, acknowledged
//! one by one.
//!
//! `cargo run --release -p ringway-dtl --example toy_transport -- [PRIORITY] [MEGABYTES] [THEN]`
//! moves data through a bottleneck in the receiver (10 MB/s and a queue of 64 datagrams) and prints
//! once a second what the controller says; after half of the data the priority becomes THEN.
//! Everything that a transport has to do for the controller is in `Sender`. There is no
//! retransmission and no encryption. Some inputs of the controller that a real transport has are
//! missing here:
//! - The packets have one size (`Controller::on_datagram_size`).
//! - The application always has data (`app_limited`).
//! - The receiver acknowledges each packet at once (`receive_delay`).
//! - The clock is read after the socket (`rtt_error`).
//! - The receiver reports neither marks (`ecn`) nor its clock.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example for people: it prints what it sees, and a transport has a clock"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use ringway_dtl::{AckSample, Config, Controller, LossSample, Priority};

const DATAGRAM: usize = 1200;
/// Later packets that must have arrived before one counts as lost (RFC 9002 §6.1.1).
const THRESHOLD: u64 = 3;

/// Between two looks at a socket: coarser timers would be noise in every round trip.
const PAUSE: Duration = Duration::from_micros(50);

struct Sender {
    socket: UdpSocket,
    controller: Controller,
    next: u64,
    /// When each packet under way was sent.
    under_way: BTreeMap<u64, Instant>,
    /// Bytes that the pacer lets go, and when they were counted.
    credit: f64,
    counted: Instant,
    acked: u64,
    lost: u64,
}

impl Sender {
    fn in_flight(&self) -> u64 {
        (self.under_way.len() * DATAGRAM) as u64
    }

    /// Sends as many packets as window and pacing rate allow.
    fn send(&mut self, now: Instant) -> io::Result<()> {
        // At the rate of this moment: who computes ahead when the next packet is due must do so
        // again after each acknowledgement, loss and change of priority, or a flow that is
        // raised from the floor of priority 0 waits for up to two seconds.
        let since = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.credit = match self.controller.pacing_rate() {
            Some(rate) => {
                // What is saved up in a pause leaves at once. Timers are late, so it is worth two
                // of their ticks where the controller has no wish.
                let usual = (rate as f64 * 2.0 * PAUSE.as_secs_f64()) as u64;
                let most = self
                    .controller
                    .burst()
                    .unwrap_or(usual)
                    .max(DATAGRAM as u64);
                (self.credit + rate as f64 * since).min(most as f64)
            }
            // Until a round trip is known the window alone counts.
            None => f64::INFINITY,
        };
        // A window below one datagram is kept by the pacing rate alone.
        let window = self.controller.window().max(DATAGRAM as u64);
        while self.in_flight() + DATAGRAM as u64 <= window && self.credit >= DATAGRAM as f64 {
            let mut datagram = [0; DATAGRAM];
            datagram[..8].copy_from_slice(&self.next.to_be_bytes());
            self.socket.send(&datagram)?;
            self.controller.on_sent(now, self.next, DATAGRAM as u64);
            self.under_way.insert(self.next, now);
            self.next += 1;
            self.credit -= DATAGRAM as f64;
        }
        Ok(())
    }

    /// Tells the controller of one acknowledgement, and of the losses that it shows.
    fn acknowledged(&mut self, now: Instant, packet: u64) {
        let Some(sent) = self.under_way.remove(&packet) else {
            return;
        };
        self.acked += 1;
        let sample = AckSample {
            packet,
            bytes: DATAGRAM as u64,
            sent,
            rtt: now - sent,
            rtt_error: Duration::ZERO,
            receive_delay: Duration::ZERO,
            one_way_delay: None,
            ecn: false,
            app_limited: false,
        };
        self.controller.on_ack(now, &sample);
        self.controller.on_ack_batch_end(now, self.in_flight());
        if let Some(newest) = packet.checked_sub(THRESHOLD) {
            self.lose(now, newest, false);
        }
    }

    /// Packets up to this one are lost.
    fn lose(&mut self, now: Instant, up_to: u64, persistent: bool) {
        let later = self.under_way.split_off(&(up_to + 1));
        let lost = std::mem::replace(&mut self.under_way, later);
        for (packet, sent) in &lost {
            self.lost += 1;
            let sample = LossSample {
                packet: *packet,
                bytes: DATAGRAM as u64,
                sent: *sent,
            };
            self.controller.on_loss(now, &sample);
        }
        if let Some((_, newest)) = lost.last_key_value() {
            self.controller
                .on_congestion(now, persistent, false, *newest);
        }
    }
}

/// Takes a datagram from a short queue 8 000 times a second, and acknowledges it.
fn receiver(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (mut queue, mut buffer) = (std::collections::VecDeque::new(), [0; DATAGRAM]);
    let service = Duration::from_micros(120);
    let mut served = Instant::now();
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((DATAGRAM, from)) if queue.len() < 64 => {
                queue.push_back((buffer[0..8].to_vec(), from))
            }
            // Too short to be one, or no room.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        while now.saturating_duration_since(served) >= service {
            served += service;
            match queue.pop_front() {
                Some((number, from)) => {
                    socket.send_to(&number, from)?;
                }
                None => served = now,
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let priority: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let megabytes: u64 = arguments.next().map_or(Ok(30), |text| text.parse())?;
    let then: Option<f64> = arguments.next().map(|text| text.parse()).transpose()?;
    let mut then = then.map(Priority::new).transpose()?;
    let there = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(there.local_addr()?)?;
    socket.set_nonblocking(true)?;
    thread::spawn(move || receiver(&there));
    let began = Instant::now();
    let config = Config {
        datagram_size: DATAGRAM as u64,
        ..Config::default()
    };
    let mut sender = Sender {
        socket,
        controller: Controller::new(began, config, Priority::new(priority)?),
        next: 0,
        under_way: BTreeMap::new(),
        credit: 0.0,
        counted: began,
        acked: 0,
        lost: 0,
    };
    let (mut heard, mut shown) = (began, began);
    while sender.acked * (DATAGRAM as u64) < megabytes * 1_000_000 {
        let now = Instant::now();
        let half = sender.acked * DATAGRAM as u64 >= megabytes * 500_000;
        if let Some(priority) = then.take_if(|_| half) {
            println!("priority {} from now on", priority.get());
            sender.controller.set_priority(now, priority);
        }
        sender.send(now)?;
        let mut number = [0; 8];
        match sender.socket.recv(&mut number) {
            Ok(_) => {
                heard = Instant::now();
                sender.acknowledged(heard, u64::from_be_bytes(number));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error.into()),
        }
        if now.saturating_duration_since(heard) > Duration::from_millis(300) {
            // Nothing has come for long: all of it is lost.
            heard = now;
            sender.lose(now, u64::MAX - 1, true);
        }
        if now - shown >= Duration::from_secs(1) {
            shown = now;
            let report = sender.controller.report();
            let rate = sender.acked as f64 * DATAGRAM as f64 / 1e6 / (now - began).as_secs_f64();
            println!(
                "{rate:.2} MB/s  window {}  round trip {:?}  lost {}  {}",
                report.window, report.srtt, sender.lost, report.limited_by
            );
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{megabytes} MB in {seconds:.1} s, {} datagrams lost",
        sender.lost
    );
    Ok(())
}
