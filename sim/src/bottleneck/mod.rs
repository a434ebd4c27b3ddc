//! One bottleneck that flows share: packets wait in its queue, are dropped or marked by its discipline, and are acknowledged.
//!
//! Flows send without end. What decides when their packets leave is a [`Control`]: the priority controller
//! ([`crate::rivals::Priorities`]) or a model of TCP ([`crate::rivals`]).

mod flow;
mod queue;
mod series;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_dtl::Controller;

use self::flow::Flow;
use self::queue::Queue;
pub use self::queue::{CoDel, Discipline, Red};
pub use self::series::{Series, jain, median};

/// Bytes of every packet on the wire.
pub const PACKET: u64 = 1500;

/// A path with a bottleneck.
#[derive(Clone, Debug)]
pub struct Path {
    /// Bytes per second.
    pub rate: u64,
    /// Round-trip time of a packet that does not wait, without its own transmission.
    pub rtt: Duration,
    /// Room in the queue, in bytes.
    pub buffer: u64,
    /// What drops packets before the queue is full.
    pub discipline: Discipline,
    /// Up to so much more for each packet behind the queue, uniformly at random; order is kept.
    pub jitter: Duration,
    /// Probability that a packet is lost behind the queue.
    pub loss: f64,
    /// Probability that a packet takes so long that the next ones overtake it.
    pub reordering: f64,
}

impl Path {
    /// `megabits` Mbit/s and a round trip of `rtt_ms` with a drop-tail queue of `products` bandwidth-delay products.
    #[must_use]
    pub fn drop_tail(megabits: f64, rtt_ms: u64, products: f64) -> Path {
        let rate = megabits * 125_000.0;
        let rtt = Duration::from_millis(rtt_ms);
        let buffer = (rate * rtt.as_secs_f64() * products).max(2.0 * PACKET as f64);
        Path {
            rate: rate as u64,
            rtt,
            buffer: buffer as u64,
            discipline: Discipline::DropTail,
            jitter: Duration::ZERO,
            loss: 0.0,
            reordering: 0.0,
        }
    }

    /// How long one packet takes to leave.
    #[must_use]
    pub fn packet_time(&self) -> Duration {
        Duration::from_secs_f64(PACKET as f64 / self.rate as f64)
    }
}

/// A packet that an acknowledgement names for the first time.
#[derive(Copy, Clone, Debug)]
pub struct Acked {
    /// Its number.
    pub packet: u64,
    /// When it left.
    pub sent: Duration,
    /// Bytes that had been delivered when it left, and when the last of them was: a sample of the rate.
    pub delivered: (u64, Duration),
}

/// What decides when a flow's packets leave. All times are virtual.
pub trait Control {
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Bytes per second, if packets are paced.
    fn pacing_rate(&self) -> Option<u64>;
    /// A packet has left.
    fn on_sent(&mut self, now: Duration, packet: u64);
    /// One acknowledgement: `acked` in order, `delivered` bytes in all, `in_flight` bytes still under way.
    fn on_acked(&mut self, now: Duration, acked: &[Acked], delivered: u64, in_flight: u64);
    /// Packets are deemed lost, with when they left. With `timeout` nothing has come through for long.
    fn on_lost(&mut self, now: Duration, lost: &[(u64, Duration)], timeout: bool);
    /// The controller, if it is ours.
    fn controller(&mut self) -> Option<(&mut Controller, std::time::Instant)> {
        None
    }
}

/// How a flow's receiver acknowledges.
#[derive(Copy, Clone, Debug)]
pub struct Acknowledging {
    /// After so many packets.
    pub every: u32,
    /// At the latest after so long.
    pub delay: Duration,
}

