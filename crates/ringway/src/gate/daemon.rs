//! What the running gateway answers over its control socket.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringway_gateway::SignatureSet;
use ringway_gateway::linux::live::{Order, Totals};
use ringway_gateway::policy::Policy;
use ringway_gateway::verdict::{LiveFlow, Mode, Why};
use ringway_node::control::ControlSocket;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, sleep_until, timeout};

use super::message::{Reply, Request, Status};
use super::rules;
use super::up::{ANSWER, can_be_carried_out};
use super::writer::{Ended, Written};
use crate::limits::{GATE_FLOWS, GATE_REQUEST, GATE_REQUEST_TIME, GATE_REQUESTS, RULES_LOOK};
use ringway_terminal::Failure;

/// What a policy needs of the system: rules and classes.
pub(super) trait System: Send + Sync {
    /// Puts the rules and classes of this policy in force; may wait for others who change them.
    fn set_up(&self, policy: &Policy, mode: Mode) -> Result<(), Failure>;

    /// Puts rules and classes back where they are not as they were put in force; answers whether it
    /// had to.
    fn put_back(&self, policy: &Policy, mode: Mode) -> Result<bool, Failure>;
}

/// The policy at work, and what to go back to.
struct State {
    mode: Mode,
    name: String,
    policy: Arc<Policy>,
    /// What was at work before, and when it comes back.
    earlier: Option<(Instant, Mode, String, Arc<Policy>)>,
}

/// The running gateway.
pub(super) struct Daemon {
    queues: Vec<Sender<Order>>,
    written: Arc<Written>,
    system: Box<dyn System>,
    signatures: SignatureSet,
    began: Instant,
    /// There is a scanner.
    scans: bool,
    /// Whoever puts another policy to work holds it; true: nobody may any more.
    changes: Mutex<bool>,
    /// Nobody waits for anything while holding it.
    state: Mutex<State>,
    /// How often the rules had to be put back.
    put_back: AtomicU64,
    /// Why the last look at the rules came to nothing.
    not_looked_after: Mutex<Option<String>>,
    /// Rung when there is another time at which a policy is taken back.
    retimed: Notify,
}

impl Daemon {
    pub(super) fn new(
        queues: Vec<Sender<Order>>,
        written: Arc<Written>,
        system: Box<dyn System>,
        signatures: SignatureSet,
        (mode, scans): (Mode, bool),
        (name, policy): (String, Arc<Policy>),
    ) -> Daemon {
        Daemon {
            queues,
            written,
            system,
            signatures,
            began: Instant::now(),
            scans,
            changes: Mutex::new(false),
            state: Mutex::new(State {
                mode,
                name,
                policy,
                earlier: None,
            }),
            put_back: AtomicU64::new(0),
            not_looked_after: Mutex::default(),
            retimed: Notify::new(),
        }
    }

    /// Answers for ever, takes back what nobody confirmed, and puts back rules that others take
    /// out, whoever is being answered; it looks for these as often as `rules_look` says.
    pub(super) async fn serve(self: &Arc<Self>, socket: &ControlSocket, rules_look: Duration) {
        tokio::join!(
            self.answer_all(socket),
            self.take_back(),
            self.look_after_rules(rules_look)
        );
    }

    async fn look_after_rules(self: &Arc<Self>, rules_look: Duration) {
        loop {
            sleep(rules_look).await;
            let daemon = Arc::clone(self);
            if let Err(error) = spawn_blocking(move || daemon.put_back()).await {
                tracing::error!(%error, "the rules were not looked after");
            }
        }
    }

