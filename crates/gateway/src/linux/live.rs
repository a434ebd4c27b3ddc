//! The loop: packets from the queue through the gateway, and verdicts back.
//!
//! ```text
//!  turn:      for each read: receive -> decide -> exchange -> verdict, each -> carry_out
//!             then collect -> Gateway::handle_timeout -> exchange -> carry_out
//!                  -> carry_terminated -> exchange -> flush -> parts of files to the HashWorker
//!  decide:    Gateway::handle_queued -> Leaving -> Accept, Drop: a verdict now
//!                                               -> Hold: none; the packet waits in the kernel
//!  exchange:  what the kernel's connection cache has to refuse, and what it has refused
//!  carry_out: poll_scan -> ScannerPool
//!             poll_released -> Leaving -> a verdict for a packet that has waited
//!             poll_injection -> flush -> Injector: resets
//!  collect:   results of the ScannerPool -> Gateway::handle_scanned
//! ```
//!
//! [`QueuePair`] is two queues of the kernel, one for new flows and one for followed connections; a
//! read takes a batch from one of them. What the kernel does with a packet (`linux/wire.rs`)
//! depends on the mark that `Marks::apply` makes of the verdict's offload:
//!
//! ```text
//!  Accept          no mark  NF_ACCEPT: it goes on; the flow's next packet is queued, too
//!  Drop            no mark  NF_DROP
//!  Accept or Drop  a mark   NF_REPEAT: FORWARD again, where RINGWAY-MARK saves the mark to the
//!                           connection, and drops the packet if the mark says so
//!  Hold            either   nothing yet. At its release: as Accept; or NF_DROP, with any mark
//!  spoilt          either   NF_DROP, if held at its release: it was cut and had to wait, or its
//!                           payload could not be replaced (`linux/leaving.rs`)
//! ```
//!
//! Next on a packet's way is `verdict/gateway.rs`; all of it is listed in [`crate::verdict`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::hash_worker::HashWorker;
use super::inject::Injector;
use super::kernel::backlog::PassedPackets;
use super::kernel::{InKernel, KernelReports, SharedKernel};
use super::leaving::{Given, Leaving};
use super::marks::Marks;
use super::queue_pair::{PacketId, QueuePair};
use super::scanner_pool::ScannerPool;
use super::terminate::{TerminatedTotals, Terminator};
use crate::accounting::FlowAccount;
use crate::limits::MAX_BATCH;
use crate::packet::{Counters, LinkType};
use crate::policy::{Failure, Policy};
use crate::verdict::{DecidedFlow, Event, Gateway, LiveFlow, Mode, Scanned, Why};

/// How long the loop sleeps when there is nothing to do; an order waits no longer.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// The same while followed flows wait for their time: their pauses have to be noticed.
const SHORT_NAP: Duration = Duration::from_millis(10);

/// How often in one turn connections that end here are carried on, because something of them was
/// let go meanwhile.
const CARRIES: usize = 4;

/// Orders for the loop.
#[derive(Debug)]
pub enum Order {
    /// Another policy, for flows that are not decided yet.
    Policy(Arc<Policy>),
    /// Whether decisions are carried out.
    Mode(Mode),
    /// Tell the flows that are not over, the latest first, at most so many.
    Flows(usize, Sender<Vec<LiveFlow>>),
    /// Tell why the flow with this number got what it got, if it is known.
    Why(u64, Sender<Option<Box<Why>>>),
    /// Tell the totals.
    Totals(Sender<Totals>),
    /// End.
    Stop,
}

/// Totals of one queue.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Packets and what was passed over.
    pub counters: Counters,
    /// Flows that are not over.
    pub flows: usize,
    /// Packets that were dropped.
    pub dropped: u64,
    /// What the kernel did by itself, if this loop receives its reports.
    pub in_kernel: Option<InKernel>,
    /// Connections that end here, if any may.
    pub terminated: Option<TerminatedTotals>,
    /// Packets that wait for a scan.
    pub held: u64,
    /// Windows of files that were scanned.
    pub scanned: u64,
    /// Resets that were sent.
    pub resets: u64,
    /// Resets that could not be sent.
    pub resets_failed: u64,
    /// Events that were lost before they could be reported.
    pub events_lost: u64,
    /// Packets whose flow was not there: a fault of this program.
    pub flows_missing: u64,
}

