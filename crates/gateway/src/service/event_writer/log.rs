//! The writer's work: what it is given goes to the audit and to the places of EVE.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Record, Recorder, StateConfig, Written};
use crate::audit::{AuditStore, FileStore};
use crate::eve::{EveKind, EveKinds, FlowLog, StatsLog};
use crate::limits::{AUDIT_BATCH, AUDIT_FILE, AUDIT_PAUSE, AUDIT_TIDY, EVE_LINGER, EVE_LOOK};
use crate::service::GatewayStatus;
use crate::service::error::ServiceError;
use crate::service::eve::{EveOutputs, Line};
use crate::service::joined::Joined;
use crate::service::sensor::Sensors;
use crate::verdict::Event;

/// Where events are written, and how much of that is kept.
pub(super) struct EventLog {
    audit: AuditStore,
    audit_size: u64,
    joined: Joined,
    eve: EveOutputs,
    kinds: EveKinds,
    /// Nothing is written as EVE.
    no_eve: bool,
    sensors: Sensors,
    keep: Duration,
    store: FileStore,
    tidied: Option<Duration>,
    written: Arc<Written>,
    eve_only: Arc<AtomicUsize>,
    reopen: Arc<AtomicBool>,
}

/// What came at once.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    names: Vec<Event>,
    flows: Vec<FlowLog>,
}

impl Batch {
    fn push(&mut self, record: Record) {
        match record {
            Record::Event(event) => self.events.push(*event),
            Record::Names(event) => self.names.push(*event),
            Record::Flow(flow) => self.flows.push(*flow),
        }
    }
}

impl EventLog {
    /// Opens the audit and the EVE files.
    pub(super) fn open(
        state: &StateConfig,
        store: &FileStore,
        recorder: &Recorder,
        reopen: &Arc<AtomicBool>,
    ) -> Result<EventLog, ServiceError> {
        let audit =
            AuditStore::open(&state.folder.join(AUDIT_FILE)).map_err(ServiceError::failed)?;
        Ok(EventLog {
            audit,
            audit_size: state.audit_size,
            joined: Joined::default(),
            eve: EveOutputs::open(&state.eve).map_err(ServiceError::failed)?,
            kinds: state.eve.kinds,
            no_eve: state.eve.targets.is_empty(),
            sensors: Sensors::new(state.eve.sensor_name()),
            keep: state.keep,
            store: store.clone(),
            tidied: None,
            written: Arc::clone(&recorder.written),
            eve_only: Arc::clone(&recorder.eve_only),
            reopen: Arc::clone(reopen),
        })
    }

