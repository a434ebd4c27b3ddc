//! The stages between packets and answers: flow, classify. What is done with the answers is up to
//! the tracker's owner.

use std::time::Duration;

use crate::classify::{Classifier, Inspection, Surroundings, Verdict};
use crate::flow::{Flow, FlowTable, Seniority, SynRole, TableBounds};
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
    /// There is something new of this flow for others.
    has_news: bool,
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

/// One flow, borrowed once for a packet or a moment, with what it takes to judge it.
#[derive(Debug)]
pub(crate) struct FlowEntry<'a, T> {
    pub(crate) flow: &'a mut Flow<Tracked<T>>,
    /// Where the table keeps it.
    pub(crate) slot: usize,
    surroundings: &'a Surroundings,
    buffered: &'a mut usize,
}

impl<T> FlowEntry<'_, T> {
    /// Remembers what the flow's latest packets show of its hosts, by which others are judged. Not
    /// to be called for what was refused: no host is judged by what it could not do.
    pub(crate) fn learn(&mut self) {
        if std::mem::take(&mut self.flow.attachment.has_news) {
            let answered = is_answered(self.flow);
            self.surroundings.note(self.flow, answered);
        }
    }

    /// Both sides take part in what the flow is said to be.
    pub(crate) fn is_answered(&self) -> bool {
        is_answered(self.flow)
    }

    /// A conversation has announced this flow.
    pub(crate) fn is_announced(&self) -> bool {
        self.surroundings.names(self.flow)
    }

    /// The flow's own verdict, weighed with what its endpoints were seen doing elsewhere.
    pub(crate) fn conclude(&self) -> Verdict {
        self.surroundings.conclude(self.flow)
    }

    /// Ends the classifier's work on the flow.
    pub(crate) fn end_inspection(&mut self) {
        self.release(Inspection::end);
    }

    fn release(&mut self, how: impl FnOnce(&mut Inspection)) {
        let inspection = &mut self.flow.attachment.inspection;
        let before = inspection.held();
        how(inspection);
        *self.buffered = self
            .buffered
            .saturating_sub(before)
            .saturating_add(inspection.held());
    }
}

impl<T: Default> FlowEntry<'_, T> {
    /// Forgets what was found in the flow: the next packet is judged as the first of one.
    pub(crate) fn forget(&mut self) {
        self.release(Inspection::release);
        self.flow.attachment = Tracked::default();
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
    /// A flow that has begun to hold something with the latest packet: its slot and serial.
    holder: Option<(usize, u64)>,
}

impl<T: Default> Tracker<T> {
    pub(crate) fn new(classifier: Classifier, bounds: TableBounds) -> Self {
        Self {
            classifier,
            table: FlowTable::new(bounds),
            surroundings: Surroundings::default(),
            buffered: 0,
            holders: Seniority::default(),
            holder: None,
        }
    }

    /// Takes in one packet and classifies its flow, which it gives back.
    pub(crate) fn handle_packet(
        &mut self,
        now: Duration,
        packet: &Packet<'_>,
    ) -> Option<FlowEntry<'_, T>> {
        self.make_room();
        let (slot, direction) = self.table.handle_packet(now, packet);
        let flow = self.table.flow_mut(slot)?;
        // What belongs to another connection of the same ends says nothing of this one.
        if flow.syn_role(packet) == SynRole::Own {
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
            let after = flow.attachment.inspection.held();
            self.buffered = self.buffered.saturating_sub(before).saturating_add(after);
            let news = flow.attachment.inspection.take_news() || inspecting;
            flow.attachment.has_news |= news || is_answered(flow) != answered;
            if before == 0 && after > 0 {
                self.holder = Some((slot, flow.serial));
            }
        }
        Some(FlowEntry {
            flow,
            slot,
            surroundings: &self.surroundings,
            buffered: &mut self.buffered,
        })
    }

    /// The flow of this serial, if it is still in its slot.
    pub(crate) fn entry(&mut self, slot: usize, serial: u64) -> Option<FlowEntry<'_, T>> {
        let flow = self.table.flow_mut(slot)?;
        (flow.serial == serial).then_some(FlowEntry {
            flow,
            slot,
            surroundings: &self.surroundings,
            buffered: &mut self.buffered,
        })
    }

    /// What has been kept for longest of a flow without a name gives way to flows that are new: or
    /// a few thousand connections that say little and stay would hide all others.
    fn make_room(&mut self) {
        if let Some((slot, serial)) = self.holder.take() {
            self.holders.push(slot, serial, holds(&self.table));
        }
        while self.buffered.saturating_add(MAX_FRESH) > MAX_BUFFERED {
            let Some((slot, serial)) = self.holders.pop(holds(&self.table)) else {
                return;
            };
            if let Some(mut entry) = self.entry(slot, serial) {
                entry.release(Inspection::release);
            }
        }
    }

    /// The flow of this serial, to look at, if it is still in its slot.
    pub(crate) fn flow(&self, slot: usize, serial: u64) -> Option<&Flow<Tracked<T>>> {
        self.table.flow(slot).filter(|flow| flow.serial == serial)
    }

    /// Flows that are not finished, in no order.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow<Tracked<T>>> {
        self.table.flows()
    }

    /// The same with the slots that they are in.
    pub(crate) fn flows_with_slots(&self) -> impl Iterator<Item = (usize, &Flow<Tracked<T>>)> {
        self.table.flows_with_slots()
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

    /// A number for a flow that others have seen, and this tracker will not.
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
    |slot, serial| {
        table
            .flow(slot)
            .is_some_and(|flow| flow.serial == serial && flow.attachment.inspection.held() > 0)
    }
}
