//! The policy at work, trials of another one, and what is asked of the queues.

mod housekeeping;
mod lists;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::accounts::{AccountsHandle, Top};
use super::builder::NamedPolicy;
use super::error::ServiceError;
use super::event_writer::{Ended, Written};
use super::feed_faults::FeedFaults;
use super::policies::{check_requirements, parse_policy};
use super::reload::Reload;
use super::status::GatewayStatus;
use crate::SignatureSet;
use crate::accounting::{FlowAccount, Grouping};
use crate::limits::{QUEUE_ANSWER, RULES_LOOK};
use crate::linux::live::{Order, Totals};
use crate::policy::{Action, Policy};
use crate::quota::QuotaRow;
use crate::verdict::{LiveFlow, Mode, Why};

/// What a policy needs of the system: rules and classes.
pub trait System: Send + Sync + std::fmt::Debug {
    /// Puts the rules and classes of this policy in force; may wait for others who change them.
    ///
    /// # Errors
    /// The system refuses, maybe half-way.
    fn set_up(&self, policy: &Policy, mode: Mode) -> Result<(), ServiceError>;

    /// Puts rules and classes back where they are not as they were put in force; returns whether it
    /// had to.
    ///
    /// # Errors
    /// They cannot be looked at or put back.
    fn put_back(&self, policy: &Policy, mode: Mode) -> Result<bool, ServiceError>;
}

/// A policy as it is at work.
#[derive(Clone, Debug)]
struct InForce {
    mode: Mode,
    name: String,
    policy: Arc<Policy>,
}

/// A policy on trial: what was at work before comes back.
#[derive(Clone, Debug)]
struct Trial {
    until: Instant,
    before: InForce,
}

impl Trial {
    fn seconds_left(&self) -> u64 {
        let left = self.until.saturating_duration_since(Instant::now());
        left.as_secs()
    }
}

/// The policy at work, and what to go back to.
#[derive(Debug)]
struct State {
    now: InForce,
    trial: Option<Trial>,
}

/// Why the housekeeping wakes up before its time.
#[derive(Clone, Copy, Debug)]
enum Wake {
    /// There is another time at which a policy is taken back.
    Retimed,
    /// Somebody has changed the packet filter.
    RulesChanged,
    /// The gateway ends.
    Closed,
}

/// What a controller stands between.
#[derive(Debug)]
pub struct ControllerParts {
    /// Where the queues' loops take orders.
    pub queues: Vec<Sender<Order>>,
    /// Counts of what was written down.
    pub written: Arc<Written>,
    /// Where the accounts are asked, if there are any.
    pub accounts: Option<AccountsHandle>,
    /// What a policy needs of the machine.
    pub system: Box<dyn System>,
    /// The signatures that policies name applications by.
    pub signatures: SignatureSet,
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// There is a scanner.
    pub scans: bool,
    /// The policy at work.
    pub policy: NamedPolicy,
}

/// What the running gateway is asked: its state, its flows, another policy.
///
/// All methods may be called from any thread. Those that ask the queues wait for them, for at most
/// [`QUEUE_ANSWER`]; those that change the policy wait for tools of the system as well.
#[derive(Debug)]
pub struct Controller {
    queues: Vec<Sender<Order>>,
    written: Arc<Written>,
    accounts: Option<AccountsHandle>,
    system: Box<dyn System>,
    signatures: SignatureSet,
    began: Instant,
    /// There is a scanner.
    scans: bool,
    /// Held while another policy is put to work; true: none may be any more.
    changes: Mutex<bool>,
    /// Nothing is waited for while it is held.
    state: Mutex<State>,
    /// How often the rules had to be put back.
    put_back: AtomicU64,
    /// Why the last look at the rules came to nothing.
    not_looked_after: Mutex<Option<String>>,
    /// What is wrong with lists whose files have changed.
    feeds: Mutex<FeedFaults>,
    /// What came of the latest order to load the policy again.
    pub(super) reload: Mutex<Option<Reload>>,
    wake: Sender<Wake>,
    /// The housekeeping's, which is one thread.
    wakes: Mutex<Receiver<Wake>>,
}

/// Flows that are not over.
#[derive(Clone, Debug, Default)]
pub struct CrossingFlows {
    /// Those that the queues know.
    pub known: Vec<LiveFlow>,
    /// The others.
    pub others: Vec<FlowAccount>,
}

/// Another policy, as it is asked for.
#[derive(Clone, Debug)]
pub struct Apply<'a> {
    /// What it is called in messages.
    pub file: &'a Path,
    /// Its text.
    pub text: &'a str,
    /// Whether decisions are carried out; unchanged if absent.
    pub mode: Option<Mode>,
    /// Seconds after which everything is as before unless it is confirmed.
    pub confirm: Option<u64>,
}

