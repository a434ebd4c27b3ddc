//! The table of live flows: bounded in number, with a time after which an idle flow is finished.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::recency::Recency;
use super::{Direction, Flow};
use crate::limits;
use crate::packet::{L4, Packet};

/// Bounds of a [`FlowTable`].
#[derive(Clone, Copy, Debug)]
pub struct TableBounds {
    /// Flows held at once, at least 1; see [`limits::MAX_FLOWS`].
    pub flows: usize,
    /// Idle time of UDP; see [`limits::UDP_IDLE`].
    pub udp_idle: Duration,
    /// Idle time of open TCP; see [`limits::TCP_IDLE`].
    pub tcp_idle: Duration,
    /// Idle time of TCP without handshake and data; see [`limits::TCP_EMBRYONIC`].
    pub tcp_embryonic: Duration,
    /// Idle time of closed TCP; see [`limits::TCP_CLOSED`].
    pub tcp_closed: Duration,
    /// The first flow's number, so that those of several tables differ.
    pub first_serial: u64,
}

impl Default for TableBounds {
    fn default() -> Self {
        Self {
            flows: limits::MAX_FLOWS,
            udp_idle: limits::UDP_IDLE,
            tcp_idle: limits::TCP_IDLE,
            tcp_embryonic: limits::TCP_EMBRYONIC,
            tcp_closed: limits::TCP_CLOSED,
            first_serial: 0,
        }
    }
}

/// A 5-tuple without a direction: the smaller endpoint first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    l4: L4,
    low: SocketAddr,
    high: SocketAddr,
}

impl Key {
    fn of(packet: &Packet<'_>) -> Self {
        let (low, high) = if packet.source <= packet.destination {
            (packet.source, packet.destination)
        } else {
            (packet.destination, packet.source)
        };
        Self {
            l4: packet.l4,
            low,
            high,
        }
    }
}

/// Flows that end alike share a list, so that the head of each list is the next to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Udp,
    /// Neither was the handshake seen to its end nor any data, whether refused by a reset or not.
    TcpEmbryonic,
    TcpOpen,
    TcpClosed,
}

const CLASSES: [Class; 4] = [
    Class::TcpEmbryonic,
    Class::TcpClosed,
    Class::TcpOpen,
    Class::Udp,
];

impl Class {
    fn of<T>(flow: &Flow<T>) -> Self {
        match flow.l4 {
            L4::Udp => Self::Udp,
            L4::Tcp if !flow.established => Self::TcpEmbryonic,
            L4::Tcp if flow.closed => Self::TcpClosed,
            L4::Tcp => Self::TcpOpen,
        }
    }
}

#[derive(Debug)]
struct Slot<T> {
    key: Key,
    class: Class,
    flow: Flow<T>,
}

/// Live flows.
///
/// Memory: at most [`TableBounds::flows`] of [`FLOW_BYTES`](limits::FLOW_BYTES) each, and what the
/// attachments hold on the heap. When the table is full, TCP flows without handshake and data give
/// way first, then the flow that was idle for longest.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then use [`flow_mut`](Self::flow_mut),
/// then drain [`poll_finished`](Self::poll_finished). At the end [`finish`](Self::finish), and
/// drain again.
#[derive(Debug)]
pub struct FlowTable<T> {
    bounds: TableBounds,
    now: Duration,
    serial: u64,
    index: HashMap<Key, usize>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    udp: Recency,
    tcp_embryonic: Recency,
    tcp_open: Recency,
    tcp_closed: Recency,
    finished: VecDeque<Flow<T>>,
    evicted: u64,
}

impl<T: Default> FlowTable<T> {
    /// An empty table.
    #[must_use]
    pub fn new(bounds: TableBounds) -> Self {
        Self {
            bounds: TableBounds {
                flows: bounds.flows.max(1),
                ..bounds
            },
            now: Duration::ZERO,
            serial: bounds.first_serial,
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            udp: Recency::new(),
            tcp_embryonic: Recency::new(),
            tcp_open: Recency::new(),
            tcp_closed: Recency::new(),
            finished: VecDeque::new(),
            evicted: 0,
        }
    }

    /// A number for a flow that others have seen.
    pub(crate) fn number_unseen(&mut self) -> u64 {
        let serial = self.serial;
        self.serial = self.serial.saturating_add(1);
        serial
    }

    /// Takes in a packet; returns the flow's slot, valid until the next packet, and who sent the
    /// packet. Time that runs backwards counts as standing still.
    pub fn handle_packet(&mut self, now: Duration, packet: &Packet<'_>) -> (usize, Direction) {
        self.now = self.now.max(now);
        self.expire();
        let key = Key::of(packet);
        let index = match self.index.get(&key).copied() {
            Some(index)
                if self
                    .flow(index)
                    .is_some_and(|flow| flow.is_reopened_by(packet)) =>
            {
                // The new connection began with its SYN, which came while the old flow still
                // stood.
                let syn_at = self.flow(index).and_then(Flow::syn_at);
                self.end(index);
                let index = self.begin(key, packet);
                if let (Some(flow), Some(at)) = (self.flow_mut(index), syn_at) {
                    flow.first_seen = at;
                }
                index
            }
            Some(index) => index,
            None => self.begin(key, packet),
        };
        let direction = self.touch(index, packet);
        (index, direction)
    }

