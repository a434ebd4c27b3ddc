//! Packets that wait for the line: drop-tail, or CoDel on top of it.

use std::collections::VecDeque;
use std::time::Instant;

use crate::arguments::{Limits, QueueKind};
use crate::codel::CoDel;

/// Bytes of the link layer before the network layer: an Ethernet header. Neither rate nor limits
/// count them, as in rattan.
const LINK_HEADER: usize = 14;

/// One frame.
#[derive(Debug)]
pub(crate) struct Packet {
    /// From the Ethernet header on.
    pub(crate) frame: Vec<u8>,
    /// When it came to the line.
    pub(crate) arrived: Instant,
}

impl Packet {
    /// Bytes of the network layer.
    pub(crate) fn size(&self) -> usize {
        self.frame.len().saturating_sub(LINK_HEADER)
    }
}

/// Packets in order, within limits.
#[derive(Debug)]
pub(crate) struct Fifo {
    packets: VecDeque<Packet>,
    bytes: usize,
    limits: Limits,
}

impl Fifo {
    pub(crate) fn new(limits: Limits) -> Fifo {
        Fifo {
            packets: VecDeque::new(),
            bytes: 0,
            limits,
        }
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a packet unless it does not fit.
    pub(crate) fn push(&mut self, packet: Packet) {
        let Limits {
            packet_limit,
            byte_limit,
        } = self.limits;
        let bytes = self.bytes + packet.size();
        let packets = self.packets.len() + 1;
        if byte_limit.is_none_or(|limit| bytes <= limit)
            && packet_limit.is_none_or(|limit| packets <= limit)
        {
            self.bytes = bytes;
            self.packets.push_back(packet);
        }
    }

    /// Takes the oldest packet.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size();
        Some(packet)
    }
}

/// The queue of one way.
#[derive(Debug)]
pub(crate) struct Queue {
    fifo: Fifo,
    codel: Option<CoDel>,
}

impl Queue {
    pub(crate) fn new(kind: &QueueKind) -> Queue {
        match kind {
            QueueKind::DropTail(limits) => Queue {
                fifo: Fifo::new(*limits),
                codel: None,
            },
            QueueKind::CoDel(arguments) => Queue {
                fifo: Fifo::new(Limits {
                    packet_limit: arguments.packet_limit,
                    byte_limit: arguments.byte_limit,
                }),
                codel: Some(CoDel::new(arguments)),
            },
        }
    }

    /// Takes a packet in, or drops it.
    pub(crate) fn push(&mut self, packet: Packet) {
        self.fifo.push(packet);
    }

    /// When the packet came that has waited longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.fifo.packets.front().map(|packet| packet.arrived)
    }

    /// The packet that is to be transmitted from `at` on. `None` if the queue is empty, or is now
    /// because CoDel dropped the rest.
    pub(crate) fn pop(&mut self, at: Instant) -> Option<Packet> {
        match &mut self.codel {
            None => self.fifo.pop(),
            Some(codel) => codel.pop(&mut self.fifo, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(size: usize) -> Packet {
        Packet {
            frame: vec![0; size + LINK_HEADER],
            arrived: Instant::now(),
        }
    }

    fn fill(limits: Limits, sizes: &[usize]) -> Vec<usize> {
        let mut fifo = Fifo::new(limits);
        for size in sizes {
            fifo.push(packet(*size));
        }
        std::iter::from_fn(|| fifo.pop())
            .map(|packet| packet.size())
            .collect()
    }

    #[test]
    fn bytes_of_the_network_layer_are_limited() {
        let limits = Limits {
            packet_limit: None,
            byte_limit: Some(3_000),
        };
        assert_eq!(fill(limits, &[1_500, 1_500, 1]), [1_500, 1_500]);
        assert_eq!(
            fill(limits, &[1_500, 1_501, 1_400, 101, 100]),
            [1_500, 1_400, 100]
        );
    }

    #[test]
    fn packets_are_limited() {
        let limits = Limits {
            packet_limit: Some(2),
            byte_limit: None,
        };
        assert_eq!(fill(limits, &[1, 2, 3]), [1, 2]);
    }
}
