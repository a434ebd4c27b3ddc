//! Joins what the kernel counted with what the gateway decided.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::account::{Asked, EndReason, Ends, FlowAccount, KernelFlow, Named};
use super::totals::{Ended, Grouping, Row, Totals};
use crate::classify::Details;
use crate::flow::{Count, UNASKED, first_flow_number};
use crate::limits::{ACCOUNT_MISSED, ACCOUNT_SETTLES, MAX_ACCOUNTS, MAX_READY};
use crate::policy::Action;

/// On which side of the border an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The own network.
    Inside,
    /// The world.
    Outside,
    /// This machine.
    Local,
    /// It cannot be told, as where the machine bridges.
    Unknown,
}

/// Tells sides. `dyn FnMut`, because it may ask the system.
pub type Sides<'a> = dyn FnMut(IpAddr) -> Side + 'a;

/// The flows of these ends, whichever way they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u8, SocketAddr, SocketAddr);

impl Key {
    fn of(ends: Ends) -> Self {
        let (low, high) = if ends.client <= ends.server {
            (ends.client, ends.server)
        } else {
            (ends.server, ends.client)
        };
        Self(ends.protocol, low, high)
    }
}

/// A flow, and how far its two sources are.
#[derive(Debug)]
struct Account {
    flow: FlowAccount,
    /// The kernel's number of it.
    kernel: Option<u32>,
    /// The number of the flow before it between the same ports, whose end is no news of this one.
    previous: Option<u32>,
    /// It goes from one side of the border to the other; known for sure once the gateway was asked.
    crosses: bool,
    /// When the gateway decided it, or spoke of it first.
    decided: Duration,
    /// The gateway has forgotten it.
    over: bool,
    /// It was reported with its end; the kernel still has it.
    reported: bool,
    /// When it was reported last while it lived.
    reported_at: Duration,
    /// The latest look at all of the kernel's flows that has shown it, and how many have not since.
    look: u64,
    missed: u32,
}

impl Account {
    fn new(flow: FlowAccount, now: Duration, crosses: bool) -> Self {
        Self {
            flow,
            kernel: None,
            previous: None,
            crosses,
            decided: now,
            over: false,
            reported: false,
            reported_at: now,
            look: 0,
            missed: 0,
        }
    }

    /// The kernel may never take it for a connection: a look shows.
    fn awaits_look(&self) -> bool {
        let blocked = self.flow.action == Some(Action::Block);
        self.kernel.is_none() && (self.over || blocked)
    }

    fn is_crossing(&self) -> bool {
        self.crosses || self.flow.asked == Asked::Yes
    }

    /// Takes the kernel's counts, in the direction in which the flow stands here.
    fn take_counts(&mut self, kernel: &KernelFlow) {
        let Some([from_client, from_server]) = kernel.counts else {
            return;
        };
        let (to_server, to_client) = if self.flow.ends.client == kernel.ends.client {
            (from_client, from_server)
        } else {
            (from_server, from_client)
        };
        self.flow.to_server = to_server;
        self.flow.to_client = to_client;
        self.flow.exact = true;
    }
}

/// Flows and what they carried.
///
/// Order of calls: hand in what the gateway and the kernel report, in any order, then poll until
/// [`poll_report`](Self::poll_report) returns `None`. Time is since the Unix epoch.
#[derive(Debug)]
pub struct Ledger {
    accounts: BTreeMap<Key, Account>,
    /// Flows that the kernel has ended of which no decision is known, the oldest first, and until
    /// when one is waited for.
    settling: VecDeque<(Duration, Key)>,
    reports: VecDeque<FlowAccount>,
    ended: Ended,
    /// When this run began.
    began: Duration,
    /// How often flows are reported while they live.
    every: Duration,
    /// Looks at all of the kernel's flows.
    looks: u64,
    next_id: u64,
    unaccounted: u64,
    wants_look: bool,
}

impl Ledger {
    /// A ledger of a gateway that begins `now` and reports long flows `every` so often.
    #[must_use]
    pub fn new(now: Duration, every: Duration) -> Self {
        Self {
            accounts: BTreeMap::new(),
            settling: VecDeque::new(),
            reports: VecDeque::new(),
            ended: Ended::default(),
            began: now,
            every,
            looks: 0,
            next_id: first_flow_number(UNASKED, now),
            unaccounted: 0,
            wants_look: false,
        }
    }

