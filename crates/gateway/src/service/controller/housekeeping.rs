//! What a running gateway looks after by itself: trials of policies, rules that others change,
//! lists.

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::{Controller, InForce, Wake, after, guarded, held};
use crate::limits::{EVE_STATS, FEED_LOOK};

impl Controller {
    /// Takes back policies that are not confirmed in time, puts back rules that other programs take
    /// out, which it looks for as often as `rules_look` says, and reads lists again that have
    /// changed. Returns once the gateway ends.
    pub fn keep_house(&self, rules_look: Duration) {
        let wakes = held(&self.wakes);
        let mut looks_at = after(rules_look);
        let mut feeds_at = after(FEED_LOOK);
        let mut reports_at = self.written.wants_status.then(|| after(EVE_STATS));
        loop {
            let reverts_at = held(&self.state).trial.as_ref().map(|trial| trial.until);
            let others = [reverts_at, reports_at].into_iter().flatten();
            let due = others.fold(looks_at.min(feeds_at), Instant::min);
            let wait = due.saturating_duration_since(Instant::now());
            match wakes.recv_timeout(wait) {
                Ok(Wake::Retimed) => {}
                Ok(Wake::RulesChanged) => looks_at = Instant::now(),
                Ok(Wake::Closed) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    guarded("the earlier policy did not come back", || self.revert());
                    if Instant::now() >= looks_at {
                        guarded("the rules were not looked after", || self.put_back());
                        looks_at = after(rules_look);
                    }
                    if Instant::now() >= feeds_at {
                        guarded("the lists were not looked after", || self.look_at_feeds());
                        feeds_at = after(FEED_LOOK);
                    }
                    if reports_at.is_some_and(|at| Instant::now() >= at) {
                        self.written.report(self.status());
                        reports_at = Some(after(EVE_STATS));
                    }
                }
            }
        }
    }

    /// Has the housekeeping look at the rules now: somebody has changed the packet filter, this
    /// gateway maybe.
    pub fn look_at_rules(&self) {
        // It has ended by a fault, or was never begun.
        self.wake.send(Wake::RulesChanged).ok();
    }

    /// Puts the rules back if another program has changed them: a firewall that reloads its own
    /// takes out all others, and with them the gateway.
    pub(super) fn put_back(&self) {
        let closed = held(&self.changes);
        if *closed {
            return;
        }
        let InForce { policy, mode, .. } = held(&self.state).now.clone();
        let looked = self.system.put_back(&policy, mode);
        if looked == Ok(true) {
            self.put_back.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "another program changed the gateway's rules or classes, or put rules before them: they are back"
            );
        }
        let fault = looked.err().map(|failure| failure.to_string());
        // Housekeeping comes by every few seconds, and one line for each reason is enough.
        let mut known = held(&self.not_looked_after);
        if let Some(reason) = fault.as_ref().filter(|_| fault != *known) {
            tracing::error!(
                reason,
                "whether another program changed the gateway's rules is not known, or they could not be put back"
            );
        }
        *known = fault;
    }
}
