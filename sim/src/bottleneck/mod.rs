//! One bottleneck that flows share: packets wait in its queue, are dropped or marked by its
//! discipline, and are acknowledged.
//!
//! Flows send without end. What decides when their packets leave is a [`Control`]: the priority
//! controller ([`crate::rivals::Priorities`]) or a model of TCP ([`crate::rivals`]).

mod control;
mod events;
mod flow;
mod path;
mod queue;
mod series;

use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_dtl::Controller;

pub use self::control::{Acked, Acknowledging, Clock, Control, Detection};
use self::events::{Event, Events};
use self::flow::{Flow, Supply};
use self::path::Medium;
pub use self::path::{Back, Jitter, Path, Wireless};
pub use self::queue::{CoDel, Discipline, Red};
use self::queue::{Load, Queue, Waiting};
pub use self::series::{Series, jain, median};

/// Bytes of every packet on the wire.
pub const PACKET: u64 = 1500;
/// Bytes of every acknowledgement. Source: QUIC's over IPv4 and UDP, with few ranges; TCP's with
/// time stamps are as long.
const ACK: u64 = 60;

/// The simulation. Flows are named by the number that adding them returned.
pub struct Bottleneck {
    path: Path,
    now: Duration,
    events: Events,
    queue: Queue,
    /// That of the way back.
    back: Option<Queue>,
    /// Behind the queue, and on the way back.
    medium: Medium,
    ack_medium: Medium,
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
            queue: Queue::new(path.rate, path.buffer, path.discipline.clone()),
            back: path
                .back
                .map(|back| Queue::new(back.rate, back.buffer, Discipline::DropTail)),
            medium: Medium::new(path.jitter.clone()),
            ack_medium: Medium::new(path.ack_jitter.clone()),
            path,
            now: Duration::ZERO,
            events: Events::default(),
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