/// What the loop reports.
#[derive(Debug)]
pub enum Report {
    /// Something to write down.
    Event(Box<Event>),
    /// A flow is over.
    Over(Box<DecidedFlow>),
    /// A flow has begun, was decided, or is over, for the accounts.
    Account(Box<FlowAccount>),
}

/// Two queues and their gateway.
#[derive(Debug)]
pub struct Live {
    queues: QueuePair,
    gateway: Gateway,
    injector: Injector,
    marks: Marks,
    totals: Totals,
    scans: ScannerPool,
    /// Windows that are at a scanner.
    unscanned: usize,
    files: HashWorker,
    /// Events about files for whose hashes there was no time.
    unhashed: Vec<Event>,
    /// Verdicts of one read; empty between reads.
    verdicts: Vec<Given>,
    leaving: Leaving,
    /// The kernel, if it decides, too, and its reports, if this loop receives them.
    kernel: Option<(SharedKernel, Option<KernelReports>)>,
    /// Connections that end here.
    terminator: Option<Terminator>,
}

impl Live {
    /// A loop over these queues. `scans`: who scans files; `files`: who makes their hashes.
    #[must_use]
    pub fn new(
        queues: QueuePair,
        gateway: Gateway,
        injector: Injector,
        marks: Marks,
        scans: ScannerPool,
        files: HashWorker,
    ) -> Self {
        Self {
            queues,
            gateway,
            injector,
            marks,
            totals: Totals::default(),
            scans,
            unscanned: 0,
            files,
            unhashed: Vec::new(),
            verdicts: Vec::new(),
            leaving: Leaving::default(),
            kernel: None,
            terminator: None,
        }
    }

    /// Connections may end here.
    pub fn terminate(&mut self, terminator: Terminator) {
        self.gateway.report_moved();
        self.terminator = Some(terminator);
    }

    /// The kernel decides, too. Its reports go to one loop, which also takes over what the kernel
    /// refuses for an earlier run.
    pub fn share_kernel(&mut self, shared: SharedKernel, reports: Option<KernelReports>) {
        self.gateway.share_cache();
        if reports.is_some() {
            let now = now();
            let left = shared.cache.known(now);
            self.gateway.take_up_blocked(now, left);
        }
        self.kernel = Some((shared, reports));
    }

