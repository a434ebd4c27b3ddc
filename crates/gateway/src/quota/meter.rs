//! What each flow was charged to whom, and what its mark has to be when a quota is used up.

use std::collections::HashMap;
use std::time::Duration;

use super::Subject;
use super::book::QuotaBook;
use crate::accounting::{EndReason, Ends, FlowAccount, KernelFlow};
use crate::limits::{MAX_ACCOUNTS, QUOTA_RESETS};
use crate::policy::{Over, Policy};
use crate::verdict::{Mode, Offload};

/// What was done to a flow because of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Above {
    /// Nothing: it gets what its rule says.
    #[default]
    No,
    /// It was put into the class above the quota.
    Shaped,
    /// It was blocked.
    Blocked,
}

/// A flow by the kernel's number and its ends, whichever is the client: numbers alone are hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(u32, Ends);

impl Key {
    fn of(kernel: u32, ends: Ends) -> Self {
        if ends.client <= ends.server {
            Self(kernel, ends)
        } else {
            Self(kernel, ends.reversed())
        }
    }
}

/// A flow as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFlow {
    /// The kernel's number of it.
    pub kernel: u32,
    /// Its ends.
    pub ends: Ends,
    /// What is to be known of it; `None`: it is over.
    pub kept: Option<Kept>,
}

/// What is kept of a flow that counts for a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The rule that it counts for.
    pub rule: String,
    /// Whose quota.
    pub subject: Subject,
    /// Bytes that were counted.
    pub charged: u64,
    /// What was done to it.
    pub above: Above,
}

#[derive(Debug)]
struct Charged {
    kept: Kept,
    unsaved: bool,
    /// The latest look that has shown it.
    look: u64,
    /// Looks since it was to be reset and is not.
    unreset: u32,
}

/// Charges flows by the kernel's counts.
///
/// Order of calls: [`begin_look`](Self::begin_look), [`handle_kernel`](Self::handle_kernel) for
/// each flow, [`end_look`](Self::end_look); in between [`handle_report`](Self::handle_report) for
/// flows that are over. Time is since the Unix epoch.
#[derive(Debug)]
pub struct QuotaMeter {
    book: QuotaBook,
    mode: Mode,
    /// Classes of rules with quotas below them, by name: flows go back there.
    classes: HashMap<String, Option<usize>>,
    flows: HashMap<Key, Charged>,
    /// Flows that are over and still written down.
    gone: Vec<SavedFlow>,
    look: u64,
}

impl QuotaMeter {
    /// A meter that counts into this book.
    #[must_use]
    pub fn new(book: QuotaBook) -> Self {
        Self {
            book,
            mode: Mode::Observe,
            classes: HashMap::new(),
            flows: HashMap::new(),
            gone: Vec::new(),
            look: 0,
        }
    }

    /// Takes up the flows that an earlier run has counted. Those that are over by now go after some
    /// looks.
    pub fn load(&mut self, flows: Vec<SavedFlow>) {
        for flow in flows.into_iter().take(MAX_ACCOUNTS) {
            let Some(kept) = flow.kept else { continue };
            let charged = Charged {
                kept,
                unsaved: false,
                look: 0,
                unreset: 0,
            };
            self.flows.insert(Key::of(flow.kernel, flow.ends), charged);
        }
    }

    /// Another policy, or another mode.
    pub fn set_policy(&mut self, now: Duration, policy: &Policy, mode: Mode) {
        self.book.set_policy(now, policy);
        let with = policy.rules().iter().filter(|rule| rule.quota.is_some());
        self.classes = with.map(|rule| (rule.name.clone(), rule.class)).collect();
        self.mode = mode;
    }

    /// What is counted.
    #[must_use]
    pub fn book(&self) -> &QuotaBook {
        &self.book
    }

    /// What is counted, to poll.
    pub fn book_mut(&mut self) -> &mut QuotaBook {
        &mut self.book
    }

    /// A look at all flows of the kernel begins.
    pub fn begin_look(&mut self, now: Duration) {
        self.look = self.look.saturating_add(1);
        self.book.handle_time(now);
    }

    /// A flow as the kernel has it, `known` as the accounts have it, and what its mark says.
    /// `asks`: packets of it that come to a queue find it there. Returns the mark that it has to
    /// get.
    pub fn handle_kernel(
        &mut self,
        now: Duration,
        kernel: &KernelFlow,
        known: &FlowAccount,
        mark: Option<Offload>,
        asks: bool,
    ) -> Option<Offload> {
        let counts = kernel.counts?;
        // One that was reported was charged to its end.
        if known.ended.is_some() {
            return None;
        }
        let key = Key::of(kernel.id, kernel.ends);
        let total = counts
            .iter()
            .fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        self.charge(now, key, known, total);
        let charged = self.flows.get_mut(&key)?;
        charged.look = self.look;
        let kept = &mut charged.kept;
        let over = self.book.over(&kept.rule, &kept.subject);
        let over = over.filter(|_| self.mode == Mode::Enforce);
        let before = kept.above;
        let wanted = match over {
            Some(Over::Class(class)) => {
                kept.above = Above::Shaped;
                in_class(mark, class)
            }
            Some(Over::Block) => {
                kept.above = Above::Blocked;
                blocked(mark, asks, &mut charged.unreset)
            }
            None => {
                charged.unreset = 0;
                let class = self.classes.get(&kept.rule).copied().flatten();
                as_ruled(
                    kept.above,
                    mark,
                    class.filter(|_| self.mode == Mode::Enforce),
                )
            }
        };
        let wanted = wanted.filter(|wanted| mark != Some(*wanted));
        // It is known until its mark shows that it is back.
        if over.is_none() && wanted.is_none() {
            kept.above = Above::No;
        }
        charged.unsaved |= before != kept.above;
        wanted
    }