    /// What the gateway knows of a flow: it began, was decided, or is over (`ended`).
    pub fn handle_gateway(&mut self, now: Duration, view: FlowAccount, sides: &mut Sides<'_>) {
        let key = Key::of(view.ends);
        let mut previous = None;
        if let Some(account) = self.accounts.get_mut(&key) {
            let known = account.flow.asked == Asked::Yes;
            if known && account.flow.flow_id != view.flow_id {
                previous = account.kernel;
                self.finish(key, now, EndReason::Replaced);
                self.accounts.remove(&key);
            } else if !account.reported {
                if account.flow.action != view.action {
                    account.decided = now;
                }
                join(account, view);
                self.wants_look |= account.awaits_look();
                return;
            } else if known {
                // It was reported already. What it tried since is counted when it is forgotten.
                if view.ended.is_some() && account.kernel.is_none() {
                    let late = [
                        view.to_server.since(account.flow.to_server),
                        view.to_client.since(account.flow.to_client),
                    ];
                    self.ended.add_late(late);
                    self.accounts.remove(&key);
                }
                return;
            } else {
                previous = account.kernel;
                self.accounts.remove(&key);
            }
        }
        if view.ended.is_some() || self.is_full() {
            return;
        }
        let mut account = Account::new(view, now, true);
        account.previous = previous;
        account.flow.host = host(account.flow.ends, sides);
        self.wants_look |= account.awaits_look();
        self.accounts.insert(key, account);
    }

    /// What the kernel has of a flow. `counted`: the report is the answer to a look, with counts if
    /// it has any; an event has counts only at a flow's end.
    pub fn handle_kernel(
        &mut self,
        now: Duration,
        kernel: &KernelFlow,
        counted: bool,
        sides: &mut Sides<'_>,
    ) {
        let key = Key::of(kernel.ends);
        let mut previous = None;
        if let Some(account) = self.accounts.get(&key) {
            if account.previous == Some(kernel.id) {
                return;
            }
            if let Some(known) = account.kernel.filter(|known| *known != kernel.id) {
                // Of the two the one that lives is the later.
                if kernel.ended.is_some() {
                    return;
                }
                previous = Some(known);
                self.finish(key, now, EndReason::Lost);
                self.accounts.remove(&key);
            }
        }
        if !self.accounts.contains_key(&key) {
            let crosses = crosses(kernel.ends, sides);
            // Of one that has ended a decision may still be on its way.
            if (!crosses && kernel.ended.is_none()) || self.is_full() {
                return;
            }
            let mut account = Account::new(self.unasked(now, kernel, sides), now, crosses);
            account.previous = previous;
            self.accounts.insert(key, account);
        }
        self.count(now, key, kernel, counted);
    }

    /// A flow that the gateway has not spoken of.
    fn unasked(
        &mut self,
        now: Duration,
        kernel: &KernelFlow,
        sides: &mut Sides<'_>,
    ) -> FlowAccount {
        let flow_id = self.next_id;
        self.next_id = flow_id.saturating_add(1);
        let before = match kernel.began {
            Some(began) => began < self.began,
            None => self.looks <= 1 && kernel.ended.is_none(),
        };
        FlowAccount {
            flow_id,
            ends: kernel.ends,
            asked: if before { Asked::Before } else { Asked::No },
            app: String::new(),
            confidence: None,
            named: Named::No,
            answered: false,
            details: Details::default(),
            torrents: Vec::new(),
            torrent_names: Vec::new(),
            action: None,
            rule: None,
            class: None,
            over_quota: false,
            host: host(kernel.ends, sides),
            outside: None,
            to_server: Count::default(),
            to_client: Count::default(),
            before: [Count::default(); 2],
            exact: false,
            began: kernel.began.unwrap_or(now),
            ended: None,
            reason: None,
            kernel: None,
        }
    }