    /// Runs until an order to stop, or until no sender of orders is left. `deliver` must not wait;
    /// it counts what it cannot take.
    ///
    /// # Errors
    /// The queue fails.
    pub fn run(
        &mut self,
        orders: &Receiver<Order>,
        deliver: &mut dyn FnMut(Report),
    ) -> io::Result<()> {
        loop {
            loop {
                match orders.try_recv() {
                    Ok(Order::Stop) | Err(TryRecvError::Disconnected) => {
                        self.gateway.report_rest();
                        self.exchange(now());
                        self.report(deliver);
                        return Ok(());
                    }
                    Ok(order) => self.obey(order)?,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.wait()?;
            let turned = self.turn();
            if turned.is_err() {
                // The queue is not read again: what was gathered is reported now or never.
                self.gateway.report_rest();
            }
            self.report(deliver);
            turned?;
        }
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Policy(policy) => {
                self.queues
                    .set_fail_open(policy.failure() == Failure::Open)?;
                self.gateway.set_policy(policy);
            }
            Order::Mode(mode) => self.gateway.set_mode(mode),
            // A requester that has gone needs no reply.
            Order::Flows(most, answer) => drop(answer.send(self.gateway.flows(most))),
            Order::Why(flow, answer) => drop(answer.send(self.gateway.why(flow).map(Box::new))),
            Order::Totals(answer) => {
                let totals = Totals {
                    counters: self.gateway.counters(),
                    flows: self.gateway.live_flows(),
                    dropped: self.leaving.dropped(),
                    held: self.leaving.held(),
                    events_lost: self
                        .totals
                        .events_lost
                        .saturating_add(self.gateway.events_dropped()),
                    flows_missing: self.gateway.flows_missing(),
                    in_kernel: match &self.kernel {
                        Some((_, Some(reports))) => Some(reports.totals.get()),
                        _ => None,
                    },
                    terminated: self.terminator.as_ref().map(Terminator::totals),
                    ..self.totals.clone()
                };
                drop(answer.send(totals));
            }
            Order::Stop => {}
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let stirred = (self.terminator.as_ref()).is_some_and(Terminator::is_stirred);
        let nap = if stirred {
            Duration::ZERO
        } else if self.gateway.is_waiting() {
            SHORT_NAP
        } else {
            POLL_TIMEOUT
        };
        let nap = Timespec::try_from(nap).map_err(io::Error::other)?;
        let [new, followed] = self.queues.sockets();
        let scans = self.scans.as_fd();
        // Where nothing ends here the scanners' place is watched twice.
        let ended = self.terminator.as_ref().map_or(scans, AsFd::as_fd);
        let mut watched =
            [new, followed, scans, ended].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        match poll(&mut watched, Some(&nap)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what waits, up to [`MAX_BATCH`] reads of a batch each, and what scanners have found;
    /// the drawing at the top of the file shows the order.
    fn turn(&mut self) -> io::Result<()> {
        let now = now();
        if let Some((shared, _)) = &self.kernel {
            // Also of flows that cross no border after all, of which no packet comes: they would
            // fill the way of the others.
            shared.backlog.look();
        }
        for _ in 0..MAX_BATCH {
            if !self.queues.receive()? {
                break;
            }
            if let Some((shared, _)) = &self.kernel {
                shared.backlog.look();
            }
            self.decide(now);
            // An end that learns from these packets that it is blocked, or of a connection to
            // open, learns it when the kernel knows.
            self.exchange(now);
            for given in self.verdicts.drain(..) {
                let Given {
                    id,
                    accept,
                    mark,
                    changed,
                } = given;
                self.queues.verdict(id, accept, mark, changed.as_deref())?;
            }
            self.carry_out(now)?;
            while !self.gateway.has_hold_list() && self.unscanned > 0 {
                self.queues.flush()?;
                poll_for(self.scans.as_fd())?;
                self.collect(now);
                self.exchange(now);
                self.carry_out(now)?;
            }
        }
        self.collect(now);
        self.gateway.handle_timeout(now);
        self.exchange(now);
        self.carry_out(now)?;
        self.carry_terminated(now)?;
        self.exchange(now);
        self.queues.flush()?;
        // All of a turn at once: the hash worker is woken once for them.
        while let Some(part) = self.gateway.poll_file_part() {
            self.unhashed.extend(self.files.submit(part));
        }
        Ok(())
    }

    /// Carries connections that end here: what comes, and what that and others let go.
    fn carry_terminated(&mut self, now: Duration) -> io::Result<()> {
        let Some(terminator) = &mut self.terminator else {
            return Ok(());
        };
        terminator.turn(now, &mut self.gateway)?;
        for _ in 0..CARRIES {
            self.carry_out(now)?;
            match &mut self.terminator {
                Some(terminator) if terminator.is_stirred() => {
                    terminator.carry(now, &mut self.gateway);
                }
                _ => return Ok(()),
            }
        }
        self.carry_out(now)
    }

    /// Tells the kernel's connection cache what it has to know, and the gateway what that refused.
    fn exchange(&mut self, now: Duration) {
        let Some((shared, reports)) = &mut self.kernel else {
            return;
        };
        if let Some(reports) = reports {
            reports.heartbeat.beat();
        }
        let mut refused = Vec::new();
        while let Some(cached) = self.gateway.poll_cached() {
            refused.extend(shared.cache.apply(now, &cached));
        }
        while let Some(calls) = reports
            .as_mut()
            .and_then(|reports| reports.refusals.poll(now))
        {
            refused.push(calls);
        }
        for calls in refused {
            self.gateway.handle_refused(&calls);
        }
    }

    /// Tells the gateway what scanners have found.
    fn collect(&mut self, now: Duration) {
        self.scans.collect(&mut |job, scanned| {
            self.totals.scanned = self.totals.scanned.saturating_add(1);
            self.unscanned = self.unscanned.saturating_sub(1);
            self.gateway.handle_scanned(now, job, scanned);
        });
    }

    /// Asks the gateway about the packets of one read. What is held gets no verdict here: it leaves
    /// by [`carry_out`](Self::carry_out).
    fn decide(&mut self, now: Duration) {
        for (id, packet) in self.queues.packets() {
            let token = id.token();
            let (gateway, bytes) = (&mut self.gateway, packet.bytes);
            // What had passed in a flow that the kernel asks about from now on.
            let passed = self
                .kernel
                .as_ref()
                .and_then(|(shared, _)| shared.backlog.take(bytes));
            if let Some(PassedPackets { packets, receiver }) = passed {
                gateway.set_came_by(0);
                for earlier in packets {
                    gateway.set_watched(false);
                    gateway.handle_passed(now, LinkType::RawIp, &earlier);
                }
                if let Some((host, at)) = receiver {
                    self.injector.hear_of(host, at, packet.came_by);
                }
            }
            gateway.set_watched(id.is_followed());
            gateway.set_came_by(packet.came_by);
            self.injector.hear(bytes, packet.sender, packet.came_by);
            let verdict = if packet.unverified {
                gateway.handle_unverified(now, token, LinkType::RawIp, bytes)
            } else {
                gateway.handle_queued(now, token, LinkType::RawIp, bytes)
            };
            let mark = verdict
                .offload()
                .map(|offload| self.marks.apply(packet.mark, offload));
            let payload = self.gateway.take_rewritten();
            let given = (self.leaving).decide(id, &packet, verdict, mark, payload.as_deref());
            self.verdicts.extend(given);
        }
    }

    /// Lets go what has waited, sends resets, and hands windows to the scanners.
    fn carry_out(&mut self, now: Duration) -> io::Result<()> {
        while let Some(job) = self.gateway.poll_scan() {
            match self.scans.submit(job) {
                Ok(()) => self.unscanned = self.unscanned.saturating_add(1),
                // Failing is a result, too: without one the packets of this window would wait for
                // ever.
                Err((job, why)) => {
                    let failed = Scanned::Failed(why.to_owned());
                    self.gateway.handle_scanned(now, &job, &failed);
                }
            }
        }
        while let Some((token, verdict)) = self.gateway.poll_released() {
            let terminator = self.terminator.as_mut();
            if terminator.is_some_and(|terminator| terminator.release(now, token, verdict)) {
                continue;
            }
            let Some(id) = PacketId::of(token) else {
                continue;
            };
            let Given {
                id,
                accept,
                mark,
                changed,
            } = self.leaving.release(id, verdict);
            self.queues.verdict(id, accept, mark, changed.as_deref())?;
        }
        self.inject()
    }

    /// Sends resets, behind the packets that were passed on before: one that overtook the end of a
    /// handshake would take the connection from a server that has not seen it yet.
    fn inject(&mut self) -> io::Result<()> {
        let mut behind = false;
        while let Some(packet) = self.gateway.poll_injection() {
            let terminator = self.terminator.as_mut();
            if terminator.is_some_and(|terminator| terminator.claim(&packet)) {
                self.totals.resets = self.totals.resets.saturating_add(1);
                continue;
            }
            // Once for all resets, because a flush is a system call.
            if !behind {
                self.queues.flush()?;
                behind = true;
            }
            let count = if self.injector.send(&packet).is_ok() {
                &mut self.totals.resets
            } else {
                &mut self.totals.resets_failed
            };
            *count = count.saturating_add(1);
        }
        Ok(())
    }

    fn report(&mut self, deliver: &mut dyn FnMut(Report)) {
        for event in self.unhashed.drain(..) {
            deliver(Report::Event(Box::new(event)));
        }
        while let Some(event) = self.gateway.poll_event() {
            deliver(Report::Event(Box::new(event)));
        }
        while let Some(flow) = self.gateway.poll_flow() {
            deliver(Report::Over(Box::new(flow)));
        }
        while let Some(view) = self.gateway.poll_account() {
            deliver(Report::Account(Box::new(view)));
        }
    }
}

/// Waits until there is something to read.
fn poll_for(file: BorrowedFd<'_>) -> io::Result<()> {
    let mut watched = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    match poll(&mut watched, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The time since the Unix epoch.
fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