    /// The flow in a slot that [`handle_packet`](Self::handle_packet) returned.
    pub fn flow_mut(&mut self, index: usize) -> Option<&mut Flow<T>> {
        self.slots
            .get_mut(index)?
            .as_mut()
            .map(|slot| &mut slot.flow)
    }

    /// Live flows, in no order.
    pub fn flows(&self) -> impl Iterator<Item = &Flow<T>> {
        self.slots.iter().flatten().map(|slot| &slot.flow)
    }

    /// The same with the slots that they are in.
    pub fn flows_with_slots(&self) -> impl Iterator<Item = (usize, &Flow<T>)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((index, &slot.as_ref()?.flow)))
    }

    /// The same, to change.
    pub fn flows_mut(&mut self) -> impl Iterator<Item = &mut Flow<T>> {
        self.slots.iter_mut().flatten().map(|slot| &mut slot.flow)
    }

    /// The next finished flow.
    pub fn poll_finished(&mut self) -> Option<Flow<T>> {
        self.finished.pop_front()
    }

    /// Finishes all flows, in the order in which they began.
    pub fn finish(&mut self) {
        let mut rest: Vec<Flow<T>> = self
            .slots
            .drain(..)
            .flatten()
            .map(|slot| slot.flow)
            .collect();
        rest.sort_by_key(|flow| flow.serial);
        self.finished.extend(rest);
        self.index.clear();
        self.free.clear();
        for class in CLASSES {
            *self.list(class) = Recency::new();
        }
    }

    /// Live flows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// There is no live flow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Flows finished early because the table was full.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The same, to look at.
    #[must_use]
    pub fn flow(&self, index: usize) -> Option<&Flow<T>> {
        self.slots.get(index)?.as_ref().map(|slot| &slot.flow)
    }

    fn begin(&mut self, key: Key, packet: &Packet<'_>) -> usize {
        // Before the insertion: the table never exceeds its bound.
        if self.index.len() >= self.bounds.flows {
            self.evict();
        }
        let flow = Flow::begin(packet, self.now, self.serial);
        self.serial = self.serial.saturating_add(1);
        let class = Class::of(&flow);
        let slot = Some(Slot { key, class, flow });
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(None);
                self.slots.len().saturating_sub(1)
            }
        };
        if let Some(vacant) = self.slots.get_mut(index) {
            *vacant = slot;
        }
        self.index.insert(key, index);
        self.list(class).push(index);
        index
    }

    fn touch(&mut self, index: usize, packet: &Packet<'_>) -> Direction {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else {
            return Direction::FromClient;
        };
        slot.flow.take_in(packet, now);
        let direction = slot.flow.direction(packet);
        let before = slot.class;
        let after = Class::of(&slot.flow);
        slot.class = after;
        self.list(before).remove(index);
        self.list(after).push(index);
        direction
    }

    fn expire(&mut self) {
        let mut left = limits::MAX_EXPIRED_AT_ONCE;
        for class in CLASSES {
            let idle = self.idle(class);
            while let Some(index) = self.list(class).oldest() {
                let over = self
                    .flow(index)
                    .is_none_or(|flow| self.now.saturating_sub(flow.last_seen) > idle);
                if left == 0 || !over {
                    break;
                }
                left = left.saturating_sub(1);
                self.end(index);
            }
        }
    }

    /// Flows without handshake give way first, so that a flood of SYNs displaces nothing but
    /// itself; then what was idle for longest.
    fn evict(&mut self) {
        let heads = CLASSES.map(|class| self.list(class).oldest());
        let [embryonic, rest @ ..] = heads;
        let oldest = rest
            .into_iter()
            .flatten()
            .min_by_key(|&index| self.flow(index).map(|flow| flow.last_seen));
        if let Some(index) = embryonic.or(oldest) {
            self.evicted = self.evicted.saturating_add(1);
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.list(slot.class).remove(index);
        self.index.remove(&slot.key);
        self.free.push(index);
        self.finished.push_back(slot.flow);
    }

    fn idle(&self, class: Class) -> Duration {
        match class {
            Class::Udp => self.bounds.udp_idle,
            Class::TcpEmbryonic => self.bounds.tcp_embryonic,
            Class::TcpOpen => self.bounds.tcp_idle,
            Class::TcpClosed => self.bounds.tcp_closed,
        }
    }

    fn list(&mut self, class: Class) -> &mut Recency {
        match class {
            Class::Udp => &mut self.udp,
            Class::TcpEmbryonic => &mut self.tcp_embryonic,
            Class::TcpOpen => &mut self.tcp_open,
            Class::TcpClosed => &mut self.tcp_closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Slot};
    use crate::classify::Inspection;
    use crate::limits::FLOW_BYTES;

    /// What one flow takes in each table while that is as empty as it gets: a vector has doubled, a
    /// hash table is seven sixteenths full, and the four lists have an entry of two numbers for
    /// each slot.
    #[test]
    fn a_flow_takes_less_than_stated() {
        let slot = 2 * size_of::<Option<Slot<Inspection>>>();
        let index = (size_of::<(Key, usize)>() + 1) * 16 / 7;
        let lists = 2 * 4 * 2 * size_of::<usize>();
        let free = 2 * size_of::<usize>();
        let total = slot + index + lists + free;
        println!("{slot} + {index} + {lists} + {free} = {total}");
        assert!(total <= FLOW_BYTES, "{total}");
    }
}