    /// The path, as it is now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path from now on: a route has changed. What is under way arrives as it would have.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.path.rtt = rtt;
    }

    /// The bottleneck's rate from now on, in bytes per second.
    pub fn set_rate(&mut self, rate: u64) {
        self.path.rate = rate.max(1);
        self.queue.rate = self.path.rate;
    }

    /// A flow that goes the other way, through the queue of the way back.
    ///
    /// # Panics
    /// If the path has none.
    pub fn add_backwards(
        &mut self,
        start: Duration,
        control: Box<dyn Control>,
        acknowledging: Acknowledging,
    ) -> usize {
        assert!(self.back.is_some(), "the path's way back has no queue");
        let flow = self.add(start, control, acknowledging);
        self.flows[flow].backwards = true;
        flow
    }

    /// The flow's receiver is farther away than the others', behind the queue: its round trip is
    /// longer by so much.
    pub fn set_detour(&mut self, flow: usize, longer: Duration) {
        self.flows[flow].detour = longer;
    }

    /// The flow's receiver says from now on when packets came, by this clock.
    pub fn set_clock(&mut self, flow: usize, clock: Clock) {
        self.flows[flow].receiver.clock = Some(clock);
    }

    /// The application has only so many bytes a second to send from now on; `None`: more than fits.
    pub fn set_supply(&mut self, flow: usize, rate: Option<f64>) {
        let next = self.now;
        self.flows[flow].supply = rate.map(|rate| Supply { rate, next });
        self.send(flow);
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

    /// The most packets of a flow that have left within a millisecond since this was asked last.
    pub fn most_together(&mut self, flow: usize) -> usize {
        std::mem::take(&mut self.flows[flow].most_together)
    }

    /// Packets of a flow that the queue dropped between two times ÷ packets that it delivered.
    #[must_use]
    pub fn dropped(&self, flow: usize, from: Duration, to: Duration) -> f64 {
        let flow = &self.flows[flow];
        flow.dropped.bytes(from, to) as f64 / flow.delivered.bytes(from, to).max(PACKET) as f64
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
        while let Some((at, event)) = self.events.next_until(end) {
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Departed { back } => self.departed(back),
            Event::Arrived { flow, packet } => self.arrived(flow, packet),
            Event::AckDue { flow, serial } => {
                if self.flows[flow].receiver.due == Some(serial) {
                    self.acknowledge(flow);
                }
            }
            Event::AckArrived { flow } => {
                self.flows[flow].take_acknowledgement(self.now);
                self.send(flow);
                self.set_timer(flow);
            }
            Event::Paced { flow } => {
                let of_flow = &mut self.flows[flow];
                of_flow.wake = of_flow.wake.filter(|wake| *wake > self.now);
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
        self.events.add(when, event);
    }

    fn queue(&mut self, back: bool) -> &mut Queue {
        match &mut self.back {
            Some(queue) if back => queue,
            _ => &mut self.queue,
        }
    }

    fn departed(&mut self, back: bool) {
        let now = self.now;
        if let Some(packet) = self.queue(back).leave() {
            match packet.load {
                Load::Data(number) => self.carry(packet.flow, number),
                Load::Ack(packets, held) => self.carry_ack(packet.flow, packets, held),
            }
        }
        for packet in self.queue(back).drop_at_head(now) {
            self.dropped_packet(packet);
        }
        if let Some(takes) = self.queue(back).head_takes() {
            self.at(now + takes, Event::Departed { back });
        }
    }

    fn dropped_packet(&mut self, packet: Waiting) {
        let flow = &mut self.flows[packet.flow];
        match packet.load {
            Load::Data(_) => flow.dropped.add(self.now, PACKET),
            // Acknowledgements are cumulative: the next one says it again.
            Load::Ack(mut packets, _) => {
                packets.append(&mut flow.receiver.pending);
                flow.receiver.pending = packets;
            }
        }
    }

    /// From the queue to the receiver.
    fn carry(&mut self, flow: usize, packet: u64) {
        if self.path.loss > 0.0 && self.rng.random_bool(self.path.loss) {
            return;
        }
        let passed = self.medium.passed(self.now, &mut self.rng);
        let mut arrival = passed + self.path.rtt / 2;
        let late = self.path.reordering > 0.0 && self.rng.random_bool(self.path.reordering);
        let of_flow = &mut self.flows[flow];
        arrival += of_flow.detour;
        if !self.path.scatter.is_zero() {
            arrival += self.path.scatter.mul_f64(self.rng.random::<f64>());
        } else if late {
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
        // What was sent again in the meantime is worth nothing now.
        if !of_flow.is_given_up(packet) {
            of_flow.delivered.add(now, PACKET);
        }
        let receiver = &mut of_flow.receiver;
        // RFC 5681 §4.2, RFC 9000 §13.2.1: a gap is told at once.
        let in_order = packet == receiver.next;
        receiver.next = receiver.next.max(packet + 1);
        receiver.pending.push((packet, now));
        let acknowledging = receiver.acknowledging;
        let enough =
            receiver.pending.len() >= acknowledging.every as usize || receiver.is_pushed(packet);
        if enough || !in_order {
            self.acknowledge(flow);
        } else if receiver.due.is_none() {
            let serial = self.events.next_serial();
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
        let held = packets
            .last()
            .map_or(Duration::ZERO, |(_, came)| self.now - *came);
        let back = !self.flows[flow].backwards;
        if back && self.back.is_none() {
            self.carry_ack(flow, packets, held);
        } else {
            self.enqueue(back, flow, Load::Ack(packets, held), ACK);
        }
    }

    /// From the receiver, or the queue of the way back, to the sender.
    fn carry_ack(&mut self, flow: usize, packets: Vec<(u64, Duration)>, held: Duration) {
        let passed = self.ack_medium.passed(self.now, &mut self.rng);
        let way = self.path.rtt - self.path.rtt / 2;
        let receiver = &mut self.flows[flow].receiver;
        receiver.last_ack = receiver.last_ack.max(passed + way);
        receiver.under_way.push_back((packets, held));
        let when = receiver.last_ack;
        self.at(when, Event::AckArrived { flow });
    }

    fn set_timer(&mut self, flow: usize) {
        if let Some(when) = self.flows[flow].next_timeout() {
            self.at(when.max(self.now), Event::Timeout { flow });
        }
    }

    fn send(&mut self, flow: usize) {
        let now = self.now;
        let mut sent = 0;
        loop {
            match self.flows[flow].next_packet(now) {
                flow::Next::Packet(packet) => {
                    sent += 1;
                    let pushed = &mut self.flows[flow].receiver.pushed;
                    if sent > 2 {
                        pushed.pop_back();
                    }
                    if sent > 1 {
                        pushed.push_back(packet);
                    }
                    self.set_timer(flow);
                    let back = self.flows[flow].backwards;
                    self.enqueue(back, flow, Load::Data(packet), PACKET);
                }
                flow::Next::At(when) => {
                    self.at(when, Event::Paced { flow });
                    return;
                }
                flow::Next::Nothing => return,
            }
        }
    }

    fn enqueue(&mut self, back: bool, flow: usize, load: Load, bytes: u64) {
        let now = self.now;
        let chance = self.rng.random::<f64>();
        let queue = self.queue(back);
        let was_empty = queue.head_takes().is_none();
        // A packet that comes to an idle link waits for none.
        let wait = queue.wait();
        let packet = Waiting {
            flow,
            load,
            bytes,
            since: now,
        };
        if let Err(packet) = queue.accept(packet, chance) {
            return self.dropped_packet(packet);
        }
        let takes = queue.head_takes().unwrap_or_default();
        if !back {
            self.waits.push((now, wait));
        }
        if was_empty {
            self.at(now + takes, Event::Departed { back });
        }
    }
}
