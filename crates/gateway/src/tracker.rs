//! The first three stages: packet, flow, classify. What is done with the answers is up to whoever owns the tracker.

use std::time::Duration;

use crate::classify::{
    BITTORRENT, Classifier, Confidence, Endpoints, Inspection, PEER_TO_PEER, Verdict,
};
use crate::flow::{Flow, FlowTable, TableBounds};
use crate::limits::MAX_BUFFERED;
use crate::packet::{Counters, L4, LinkType, Packet, decode};

/// What the tracker keeps with a flow: the classifier's state, and what its owner keeps there.
#[derive(Debug, Default)]
pub(crate) struct Tracked<T> {
    pub(crate) inspection: Inspection,
    pub(crate) own: T,
}

impl<T> AsMut<Inspection> for Tracked<T> {
    fn as_mut(&mut self) -> &mut Inspection {
        &mut self.inspection
    }
}

/// A packet and the place of its flow, valid until the next packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) packet: Packet<'a>,
    pub(crate) place: usize,
}

/// Follows flows and classifies them.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then [`poll_finished`](Self::poll_finished) until it answers
/// `None`; at the end [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub(crate) struct Tracker<T> {
    classifier: Classifier,
    table: FlowTable<Tracked<T>>,
    endpoints: Endpoints,
    counters: Counters,
    buffered: usize,
}

impl<T: Default> Tracker<T> {
    pub(crate) fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        Self {
            classifier,
            table: FlowTable::new(bounds),
            endpoints: Endpoints::default(),
            counters: Counters::default(),
            buffered: 0,
        }
    }

    /// Takes in one packet. `None`: it takes part in no flow, and the counters say why.
    pub(crate) fn handle_packet<'a>(
        &mut self,
        now: Duration,
        link: LinkType,
        bytes: &'a [u8],
    ) -> Option<Seen<'a>> {
        self.counters.packets = self.counters.packets.saturating_add(1);
        match decode(link, bytes) {
            Ok(packet) => Some(self.handle_segment(now, packet)),
            Err(reason) => {
                self.counters.skip(reason);
                None
            }
        }
    }

    fn handle_segment<'a>(&mut self, now: Duration, packet: Packet<'a>) -> Seen<'a> {
        self.counters.in_flows = self.counters.in_flows.saturating_add(1);
        let (place, direction) = self.table.handle_packet(now, &packet);
        if let Some(flow) = self.table.flow_mut(place) {
            let before = flow.attachment.inspection.held();
            let room = MAX_BUFFERED.saturating_sub(self.buffered);
            let inspecting = !flow.attachment.inspection.is_done();
            self.classifier
                .handle_packet(flow, direction, &packet, room);
            self.buffered = self
                .buffered
                .saturating_sub(before)
                .saturating_add(flow.attachment.inspection.held());
            if inspecting {
                note(&mut self.endpoints, flow);
            }
        }
        self.counters.evicted = self.table.evicted();
        Seen { packet, place }
    }

    /// The flow of a packet that was just seen.
    pub(crate) fn flow_mut(&mut self, place: usize) -> Option<&mut Flow<Tracked<T>>> {
        self.table.flow_mut(place)
    }

    /// The same, to look at.
    pub(crate) fn flow(&self, place: usize) -> Option<&Flow<Tracked<T>>> {
        self.table.flow(place)
    }

    /// Flows that are not finished, in no order.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow<Tracked<T>>> {
        self.table.flows()
    }

    /// The next finished flow.
    pub(crate) fn poll_finished(&mut self) -> Option<Flow<Tracked<T>>> {
        let flow = self.table.poll_finished()?;
        self.buffered = self
            .buffered
            .saturating_sub(flow.attachment.inspection.held());
        self.counters.evicted = self.table.evicted();
        Some(flow)
    }

    /// Finishes all flows.
    pub(crate) fn finish(&mut self) {
        self.table.finish();
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Flows that are not finished.
    pub(crate) fn live_flows(&self) -> usize {
        self.table.len()
    }

    /// Bytes of streams' beginnings that are held.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// The flow's own verdict, weighed with what its endpoints were seen speaking elsewhere.
    pub(crate) fn conclude(&self, flow: &Flow<Tracked<T>>) -> Verdict {
        let inspection = &flow.attachment.inspection;
        let Some(verdict) = inspection.verdict() else {
            let evidence = if inspection.inspected() == 0 {
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
fn note<T>(endpoints: &mut Endpoints, flow: &Flow<Tracked<T>>) {
    let Some(verdict) = flow
        .attachment
        .inspection
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
