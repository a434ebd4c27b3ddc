//! The stages in order: packet, flow, classify. No clock, no files: packets in, records out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::classify::{Classifier, Inspection, Surroundings};
use crate::flow::{FlowTable, TableBounds};
use crate::limits::{MAX_BUFFERED, MAX_READY};
use crate::packet::{Counters, LinkType, Packet, decode};
use crate::record::FlowRecord;

/// Classifies packets into flows.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then [`poll_flow`](Self::poll_flow) until it answers `None`;
/// at the end [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub struct Pipeline {
    classifier: Classifier,
    table: FlowTable<Inspection>,
    surroundings: Surroundings,
    counters: Counters,
    buffered: usize,
    ready: VecDeque<FlowRecord>,
}

impl Pipeline {
    /// A pipeline without flows.
    #[must_use]
    pub fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        Self {
            classifier,
            table: FlowTable::new(bounds),
            surroundings: Surroundings::default(),
            counters: Counters::default(),
            buffered: 0,
            ready: VecDeque::new(),
        }
    }

    /// Takes in one packet. `now` counts from any fixed moment; time that runs backwards counts as standing still.
    pub fn handle_packet(&mut self, now: Duration, link: LinkType, bytes: &[u8]) {
        self.counters.packets = self.counters.packets.saturating_add(1);
        match decode(link, bytes) {
            Ok(packet) => self.handle_segment(now, &packet),
            Err(reason) => self.counters.skip(reason),
        }
    }

    /// The next finished flow.
    pub fn poll_flow(&mut self) -> Option<FlowRecord> {
        self.ready.pop_front()
    }

    /// Finishes all flows.
    pub fn finish(&mut self) {
        self.table.finish();
        self.collect();
    }

    /// Totals so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Flows that are not finished.
    #[must_use]
    pub fn live_flows(&self) -> usize {
        self.table.len()
    }

    /// What is known of other flows; to tell it what the gateway knows otherwise.
    pub fn surroundings_mut(&mut self) -> &mut Surroundings {
        &mut self.surroundings
    }

    fn handle_segment(&mut self, now: Duration, packet: &Packet<'_>) {
        self.counters.in_flows = self.counters.in_flows.saturating_add(1);
        let (place, direction) = self.table.handle_packet(now, packet);
        if let Some(flow) = self.table.flow_mut(place) {
            let before = flow.attachment.held();
            let room = MAX_BUFFERED.saturating_sub(self.buffered);
            let inspecting = !flow.attachment.is_done();
            self.classifier.handle_packet(flow, direction, packet, room);
            self.buffered = self
                .buffered
                .saturating_sub(before)
                .saturating_add(flow.attachment.held());
            if flow.attachment.take_news() || inspecting {
                self.surroundings.note(flow);
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(flow) = self.table.poll_finished() {
            self.buffered = self.buffered.saturating_sub(flow.attachment.held());
            let verdict = self.surroundings.conclude(&flow);
            if self.ready.len() < MAX_READY {
                self.ready.push_back(FlowRecord::new(flow, verdict));
            } else {
                self.counters.records_dropped = self.counters.records_dropped.saturating_add(1);
            }
        }
        self.counters.evicted = self.table.evicted();
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
            most = most.max(pipeline.buffered);
        }
        assert!(most >= 50 * 3_000, "{most}");
        pipeline.finish();
        assert_eq!(pipeline.buffered, 0);
    }

    #[test]
    fn bytes_of_a_hello_that_never_ends_are_counted_and_given_back() {
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
        assert_eq!(pipeline.buffered, 50 * 8_001);
        pipeline.finish();
        assert_eq!(pipeline.buffered, 0);
    }
}
