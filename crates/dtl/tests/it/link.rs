//! A deterministic packet simulator: one drop-tail bottleneck, shared by our controllers and a
//! model of TCP Reno.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use ringway_dtl::{AckSample, Config, Controller, LossSample, Priority};

use crate::{epoch, paper};

/// Size of every packet, in bytes.
pub(crate) const PACKET: u64 = 1200;

/// Retransmission timeout. Source: RFC 6298 §2.4, the smallest.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The bottleneck: bytes per second, bytes of buffer, round-trip time without a queue.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Link {
    pub(crate) rate: u64,
    pub(crate) buffer: u64,
    pub(crate) rtt: Duration,
}

impl Link {
    /// 10 Mbit/s, 20 ms, and a buffer that takes `buffer_ms` to drain.
    pub(crate) fn ten_megabit(buffer_ms: u64) -> Link {
        let rate = 1_250_000;
        Link {
            rate,
            buffer: rate * buffer_ms / 1000,
            rtt: Duration::from_millis(20),
        }
    }
}

/// One who sends over the link.
pub(crate) trait Sender {
    fn window(&self) -> u64;
    fn pacing_rate(&self) -> Option<u64>;
    fn on_sent(&mut self, now: Instant, packet: u64);
    fn on_ack(&mut self, now: Instant, packet: u64, sent: Instant, in_flight: u64);
    fn on_losses(&mut self, now: Instant, lost: &[(u64, Instant)], persistent: bool);
    fn controller(&mut self) -> Option<&mut Controller> {
        None
    }
}

impl Sender for Controller {
    fn window(&self) -> u64 {
        self.window()
    }
    fn pacing_rate(&self) -> Option<u64> {
        self.pacing_rate()
    }
    fn on_sent(&mut self, now: Instant, packet: u64) {
        self.on_sent(now, packet, PACKET);
    }
    fn on_ack(&mut self, now: Instant, packet: u64, sent: Instant, in_flight: u64) {
        let sample = AckSample {
            packet,
            bytes: PACKET,
            sent,
            rtt: now - sent,
            rtt_error: Duration::ZERO,
            receive_delay: Duration::ZERO,
            one_way_delay: None,
            ecn: false,
            app_limited: false,
        };
        self.on_ack(now, &sample);
        self.on_ack_batch_end(now, in_flight);
    }
    fn on_losses(&mut self, now: Instant, lost: &[(u64, Instant)], persistent: bool) {
        for &(packet, sent) in lost {
            let bytes = PACKET;
            self.on_loss(
                now,
                &LossSample {
                    packet,
                    bytes,
                    sent,
                },
            );
        }
        if let Some(newest) = lost.iter().map(|&(_, sent)| sent).max() {
            self.on_congestion(now, persistent, false, newest);
        }
    }
    fn controller(&mut self) -> Option<&mut Controller> {
        Some(self)
    }
}

/// TCP Reno with selective acknowledgements, not paced, written without any code of the crate.
struct Reno {
    window: f64,
    ssthresh: f64,
    recovering_since: Option<Instant>,
}

impl Sender for Reno {
    fn window(&self) -> u64 {
        (self.window * PACKET as f64) as u64
    }
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    fn on_sent(&mut self, _now: Instant, _packet: u64) {}
    fn on_ack(&mut self, _now: Instant, _packet: u64, _sent: Instant, _in_flight: u64) {
        self.window += if self.window < self.ssthresh {
            1.0
        } else {
            1.0 / self.window
        };
    }
    fn on_losses(&mut self, now: Instant, lost: &[(u64, Instant)], persistent: bool) {
        let newest = lost.iter().map(|&(_, sent)| sent).max().unwrap();
        if persistent || self.recovering_since.is_none_or(|since| newest > since) {
            self.ssthresh = (self.window / 2.0).max(2.0);
            self.window = if persistent { 1.0 } else { self.ssthresh };
            self.recovering_since = Some(now);
        }
    }
}