impl Acknowledging {
    /// Every packet at once, as QUIC is asked to.
    pub const EACH: Acknowledging = Acknowledging {
        every: 1,
        delay: Duration::from_millis(5),
    };
    /// Every second packet, as Linux' TCP does. Source: RFC 5681 §4.2, Linux' TCP_DELACK_MIN.
    pub const DELAYED: Acknowledging = Acknowledging {
        every: 2,
        delay: Duration::from_millis(40),
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The packet at the head of the queue has left it.
    Departed,
    /// A packet has reached its receiver.
    Arrived {
        flow: usize,
        packet: u64,
    },
    /// A receiver has waited long enough with its acknowledgement.
    AckDue {
        flow: usize,
        serial: u64,
    },
    /// The oldest acknowledgement of a flow that is under way has come.
    AckArrived {
        flow: usize,
    },
    /// A flow's pacer allows the next packet.
    Paced {
        flow: usize,
    },
    /// A flow's retransmission timer may have run out.
    Timeout {
        flow: usize,
    },
    Start {
        flow: usize,
    },
    Stop {
        flow: usize,
    },
}

/// The simulation. Flows are named by the number that adding them returned.
pub struct Bottleneck {
    path: Path,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    serial: u64,
    queue: Queue,
    flows: Vec<Flow>,
    rng: StdRng,
    /// Queueing delay of each packet that was accepted, by its time.
    waits: Vec<(Duration, Duration)>,
}

impl std::fmt::Debug for Bottleneck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bottleneck")
            .field("path", &self.path)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl Bottleneck {
    /// An idle path.
    #[must_use]
    pub fn new(path: Path, seed: u64) -> Bottleneck {
        Bottleneck {
            queue: Queue::new(&path),
            path,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            serial: 0,
            flows: Vec::new(),
            rng: StdRng::from_seed(crate::seed::spread(seed, 1)),
            waits: Vec::new(),
        }
    }

    /// A flow that begins at `start`.
    pub fn add(
        &mut self,
        start: Duration,
        control: Box<dyn Control>,
        acknowledging: Acknowledging,
    ) -> usize {
        self.flows.push(Flow::new(control, acknowledging));
        let flow = self.flows.len() - 1;
        self.at(start, Event::Start { flow });
        flow
    }

    /// The flow sends nothing new from `when` on.
    pub fn stop_at(&mut self, when: Duration, flow: usize) {
        self.at(when, Event::Stop { flow });
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The path from now on: a route has changed. What is under way arrives as it would have.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.path.rtt = rtt;
    }

    /// The bottleneck's rate from now on, in bytes per second.
    pub fn set_rate(&mut self, rate: u64) {
        self.path.rate = rate.max(1);
    }

    /// Our controller of a flow, and the instant that is the simulation's zero.
    ///
    /// # Panics
    /// If the flow is a model of TCP.
    pub fn controller(&mut self, flow: usize) -> (&mut Controller, std::time::Instant) {
        match self
            .flows
            .get_mut(flow)
            .and_then(|f| f.control.controller())
        {
            Some(controller) => controller,
            None => panic!("flow {flow} has no priority"),
        }
    }

    /// Changes a flow's priority now.
    ///
    /// # Panics
    /// If the flow is a model of TCP, or `priority` is none.
    pub fn set_priority(&mut self, flow: usize, priority: f64) {
        let now = self.now;
        let (controller, epoch) = self.controller(flow);
        match ringway_dtl::Priority::new(priority) {
            Ok(priority) => controller.set_priority(epoch + now, priority),
            Err(error) => panic!("{error}"),
        }
        self.send(flow);
    }

    /// What a flow has delivered, over time.
    #[must_use]
    pub fn series(&self, flow: usize) -> &Series {
        &self.flows[flow].delivered
    }

    /// Share of the bottleneck that a flow has got between two times.
    #[must_use]
    pub fn share(&self, flow: usize, from: Duration, to: Duration) -> f64 {
        self.series(flow).bytes(from, to) as f64
            / (self.path.rate as f64 * (to - from).as_secs_f64())
    }

    /// Packets lost ÷ packets sent by a flow.
    #[must_use]
    pub fn loss(&self, flow: usize) -> f64 {
        let flow = &self.flows[flow];
        flow.lost as f64 / flow.sent.max(1) as f64
    }

    /// Median of the queueing delay of the packets that came between two times.
    #[must_use]
    pub fn median_wait(&self, from: Duration, to: Duration) -> Duration {
        let waits = self.waits.iter();
        let within = waits.filter(|(at, _)| (from..to).contains(at));
        let seconds = median(within.map(|(_, wait)| wait.as_secs_f64()).collect());
        Duration::from_secs_f64(seconds)
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Duration) {
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Departed => self.departed(),
            Event::Arrived { flow, packet } => self.arrived(flow, packet),
            Event::AckDue { flow, serial } => {
                if self.flows[flow].receiver.due == Some(serial) {
                    self.acknowledge(flow);
                }
            }
            Event::AckArrived { flow } => {
                self.flows[flow].take_acknowledgement(self.now);
                self.send(flow);
            }
            Event::Paced { flow } => {
                self.flows[flow].wake_set = false;
                self.send(flow);
            }
            Event::Timeout { flow } => {
                if self.flows[flow].timed_out(self.now) {
                    self.send(flow);
                }
                self.set_timer(flow);
            }
            Event::Start { flow } => {
                self.flows[flow].active = true;
                self.flows[flow].heard = self.now;
                self.send(flow);
            }
            Event::Stop { flow } => self.flows[flow].active = false,
        }
    }