    /// Writes until no sender is left, and then what is left.
    pub(super) fn write(mut self, records: &Receiver<Record>) {
        let mut pause = AUDIT_PAUSE;
        loop {
            let mut batch = Batch::default();
            match records.recv_timeout(pause) {
                Ok(record) => batch.push(record),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            for record in records.try_iter().take(AUDIT_BATCH) {
                batch.push(record);
            }
            if self.reopen.swap(false, Ordering::Relaxed) {
                self.eve.reopen();
            }
            self.sift(batch.events);
            self.write_eve_only(batch.names, batch.flows);
            if let Some(status) = self.written.take_status() {
                self.write_status(&status);
            }
            let (lost, waits) = self.eve.flush();
            self.lose(lost);
            // A slow reader is looked after more often, as long as something waits for it.
            pause = if waits { EVE_LOOK } else { AUDIT_PAUSE };
            self.tidy();
        }
    }

    /// No more comes.
    fn end(mut self) {
        self.sift(Vec::new());
        let rest = self.joined.rest();
        self.flush(rest);
        let begun = Instant::now();
        while self.eve.flush().1 && begun.elapsed() < EVE_LINGER {
            std::thread::sleep(EVE_LOOK);
        }
        self.lose(self.eve.waiting());
    }

    /// Writes what is to be written of a batch.
    fn sift(&mut self, events: Vec<Event>) {
        let (written, left_out) = self.joined.sift(now(), events);
        self.written.left_out.fetch_add(left_out, Ordering::Relaxed);
        if !written.is_empty() {
            self.flush(written);
            self.make_room();
        }
    }

    /// The audit has a bound in bytes: the oldest events make room.
    fn make_room(&mut self) {
        match self.audit.shrink_to(self.audit_size) {
            Ok(0) => {}
            Ok(forgotten) => {
                let before = self
                    .written
                    .forgotten
                    .fetch_add(forgotten, Ordering::Relaxed);
                if before == 0 {
                    tracing::warn!(
                        bytes = self.audit_size,
                        "the audit is full (--audit-size): its oldest events make room"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, "the audit cannot be kept within its bound"),
        }
    }

    fn flush(&mut self, mut batch: Vec<Event>) {
        if batch.is_empty() {
            return;
        }
        for event in &mut batch {
            event.sensor = self.sensors.of(event.came_by);
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        match self.audit.append(&batch) {
            Ok(()) => self.written.events.fetch_add(count, Ordering::Relaxed),
            Err(error) => {
                // Traffic goes on without its audit: the count says so, and the disk may have room
                // again later.
                tracing::error!(%error, count, "events are lost");
                self.written.lost.fetch_add(count, Ordering::Relaxed)
            }
        };
        let lines = batch
            .iter()
            .map(|event| (event.eve_kind(), event.at, event));
        self.write_eve(lines.collect());
    }

    /// Writes what stands in no audit.
    fn write_eve_only(&mut self, mut names: Vec<Event>, mut flows: Vec<FlowLog>) {
        let count = names.len().saturating_add(flows.len());
        self.eve_only.fetch_sub(count, Ordering::Relaxed);
        for event in &mut names {
            event.sensor = self.sensors.of(event.came_by);
        }
        for flow in &mut flows {
            flow.sensor = self.sensors.of(0);
        }
        let lines = names
            .iter()
            .map(|event| (event.eve_kind(), event.at, event));
        self.write_eve(lines.collect());
        let lines = flows.iter().map(|flow| (EveKind::Flow, flow.ended, flow));
        self.write_eve(lines.collect());
    }

    fn write_status(&mut self, status: &GatewayStatus) {
        let at = now();
        let sensor = self.sensors.of(0);
        let stats = StatsLog {
            at,
            sensor: &sensor,
            uptime: status.uptime_s,
            packets: status.packets,
            dropped: status.dropped,
            flows: status.flows,
            evicted: status.evicted,
            ours: status,
        };
        self.write_eve(vec![(EveKind::Stats, at, &stats)]);
    }

    /// Writes to the places of EVE what is wanted there.
    fn write_eve<T: serde::Serialize>(&mut self, events: Vec<(EveKind, Duration, &T)>) {
        if self.no_eve {
            return;
        }
        let mut lines = Vec::new();
        for (kind, at, event) in events {
            if !self.kinds.has(kind) {
                continue;
            }
            match Line::of(kind, at, event) {
                Ok(line) => lines.push(line),
                Err(error) => {
                    tracing::error!(%error, "an event cannot be written");
                    self.lose(1);
                }
            }
        }
        if !lines.is_empty() {
            let lost = self.eve.append(&lines);
            self.lose(lost);
        }
    }

    fn lose(&self, count: u64) {
        self.written.eve_lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Forgets what is older than it is kept.
    fn tidy(&mut self) {
        let now = now();
        let due = self
            .tidied
            .is_none_or(|tidied| now.saturating_sub(tidied) >= AUDIT_TIDY);
        if !due {
            return;
        }
        self.tidied = Some(now);
        match self.audit.forget_before(now.saturating_sub(self.keep)) {
            Ok(early) => {
                self.written.forgotten.fetch_add(early, Ordering::Relaxed);
            }
            Err(error) => tracing::warn!(%error, "old events stay"),
        }
        if let Err(error) = self.store.tidy(0) {
            tracing::warn!(%error, "old files stay");
        }
    }
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