impl Controller {
    /// A controller of these parts. [`GatewayBuilder`](super::GatewayBuilder) makes one; by itself
    /// it is for tests, with queues and a system that they play.
    #[must_use]
    pub fn new(parts: ControllerParts) -> Controller {
        let (wake, wakes) = channel();
        let NamedPolicy { name, policy } = parts.policy;
        let now = InForce {
            mode: parts.mode,
            name,
            policy,
        };
        Controller {
            queues: parts.queues,
            written: parts.written,
            accounts: parts.accounts,
            system: parts.system,
            signatures: parts.signatures,
            began: Instant::now(),
            scans: parts.scans,
            changes: Mutex::new(false),
            state: Mutex::new(State { now, trial: None }),
            put_back: AtomicU64::new(0),
            not_looked_after: Mutex::default(),
            feeds: Mutex::default(),
            reload: Mutex::default(),
            wake,
            wakes: Mutex::new(wakes),
        }
    }

    /// Waits for a change of policy that is under way; there is none after it.
    pub fn close(&self) {
        *held(&self.changes) = true;
        // It has ended by a fault, or was never begun.
        self.wake.send(Wake::Closed).ok();
    }

    /// Keeps the policy on trial; returns its name.
    ///
    /// # Errors
    /// No policy is on trial.
    pub fn confirm(&self) -> Result<String, ServiceError> {
        let mut state = held(&self.state);
        let confirmed = state
            .trial
            .take_if(|trial| trial.until > Instant::now())
            .is_some();
        self.retimed();
        if confirmed {
            Ok(state.now.name.clone())
        } else {
            Err(ServiceError::usage("nothing waits to be confirmed"))
        }
    }

    fn retimed(&self) {
        // Without housekeeping there is nothing to wake.
        self.wake.send(Wake::Retimed).ok();
    }

    /// Why a flow got what it got, by its number; `None` if it is not known.
    #[must_use]
    pub fn why(&self, flow: u64) -> Option<Box<Why>> {
        let known: Vec<Option<Box<Why>>> = self.ask(|answer| Order::Why(flow, answer));
        known.into_iter().flatten().next()
    }

    /// Whether decisions are carried out, and how many rules the policy at work has.
    #[must_use]
    pub fn in_force(&self) -> (Mode, usize) {
        let state = held(&self.state);
        (state.now.mode, state.now.policy.rules().len())
    }

    /// What the policy at work is called.
    pub(super) fn policy_name(&self) -> String {
        held(&self.state).now.name.clone()
    }

    /// Seconds until the policy on trial is taken back, if one is.
    pub(super) fn trial_left(&self) -> Option<u64> {
        held(&self.state).trial.as_ref().map(Trial::seconds_left)
    }

