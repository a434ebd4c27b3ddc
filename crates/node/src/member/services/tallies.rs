//! Tallies: a router leaves what it has counted, and reads what all have. A leaf has no key that
//! stands for it in the ring, so it does neither.

use std::collections::BTreeMap;

use ringway_overlay::{Event, RingKey, TallyError, TallyId};
use tokio::sync::oneshot;

use crate::member::answer::{LookupFailed, answer};
use crate::member::core::Core;
use crate::member::handle::MemberHandle;
use crate::member::service::Service;
use crate::state::StateError;

/// How leaving a count, or reading a tally, ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct TallyOutcome {
    /// Of a count: routers around its point that have it.
    pub(crate) copies: u32,
    /// Routers around its point that answered.
    pub(crate) answers: u32,
    /// Routers around its point.
    pub(crate) group: u32,
    /// Whether they are known for sure.
    pub(crate) verified: bool,
    /// Of a tally: what each router has counted.
    pub(crate) counts: Vec<(RingKey, u64)>,
}

type Reply = oneshot::Sender<Result<TallyOutcome, LookupFailed>>;

/// What is to be done with the tally at a point.
#[derive(Debug)]
pub(in crate::member) enum Command {
    /// Leave what this router has counted.
    Count {
        point: RingKey,
        count: u64,
        expires: u64,
        reply: Reply,
    },
    /// Read what all have counted.
    Read { point: RingKey, reply: Reply },
}

impl MemberHandle {
    /// Leaves what this router has counted at a point, until `expires` in Unix seconds.
    pub(crate) async fn count(
        &self,
        point: RingKey,
        count: u64,
        expires: u64,
    ) -> Result<TallyOutcome, LookupFailed> {
        let command = |reply| Command::Count {
            point,
            count,
            expires,
            reply,
        };
        let answer = self.ask(command).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Reads what routers have counted at a point.
    pub(crate) async fn tally(&self, point: RingKey) -> Result<TallyOutcome, LookupFailed> {
        let answer = self.ask(|reply| Command::Read { point, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }
}

/// What is under way.
#[derive(Debug, Default)]
pub(in crate::member) struct Tallies {
    askers: BTreeMap<TallyId, Reply>,
}

impl Service for Tallies {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<Tallies, StateError> {
        Ok(Tallies::default())
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        let now = core.now;
        let (begun, reply) = match (&mut core.chord, command) {
            (None, Command::Count { reply, .. } | Command::Read { reply, .. }) => {
                (Err(TallyError::NotMember), reply)
            }
            (
                Some(chord),
                Command::Count {
                    point,
                    count,
                    expires,
                    reply,
                },
            ) => (chord.count(now, point, count, expires), reply),
            (Some(chord), Command::Read { point, reply }) => (chord.tally(now, point), reply),
        };
        // The answer comes with an event, unless nothing has begun.
        match begun {
            Ok(id) => drop(self.askers.insert(id, reply)),
            Err(TallyError::NotMember) => answer(reply, Err(LookupFailed::NotInRing)),
            Err(error) => answer(reply, Err(LookupFailed::Overlay(error.to_string()))),
        }
    }

    fn on_ring(&mut self, _core: &mut Core, event: &Event) {
        let (id, outcome) = match event {
            Event::Counted {
                id,
                copies,
                group,
                verified,
            } => {
                let outcome = TallyOutcome {
                    copies: *copies,
                    answers: *copies,
                    group: *group,
                    verified: *verified,
                    counts: Vec::new(),
                };
                (id, Ok(outcome))
            }
            Event::Tallied {
                id,
                counts,
                answers,
                group,
                verified,
            } => {
                let counts = counts.iter().map(|count| (count.author, count.count));
                let outcome = TallyOutcome {
                    copies: 0,
                    answers: *answers,
                    group: *group,
                    verified: *verified,
                    counts: counts.collect(),
                };
                (id, Ok(outcome))
            }
            Event::TallyFailed { id, reason } => {
                (id, Err(LookupFailed::Overlay(reason.to_string())))
            }
            _ => return,
        };
        // Each event ends what one asker waits for.
        if let Some(reply) = self.askers.remove(id) {
            answer(reply, outcome);
        }
    }
}
