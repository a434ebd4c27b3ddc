//! One flow of a group: what it sent, and whether it uses what it gets.

use std::time::Instant;

use super::numbers::Numbers;
use crate::limits::MIN_WEIGHT;
use crate::priority::Priority;
use crate::report::Report;
use crate::sample::{AckSample, LossSample};

/// Service, in bytes for each unit of weight, up to which a 64-bit float counts single bytes with
/// room to spare.
const EXACT: f64 = 1e12;

/// Which of a group's controllers a flow is under.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Weighted,
    Scavenger,
}

impl Kind {
    pub(super) fn of(priority: Priority) -> Kind {
        if priority.is_scavenger() {
            Kind::Scavenger
        } else {
            Kind::Weighted
        }
    }
}

/// The batch of acknowledgements that is coming in.
#[derive(Copy, Clone, Debug, Default)]
struct Batch {
    bytes: u64,
    /// Whether the window, not the application, held sending back.
    window_limited: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) priority: Priority,
    pub(super) datagram: u64,
    pub(super) in_flight: u64,
    /// Whether it has lately used what it may. Others share what it does not use.
    pub(super) busy: bool,
    /// When it last did.
    pub(super) used_at: Instant,
    /// Bytes sent and not lost ÷ weight, from an origin that all flows of the kind have in common.
    pub(super) served: f64,
    numbers: Numbers,
    batch: Batch,
    sent: u64,
    acked: u64,
    lost: u64,
}

impl Flow {
    pub(super) fn new(now: Instant, priority: Priority, datagram: u64) -> Flow {
        Flow {
            priority,
            datagram,
            in_flight: 0,
            busy: false,
            used_at: now,
            served: 0.0,
            numbers: Numbers::default(),
            batch: Batch::default(),
            sent: 0,
            acked: 0,
            lost: 0,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::of(self.priority)
    }

    /// Flows of priority 0 are equal among themselves.
    pub(super) fn weight(&self) -> f64 {
        match self.kind() {
            Kind::Weighted => self.priority.get().max(MIN_WEIGHT),
            Kind::Scavenger => 1.0,
        }
    }

    pub(super) fn on_sent(&mut self, packet: u64, number: u64, bytes: u64) {
        self.numbers.record(packet, number);
        self.sent = self.sent.saturating_add(bytes);
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.served += bytes as f64 / self.weight();
    }

    pub(super) fn needs_rebase(&self) -> bool {
        self.served > EXACT
    }

    /// The group's number of the packet.
    pub(super) fn on_ack(&mut self, sample: &AckSample) -> u64 {
        self.acked = self.acked.saturating_add(sample.bytes);
        self.batch.bytes = self.batch.bytes.saturating_add(sample.bytes);
        self.batch.window_limited |= !sample.app_limited;
        self.numbers.of(sample.packet)
    }

    /// The group's number of the packet.
    pub(super) fn on_loss(&mut self, sample: &LossSample) -> u64 {
        self.lost = self.lost.saturating_add(sample.bytes);
        // What is lost was no service, and will be sent again.
        self.served -= sample.bytes as f64 / self.weight();
        self.numbers.of(sample.packet)
    }

    /// The group's number of the packet.
    pub(super) fn on_spurious_loss(&mut self, sample: &LossSample) -> u64 {
        self.lost = self.lost.saturating_sub(sample.bytes);
        self.served += sample.bytes as f64 / self.weight();
        self.numbers.of(sample.packet)
    }

    /// True if the flow uses its `window`. As in
    /// [`Controller::on_ack_batch_end`](crate::Controller::on_ack_batch_end), half of it will do.
    pub(super) fn on_batch_end(&mut self, now: Instant, in_flight: u64, window: u64) -> bool {
        let batch = std::mem::take(&mut self.batch);
        self.in_flight = in_flight;
        let used = in_flight
            .saturating_add(batch.bytes)
            .saturating_add(self.datagram);
        let uses = batch.window_limited && window <= used.saturating_mul(2);
        if uses {
            self.used_at = now;
            self.busy = true;
        }
        uses
    }

    pub(super) fn count_into(&self, report: &mut Report) {
        report.sent_bytes = self.sent;
        report.acked_bytes = self.acked;
        report.lost_bytes = self.lost;
    }
}
