//! The packets that decisions were made of, kept so that somebody can ask why.
//!
//! Of each flow the first packets are kept until it is decided, and those that named its
//! application, decided it or had it stopped; of each packet the beginning. Flows that are over
//! stay as well. The oldest make room for new ones.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::state::LiveFlow;
use crate::flow::Direction;
use crate::limits::{MAX_TRACE_PACKETS, MAX_TRACES, TRACE_SNAP};

/// Memory of a trace beside its bytes, roughly.
const TRACE_COST: usize = 256;
/// The same of what became of a flow that is over.
const OVER_COST: usize = 512;
/// The same of a packet in it.
const PACKET_COST: usize = 48;

/// What a packet did to its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    /// It names the application, or names it better than those before.
    pub named: bool,
    /// The policy decided upon it.
    pub decided: bool,
    /// What it carries was blocked.
    pub blocked: bool,
}

impl TraceStep {
    fn is_some(self) -> bool {
        self.named || self.decided || self.blocked
    }
}

/// A packet that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPacket {
    /// Its number in the flow, from 1.
    pub number: u64,
    /// When it came, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// The client sent it; otherwise the server.
    pub from_client: bool,
    /// Bytes of it that are not here.
    pub missing: usize,
    /// Where its payload begins in `data`.
    pub payload_at: usize,
    /// What it did.
    #[serde(flatten)]
    pub step: TraceStep,
    /// The packet from its IP header on, or its beginning.
    #[serde(with = "base64")]
    pub data: Vec<u8>,
}

/// Why a flow got what it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The flow.
    #[serde(flatten)]
    pub flow: LiveFlow,
    /// No packet of it comes any more.
    pub over: bool,
    /// Packets of it that were kept, in the order in which they came.
    pub trace: Vec<TracedPacket>,
}

/// A packet that comes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing<'a> {
    pub(super) number: u64,
    pub(super) time: Duration,
    pub(super) direction: Direction,
    pub(super) bytes: &'a [u8],
    pub(super) payload: &'a [u8],
    pub(super) step: TraceStep,
}

/// What is kept of all flows.
#[derive(Debug, Default)]
pub(super) struct Traces {
    flows: HashMap<u64, Trace>,
    /// The oldest first.
    order: VecDeque<u64>,
    held: usize,
}

#[derive(Debug, Default)]
struct Trace {
    bytes: Vec<u8>,
    packets: Vec<Kept>,
    over: Option<Box<LiveFlow>>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    time_us: u64,
    from_client: bool,
    step: TraceStep,
    payload_at: u16,
    missing: u32,
    /// Where it ends in the trace's bytes.
    end: u32,
}

impl Trace {
    fn cost(&self) -> usize {
        let packets = self.packets.len().saturating_mul(PACKET_COST);
        let packets = packets.saturating_add(self.bytes.len());
        let over = if self.over.is_some() { OVER_COST } else { 0 };
        packets.saturating_add(TRACE_COST).saturating_add(over)
    }
}

impl Traces {
    /// Keeps a packet of a flow, if it is one of the first or did something.
    pub(super) fn note(&mut self, serial: u64, packet: &Passing<'_>) {
        if !self.flows.contains_key(&serial) {
            self.order.push_back(serial);
            self.held = self.held.saturating_add(TRACE_COST);
        }
        let trace = self.flows.entry(serial).or_default();
        if trace.packets.len() >= MAX_TRACE_PACKETS && !packet.step.is_some()
            || trace.packets.len() >= MAX_TRACE_PACKETS.saturating_mul(2)
        {
            return;
        }
        let data = packet
            .bytes
            .get(..TRACE_SNAP.min(packet.bytes.len()))
            .unwrap_or_default();
        trace.bytes.extend_from_slice(data);
        let payload_at = if packet.payload.is_empty() {
            data.len()
        } else {
            // A payload that was put together from fragments lies elsewhere.
            (packet.payload.as_ptr().addr())
                .checked_sub(packet.bytes.as_ptr().addr())
                .filter(|&at| at <= data.len())
                .unwrap_or(0)
        };
        trace.packets.push(Kept {
            number: packet.number,
            time_us: u64::try_from(packet.time.as_micros()).unwrap_or(u64::MAX),
            from_client: packet.direction == Direction::FromClient,
            step: packet.step,
            payload_at: u16::try_from(payload_at).unwrap_or(0),
            missing: u32::try_from(packet.bytes.len().saturating_sub(data.len()))
                .unwrap_or(u32::MAX),
            end: u32::try_from(trace.bytes.len()).unwrap_or(u32::MAX),
        });
        self.held = self
            .held
            .saturating_add(data.len())
            .saturating_add(PACKET_COST);
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.held > MAX_TRACES {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some(trace) = self.flows.remove(&oldest) {
                self.held = self.held.saturating_sub(trace.cost());
            }
        }
    }

