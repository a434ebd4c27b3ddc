//! [`Cx`]: what every machine of a member works with, lent to it for one step.
//!
//! A machine owns its state. What it shares with the others is here: the time, chance, whom to
//! trust, what is known of peers, open requests, and what goes out.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::config::Config;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::Event;
use crate::key::RingKey;
use crate::limits::MAX_EXTENSIONS;
use crate::message::{Message, RequestId};
use crate::output::Output;
use crate::peers::Peers;
use crate::request::{Purpose, Request, Requests};
use crate::trust::Trust;

/// What is shared, between steps.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) me: RingKey,
    pub(crate) config: Config,
    pub(crate) rng: StdRng,
    pub(crate) trust: Trust,
    pub(crate) peers: Peers,
    pub(crate) requests: Requests,
    pub(crate) out: Output,
}

impl Shared {
    /// `config` has been validated; all chance comes from `seed`.
    pub(crate) fn new(me: RingKey, config: Config, seed: [u8; 32]) -> Shared {
        let mut rng = StdRng::from_seed(seed);
        let requests = Requests::new(rng.next_u64());
        Shared {
            me,
            config,
            rng,
            trust: Trust::default(),
            peers: Peers::default(),
            requests,
            out: Output::default(),
        }
    }

    /// Lends it for one step at `now`. `member`: whether this member is in the ring.
    pub(crate) fn cx(&mut self, now: Instant, member: bool) -> Cx<'_> {
        Cx {
            now,
            me: self.me,
            member,
            config: &self.config,
            rng: &mut self.rng,
            trust: &mut self.trust,
            peers: &mut self.peers,
            requests: &mut self.requests,
            out: &mut self.out,
        }
    }
}

/// What a machine gets for one step.
#[derive(Debug)]
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) me: RingKey,
    /// Whether this member was in the ring when the step began.
    pub(crate) member: bool,
    pub(crate) config: &'a Config,
    pub(crate) rng: &'a mut StdRng,
    pub(crate) trust: &'a mut Trust,
    pub(crate) peers: &'a mut Peers,
    pub(crate) requests: &'a mut Requests,
    pub(crate) out: &'a mut Output,
}

impl Cx<'_> {
    pub(crate) fn send(&mut self, to: RingKey, message: Message) {
        self.out.send(to, message);
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.out.emit(event);
    }

    /// Leaves something for another machine.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.out.effects.push(effect);
    }

    /// Asks `to`, with the repetitions of the configuration.
    pub(crate) fn request(
        &mut self,
        to: RingKey,
        purpose: Purpose,
        message: impl FnOnce(RequestId) -> Message,
    ) {
        let id = self.requests.next_id();
        let message = message(id);
        let timeout = self.timeout();
        self.send(to, message.clone());
        // Only verified lookups, and those for records and tallies, can do something about a late
        // answer.
        let patience = self.requests.patience(timeout);
        let late = matches!(
            purpose,
            Purpose::Near(_) | Purpose::FinalView(_) | Purpose::Fetching(_) | Purpose::Reading(_)
        );
        let request = Request {
            to,
            message,
            purpose,
            sent: self.now,
            slow_at: late.then(|| self.now + patience),
            deadline: self.now + timeout,
            retries_left: self.config.retries,
            extensions_left: MAX_EXTENSIONS,
        };
        self.requests.insert(id, request);
    }

    /// How often longer than configured this member has to wait before it believes that others are
    /// dead: 1 to [`MAX_HEALTH_MULTIPLIER`](crate::limits::MAX_HEALTH_MULTIPLIER).
    pub(crate) fn health_multiplier(&self) -> f64 {
        self.requests.health.multiplier(self.config.request_timeout)
    }

    /// Time without an answer after which a request is repeated, as things are.
    pub(crate) fn timeout(&self) -> Duration {
        self.config
            .request_timeout
            .mul_f64(self.health_multiplier())
    }

    /// Time after which a lookup fails, as things are.
    pub(crate) fn lookup_timeout(&self) -> Duration {
        self.config.lookup_timeout.mul_f64(self.health_multiplier())
    }

    /// `interval`, a quarter more or less at random, so that members do not march in step.
    pub(crate) fn jittered(&mut self, interval: Duration) -> Duration {
        interval.mul_f64(self.rng.random_range(0.75..1.25))
    }

    pub(crate) fn standing(&self, key: &RingKey) -> Standing {
        self.trust.standing(key)
    }

    pub(crate) fn is_suspect(&self, key: &RingKey) -> bool {
        self.peers.is_suspect(self.now, key)
    }

    /// Something came that no correct member sends.
    pub(crate) fn count_malformed(&mut self) {
        self.out.counters.malformed += 1;
    }
}
