//! What is remembered of what was blocked, so that its like is dropped at once, and events of alike
//! packets are joined.

use std::time::Duration;

use super::Mode;
use super::cache::{ConnectionCache, Refusals};
use super::effects::Effects;
use super::env::Env;
use super::event::{Alert, Ends, Event, EventKind};
use super::state::CACHE_RULE;
use super::unanswered::Unanswered;
use crate::classify::{Confidence, UNKNOWN};
use crate::inspect::is_announced;
use crate::policy::Action;

/// Applications many of which share an address: a new connection to it may be something else.
const SHARED: [&str; 3] = ["http", "tls", "quic"];

/// Blocked connections, and packets that were dropped by themselves.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    pub(super) cache: ConnectionCache,
    pub(super) unanswered: Unanswered,
}

impl Blocked {
    /// Has new connections like this one dropped for a while. While observing no connection is
    /// blocked, and so none is to be refused when that changes.
    pub(super) fn remember(&mut self, now: Duration, env: &Env, ends: &Ends, application: &str) {
        let blocked_for = env.settings.blocked_for;
        if env.enforces() && !SHARED.contains(&application) && !blocked_for.is_zero() {
            let until = now.saturating_add(blocked_for);
            let announced = is_announced(application).then(|| env.announced.count());
            self.cache.block(ends, until, announced);
        }
    }

    /// Whether a connection that begins now is like a blocked one; the refusal is written down.
    pub(super) fn refuses(
        &mut self,
        now: Duration,
        env: &Env,
        ends: &Ends,
        effects: &mut Effects,
    ) -> bool {
        let last = env.announced.last(ends.server);
        let refused = env.enforces() && self.cache.refuses(ends, now, last);
        if refused {
            self.report(effects);
        }
        refused
    }

    /// Writes refused attempts down, as far as it is time to.
    pub(super) fn report(&mut self, effects: &mut Effects) {
        for refusals in self.cache.take_refusals() {
            let Refusals {
                latest,
                at,
                attempts,
            } = refusals;
            // Only where decisions are carried out is a connection refused.
            let alert = Alert {
                action: "blocked",
                signature: CACHE_RULE.to_owned(),
                policy: Action::Block,
                confidence: Confidence::Guess,
                evidence: "one like it was just blocked".to_owned(),
                packet: 1,
                answered: true,
                mode: Mode::Enforce,
            };
            let mut event = Event::new(at, EventKind::Drop, latest, UNKNOWN, alert);
            event.attempts = Some(attempts);
            effects.note(event);
        }
    }

    /// Forgets what is blocked no more, and writes down what was refused because of it.
    pub(super) fn expire(&mut self, now: Duration, effects: &mut Effects) {
        self.cache.expire(now);
        self.report(effects);
        for event in self.unanswered.take_events(Some(now)) {
            effects.note(event);
        }
    }

    /// Writes down all that was refused: no more packets come.
    pub(super) fn close(&mut self, effects: &mut Effects) {
        self.cache.close();
        self.report(effects);
        for event in self.unanswered.take_events(None) {
            effects.note(event);
        }
    }
}