    /// Packets of this flow were kept.
    pub(super) fn knows(&self, serial: u64) -> bool {
        self.flows.contains_key(&serial)
    }

    /// A flow is over; this is what became of it.
    pub(super) fn end(&mut self, flow: LiveFlow) {
        if let Some(trace) = self.flows.get_mut(&flow.flow_id)
            && trace.over.replace(Box::new(flow)).is_none()
        {
            self.held = self.held.saturating_add(OVER_COST);
            self.make_room();
        }
    }

    /// What is known of a flow that is over.
    pub(super) fn ended(&self, serial: u64) -> Option<LiveFlow> {
        let trace = self.flows.get(&serial)?;
        trace.over.as_deref().cloned()
    }

    /// The packets that were kept of a flow.
    pub(super) fn packets(&self, serial: u64) -> Vec<TracedPacket> {
        let Some(trace) = self.flows.get(&serial) else {
            return Vec::new();
        };
        let mut from = 0;
        trace
            .packets
            .iter()
            .map(|kept| {
                let to = usize::try_from(kept.end).unwrap_or(usize::MAX);
                let data = trace.bytes.get(from..to).unwrap_or_default().to_vec();
                from = to;
                TracedPacket {
                    number: kept.number,
                    time_us: kept.time_us,
                    from_client: kept.from_client,
                    missing: usize::try_from(kept.missing).unwrap_or(usize::MAX),
                    payload_at: usize::from(kept.payload_at),
                    step: kept.step,
                    data,
                }
            })
            .collect()
    }

    #[cfg(test)]
    fn counted(&self) -> usize {
        self.flows.values().map(Trace::cost).sum()
    }
}

/// Bytes as text in JSON.
mod base64 {
    use data_encoding::BASE64;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Passing, TraceStep, Traces};
    use crate::flow::Direction;
    use crate::limits::{MAX_TRACE_PACKETS, MAX_TRACES, TRACE_SNAP};

    fn packet(number: u64, bytes: &[u8], step: TraceStep) -> Passing<'_> {
        Passing {
            number,
            time: Duration::from_millis(1),
            direction: Direction::FromServer,
            bytes,
            payload: bytes.get(40..).unwrap_or_default(),
            step,
        }
    }

    #[test]
    fn first_and_decisive_packets_are_kept_cut() {
        let mut traces = Traces::default();
        let long = vec![7; TRACE_SNAP + 10];
        for number in 1..=100 {
            let named = number == 90;
            let step = TraceStep {
                named,
                ..TraceStep::default()
            };
            traces.note(5, &packet(number, &long, step));
        }
        let kept = traces.packets(5);
        let first = u64::try_from(MAX_TRACE_PACKETS).unwrap();
        let numbers: Vec<u64> = kept.iter().map(|packet| packet.number).collect();
        assert_eq!(numbers, (1..=first).chain([90]).collect::<Vec<_>>());
        for packet in &kept {
            assert_eq!(
                (packet.data.len(), packet.missing, packet.payload_at),
                (TRACE_SNAP, 10, 40)
            );
        }
        assert!(kept.last().unwrap().step.named);
        assert!(traces.packets(6).is_empty());
    }

    #[test]
    fn bounded_memory_evicts_the_oldest_flows() {
        let mut traces = Traces::default();
        let bytes = [1; 200];
        for serial in 0..200_000 {
            for number in 1..=3 {
                traces.note(serial, &packet(number, &bytes, TraceStep::default()));
            }
        }
        assert!(traces.held <= MAX_TRACES && traces.held > MAX_TRACES / 2);
        assert_eq!(traces.held, traces.counted());
        assert_eq!(traces.order.len(), traces.flows.len());
        assert!(!traces.knows(0) && traces.knows(199_999));
    }
}