struct Flow {
    sender: Box<dyn Sender>,
    active: bool,
    next_packet: u64,
    in_flight: BTreeMap<u64, Instant>,
    next_send: Instant,
    /// Whether a wake-up at `next_send` is on its way.
    wake_set: bool,
    /// Last acknowledgement, or the first packet after silence: the retransmission timer counts
    /// from here.
    heard: Instant,
    timer_set: bool,
    last_ack: Instant,
    delivered: u64,
    sent: u64,
    lost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Depart,
    Ack { flow: usize, packet: u64 },
    Wake { flow: usize },
    Timer { flow: usize },
}

/// The simulation. Flows are named by the number that adding them returned.
pub(crate) struct Sim {
    link: Link,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    serial: u64,
    queue: VecDeque<(usize, u64)>,
    flows: Vec<Flow>,
    /// Longest queueing delay since the last reading.
    longest_queue: Duration,
    random: u64,
}

impl Sim {
    pub(crate) fn new(link: Link) -> Sim {
        Sim {
            link,
            now: epoch(),
            events: BinaryHeap::new(),
            serial: 0,
            queue: VecDeque::new(),
            flows: Vec::new(),
            longest_queue: Duration::ZERO,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// A flow with the paper's algorithm.
    pub(crate) fn add(&mut self, priority: f64) -> usize {
        self.add_with(paper(), priority)
    }

    pub(crate) fn add_with(&mut self, config: Config, priority: f64) -> usize {
        let priority = Priority::new(priority).unwrap();
        let controller = Controller::new(self.now, config, priority);
        self.add_sender(Box::new(controller))
    }

    pub(crate) fn add_reno(&mut self) -> usize {
        self.add_sender(Box::new(Reno {
            window: 10.0,
            ssthresh: f64::INFINITY,
            recovering_since: None,
        }))
    }

    pub(crate) fn add_sender(&mut self, sender: Box<dyn Sender>) -> usize {
        self.flows.push(Flow {
            sender,
            active: true,
            next_packet: 0,
            in_flight: BTreeMap::new(),
            next_send: self.now,
            wake_set: false,
            heard: self.now,
            timer_set: false,
            last_ack: self.now,
            delivered: 0,
            sent: 0,
            lost: 0,
        });
        let flow = self.flows.len() - 1;
        self.at(self.now, Event::Wake { flow });
        flow
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Another route, from the next packet on.
    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.link.rtt = rtt;
    }

    pub(crate) fn stop(&mut self, flow: usize) {
        self.flows[flow].active = false;
    }

    pub(crate) fn controller(&mut self, flow: usize) -> &mut Controller {
        self.flows[flow].sender.controller().unwrap()
    }

    pub(crate) fn set_priority(&mut self, flow: usize, priority: f64) {
        let now = self.now;
        let priority = Priority::new(priority).unwrap();
        self.controller(flow).set_priority(now, priority);
    }

    /// Runs for `time`; returns the share of the link that each flow got meanwhile.
    pub(crate) fn run(&mut self, time: Duration) -> Vec<f64> {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        let end = self.now + time;
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at <= end
        {
            self.events.pop();
            self.now = at;
            match event {
                Event::Depart => self.depart(),
                Event::Ack { flow, packet } => self.ack(flow, packet),
                Event::Wake { flow } => {
                    self.flows[flow].wake_set = false;
                    self.send(flow);
                }
                Event::Timer { flow } => self.timer(flow),
            }
        }
        self.now = end;
        let capacity = self.link.rate as f64 * time.as_secs_f64();
        let flows = self.flows.iter().zip(before);
        flows
            .map(|(flow, before)| (flow.delivered - before) as f64 / capacity)
            .collect()
    }

    /// The longest queueing delay since this was last asked.
    pub(crate) fn longest_queue(&mut self) -> Duration {
        std::mem::take(&mut self.longest_queue)
    }

    /// Packets lost ÷ packets sent by a flow.
    pub(crate) fn loss(&self, flow: usize) -> f64 {
        self.flows[flow].lost as f64 / self.flows[flow].sent as f64
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((when, self.serial, event)));
    }

    fn service_time(&self) -> Duration {
        Duration::from_secs_f64(PACKET as f64 / self.link.rate as f64)
    }

    fn depart(&mut self) {
        let (flow, packet) = self.queue.pop_front().unwrap();
        // Up to one packet's time of jitter, or the flows fall into step with each other.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let jitter = self
            .service_time()
            .mul_f64((self.random % 1000) as f64 / 1000.0);
        let arrival = (self.now + self.link.rtt + jitter).max(self.flows[flow].last_ack);
        self.flows[flow].last_ack = arrival;
        self.at(arrival, Event::Ack { flow, packet });
        if !self.queue.is_empty() {
            self.at(self.now + self.service_time(), Event::Depart);
        }
    }

    fn ack(&mut self, id: usize, packet: u64) {
        let now = self.now;
        let flow = &mut self.flows[id];
        let Some(sent) = flow.in_flight.remove(&packet) else {
            return;
        };
        flow.heard = now;
        flow.delivered += PACKET;
        let in_flight = flow.in_flight.len() as u64 * PACKET;
        flow.sender.on_ack(now, packet, sent, in_flight);
        // Three later packets have arrived, and the path keeps the order.
        let mut lost = Vec::new();
        while let Some(first) = flow.in_flight.first_entry()
            && first.key() + 3 <= packet
        {
            lost.push(first.remove_entry());
        }
        if !lost.is_empty() {
            flow.lost += lost.len() as u64;
            flow.sender.on_losses(now, &lost, false);
        }
        self.send(id);
    }

    /// The retransmission timer: a second without an acknowledgement loses everything in flight.
    fn timer(&mut self, id: usize) {
        let now = self.now;
        let flow = &mut self.flows[id];
        flow.timer_set = false;
        if now.duration_since(flow.heard) >= TIMEOUT && !flow.in_flight.is_empty() {
            let lost: Vec<_> = std::mem::take(&mut flow.in_flight).into_iter().collect();
            flow.lost += lost.len() as u64;
            flow.sender.on_losses(now, &lost, true);
            self.send(id);
        }
        self.set_timer(id);
    }

    fn set_timer(&mut self, id: usize) {
        let flow = &mut self.flows[id];
        if !flow.timer_set && !flow.in_flight.is_empty() {
            flow.timer_set = true;
            let when = flow.heard + TIMEOUT;
            self.at(when, Event::Timer { flow: id });
        }
    }

    fn send(&mut self, id: usize) {
        let now = self.now;
        loop {
            let flow = &mut self.flows[id];
            let used = flow.in_flight.len() as u64 * PACKET;
            let room = flow.in_flight.is_empty() || used + PACKET <= flow.sender.window();
            if !flow.active || !room {
                break;
            }
            if flow.next_send > now {
                let when = flow.next_send;
                if !std::mem::replace(&mut flow.wake_set, true) {
                    self.at(when, Event::Wake { flow: id });
                }
                break;
            }
            let packet = flow.next_packet;
            flow.next_packet += 1;
            if flow.in_flight.is_empty() {
                flow.heard = now;
            }
            flow.sent += 1;
            flow.in_flight.insert(packet, now);
            flow.sender.on_sent(now, packet);
            if let Some(rate) = flow.sender.pacing_rate() {
                flow.next_send = now + Duration::from_secs_f64(PACKET as f64 / rate as f64);
            }
            self.set_timer(id);
            self.enqueue(id, packet);
        }
    }

    fn enqueue(&mut self, flow: usize, packet: u64) {
        let queued = self.queue.len() as u64 * PACKET;
        if queued + PACKET > self.link.buffer {
            return;
        }
        self.longest_queue = self.longest_queue.max(Duration::from_secs_f64(
            queued as f64 / self.link.rate as f64,
        ));
        self.queue.push_back((flow, packet));
        if self.queue.len() == 1 {
            self.at(self.now + self.service_time(), Event::Depart);
        }
    }
}

/// Jain's fairness index: the paper, equation 9.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}
