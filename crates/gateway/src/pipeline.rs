//! The offline stages in one: packet, flow, classify, record. No clock, no files: packets in,
//! records out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::classify::{Classifier, Surroundings};
use crate::flow::TableBounds;
use crate::limits::MAX_READY;
use crate::packet::{Counters, Decoder, LinkType};
use crate::record::FlowRecord;
use crate::tracker::Tracker;

/// Classifies packets into flows.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then [`poll_flow`](Self::poll_flow)
/// until it answers `None`; at the end [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub struct Pipeline {
    decoder: Decoder,
    tracker: Tracker<()>,
    ready: VecDeque<FlowRecord>,
}

impl Pipeline {
    /// A pipeline without flows.
    #[must_use]
    pub fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        let mut decoder = Decoder::new();
        decoder.enter_tunnels();
        Self {
            decoder,
            tracker: Tracker::new(classifier, bounds),
            ready: VecDeque::new(),
        }
    }

    /// Passes over packets with a wrong checksum. Not so at first: captures taken on the sender
    /// have unfinished ones; see [`Packet::checksum`](crate::packet::Packet::checksum).
    #[must_use]
    pub fn verifying_checksums(mut self) -> Self {
        self.decoder.verify_checksums();
        self
    }

    /// Takes in one packet. `now` counts from any fixed moment; time that runs backwards counts as
    /// standing still.
    pub fn handle_packet(&mut self, now: Duration, link: LinkType, bytes: &[u8]) {
        let tracker = &mut self.tracker;
        self.decoder.handle_packet(now, link, bytes, &mut |packet| {
            if let Some(mut entry) = tracker.handle_packet(now, packet) {
                entry.learn();
            }
        });
        self.collect();
    }

    /// The next finished flow.
    pub fn poll_flow(&mut self) -> Option<FlowRecord> {
        self.ready.pop_front()
    }

    /// Finishes all flows.
    pub fn finish(&mut self) {
        let tracker = &mut self.tracker;
        self.decoder.finish(&mut |packet| {
            if let Some(mut entry) = tracker.handle_packet(Duration::ZERO, packet) {
                entry.learn();
            }
        });
        tracker.finish();
        self.collect();
    }

    /// Totals so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.decoder.counters()
    }

    /// Flows that are not finished.
    #[must_use]
    pub fn live_flows(&self) -> usize {
        self.tracker.live_flows()
    }

    /// What is known of other flows; to add what the gateway knows otherwise.
    #[must_use]
    pub fn surroundings(&self) -> &Surroundings {
        self.tracker.surroundings()
    }

    fn collect(&mut self) {
        let counters = self.decoder.counters_mut();
        while let Some(flow) = self.tracker.poll_finished() {
            let verdict = self.tracker.conclude(&flow);
            if self.ready.len() < MAX_READY {
                self.ready.push_back(FlowRecord::new(&flow, verdict));
            } else {
                counters.records_dropped = counters.records_dropped.saturating_add(1);
            }
        }
        counters.evicted = self.tracker.evicted();
    }
}

#[cfg(test)]
mod tests {
    use crate::packet::LinkType;
    use crate::{Packets, built_in_pipeline};

    #[test]
    fn bytes_of_streams_are_given_back() {
        let mut packets = Packets::new();
        for port in 1_000..1_050_u16 {
            let client = ([10, 0, 0, 1], port).into();
            let mut stream = packets.tcp(client, ([192, 0, 2, 1], 7_000).into());
            stream.open();
            stream.client(&[1; 3_000]);
            stream.server(if port % 2 == 0 {
                b"HTTP/1.1 200 OK\r\n"
            } else {
                b"\x13BitTorrent protocol"
            });
        }
        let mut pipeline = built_in_pipeline();
        let mut most = 0;
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
            most = most.max(pipeline.tracker.buffered());
        }
        assert!(most >= 50 * 3_000, "{most}");
        pipeline.finish();
        assert_eq!(pipeline.tracker.buffered(), 0);
    }

    #[test]
    fn bytes_of_endless_hellos_are_counted_back() {
        // A CRYPTO frame with one byte at offset 8 000: the ones before it never come.
        let frame = [6, 0x5f, 0x40, 1, 7];
        let hello = crate::classify::quic_initial(1, &[7; 8], &frame, 1_200).unwrap();
        let mut packets = Packets::new();
        for port in 1_000..1_050_u16 {
            let client = ([10, 0, 0, 1], port).into();
            packets.udp(client, ([192, 0, 2, 1], 443).into(), &hello);
        }
        let mut pipeline = built_in_pipeline();
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
        }
        assert_eq!(pipeline.tracker.buffered(), 50 * 8_001);
        pipeline.finish();
        assert_eq!(pipeline.tracker.buffered(), 0);
    }
}
