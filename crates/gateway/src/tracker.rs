//! The stages between packets and answers: flow, classify. What is done with the answers is up to
//! whoever owns the tracker.

use std::time::Duration;

use crate::classify::{Classifier, Inspection, Surroundings, Verdict};
use crate::flow::{Calling, Flow, FlowTable, Seniority, TableBounds};
use crate::limits::{MAX_BUFFERED, MAX_FRESH};
use crate::packet::Packet;

/// What the tracker keeps with a flow: the classifier's state, and what its owner keeps there.
#[derive(Debug, Default)]
pub(crate) struct Tracked<T> {
    pub(crate) inspection: Inspection,
    /// The packet of the flow, from 1, that gave the best verdict so far.
    pub(crate) named_at: u64,
    /// The one that first named the application of that verdict.
    renamed_at: u64,
    /// Other flows may be told something new of this one.
    tells: bool,
    pub(crate) own: T,
}

impl<T> AsRef<Inspection> for Tracked<T> {
    fn as_ref(&self) -> &Inspection {
        &self.inspection
    }
}

impl<T> AsMut<Inspection> for Tracked<T> {
    fn as_mut(&mut self) -> &mut Inspection {
        &mut self.inspection
    }
}

/// Follows flows and classifies them.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then
/// [`poll_finished`](Self::poll_finished) until it answers `None`; at the end
/// [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub(crate) struct Tracker<T> {
    classifier: Classifier,
    table: FlowTable<Tracked<T>>,
    surroundings: Surroundings,
    buffered: usize,
    /// Flows that hold some of what is buffered.
    holders: Seniority,
}

impl<T: Default> Tracker<T> {
    pub(crate) fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        Self {
            classifier,
            table: FlowTable::new(bounds),
            surroundings: Surroundings::default(),
            buffered: 0,
            holders: Seniority::default(),
        }
    }

    /// Takes in one packet; answers the place of its flow, valid until the next packet.
    pub(crate) fn handle_packet(&mut self, now: Duration, packet: &Packet<'_>) -> usize {
        let (place, direction) = self.table.handle_packet(now, packet);
        let flow = self.table.flow_mut(place);
        if let Some(flow) = flow.filter(|flow| flow.calling(packet) == Calling::Own) {
            let before = flow.attachment.inspection.held();
            let room = MAX_BUFFERED.saturating_sub(self.buffered);
            let inspecting = !flow.attachment.inspection.is_done();
            let changes = flow.attachment.inspection.changes();
            let renames = flow.attachment.inspection.renames();
            let answered = is_answered(flow);
            self.classifier.handle_packet(flow, direction, packet, room);
            if flow.attachment.inspection.changes() != changes {
                flow.attachment.named_at = flow.packets;
            }
            if flow.attachment.inspection.renames() != renames {
                flow.attachment.renamed_at = flow.packets;
            }
            let (serial, after) = (flow.serial, flow.attachment.inspection.held());
            self.buffered = self.buffered.saturating_sub(before).saturating_add(after);
            let news = flow.attachment.inspection.take_news() || inspecting;
            flow.attachment.tells |= news || is_answered(flow) != answered;
            if before == 0 && after > 0 {
                self.holders.push(place, serial, holds(&self.table));
            }
        }
        self.make_room();
        place
    }

    /// Remembers what a flow's latest packets tell of its hosts, which others are judged by. Not to
    /// be called for what was refused: nobody is judged by what he could not do.
    pub(crate) fn learn(&mut self, place: usize) {
        let flow = self.table.flow_mut(place);
        if let Some(flow) = flow
            && std::mem::take(&mut flow.attachment.tells)
        {
            let answered = is_answered(flow);
            self.surroundings.note(flow, answered);
        }
    }

    /// Both sides take part in what the flow is said to be.
    pub(crate) fn is_answered(&self, place: usize) -> bool {
        self.table.flow(place).is_some_and(is_answered)
    }

    /// Forgets what was found in a flow: the next packet is judged as the first of one.
    pub(crate) fn forget(&mut self, place: usize) {
        self.release(place, Inspection::release);
        if let Some(flow) = self.table.flow_mut(place) {
            flow.attachment = Tracked::default();
        }
    }

    /// Whoever has kept bytes for longest without being known gives way to flows that are new: or a
    /// few thousand connections that say little and stay would hide all others.
    fn make_room(&mut self) {
        while self.buffered.saturating_add(MAX_FRESH) > MAX_BUFFERED {
            let Some(oldest) = self.holders.pop(holds(&self.table)) else {
                return;
            };
            self.release(oldest, Inspection::release);
        }
    }

    /// Nobody wants to know more of a flow.
    pub(crate) fn end_inspection(&mut self, place: usize) {
        self.release(place, Inspection::end);
    }

    fn release(&mut self, place: usize, how: impl FnOnce(&mut Inspection)) {
        if let Some(flow) = self.table.flow_mut(place) {
            let inspection = &mut flow.attachment.inspection;
            self.buffered = self.buffered.saturating_sub(inspection.held());
            how(inspection);
            self.buffered = self.buffered.saturating_add(inspection.held());
        }
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

    /// The same, to change.
    pub(crate) fn flows_mut(&mut self) -> impl Iterator<Item = &mut Flow<Tracked<T>>> {
        self.table.flows_mut()
    }

    /// The next finished flow.
    pub(crate) fn poll_finished(&mut self) -> Option<Flow<Tracked<T>>> {
        let flow = self.table.poll_finished()?;
        self.buffered = self
            .buffered
            .saturating_sub(flow.attachment.inspection.held());
        Some(flow)
    }

    /// A number for a flow that others have seen, and nobody here will.
    pub(crate) fn number_unseen(&mut self) -> u64 {
        self.table.number_unseen()
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

    /// What is known of other flows.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// Knows of other flows what these surroundings do, from now on.
    pub(crate) fn share_surroundings(&mut self, surroundings: &Surroundings) {
        self.surroundings = surroundings.clone();
    }

    /// A conversation has announced this flow.
    pub(crate) fn is_announced(&self, flow: &Flow<Tracked<T>>) -> bool {
        self.surroundings.names(flow)
    }

    /// The flow's own verdict, weighed with what its endpoints were seen doing elsewhere.
    pub(crate) fn conclude(&self, flow: &Flow<Tracked<T>>) -> Verdict {
        self.surroundings.conclude(flow)
    }
}

/// Both sides take part, and have since the application was named.
pub(crate) fn is_answered<T>(flow: &Flow<Tracked<T>>) -> bool {
    flow.is_answered(flow.attachment.renamed_at)
}

/// Whether a flow is still there, and keeps bytes.
fn holds<T: Default>(table: &FlowTable<Tracked<T>>) -> impl FnMut(usize, u64) -> bool {
    |place, serial| {
        table
            .flow(place)
            .is_some_and(|flow| flow.serial == serial && flow.attachment.inspection.held() > 0)
    }
}