    /// Puts the rules back if somebody has changed them: a firewall that loads its own anew takes
    /// out all others, and with them the gateway.
    fn put_back(&self) {
        let closed = held(&self.changes);
        if *closed {
            return;
        }
        let (policy, mode) = {
            let state = held(&self.state);
            (Arc::clone(&state.policy), state.mode)
        };
        let looked = self.system.put_back(&policy, mode);
        if let Ok(true) = looked {
            self.put_back.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "another program changed the gateway's rules or classes, or put rules before them: they are back"
            );
        }
        let fault = looked.err().map(|failure| failure.message().to_owned());
        let mut known = held(&self.not_looked_after);
        if let Some(reason) = fault.as_ref().filter(|_| fault != *known) {
            tracing::error!(
                reason,
                "whether another program changed the gateway's rules is not known, or they could not be put back"
            );
        }
        *known = fault;
    }

    /// Waits for a change of policy that is under way; there is none after it.
    pub(super) fn close(&self) {
        *held(&self.changes) = true;
    }

    async fn answer_all(self: &Arc<Self>, socket: &ControlSocket) {
        let places = Arc::new(Semaphore::new(GATE_REQUESTS));
        // It is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let stream = socket.accept().await;
            let daemon = Arc::clone(self);
            tokio::spawn(async move {
                match timeout(GATE_REQUEST_TIME, daemon.answer(stream, place)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "a control connection ended"),
                    Err(_) => tracing::debug!("a control connection was too slow"),
                }
            });
        }
    }

    async fn take_back(self: &Arc<Self>) {
        loop {
            let due = held(&self.state).earlier.as_ref().map(|(at, ..)| *at);
            let time = async {
                match due {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.retimed.notified() => {}
                () = time => {
                    let daemon = Arc::clone(self);
                    if let Err(error) = spawn_blocking(move || daemon.revert()).await {
                        tracing::error!(%error, "the earlier policy did not come back");
                    }
                }
            }
        }
    }

    async fn answer(
        self: &Arc<Self>,
        stream: UnixStream,
        place: OwnedSemaphorePermit,
    ) -> std::io::Result<()> {
        // Work that outlasts its connection keeps the place.
        let place = Arc::new(place);
        let (reader, mut writer) = stream.into_split();
        let mut line = Vec::new();
        BufReader::new(reader.take(GATE_REQUEST))
            .read_until(b'\n', &mut line)
            .await?;
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => {
                let (daemon, place) = (Arc::clone(self), Arc::clone(&place));
                let work = spawn_blocking(move || {
                    let _place = place;
                    daemon.reply(request)
                });
                work.await.map_err(std::io::Error::other)?
            }
            Err(error) => Reply::Refused(vec![format!("no request: {error}")]),
        };
        let mut bytes = serde_json::to_vec(&reply)?;
        bytes.push(b'\n');
        writer.write_all(&bytes).await
    }

    /// Answers; waits for queues, and for tools where a policy changes.
    fn reply(&self, request: Request) -> Reply {
        match request {
            Request::Status => Reply::Status(Box::new(self.status())),
            Request::Flows { most } => Reply::Flows(self.flows(most.min(GATE_FLOWS))),
            Request::Why { flow } => {
                let known: Vec<Option<Box<Why>>> = self.ask(|answer| Order::Why(flow, answer));
                Reply::Why(known.into_iter().flatten().next())
            }
            Request::Apply {
                file,
                text,
                mode,
                confirm,
            } => match self.apply(&file, &text, mode, confirm) {
                Ok(done) => Reply::Done(done),
                Err(reasons) => Reply::Refused(reasons),
            },
            Request::Confirm => {
                let mut state = held(&self.state);
                self.retimed.notify_one();
                match state.earlier.take_if(|(at, ..)| *at > Instant::now()) {
                    Some(_) => Reply::Done(format!("{} stays", state.name)),
                    None => Reply::Refused(vec!["nothing waits to be confirmed".to_owned()]),
                }
            }
        }
    }

    /// Flows that are over.
    pub(super) fn ended(&self) -> Vec<Ended> {
        self.written.ended()
    }

    /// What it does and has done; waits for the queues.
    pub(super) fn status(&self) -> Status {
        let totals: Vec<Totals> = self.ask(Order::Totals);
        let state = held(&self.state);
        let sum = |part: &dyn Fn(&Totals) -> u64| totals.iter().map(part).sum();
        Status {
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs(),
            mode: state.mode,
            policy: state.name.clone(),
            rules: state.policy.rules().len(),
            reverts_in_s: state
                .earlier
                .as_ref()
                .map(|(at, ..)| at.saturating_duration_since(Instant::now()).as_secs()),
            queues: u64::try_from(totals.len()).unwrap_or(u64::MAX),
            queues_begun: u64::try_from(self.queues.len()).unwrap_or(u64::MAX),
            rules_put_back: self.put_back.load(Ordering::Relaxed),
            rules_not_looked_after: held(&self.not_looked_after).clone(),
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
            events_left_out: self.written.left_out.load(Ordering::Relaxed),
            events_forgotten: self.written.forgotten.load(Ordering::Relaxed),
            flows_missing: sum(&|totals| totals.flows_missing),
        }
    }

    fn flows(&self, most: usize) -> Vec<LiveFlow> {
        let flows: Vec<Vec<LiveFlow>> = self.ask(|answer| Order::Flows(most, answer));
        flows.into_iter().flatten().collect()
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
        let until = Instant::now() + ANSWER;
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
        let policy = rules::parsed(file, text, &self.signatures)?;
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
        can_be_carried_out(&policy, self.scans)
            .map_err(|failure| vec![failure.message().to_owned()])?;
        Ok(policy)
    }

    /// Reads, tries and puts to work another policy. Nothing changes if anything is wrong with it.
    fn apply(
        &self,
        file: &Path,
        text: &str,
        mode: Option<Mode>,
        confirm: Option<u64>,
    ) -> Result<String, Vec<String>> {
        let policy = self.tried(file, text)?;
        let trial = confirm.map(Duration::from_secs);
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
        let mode = mode.unwrap_or(held(&self.state).mode);
        let policy = Arc::new(policy.after(&held(&self.state).policy));
        let obey = self
            .put(&policy, mode)
            .map_err(|failure| vec![failure.message().to_owned()])?;
        let name = file.display().to_string();
        let mut state = held(&self.state);
        let told = match trial {
            Some(trial) => {
                let at = Instant::now() + trial;
                // What was confirmed last is what comes back, also after several attempts.
                let (_, mode, name, policy) = state.earlier.take().unwrap_or_else(|| {
                    (
                        at,
                        state.mode,
                        state.name.clone(),
                        Arc::clone(&state.policy),
                    )
                });
                state.earlier = Some((at, mode, name, policy));
                format!(
                    "for {} s, unless `ringway gate confirm` comes",
                    trial.as_secs()
                )
            }
            None => {
                state.earlier = None;
                "from now on".to_owned()
            }
        };
        (state.mode, state.policy) = (mode, policy);
        state.name.clone_from(&name);
        drop(state);
        self.retimed.notify_one();
        tracing::info!(policy = name, ?mode, "another policy is at work");
        let queues = self.queues.len();
        Ok(match obey == queues {
            true => format!("{name} is at work {told}"),
            false => format!(
                "{name} is at work {told}, but only {obey} of {queues} queues answer: restart the gateway, its log says why"
            ),
        })
    }

    /// Brings the earlier policy back if its time has come.
    fn revert(&self) {
        let closed = held(&self.changes);
        let mut state = held(&self.state);
        // Somebody may have confirmed it, or applied another one, up to now.
        let due = |(at, ..): &&(Instant, _, _, _)| *at <= Instant::now();
        let Some((_, mode, name, policy)) = state.earlier.as_ref().filter(due).cloned() else {
            return;
        };
        // Flows may be in classes of the one that goes.
        let policy = Arc::new(policy.as_ref().clone().after(&state.policy));
        if *closed {
            state.earlier = None;
            return;
        }
        // Until it is done the policy on trial is at work, and nothing can be confirmed any more.
        drop(state);
        if let Err(failure) = self.put(&policy, mode) {
            tracing::error!(
                reason = failure.message(),
                "the earlier policy's rules did not come back: it is tried again"
            );
            if let Some((at, ..)) = &mut held(&self.state).earlier {
                *at = Instant::now() + RULES_LOOK;
            }
            return;
        }
        tracing::warn!(
            policy = name,
            "not confirmed in time: the earlier policy is back"
        );
        let mut state = held(&self.state);
        (state.mode, state.name, state.policy) = (mode, name, policy);
        state.earlier = None;
    }

    /// Puts a policy to work; answers how many queues obey it. What the system refuses half-way is
    /// taken back there: the queues have the policy before, and the kernel must not pass what
    /// only another one lets pass.
    fn put(&self, policy: &Arc<Policy>, mode: Mode) -> Result<usize, Failure> {
        if let Err(failure) = self.system.set_up(policy, mode) {
            let (policy, mode) = {
                let state = held(&self.state);
                (Arc::clone(&state.policy), state.mode)
            };
            if let Err(again) = self.system.set_up(&policy, mode) {
                let reason = again.message();
                tracing::error!(reason, "the rules before did not come back whole");
            }
            return Err(failure);
        }
        for queue in &self.queues {
            // A loop that has ended has said so in the log, and `gate status` misses it.
            queue.send(Order::Policy(Arc::clone(policy))).ok();
            queue.send(Order::Mode(mode)).ok();
        }
        // They obey in order: whoever has answered this works by the new policy.
        let obeyed: Vec<Totals> = self.ask(Order::Totals);
        Ok(obeyed.len())
    }
}

/// A lock; what a thread that ended by a fault has left is taken as it is.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
