//! Quotas beside the accounts: flows are charged with each look at the kernel's, those of hosts
//! above a quota are moved, and what was used is written down.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;

use super::error::ServiceError;
use crate::accounting::{FlowAccount, KernelFlow, Ledger};
use crate::audit::QuotaStore;
use crate::limits::{QUOTA_FILE, QUOTA_SAVED};
use crate::linux::conntrack::Conntrack;
use crate::linux::marks::Marks;
use crate::linux::priority::reset_priority;
use crate::policy::Policy;
use crate::quota::{
    OverQuota, QuotaBook, QuotaMeter, QuotaRow, QuotaTotals, SavedCounter, SavedFlow,
};
use crate::verdict::{Event, Mode, Offload};

/// What becomes of events.
pub(super) type RecordEvent = Box<dyn FnMut(Event) + Send>;

/// By what quotas are counted.
pub(super) struct QuotasConfig {
    /// The zone of their periods.
    pub(super) zone: TimeZone,
    /// The policy at work.
    pub(super) policy: Arc<Policy>,
    /// Whether decisions are carried out.
    pub(super) mode: Mode,
    /// The bits of marks.
    pub(super) marks: Marks,
    /// Takes what is reported of quotas that were passed.
    pub(super) record: RecordEvent,
}

/// The quotas of a running gateway.
pub(super) struct Quotas {
    meter: QuotaMeter,
    policy: Arc<Policy>,
    mode: Mode,
    marks: Marks,
    over: OverQuota,
    record: RecordEvent,
    /// Marks that flows have to get once the look is over.
    due: Vec<(KernelFlow, Offload)>,
    /// Marking failed, which the log has told.
    refused: bool,
    writer: QuotaWriter,
}

impl Quotas {
    /// Takes up what an earlier run has counted, and begins to count.
    pub(super) fn start(
        state: &Path,
        now: Duration,
        config: QuotasConfig,
    ) -> Result<Self, ServiceError> {
        let store = QuotaStore::open(&state.join(QUOTA_FILE)).map_err(ServiceError::failed)?;
        let (counters, flows) = store.load().map_err(ServiceError::failed)?;
        let mut book = QuotaBook::new(config.zone);
        book.load(counters);
        let mut meter = QuotaMeter::new(book);
        meter.load(flows);
        meter.set_policy(now, &config.policy, config.mode);
        let mut quotas = Self {
            meter,
            policy: config.policy,
            mode: config.mode,
            marks: config.marks,
            over: OverQuota::default(),
            record: config.record,
            due: Vec::new(),
            refused: false,
            writer: QuotaWriter::start(store)?,
        };
        // Before the first packet, so that who was above a quota is so from the beginning.
        quotas.publish();
        Ok(quotas)
    }

    /// Who is above a quota, for the queues.
    pub(super) fn over(&self) -> OverQuota {
        self.over.clone()
    }

    /// Another policy or mode is at work.
    pub(super) fn set_policy(&mut self, now: Duration, policy: Arc<Policy>, mode: Mode) {
        self.meter.set_policy(now, &policy, mode);
        (self.policy, self.mode) = (policy, mode);
        self.publish();
    }

    /// Flows have to be looked at often.
    pub(super) fn is_wanted(&self) -> bool {
        self.meter.book().is_wanted()
    }

    pub(super) fn begin_look(&mut self, now: Duration) {
        self.meter.begin_look(now);
        self.due.clear();
    }

    /// A flow that the look shows, which the ledger has taken in.
    pub(super) fn handle_kernel(&mut self, now: Duration, kernel: &KernelFlow, ledger: &Ledger) {
        let Some((known, asks)) = ledger.find(kernel.ends) else {
            return;
        };
        let mark = self.marks.read(kernel.mark);
        let wanted = self.meter.handle_kernel(now, kernel, known, mark, asks);
        if let Some(wanted) = wanted {
            self.due.push((*kernel, wanted));
        }
        self.tell(now, known);
    }