    /// Flows that are over, by application and action.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        self.written.ended()
    }

    /// What it does and has done.
    #[must_use]
    pub fn status(&self) -> GatewayStatus {
        let totals: Vec<Totals> = self.ask(Order::Totals);
        let accounts = self.accounts.as_ref();
        let quotas = accounts.and_then(|accounts| accounts.quota_totals(QUEUE_ANSWER));
        let state = held(&self.state);
        let sum = |part: &dyn Fn(&Totals) -> u64| totals.iter().map(part).sum();
        GatewayStatus {
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs(),
            mode: state.now.mode,
            policy: state.now.name.clone(),
            rules: state.now.policy.rules().len(),
            reverts_in_s: state.trial.as_ref().map(Trial::seconds_left),
            reload: self.last_reload(),
            queues: u64::try_from(totals.len()).unwrap_or(u64::MAX),
            queues_begun: u64::try_from(self.queues.len()).unwrap_or(u64::MAX),
            rules_put_back: self.put_back.load(Ordering::Relaxed),
            rules_not_looked_after: held(&self.not_looked_after).clone(),
            feeds: held(&self.feeds).status(&state.now.policy.feeds()),
            flows: sum(&|totals| u64::try_from(totals.flows).unwrap_or(u64::MAX)),
            packets: sum(&|totals| totals.counters.packets),
            dropped: sum(&|totals| totals.dropped),
            in_kernel: totals.iter().find_map(|totals| totals.in_kernel),
            terminated: totals.iter().find_map(|totals| totals.terminated),
            held: sum(&|totals| totals.held),
            scanned: sum(&|totals| totals.scanned),
            resets: sum(&|totals| totals.resets),
            resets_failed: sum(&|totals| totals.resets_failed),
            evicted: sum(&|totals| totals.counters.evicted),
            events: self.written.events.load(Ordering::Relaxed),
            events_lost: (self.written.lost.load(Ordering::Relaxed))
                .saturating_add(sum(&|totals| totals.events_lost)),
            eve_lost: self.written.eve_lost.load(Ordering::Relaxed),
            events_left_out: self.written.left_out.load(Ordering::Relaxed),
            events_forgotten: self.written.forgotten.load(Ordering::Relaxed),
            flows_missing: sum(&|totals| totals.flows_missing),
            quotas: quotas.unwrap_or_default(),
        }
    }

    /// The flows that are not over: those that queues know, the latest first, at most so many of
    /// each queue, with what the kernel has counted of them. Then the largest of the others, which
    /// passed without being asked about or were forgotten by their queue.
    #[must_use]
    pub fn flows(&self, most: usize) -> CrossingFlows {
        let flows: Vec<Vec<LiveFlow>> = self.ask(|answer| Order::Flows(most, answer));
        let mut known: Vec<LiveFlow> = flows.into_iter().flatten().collect();
        let accounts = self.accounts.as_ref();
        let Some(accounts) = accounts.and_then(|accounts| accounts.known(QUEUE_ANSWER)) else {
            let others = Vec::new();
            return CrossingFlows { known, others };
        };
        let accounts = accounts.into_iter();
        let mut counted: HashMap<u64, FlowAccount> =
            accounts.map(|account| (account.flow_id, account)).collect();
        // What is carried by the kernel ends without a word to the queue that decided it.
        known.retain(|flow| {
            let is_carried = flow.action.is_some_and(|action| action != Action::Block);
            !is_carried || counted.contains_key(&flow.flow_id)
        });
        for flow in &mut known {
            if let Some(account) = counted.remove(&flow.flow_id).filter(|one| one.exact) {
                let total = account.total();
                flow.record.packets = total.packets;
                flow.record.bytes = total.bytes;
            }
        }
        counted.retain(|_, account| account.ended.is_none());
        let mut others: Vec<FlowAccount> = counted.into_values().collect();
        others.sort_unstable_by_key(|flow| Reverse((flow.total().bytes, flow.flow_id)));
        others.truncate(most);
        CrossingFlows { known, others }
    }

    /// What crossed the border, by this grouping; `None`: there are no accounts, or they do not
    /// answer.
    #[must_use]
    pub fn top(&self, grouping: Grouping) -> Option<Top> {
        self.accounts.as_ref()?.top(grouping, QUEUE_ANSWER)
    }

    /// What hosts and members have used of quotas, the fullest first; `None`: there are no
    /// accounts, or they do not answer.
    #[must_use]
    pub fn quotas(&self) -> Option<Vec<QuotaRow>> {
        self.accounts.as_ref()?.quotas(QUEUE_ANSWER)
    }

    /// Asks all queues the same. One that does not answer is left out.
    fn ask<T>(&self, order: impl Fn(Sender<T>) -> Order) -> Vec<T> {
        let waiting: Vec<Receiver<T>> = self
            .queues
            .iter()
            .filter_map(|queue| {
                let (answer, receiver) = channel();
                queue.send(order(answer)).ok()?;
                Some(receiver)
            })
            .collect();
        let until = after(QUEUE_ANSWER);
        waiting
            .into_iter()
            .filter_map(|receiver| {
                let left = until.saturating_duration_since(Instant::now());
                receiver.recv_timeout(left).ok()
            })
            .collect()
    }

    /// A policy that is right, passes its own tests, and can be carried out here.
    fn tried(&self, file: &Path, text: &str) -> Result<Policy, Vec<String>> {
        let policy = parse_policy(file, text, &self.signatures)?;
        let failed: Vec<String> = policy
            .try_all()
            .into_iter()
            .filter(|outcome| !outcome.passed)
            .map(|outcome| {
                format!(
                    "{}:{}: test `{}` failed: expected {}, got {}",
                    file.display(),
                    outcome.line,
                    outcome.test,
                    outcome.expected,
                    outcome.got
                )
            })
            .collect();
        if !failed.is_empty() {
            return Err(failed);
        }
        check_requirements(&policy, self.scans).map_err(|failure| vec![failure.to_string()])?;
        Ok(policy)
    }

    /// Reads, tries and puts to work another policy; returns a text about it. Nothing changes if
    /// anything is wrong with it.
    ///
    /// # Errors
    /// A line for each fault of the policy or of what it needs.
    pub fn apply(&self, apply: &Apply<'_>) -> Result<String, Vec<String>> {
        let policy = self.tried(apply.file, apply.text)?;
        let trial = apply.confirm.map(Duration::from_secs);
        // Checked before anything changes: `put_in_force` adds it to the clock.
        if trial.is_some_and(|trial| Instant::now().checked_add(trial).is_none()) {
            return Err(vec![
                "the time to confirm is longer than a clock can measure: give at most some days"
                    .to_owned(),
            ]);
        }
        let closed = held(&self.changes);
        if *closed {
            return Err(vec!["the gateway is about to end".to_owned()]);
        }
        let before = held(&self.state).now.clone();
        let next = InForce {
            mode: apply.mode.unwrap_or(before.mode),
            name: apply.file.display().to_string(),
            // Marks of flows under way hold numbers of classes, which have to keep their meaning.
            policy: Arc::new(policy.after(&before.policy)),
        };
        let obey = self
            .put(&next)
            .map_err(|failure| vec![failure.to_string()])?;
        let name = next.name.clone();
        tracing::info!(policy = name, mode = ?next.mode, "another policy is at work");
        let when = self.put_in_force(next, trial);
        let queues = self.queues.len();
        Ok(if obey == queues {
            format!("{name} is at work {when}")
        } else {
            format!(
                "{name} is at work {when}, but only {obey} of {queues} queues answer: restart the gateway, its log says why"
            )
        })
    }

    /// Takes down that this policy is at work, and until when; returns that in words.
    fn put_in_force(&self, next: InForce, trial: Option<Duration>) -> String {
        let mut state = held(&self.state);
        let when = match trial {
            Some(trial) => {
                // What was confirmed last is what comes back, also after several attempts.
                let earlier = state.trial.take().map(|trial| trial.before);
                state.trial = Some(Trial {
                    until: after(trial),
                    before: earlier.unwrap_or_else(|| state.now.clone()),
                });
                format!(
                    "for {} s, unless `ringway gate confirm` comes",
                    trial.as_secs()
                )
            }
            None => {
                state.trial = None;
                "from now on".to_owned()
            }
        };
        state.now = next;
        drop(state);
        self.retimed();
        when
    }

    /// Brings the earlier policy back if its time has come.
    fn revert(&self) {
        let closed = held(&self.changes);
        let mut state = held(&self.state);
        // It may have been confirmed, or another one applied, up to now.
        let due = |trial: &&Trial| trial.until <= Instant::now();
        let Some(Trial { mut before, .. }) = state.trial.as_ref().filter(due).cloned() else {
            return;
        };
        // Flows may be in classes of the one that goes.
        before.policy = Arc::new(before.policy.as_ref().clone().after(&state.now.policy));
        if *closed {
            state.trial = None;
            return;
        }
        // Until it is done the policy on trial is at work, and nothing can be confirmed any more.
        drop(state);
        if let Err(failure) = self.put(&before) {
            tracing::error!(
                reason = %failure,
                "the earlier policy's rules did not come back: it is tried again"
            );
            if let Some(trial) = &mut held(&self.state).trial {
                trial.until = after(RULES_LOOK);
            }
            return;
        }
        tracing::warn!(
            policy = before.name,
            "not confirmed in time: the earlier policy is back"
        );
        let mut state = held(&self.state);
        state.now = before;
        state.trial = None;
    }

    /// Puts a policy to work; returns how many queues obey it. What the system refuses half-way is
    /// taken back there: the queues have the policy before, and the kernel must not pass what
    /// only another one lets pass.
    fn put(&self, next: &InForce) -> Result<usize, ServiceError> {
        let InForce { policy, mode, .. } = next;
        if let Err(failure) = self.system.set_up(policy, *mode) {
            let InForce { policy, mode, .. } = held(&self.state).now.clone();
            if let Err(again) = self.system.set_up(&policy, mode) {
                tracing::error!(reason = %again, "the rules before did not come back whole");
            }
            return Err(failure);
        }
        Ok(self.hand_out(next))
    }

    /// Gives a policy to the queues; returns how many obey it.
    fn hand_out(&self, next: &InForce) -> usize {
        let InForce { policy, mode, .. } = next;
        for queue in &self.queues {
            // A loop that has ended has said so in the log, and `gate status` misses it.
            queue.send(Order::Policy(Arc::clone(policy))).ok();
            queue.send(Order::Mode(*mode)).ok();
        }
        if let Some(accounts) = &self.accounts {
            accounts.set_policy(Arc::clone(policy), *mode);
        }
        // They obey in order: one that has answered this works by the new policy.
        let obeyed: Vec<Totals> = self.ask(Order::Totals);
        obeyed.len()
    }
}

/// So much later than now; now, where no clock can measure it.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

/// A lock; what a thread that ended by a fault has left is taken as it is.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something that must not end the thread by a fault, which is logged.
fn guarded(otherwise: &str, work: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        tracing::error!("{otherwise}");
    }
}

#[cfg(test)]
mod tests;
