//! The stages in order: packet, flow, classify. No clock, no files: packets in, records out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::classify::{
    BITTORRENT, Classifier, Confidence, Endpoints, Inspection, PEER_TO_PEER, Verdict,
};
use crate::flow::{Flow, FlowTable, TableBounds};
use crate::limits::{MAX_BUFFERED, MAX_READY};
use crate::packet::{
    Checksum, Counters, DefragmentBounds, Defragmenter, Fragment, FragmentStep, L4, Layer,
    LinkType, Packet, Skip, decode, decode_layer,
};
use crate::record::FlowRecord;

/// Classifies packets into flows.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then [`poll_flow`](Self::poll_flow) until it answers `None`;
/// at the end [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub struct Pipeline {
    defragmenter: Defragmenter,
    verify_checksums: bool,
    classifier: Classifier,
    table: FlowTable<Inspection>,
    endpoints: Endpoints,
    counters: Counters,
    buffered: usize,
    ready: VecDeque<FlowRecord>,
}

impl Pipeline {
    /// A pipeline without flows.
    #[must_use]
    pub fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        Self {
            defragmenter: Defragmenter::new(DefragmentBounds::default()),
            verify_checksums: false,
            classifier,
            table: FlowTable::new(bounds),
            endpoints: Endpoints::default(),
            counters: Counters::default(),
            buffered: 0,
            ready: VecDeque::new(),
        }
    }

    /// Passes over packets with a wrong checksum. Not so at first: captures taken on the sender have unfinished ones;
    /// see [`Packet::checksum`].
    #[must_use]
    pub fn verifying_checksums(self) -> Self {
        Self {
            verify_checksums: true,
            ..self
        }
    }

    /// Takes in one packet. `now` counts from any fixed moment; time that runs backwards counts as standing still.
    pub fn handle_packet(&mut self, now: Duration, link: LinkType, bytes: &[u8]) {
        self.counters.packets = self.counters.packets.saturating_add(1);
        match decode_layer(link, bytes) {
            Ok(Layer::Packet(packet)) => self.handle_segment(now, &packet),
            Ok(Layer::Fragment(fragment)) => self.handle_fragment(now, &fragment),
            Err(reason) => self.counters.skip(reason),
        }
        if !self.defragmenter.is_empty() {
            self.defragmenter.handle_timeout(now);
            self.handle_datagrams(now);
        }
    }

    /// The next finished flow.
    pub fn poll_flow(&mut self) -> Option<FlowRecord> {
        self.ready.pop_front()
    }

    /// Finishes all flows.
    pub fn finish(&mut self) {
        self.defragmenter.finish();
        // The latest time seen stands.
        self.handle_datagrams(Duration::ZERO);
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

    fn handle_fragment(&mut self, now: Duration, fragment: &Fragment<'_>) {
        self.counters.fragments = self.counters.fragments.saturating_add(1);
        if let FragmentStep::Refused(_) = self.defragmenter.handle_fragment(now, fragment) {
            self.counters.skip(Skip::RefusedFragment);
        }
    }

    /// Takes in what became of fragments. Inside a whole datagram there may be a tunnel with a fragment again; an
    /// incomplete one counts as a packet that was cut.
    fn handle_datagrams(&mut self, now: Duration) {
        while let Some(datagram) = self.defragmenter.poll_datagram() {
            if datagram.bytes.is_empty() {
                for _ in 0..datagram.fragments {
                    self.counters.skip(Skip::LaterFragment);
                }
                continue;
            }
            let layer = if datagram.complete {
                self.counters.reassembled = self.counters.reassembled.saturating_add(1);
                decode_layer(LinkType::RawIp, &datagram.bytes)
            } else {
                decode(LinkType::RawIp, &datagram.bytes).map(Layer::Packet)
            };
            match layer {
                Ok(Layer::Packet(packet)) => self.handle_segment(now, &packet),
                Ok(Layer::Fragment(fragment)) => self.handle_fragment(now, &fragment),
                Err(reason) => self.counters.skip(reason),
            }
        }
    }

    fn handle_segment(&mut self, now: Duration, packet: &Packet<'_>) {
        if self.verify_checksums && packet.checksum() == Checksum::Bad {
            self.counters.skip(Skip::BadChecksum);
            return;
        }
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
            if inspecting {
                note(&mut self.endpoints, flow);
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(flow) = self.table.poll_finished() {
            self.buffered = self.buffered.saturating_sub(flow.attachment.held());
            let verdict = self.conclude(&flow);
            if self.ready.len() < MAX_READY {
                self.ready.push_back(FlowRecord::new(flow, verdict));
            } else {
                self.counters.records_dropped = self.counters.records_dropped.saturating_add(1);
            }
        }
        self.counters.evicted = self.table.evicted();
    }

    /// The flow's own verdict, weighed with what its endpoints were seen speaking elsewhere.
    fn conclude(&self, flow: &Flow<Inspection>) -> Verdict {
        let Some(verdict) = flow.attachment.verdict() else {
            let evidence = if flow.attachment.inspected() == 0 {
                "no data"
            } else {
                "no signature matched the first data packets"
            };
            return Verdict::unknown(evidence);
        };
        let mut verdict = verdict.clone();
        if verdict.confidence == Confidence::Guess && verdict.application == BITTORRENT {
            let known = [flow.client, flow.server]
                .into_iter()
                .find(|side| self.endpoints.get(side) == Some(BITTORRENT));
            if let Some(endpoint) = known {
                verdict.confidence = Confidence::Likely;
                verdict.evidence = format!(
                    "{}; {endpoint} speaks bittorrent in another flow",
                    verdict.evidence
                );
            }
        }
        verdict
    }
}

/// Remembers who speaks a peer-to-peer application: over UDP both ports are chosen to stay, over TCP the server's.
fn note(endpoints: &mut Endpoints, flow: &Flow<Inspection>) {
    let Some(verdict) = flow
        .attachment
        .verdict()
        .filter(|verdict| verdict.confidence == Confidence::Certain)
    else {
        return;
    };
    let Some(application) = PEER_TO_PEER
        .into_iter()
        .find(|name| *name == verdict.application)
    else {
        return;
    };
    endpoints.note(flow.server, application);
    if flow.l4 == L4::Udp {
        endpoints.note(flow.client, application);
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
}
