//! The thread that keeps the accounts: what the queues report of flows, and what the kernel
//! counted.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::error::ServiceError;
use super::quotas::{Quotas, QuotasConfig};
use super::refusals::Refusals;
use crate::accounting::{FlowAccount, Grouping, KernelFlow, Ledger, Row, Totals};
use crate::limits::{
    ACCOUNT_BACKLOG, ACCOUNT_PAUSE, ACCOUNT_SETTLES, AUDIT_BATCH, LOOK_FRESH, LOOK_SHARE,
    MAX_ACCOUNTS, QUOTA_LOOK,
};
use crate::linux::border::Border;
use crate::linux::conntrack::{BorderSides, Conntrack, Event, switch};
use crate::linux::priority::reset_priority;
use crate::policy::Policy;
use crate::quota::{OverQuota, QuotaRow, QuotaTotals};
use crate::verdict::Mode;

/// What crossed the border since the gateway began, by one grouping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// When this was, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What rows stand for.
    pub grouping: Grouping,
    /// Rows, in no order.
    pub rows: Vec<Row>,
    /// All flows together.
    pub totals: Totals,
    /// The kernel counts; else only packets that reached the gateway are in the figures.
    pub exact: bool,
    /// How often the kernel's events or the queues' reports found no room, and flows that did not.
    pub lost: u64,
}

/// Questions to the accounts.
#[derive(Debug)]
enum Ask {
    Known(Sender<Vec<FlowAccount>>),
    Top(Grouping, Sender<Top>),
    Quotas(Sender<Vec<QuotaRow>>),
    QuotaTotals(Sender<Vec<QuotaTotals>>),
    /// Quotas are counted by another policy, or carried out or not.
    Policy(Arc<Policy>, Mode),
}

/// Where the accounts are asked.
#[derive(Clone, Debug)]
pub struct AccountsHandle {
    asks: Sender<Ask>,
}

impl AccountsHandle {
    /// Flows that live, and those that the kernel has not forgotten yet; `None`: the accounts do
    /// not answer.
    pub(super) fn known(&self, patience: Duration) -> Option<Vec<FlowAccount>> {
        let (answer, answered) = channel();
        self.asks.send(Ask::Known(answer)).ok()?;
        answered.recv_timeout(patience).ok()
    }

    /// What crossed, by this grouping; `None`: the accounts do not answer.
    pub(super) fn top(&self, grouping: Grouping, patience: Duration) -> Option<Top> {
        let (answer, answered) = channel();
        self.asks.send(Ask::Top(grouping, answer)).ok()?;
        answered.recv_timeout(patience).ok()
    }

    /// What was used of quotas; `None`: the accounts do not answer.
    pub(super) fn quotas(&self, patience: Duration) -> Option<Vec<QuotaRow>> {
        let (answer, answered) = channel();
        self.asks.send(Ask::Quotas(answer)).ok()?;
        answered.recv_timeout(patience).ok()
    }

    /// How many use quotas, by rule; `None`: the accounts do not answer.
    pub(super) fn quota_totals(&self, patience: Duration) -> Option<Vec<QuotaTotals>> {
        let (answer, answered) = channel();
        self.asks.send(Ask::QuotaTotals(answer)).ok()?;
        answered.recv_timeout(patience).ok()
    }

    /// Another policy or mode is at work.
    pub(super) fn set_policy(&self, policy: Arc<Policy>, mode: Mode) {
        // Accounts that have ended by a fault have reported it.
        self.asks.send(Ask::Policy(policy, mode)).ok();
    }
}

/// Takes views of flows for the accounts, and counts those that it does not take.
#[derive(Clone, Debug)]
pub(super) struct Accountant {
    views: SyncSender<FlowAccount>,
    lost: Arc<AtomicU64>,
}