    /// Takes what the kernel reports of a flow that stands here.
    fn count(&mut self, now: Duration, key: Key, kernel: &KernelFlow, counted: bool) {
        let looks = self.looks;
        let Some(account) = self.accounts.get_mut(&key) else {
            return;
        };
        account.kernel = Some(kernel.id);
        account.look = looks;
        account.missed = 0;
        account.flow.outside = outside(&account.flow, kernel);
        if let Some(began) = kernel.began {
            account.flow.began = began;
        }
        let before = [account.flow.to_server, account.flow.to_client];
        let is_first = !account.flow.exact;
        account.take_counts(kernel);
        if is_first && account.flow.asked == Asked::Before {
            account.flow.before = [account.flow.to_server, account.flow.to_client];
        }
        if account.reported {
            let [to_server, to_client] = before;
            let late = [
                account.flow.to_server.since(to_server),
                account.flow.to_client.since(to_client),
            ];
            self.ended.add_late(late);
            if kernel.ended.is_some() {
                self.accounts.remove(&key);
            }
            return;
        }
        let asked = account.flow.asked == Asked::Yes;
        if let Some(ended) = kernel.ended {
            account.flow.ended = Some(ended);
            if asked {
                let reason = ended_by(kernel);
                self.finish(key, ended, reason);
                self.accounts.remove(&key);
            } else {
                account.flow.reason = Some(ended_by(kernel));
                let due = now.saturating_add(ACCOUNT_SETTLES);
                self.settling.push_back((due, key));
            }
        } else if kernel.is_closed && counted {
            self.finish(key, now, EndReason::Closed);
        }
    }

    /// Does what is due: reports flows of which no decision came.
    pub fn handle_timeout(&mut self, now: Duration) {
        while let Some((_, key)) = self.settling.pop_front_if(|(due, _)| *due <= now) {
            let Some(account) = self.accounts.get(&key) else {
                continue;
            };
            // Another flow between the same ports may have begun.
            let (Some(ended), Some(reason)) = (account.flow.ended, account.flow.reason) else {
                continue;
            };
            self.finish(key, ended, reason);
            self.accounts.remove(&key);
        }
    }

    /// Flows that the kernel may never have taken for connections wait for a look to end.
    #[must_use]
    pub fn wants_look(&self) -> bool {
        self.wants_look
    }

    /// A look at all of the kernel's flows begins: each is handed in with
    /// [`handle_kernel`](Self::handle_kernel).
    pub fn begin_look(&mut self) {
        self.looks = self.looks.saturating_add(1);
    }

    /// The look is over: what it has not shown has ended. Flows that live for long are reported.
    pub fn end_look(&mut self, now: Duration) {
        self.wants_look = false;
        let (mut gone, mut dropped) = (Vec::new(), Vec::new());
        for (key, account) in &mut self.accounts {
            match account.kernel {
                None if account.over => gone.push((*key, EndReason::Timeout)),
                None if account.flow.action == Some(Action::Block) && !account.reported => {
                    let settled = now.saturating_sub(account.decided) >= ACCOUNT_SETTLES;
                    if settled {
                        dropped.push(*key);
                    }
                    self.wants_look |= !settled;
                }
                Some(_)
                    if account.look != self.looks
                        && (account.flow.ended.is_none() || account.reported) =>
                {
                    // A look is no snapshot: a flow that moves meanwhile may be missed once.
                    account.missed = account.missed.saturating_add(1);
                    if account.missed >= ACCOUNT_MISSED {
                        gone.push((*key, EndReason::Lost));
                    }
                }
                _ => {}
            }
            let due = now.saturating_sub(account.reported_at) >= self.every;
            if due && account.is_crossing() && account.flow.ended.is_none() {
                account.reported_at = now;
                if self.reports.len() < MAX_READY {
                    self.reports.push_back(account.flow.clone());
                }
            }
        }
        for key in dropped {
            // It stays until the gateway forgets it: its client may try again and again.
            self.finish(key, now, EndReason::Dropped);
        }
        for (key, reason) in gone {
            self.finish(key, now, reason);
            self.accounts.remove(&key);
        }
    }

    /// Reports all that live as ended with the gateway.
    pub fn close(&mut self, now: Duration) {
        let keys: Vec<Key> = self.accounts.keys().copied().collect();
        for key in keys {
            self.finish(key, now, EndReason::Shutdown);
        }
        self.accounts.clear();
    }

    /// The next flow to report: one that has ended, or one that lives for long.
    pub fn poll_report(&mut self) -> Option<FlowAccount> {
        self.reports.pop_front()
    }

    /// Flows that live, and those that have ended and the kernel has not forgotten.
    pub fn known(&self) -> impl Iterator<Item = &FlowAccount> {
        let crossing = self
            .accounts
            .values()
            .filter(|account| account.is_crossing());
        crossing.map(|account| &account.flow)
    }