    /// A flow that is reported: one that is over has its last bytes charged.
    pub fn handle_report(&mut self, now: Duration, flow: &FlowAccount) {
        let Some(kernel) = flow.kernel.filter(|_| flow.ended.is_some()) else {
            return;
        };
        let key = Key::of(kernel, flow.ends);
        self.charge(now, key, flow, flow.total().bytes);
        // With the gateway no flow ends: the next run goes on with it.
        if flow.reason != Some(EndReason::Shutdown) {
            self.forget(key);
        }
    }

    /// Charges what a flow has carried by now.
    fn charge(&mut self, now: Duration, key: Key, flow: &FlowAccount, total: u64) {
        if flow.rule.is_none() && !self.flows.contains_key(&key) {
            return;
        }
        if let Some(rule) = &flow.rule {
            let owner = self.book.per(rule).and_then(|per| Subject::of(per, flow));
            let Some(subject) = owner else {
                // Its rule has no quota, or not any more.
                return self.let_go(key);
            };
            self.take_in(key, flow, rule, subject);
        }
        let Some(charged) = self.flows.get_mut(&key) else {
            return;
        };
        let kept = &mut charged.kept;
        let more = total.saturating_sub(kept.charged);
        if more == 0 {
            return;
        }
        kept.charged = total;
        charged.unsaved = true;
        // What is sent again and dropped here does not count.
        if kept.above != Above::Blocked {
            self.book.charge(now, &kept.rule, &kept.subject, more);
        }
    }

    /// Takes a flow in, or what is known of it now.
    fn take_in(&mut self, key: Key, flow: &FlowAccount, rule: &str, subject: Subject) {
        let has_room = self.flows.len() < MAX_ACCOUNTS;
        match self.flows.get_mut(&key) {
            Some(charged) if charged.kept.rule == rule && charged.kept.subject == subject => {}
            // What it has carried until now was another's.
            Some(charged) => {
                charged.kept.rule = rule.to_owned();
                charged.kept.subject = subject;
                charged.unsaved = true;
            }
            None if has_room => {
                let [to_server, to_client] = flow.before;
                let kept = Kept {
                    rule: rule.to_owned(),
                    subject,
                    charged: to_server.plus(to_client).bytes,
                    above: Above::No,
                };
                let charged = Charged {
                    kept,
                    unsaved: true,
                    look: self.look,
                    unreset: 0,
                };
                self.flows.insert(key, charged);
            }
            None => {}
        }
    }

    /// A flow counts for no quota any more. One that was moved goes on to be known until its mark
    /// is as it was.
    fn let_go(&mut self, key: Key) {
        let moved = |charged: &Charged| charged.kept.above != Above::No;
        if !self.flows.get(&key).is_some_and(moved) {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: Key) {
        if self.flows.remove(&key).is_some() {
            self.gone.push(SavedFlow {
                kernel: key.0,
                ends: key.1,
                kept: None,
            });
        }
    }

    /// The look is over: flows that some looks have not shown are gone.
    pub fn end_look(&mut self) {
        let look = self.look;
        // A look is no snapshot: a flow may be missed once.
        let missed = |charged: &Charged| charged.look.saturating_add(2) < look;
        let gone: Vec<Key> = self
            .flows
            .iter()
            .filter(|(_, charged)| missed(charged))
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            self.forget(key);
        }
    }

    /// What has changed since the last call, to be written down.
    pub fn take_unsaved(&mut self) -> Vec<SavedFlow> {
        let mut unsaved = std::mem::take(&mut self.gone);
        let changed = (self.flows.iter_mut()).filter(|(_, charged)| charged.unsaved);
        unsaved.extend(changed.map(|(key, charged)| {
            charged.unsaved = false;
            SavedFlow {
                kernel: key.0,
                ends: key.1,
                kept: Some(charged.kept.clone()),
            }
        }));
        unsaved
    }
}

/// The mark of a flow in the class above its quota. What is blocked stays so, and what is not
/// decided is decided with its next packet.
fn in_class(mark: Option<Offload>, class: usize) -> Option<Offload> {
    match mark? {
        Offload::Allowed | Offload::Shaped(_) => Some(Offload::Shaped(class)),
        Offload::Watched | Offload::WatchedIn(_) | Offload::AnswersPass => {
            Some(Offload::WatchedIn(class))
        }
        Offload::Blocked => None,
    }
}

/// The mark of a flow that is blocked. Where its queue knows it, its next packets go there, which
/// resets both ends. One that is unknown there, or stays unreset for long, the kernel drops.
pub(crate) fn blocked(mark: Option<Offload>, asks: bool, unreset: &mut u32) -> Option<Offload> {
    match mark? {
        Offload::Blocked => None,
        _ if asks && *unreset < QUOTA_RESETS => {
            *unreset = unreset.saturating_add(1);
            Some(Offload::Watched)
        }
        _ => Some(Offload::Blocked),
    }
}

/// The mark of a flow that goes back to what its rule says.
fn as_ruled(above: Above, mark: Option<Offload>, class: Option<usize>) -> Option<Offload> {
    let free = || class.map_or(Offload::Allowed, Offload::Shaped);
    match (above, mark?) {
        (Above::Shaped, Offload::Shaped(_)) | (Above::Blocked, Offload::Blocked) => Some(free()),
        (Above::Shaped, Offload::WatchedIn(_)) => {
            Some(class.map_or(Offload::Watched, Offload::WatchedIn))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
