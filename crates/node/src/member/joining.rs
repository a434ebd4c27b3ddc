//! What a router on its way into the ring says in the log: once a second whom it waits for, and at
//! the end how long it took and how many messages.

use std::time::{Duration, Instant};

use ringway_overlay::{Chord, RingKey, Waiting};

use super::ring::since;
use super::runtime::Runtime;

/// Pause between two lines, and before the first.
const SAID_EVERY: Duration = Duration::from_secs(1);

/// Routers that one line names.
const NAMED: usize = 5;

/// Said where the views of others have ended by this machine's clock.
const WRONG_CLOCK: &str = "what other routers state had ended long ago by this machine's clock: \
                           see whether it is right";

/// Messages of the overlay since the start, and when it was last said what is waited for.
#[derive(Debug, Default)]
pub(super) struct Joining {
    pub(super) sent: u64,
    pub(super) received: u64,
    said: Option<Instant>,
}

impl Runtime {
    /// Says what this router waits for, while it is not in the ring.
    pub(super) fn tell_joining(&mut self, now: Instant) {
        let Some(waiting) = self.chord.as_ref().and_then(Chord::waiting) else {
            self.joining.said = None;
            return;
        };
        if now < *self.joining.said.get_or_insert(now) + SAID_EVERY {
            return;
        }
        self.joining.said = Some(now);
        let seconds = since(now, self.started).as_secs();
        let reason = self.reason(&waiting);
        tracing::info!(
            seconds,
            messages = self.joining.sent + self.joining.received,
            tries = waiting.failures,
            "this router is not in the ring yet: {reason}"
        );
    }

    fn reason(&self, waiting: &Waiting) -> String {
        let Waiting {
            answers_of,
            failures,
            ended_views,
        } = waiting;
        if *ended_views > 0 && *failures > 0 {
            return WRONG_CLOCK.to_owned();
        }
        if answers_of.is_empty() {
            return "nobody let it in; it tries again".to_owned();
        }
        let named = answers_of.iter().take(NAMED);
        let named: Vec<String> = named.map(|key| self.name_of_router(key)).collect();
        let more = answers_of.len().saturating_sub(NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("it waits for answers of {}{more}", named.join(", "))
    }

    fn name_of_router(&self, key: &RingKey) -> String {
        let certificate = self.directory.cached_router(key);
        certificate.map_or_else(|| key.to_string(), |known| known.name().to_string())
    }

    /// It is in the ring.
    pub(super) fn tell_joined(&self, now: Instant) {
        let milliseconds = u64::try_from(since(now, self.started).as_millis());
        tracing::info!(
            milliseconds = milliseconds.unwrap_or(u64::MAX),
            messages = self.joining.sent + self.joining.received,
            "this router is part of the ring"
        );
    }
}