    /// The flow between these ends, and whether the queue that decided it still knows it.
    #[must_use]
    pub fn find(&self, ends: Ends) -> Option<(&FlowAccount, bool)> {
        let account = self.accounts.get(&Key::of(ends))?;
        let asks = account.flow.asked == Asked::Yes && !account.over;
        account.is_crossing().then_some((&account.flow, asks))
    }

    /// Flows that live, as they stand.
    pub fn live(&self) -> impl Iterator<Item = &FlowAccount> {
        self.known().filter(|flow| flow.ended.is_none())
    }

    /// What all flows carried since the beginning.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.ended.all;
        for flow in self.live() {
            totals.add(flow);
        }
        totals
    }

    /// The same by this grouping, of flows that are over and of those that live.
    #[must_use]
    pub fn rows(&self, grouping: Grouping) -> Vec<Row> {
        self.ended.rows(grouping, self.live())
    }

    /// Flows that found no room.
    #[must_use]
    pub fn unaccounted(&self) -> u64 {
        self.unaccounted
    }

    fn is_full(&mut self) -> bool {
        let full = self.accounts.len() >= MAX_ACCOUNTS;
        if full {
            self.unaccounted = self.unaccounted.saturating_add(1);
        }
        full
    }

    /// Reports a flow with its end, once.
    fn finish(&mut self, key: Key, ended: Duration, reason: EndReason) {
        let Some(account) = self.accounts.get_mut(&key) else {
            return;
        };
        let is_first = !std::mem::replace(&mut account.reported, true);
        if !is_first || !account.is_crossing() {
            return;
        }
        account.flow.kernel = account.kernel;
        account.flow.ended = Some(account.flow.ended.unwrap_or(ended));
        account.flow.reason = Some(account.flow.reason.unwrap_or(reason));
        self.ended.add(&account.flow);
        if self.reports.len() < MAX_READY {
            self.reports.push_back(account.flow.clone());
        }
    }
}

/// Takes what the gateway knows into an account that stands.
fn join(account: &mut Account, view: FlowAccount) {
    account.over |= view.ended.is_some();
    account.crosses = true;
    let known = &account.flow;
    let turned = known.ends != view.ends;
    let (to_server, to_client) = match (known.exact, turned) {
        (false, _) => (view.to_server, view.to_client),
        (true, false) => (known.to_server, known.to_client),
        (true, true) => (known.to_client, known.to_server),
    };
    let [before, before_back] = known.before;
    let before = if turned {
        [before_back, before]
    } else {
        known.before
    };
    account.flow = FlowAccount {
        host: known.host,
        outside: known.outside,
        to_server,
        to_client,
        before,
        exact: known.exact,
        began: known.began.min(view.began),
        ended: known.ended,
        reason: known.reason,
        ..view
    };
}

/// The host of the own network as the other side sees it, where that is another address: behind
/// source NAT a client's, before destination NAT a server's.
fn outside(flow: &FlowAccount, kernel: &KernelFlow) -> Option<SocketAddr> {
    let (own, seen) = if flow.host == kernel.ends.client.ip() {
        (kernel.ends.client, kernel.answered_at)
    } else {
        (kernel.ends.server, kernel.called)
    };
    (own != seen).then_some(seen)
}

fn ended_by(kernel: &KernelFlow) -> EndReason {
    if kernel.is_closed {
        EndReason::Closed
    } else {
        EndReason::Timeout
    }
}

fn crosses(ends: Ends, sides: &mut Sides<'_>) -> bool {
    let both = (sides(ends.client.ip()), sides(ends.server.ip()));
    matches!(
        both,
        (Side::Inside, Side::Outside)
            | (Side::Outside, Side::Inside)
            | (Side::Unknown, Side::Unknown)
    )
}

/// The end of the own network. Where sides cannot be told it is the one with a private address.
fn host(ends: Ends, sides: &mut Sides<'_>) -> IpAddr {
    let (client, server) = (ends.client.ip(), ends.server.ip());
    match (sides(client), sides(server)) {
        (Side::Inside, _) | (_, Side::Outside) => client,
        (_, Side::Inside) | (Side::Outside, _) => server,
        _ if !is_private(client) && is_private(server) => server,
        _ => client,
    }
}

fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