    /// The look is over: flows get their marks.
    pub(super) fn end_look(&mut self, conntrack: &mut Conntrack) {
        self.meter.end_look();
        // The queues first: packets of the flows that are marked may come there at once.
        self.publish();
        for (flow, verdict) in self.due.drain(..) {
            let marked = conntrack.mark(&flow, self.marks, verdict);
            if let Err(error) = marked
                && !std::mem::replace(&mut self.refused, true)
            {
                tracing::error!(%error, "flows whose quota is used up cannot be moved: new ones are");
            }
        }
        self.writer.save(&mut self.meter, false);
    }

    /// A flow that is over, or lives for long.
    pub(super) fn handle_report(&mut self, now: Duration, flow: &FlowAccount) {
        self.meter.handle_report(now, flow);
        self.tell(now, flow);
    }

    /// Reports quotas that this flow has used up.
    fn tell(&mut self, now: Duration, flow: &FlowAccount) {
        while let Some(passed) = self.meter.book_mut().poll_passed() {
            tracing::info!(rule = passed.rule, of = %passed.subject, used = passed.used, "a quota is used up");
            let event = Event::of_quota(now, &passed, flow, &self.policy, self.mode);
            (self.record)(event);
            self.writer.hurry();
        }
    }

    fn publish(&mut self) {
        if let Some(above) = self.meter.book_mut().poll_above() {
            self.over.set(above);
        }
    }

    /// All that is counted, the fullest first.
    pub(super) fn rows(&self) -> Vec<QuotaRow> {
        self.meter.book().rows()
    }

    /// How many there are, by rule.
    pub(super) fn totals(&self) -> Vec<QuotaTotals> {
        self.meter.book().totals()
    }

    /// Writes all down and ends.
    pub(super) fn end(mut self) {
        self.writer.save(&mut self.meter, true);
        self.writer.end();
    }
}

type Batch = (Vec<SavedCounter>, Vec<SavedFlow>);

/// Writes quotas down in a thread of its own: a slow disk does not keep flows from being moved.
struct QuotaWriter {
    batches: SyncSender<Batch>,
    thread: JoinHandle<()>,
    /// What the thread had no room for.
    waiting: Batch,
    saved: Option<Instant>,
}

impl QuotaWriter {
    fn start(mut store: QuotaStore) -> Result<Self, ServiceError> {
        // One that is written, and one that waits.
        let (batches, received): (_, Receiver<Batch>) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("quotas".to_owned())
            .spawn(move || {
                reset_priority();
                for (counters, flows) in received {
                    if let Err(error) = store.save(&counters, &flows) {
                        tracing::error!(%error, "what was used of quotas is not written down");
                    }
                }
            })
            .map_err(|error| {
                ServiceError::failed(format_args!("a thread did not start: {error}"))
            })?;
        Ok(Self {
            batches,
            thread,
            waiting: Batch::default(),
            saved: Some(Instant::now()),
        })
    }

    /// The next look writes, whenever the last one did.
    fn hurry(&mut self) {
        self.saved = None;
    }

    /// Writes what has changed, if it is time to, or if it is the last time.
    fn save(&mut self, meter: &mut QuotaMeter, last: bool) {
        if !last && self.saved.is_some_and(|at| at.elapsed() < QUOTA_SAVED) {
            return;
        }
        self.saved = Some(Instant::now());
        // Later rows take the place of earlier ones.
        self.waiting.0.extend(meter.book_mut().take_unsaved());
        self.waiting.1.extend(meter.take_unsaved());
        let batch = std::mem::take(&mut self.waiting);
        if batch.0.is_empty() && batch.1.is_empty() {
            return;
        }
        if last {
            // A thread that has ended by a fault has reported it.
            self.batches.send(batch).ok();
        } else if let Err(TrySendError::Full(batch)) = self.batches.try_send(batch) {
            self.waiting = batch;
        }
    }

    fn end(self) {
        drop(self.batches);
        // A panic there was reported already.
        self.thread.join().ok();
    }
}
