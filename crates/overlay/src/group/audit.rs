//! Audits: what a member says to strangers is compared with what it says to those around it.
//!
//! Neighbours exchange their views all the time, so nobody can tell two of them different stories
//! for long. A stranger's questions are rarer, and whoever lies to strangers only now and then, and
//! only to those who do not seem to know its view already, would be found out by chance alone.
//! So each member looks up a random point now and then, exactly as if its caller had asked for it:
//! the same steps, the same questions, in the same order, from a point that nobody can foresee.
//! Whoever is asked cannot tell it from any other lookup. Each view that comes of it goes to one
//! member next to its author (`witness`).
//!
//! Of every other lookup too some views are told, with the share of the configuration. Whom they
//! are told to is not the author's choice: its view may name accomplices only, so the lookup's last
//! group says who stands next to it.
//!
//! Source: "Our Brothers' Keepers" §3.4, by which whoever tells its neighbours and others different
//! groups is found out by asking both.

use std::time::Instant;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::group::around;
use crate::key::RingKey;
use crate::limits::AUDIT_INTERVAL;
use crate::message::Message;
use crate::view::SignedHeader;

impl Chord {
    pub(crate) fn audits_due(&mut self, now: Instant) {
        if !self.is_member() || self.witnessed.next_audit.is_none_or(|next| next > now) {
            return;
        }
        self.plan_audit(now);
        let mut point = [0; 32];
        self.rng.fill_bytes(&mut point);
        if !self.knows_everybody() {
            self.start_audit(now, RingKey::from_bytes(point));
        }
    }

    /// The next audit is some time from now.
    pub(crate) fn plan_audit(&mut self, now: Instant) {
        let pause = self.jittered(AUDIT_INTERVAL.mul_f64(self.doubt()));
        self.witnessed.next_audit = Some(now + pause);
    }

    /// A lookup has ended with `group`: what its members `said` is told to members next to them,
    /// all of it after an audit.
    pub(crate) fn tell_neighbours(
        &mut self,
        group: &[RingKey],
        said: &[SignedHeader],
        audit: bool,
    ) {
        for said in said {
            if !audit && !self.rng.random_bool(self.config.witness_share) {
                continue;
            }
            let author = said.header.author;
            let beside = around(&author, self.config.group, group.iter().copied());
            let usable = |key: &RingKey| {
                *key != author && *key != self.me && self.standing(key) == Standing::Certified
            };
            let beside: Vec<RingKey> = beside.into_iter().filter(usable).collect();
            if let Some(neighbour) = beside.choose(&mut self.rng).copied() {
                self.send(neighbour, Message::Witness { said: *said });
            }
        }
    }
}
