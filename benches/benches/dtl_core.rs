//! What the congestion control core costs: nanoseconds per acknowledgement, and per grant of the
//! scheduler.
//!
//! There is no baseline: the controllers of noq and quinn take an RTT estimator that only their
//! connections can make.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench is a program: its figures go to stdout, and it ends at its first error"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ringway_benches::{Effort, Figure, Names};
use ringway_dtl::{AckSample, Config, Controller, Priority, Scheduler};

/// Bytes of a packet.
const PACKET: u64 = 1200;

fn main() {
    let effort = Effort::from_arguments(std::env::args());
    for (case, flows) in [("priority 0", 0.0), ("priority 1", 1.0)] {
        for batch in [1, 10] {
            let case = format!("{case}, {batch} packets per acknowledgement");
            let mut path = Path::new(flows);
            let runs = effort.nanoseconds(|packets| path.acknowledge(packets, batch));
            print(&case, "sent and acknowledged packet", runs);
        }
    }
    for flows in [2, 64, 4096] {
        let mut contest = Contest::new(flows);
        let runs = effort.nanoseconds(|grants| contest.grant(grants));
        print(&format!("{flows} backlogged flows"), "grant", runs);
    }
}

fn print(case: &str, metric: &str, runs: Vec<f64>) {
    let names = Names {
        bench: "dtl_core",
        case,
        metric,
        unit: "ns",
    };
    let json = Figure::of_runs(names, runs).to_json();
    println!("{}", json.expect("a figure has no unusual values"));
}

/// A controller on a path of 20 ms whose queue rises above the target now and then, and loses a
/// packet in a thousand.
struct Path {
    controller: Controller,
    now: Instant,
    packet: u64,
}

impl Path {
    fn new(flows: f64) -> Path {
        let now = Instant::now();
        let priority = Priority::new(flows).expect("a small positive number");
        Path {
            controller: Controller::new(now, Config::default(), priority),
            now,
            packet: 0,
        }
    }

    fn acknowledge(&mut self, packets: u64, batch: u64) {
        for _ in 0..packets / batch {
            self.now += Duration::from_micros(100);
            for _ in 0..batch {
                self.one();
            }
            let in_flight = self.controller.window();
            self.controller.on_ack_batch_end(self.now, in_flight);
            black_box((self.controller.window(), self.controller.pacing_rate()));
        }
    }

    fn one(&mut self) {
        self.packet += 1;
        let rtt = Duration::from_millis(20 + self.packet / 64 % 128);
        self.controller.on_sent(self.now, self.packet, PACKET);
        let sample = AckSample {
            packet: self.packet,
            bytes: PACKET,
            sent: self.now,
            rtt,
            rtt_error: Duration::ZERO,
            receive_delay: Duration::ZERO,
            one_way_delay: None,
            ecn: false,
            app_limited: false,
        };
        self.controller.on_ack(self.now, black_box(&sample));
        if self.packet.is_multiple_of(1000) {
            self.controller
                .on_congestion(self.now, false, false, self.now);
        }
    }
}

/// Flows of mixed weights that all want more than they get under a cap of 10 Gbit/s.
struct Contest {
    scheduler: Scheduler,
    now: Instant,
}

impl Contest {
    fn new(flows: u32) -> Contest {
        let now = Instant::now();
        let mut scheduler = Scheduler::new(Some(1_250_000_000));
        for nth in 0..flows {
            let priority = Priority::new(0.5 + f64::from(nth % 7)).expect("a small number");
            let flow = scheduler.add(now, priority).expect("fewer than the bound");
            scheduler.want(now, flow, u64::MAX);
        }
        Contest { scheduler, now }
    }

    fn grant(&mut self, grants: u64) {
        for _ in 0..grants {
            if let Some(grant) = self.scheduler.poll_grant(self.now) {
                black_box(grant);
            } else {
                self.now = self.scheduler.poll_timeout().expect("all are backlogged");
                black_box(self.scheduler.poll_grant(self.now));
            }
        }
    }
}