impl Accountant {
    /// Hands over a view, or counts it as lost.
    pub(super) fn note(&self, view: FlowAccount) {
        if self.views.try_send(view).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What becomes of reports: flows that have ended, and those that live for long.
pub(super) type Deliver = Box<dyn FnMut(FlowAccount) + Send>;

/// The running thread; it ends when all accountants are gone.
#[derive(Debug)]
pub(super) struct AccountsThread {
    accountant: Accountant,
    handle: AccountsHandle,
    over_quota: OverQuota,
    thread: JoinHandle<()>,
}

impl AccountsThread {
    /// Starts the thread. A kernel without connection tracking over netlink is no error: then the
    /// accounts hold what reached the gateway.
    pub(super) fn start(
        border: &Border,
        state: &Path,
        every: Duration,
        quotas: QuotasConfig,
        deliver: Deliver,
    ) -> Result<Self, ServiceError> {
        let (policy, zone, marks) = (
            Arc::clone(&quotas.policy),
            quotas.zone.clone(),
            quotas.marks,
        );
        let refusals = Refusals::new(policy, zone, marks);
        let quotas = Quotas::start(state, now(), quotas)?;
        let over_quota = quotas.over();
        if let Err(error) = switch::on(state) {
            tracing::warn!(%error, "the kernel does not count what it carries: figures hold only what reached the gateway");
        }
        let conntrack = Conntrack::open().inspect_err(|error| {
            tracing::warn!(%error, "no look at the kernel's connections (nf_conntrack_netlink): figures hold only what reached the gateway");
        });
        let sides = BorderSides::new(border.clone()).map_err(ServiceError::failed)?;
        let (views, viewed) = sync_channel(ACCOUNT_BACKLOG);
        let (asks, asked) = channel();
        let lost = Arc::new(AtomicU64::new(0));
        let mut accounts = Accounts {
            ledger: Ledger::new(now(), every),
            every,
            conntrack: conntrack.ok(),
            sides,
            quotas,
            refusals,
            closed: VecDeque::new(),
            looked: None,
            looked_at: Duration::ZERO,
            look_took: Duration::ZERO,
            lost: Arc::clone(&lost),
            deliver,
        };
        let thread = std::thread::Builder::new()
            .name("accounts".to_owned())
            .spawn(move || {
                reset_priority();
                accounts.run(&viewed, &asked);
                accounts.quotas.end();
            })
            .map_err(|error| {
                ServiceError::failed(format_args!("a thread did not start: {error}"))
            })?;
        Ok(Self {
            accountant: Accountant { views, lost },
            handle: AccountsHandle { asks },
            over_quota,
            thread,
        })
    }

    pub(super) fn accountant(&self) -> Accountant {
        self.accountant.clone()
    }

    pub(super) fn handle(&self) -> AccountsHandle {
        self.handle.clone()
    }

    /// Who is above a quota.
    pub(super) fn over_quota(&self) -> OverQuota {
        self.over_quota.clone()
    }

    /// Waits until all is reported. Accountants of the queues must be gone.
    pub(super) fn end(self) {
        drop(self.accountant);
        // A panic there was reported already.
        self.thread.join().ok();
    }
}

struct Accounts {
    ledger: Ledger,
    every: Duration,
    conntrack: Option<Conntrack>,
    sides: BorderSides,
    quotas: Quotas,
    refusals: Refusals,
    /// Connections that both ends have closed, and when their last packets have been counted.
    closed: VecDeque<(Duration, KernelFlow)>,
    /// When all connections were looked at last, since the Unix epoch too, and how long that took.
    looked: Option<Instant>,
    looked_at: Duration,
    look_took: Duration,
    lost: Arc<AtomicU64>,
    deliver: Deliver,
}

impl Accounts {
    fn run(&mut self, views: &Receiver<FlowAccount>, asks: &Receiver<Ask>) {
        self.look();
        let mut batch = Vec::new();
        loop {
            let ended = match views.recv_timeout(ACCOUNT_PAUSE) {
                Ok(view) => {
                    batch.push(view);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            batch.extend(views.try_iter().take(AUDIT_BATCH));
            self.turn(&mut batch);
            while let Ok(ask) = asks.try_recv() {
                self.answer(ask);
            }
            if ended {
                self.look();
                self.ledger.close(now());
            }
            while let Some(report) = self.ledger.poll_report() {
                self.quotas.handle_report(now(), &report);
                (self.deliver)(report);
            }
            if ended {
                return;
            }
        }
    }

    /// Takes in what has come.
    fn turn(&mut self, batch: &mut Vec<FlowAccount>) {
        let now = now();
        // The kernel's events first: they may end flows whose ports a view uses again.
        self.receive(now);
        for view in batch.drain(..) {
            let sides = &mut self.sides;
            self.ledger
                .handle_gateway(now, view, &mut |address| sides.side(address));
        }
        self.count_closed(now);
        self.ledger.handle_timeout(now);
        let pause = if self.ledger.wants_look() {
            LOOK_FRESH.max(self.look_took.saturating_mul(LOOK_SHARE))
        } else if self.quotas.is_wanted() || self.refusals.is_wanted() {
            QUOTA_LOOK.max(self.look_took.saturating_mul(LOOK_SHARE))
        } else {
            self.every
        };
        if self.looked.is_none_or(|looked| looked.elapsed() >= pause) {
            self.look();
        }
    }

    fn receive(&mut self, now: Duration) {
        let Some(conntrack) = &mut self.conntrack else {
            return;
        };
        let (ledger, sides, closed) = (&mut self.ledger, &mut self.sides, &mut self.closed);
        let received = conntrack.receive(now, &mut |event| match event {
            Event::Ended(flow) => {
                ledger.handle_kernel(now, &flow, false, &mut |address| sides.side(address));
            }
            Event::Changed(flow) if flow.is_closed && closed.len() < MAX_ACCOUNTS => {
                closed.push_back((now.saturating_add(ACCOUNT_SETTLES), flow));
            }
            Event::Changed(_) => {}
        });
        if let Err(error) = received {
            tracing::error!(%error, "the kernel's events of connections cannot be read any more: figures end with what reached the gateway");
            self.conntrack = None;
        }
    }

    /// Asks for the counts of connections that have been closed for a while.
    fn count_closed(&mut self, now: Duration) {
        let Some(conntrack) = &mut self.conntrack else {
            return;
        };
        let due = self.closed.partition_point(|(due, _)| *due <= now);
        let due: Vec<KernelFlow> = self.closed.drain(..due).map(|(_, flow)| flow).collect();
        let (ledger, sides) = (&mut self.ledger, &mut self.sides);
        let looked = conntrack.look_at(now, &due, &mut |flow| {
            // Its ports may have been taken by another since.
            ledger.handle_kernel(now, &flow, true, &mut |address| sides.side(address));
        });
        if let Err(error) = looked {
            tracing::warn!(%error, "closed connections are counted when the kernel forgets them");
        }
    }

    /// Looks at all that the kernel has.
    fn look(&mut self) {
        let (begun, now) = (Instant::now(), now());
        self.ledger.begin_look();
        self.quotas.begin_look(now);
        if let Some(conntrack) = &mut self.conntrack {
            let (ledger, sides) = (&mut self.ledger, &mut self.sides);
            let (quotas, refusals) = (&mut self.quotas, &mut self.refusals);
            let looked = conntrack.look(now, &mut |flow| {
                ledger.handle_kernel(now, &flow, true, &mut |address| sides.side(address));
                quotas.handle_kernel(now, &flow, ledger);
                refusals.handle_kernel(&flow, ledger);
            });
            if let Err(error) = looked {
                // A look that ended early says nothing of what it did not show.
                tracing::warn!(%error, "the kernel's connections were not looked at");
                self.looked = Some(Instant::now());
                return;
            }
            quotas.end_look(conntrack);
            refusals.end_look(conntrack);
        }
        self.ledger.end_look(now);
        self.look_took = begun.elapsed();
        self.looked = Some(Instant::now());
        self.looked_at = now;
    }

    fn answer(&mut self, ask: Ask) {
        // Figures of flows are as fresh as a look.
        let shows = !matches!(ask, Ask::QuotaTotals(_) | Ask::Policy(..));
        let fresh = |looked: Instant| looked.elapsed() < LOOK_FRESH;
        if shows && !self.looked.is_some_and(fresh) {
            self.look();
        }
        // Who has gone needs no answer.
        match ask {
            Ask::Known(answer) => {
                answer.send(self.ledger.known().cloned().collect()).ok();
            }
            Ask::Top(grouping, answer) => {
                answer.send(self.top(grouping)).ok();
            }
            Ask::Quotas(answer) => {
                answer.send(self.quotas.rows()).ok();
            }
            Ask::QuotaTotals(answer) => {
                answer.send(self.quotas.totals()).ok();
            }
            Ask::Policy(policy, mode) => {
                self.refusals.set_policy(Arc::clone(&policy), mode);
                self.quotas.set_policy(now(), policy, mode);
            }
        }
    }

    fn top(&self, grouping: Grouping) -> Top {
        let events = self.conntrack.as_ref().map_or(0, Conntrack::lost);
        let lost = self.lost.load(Ordering::Relaxed).saturating_add(events);
        // When the kernel's bytes were counted, not when they are asked for: rates are their
        // differences over the time between.
        let counted = self.conntrack.as_ref().map_or_else(now, |_| self.looked_at);
        Top {
            at_ms: u64::try_from(counted.as_millis()).unwrap_or(u64::MAX),
            grouping,
            rows: self.ledger.rows(grouping),
            totals: self.ledger.totals(),
            exact: self.conntrack.is_some() && switch::is_on() == Some(true),
            lost: lost.saturating_add(self.ledger.unaccounted()),
        }
    }
}

/// The time since the Unix epoch.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
