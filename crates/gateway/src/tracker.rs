//! The stages between packets and answers: flow, classify. What is done with the answers is up to whoever owns the tracker.

use std::time::Duration;

use crate::classify::{
    BITTORRENT, Classifier, Confidence, Endpoints, Inspection, PEER_TO_PEER, Verdict,
};
use crate::flow::{Flow, FlowTable, TableBounds};
use crate::limits::MAX_BUFFERED;
use crate::packet::{L4, Packet};

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

/// Follows flows and classifies them.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then [`poll_finished`](Self::poll_finished) until it answers
/// `None`; at the end [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub(crate) struct Tracker<T> {
    classifier: Classifier,
    table: FlowTable<Tracked<T>>,
    endpoints: Endpoints,
    buffered: usize,
}

impl<T: Default> Tracker<T> {
    pub(crate) fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        Self {
            classifier,
            table: FlowTable::new(bounds),
            endpoints: Endpoints::default(),
            buffered: 0,
        }
    }

    /// Takes in one packet; answers the place of its flow, valid until the next packet.
    pub(crate) fn handle_packet(&mut self, now: Duration, packet: &Packet<'_>) -> usize {
        let (place, direction) = self.table.handle_packet(now, packet);
        if let Some(flow) = self.table.flow_mut(place) {
            let before = flow.attachment.inspection.held();
            let room = MAX_BUFFERED.saturating_sub(self.buffered);
            let inspecting = !flow.attachment.inspection.is_done();
            self.classifier.handle_packet(flow, direction, packet, room);
            self.buffered = self
                .buffered
                .saturating_sub(before)
                .saturating_add(flow.attachment.inspection.held());
            if inspecting {
                note(&mut self.endpoints, flow);
            }
        }
        place
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
        Some(flow)
    }

    /// Finishes all flows.
    pub(crate) fn finish(&mut self) {
        self.table.finish();
    }

    /// Flows that were finished early because the table was full.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted()
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
