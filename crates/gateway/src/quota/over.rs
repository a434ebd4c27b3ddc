//! Who is above a quota: written by the thread that counts, read by every queue.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::Subject;
use crate::policy::{Direction, Over};

/// Those above the quota of a rule, and what happens to their flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AboveRule {
    pub(super) over: Over,
    pub(super) subjects: HashSet<Subject>,
}

/// Those above a quota, by rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AboveNow {
    rules: HashMap<String, AboveRule>,
}

/// Whose flow it is, as far as a queue can tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) client: IpAddr,
    pub(crate) server: IpAddr,
    pub(crate) way: Direction,
    pub(crate) member: Option<&'a str>,
}

impl AboveNow {
    pub(super) fn add(&mut self, rule: String, above: AboveRule) {
        self.rules.insert(rule, above);
    }

    /// None is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What happens to a flow of this rule, if its owner is above the quota.
    pub(crate) fn over(&self, rule: &str, owner: &Owner<'_>) -> Option<Over> {
        let above = self.rules.get(rule)?;
        let host = |host: IpAddr| above.subjects.contains(&Subject::Host(host.to_canonical()));
        // Where the policy does not say what is inside, the end that is counted is: the accounts
        // know by the kernel's routes, and none of the other side's is ever above a quota.
        let of_host = match owner.way {
            Direction::Outbound => host(owner.client),
            Direction::Inbound => host(owner.server),
            Direction::Internal | Direction::Transit => host(owner.client) || host(owner.server),
        };
        let of_member = || {
            let member = owner
                .member
                .map(|member| Subject::Member(member.to_owned()));
            member.is_some_and(|member| above.subjects.contains(&member))
        };
        (of_host || of_member()).then_some(above.over)
    }
}

/// Those above a quota, as all queues see them. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct OverQuota(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Grows with each change, so that a look without one costs no lock.
    changes: AtomicU64,
    above: RwLock<Arc<AboveNow>>,
}

impl OverQuota {
    /// From now on it is these.
    pub fn set(&self, above: AboveNow) {
        // What a panic elsewhere leaves is the whole of an earlier state.
        *self.0.above.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(above);
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// The number of changes so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// Those that are now.
    #[must_use]
    pub fn now(&self) -> Arc<AboveNow> {
        let above = self.0.above.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&above)
    }
}