    fn at(&mut self, when: Duration, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((when, self.serial, event)));
    }

    fn departed(&mut self) {
        let now = self.now;
        if let Some((flow, packet)) = self.queue.leave() {
            self.carry(flow, packet);
        }
        self.queue.drop_at_head(now);
        if !self.queue.is_empty() {
            self.at(now + self.path.packet_time(), Event::Departed);
        }
    }

    /// From the queue to the receiver.
    fn carry(&mut self, flow: usize, packet: u64) {
        if self.path.loss > 0.0 && self.rng.random_bool(self.path.loss) {
            return;
        }
        let mut arrival = self.now + self.path.rtt / 2;
        if !self.path.jitter.is_zero() {
            arrival += self.path.jitter.mul_f64(self.rng.random::<f64>());
        }
        let late = self.path.reordering > 0.0 && self.rng.random_bool(self.path.reordering);
        let of_flow = &mut self.flows[flow];
        if late {
            arrival += self.path.packet_time() * 5;
        } else {
            arrival = arrival.max(of_flow.last_arrival);
            of_flow.last_arrival = arrival;
        }
        self.at(arrival, Event::Arrived { flow, packet });
    }

    fn arrived(&mut self, flow: usize, packet: u64) {
        let now = self.now;
        let of_flow = &mut self.flows[flow];
        of_flow.delivered.add(now, PACKET);
        let receiver = &mut of_flow.receiver;
        // RFC 5681 §4.2, RFC 9000 §13.2.1: a gap is told at once.
        let in_order = packet == receiver.next;
        receiver.next = receiver.next.max(packet + 1);
        receiver.pending.push(packet);
        let acknowledging = receiver.acknowledging;
        let enough = receiver.pending.len() >= acknowledging.every as usize;
        if enough || !in_order {
            self.acknowledge(flow);
        } else if receiver.due.is_none() {
            self.serial += 1;
            let serial = self.serial;
            self.flows[flow].receiver.due = Some(serial);
            self.at(now + acknowledging.delay, Event::AckDue { flow, serial });
        }
    }

    fn acknowledge(&mut self, flow: usize) {
        let receiver = &mut self.flows[flow].receiver;
        receiver.due = None;
        let packets = std::mem::take(&mut receiver.pending);
        if packets.is_empty() {
            return;
        }
        receiver.under_way.push_back(packets);
        let back = self.path.rtt - self.path.rtt / 2;
        self.at(self.now + back, Event::AckArrived { flow });
    }

    fn set_timer(&mut self, flow: usize) {
        if let Some(when) = self.flows[flow].next_timeout() {
            self.at(when.max(self.now), Event::Timeout { flow });
        }
    }

    fn send(&mut self, flow: usize) {
        let now = self.now;
        loop {
            match self.flows[flow].next_packet(now) {
                flow::Next::Packet(packet) => {
                    self.set_timer(flow);
                    self.enqueue(flow, packet);
                }
                flow::Next::At(when) => {
                    self.at(when, Event::Paced { flow });
                    return;
                }
                flow::Next::Nothing => return,
            }
        }
    }

    fn enqueue(&mut self, flow: usize, packet: u64) {
        let was_empty = self.queue.is_empty();
        // Whoever comes to an idle link waits for nobody.
        let wait = self.path.packet_time() * u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let chance = self.rng.random::<f64>();
        if !self.queue.accept(self.now, (flow, packet), chance) {
            return;
        }
        self.waits.push((self.now, wait));
        if was_empty {
            self.at(self.now + self.path.packet_time(), Event::Departed);
        }
    }
}
