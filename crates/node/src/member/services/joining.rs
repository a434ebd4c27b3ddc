//! What a router on its way into the ring says in the log: once a second whom it waits for, and at
//! the end how long it took and how many messages.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use ringway_overlay::{Chord, Event as RingEvent, Membership as Position, RingKey, Waiting};

use crate::member::core::Core;
use crate::member::service::Service;
use crate::state::StateError;

/// Pause between two lines, and before the first.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Routers that one line names.
const NAMED: usize = 5;

/// Said where the views of others have ended by this machine's clock.
const WRONG_CLOCK: &str = "what other routers state had ended long ago by this machine's clock: \
                           see whether it is right";

/// When it was last logged what is waited for; none while this router is in the ring.
#[derive(Debug, Default)]
pub(in crate::member) struct Joining {
    logged: Option<Instant>,
}

/// Says what this router waits for.
fn log_waiting(core: &Core, waiting: &Waiting) {
    let seconds = core.uptime().as_secs();
    let reason = reason(core, waiting);
    tracing::info!(
        seconds,
        messages = core.overlay.sent + core.overlay.received,
        tries = waiting.failures,
        "this router is not in the ring yet: {reason}"
    );
}

/// It is in the ring.
fn log_joined(core: &Core) {
    let milliseconds = u64::try_from(core.uptime().as_millis());
    tracing::info!(
        milliseconds = milliseconds.unwrap_or(u64::MAX),
        messages = core.overlay.sent + core.overlay.received,
        "this router is part of the ring"
    );
}

fn reason(core: &Core, waiting: &Waiting) -> String {
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
    let named: Vec<String> = named.map(|key| name_of_router(core, key)).collect();
    // A line of the log is no list of the whole ring.
    let more = match answers_of.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("it waits for answers of {}{more}", named.join(", "))
}

fn name_of_router(core: &Core, key: &RingKey) -> String {
    let certificate = core.directory.cached_router(key);
    certificate.map_or_else(|| key.to_string(), |known| known.name().to_string())
}

impl Service for Joining {
    type Command = Infallible;

    fn start(_core: &mut Core) -> Result<Joining, StateError> {
        Ok(Joining::default())
    }

    fn on_ring(&mut self, core: &mut Core, event: &RingEvent) {
        if let RingEvent::Joined = event {
            self.logged = None;
            log_joined(core);
        }
    }

    fn next_deadline(&self, core: &Core) -> Option<Instant> {
        let on_its_way = core.chord.as_ref()?.state() != Position::Member;
        on_its_way.then(|| self.logged.map_or(core.now, |at| at + LOG_PAUSE))
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let first = self.logged.replace(core.now).is_none();
        let waiting = core.chord.as_ref().and_then(Chord::waiting);
        if let Some(waiting) = waiting.filter(|_| !first) {
            log_waiting(core, &waiting);
        }
    }
}
