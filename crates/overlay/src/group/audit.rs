//! Audits: what a member says to strangers is compared with what it says to those around it.
//!
//! Neighbours exchange their views all the time, so no member can tell two of them different
//! stories for long. A stranger's questions are rarer, and a member that lies to strangers only now
//! and then, and only to those who do not seem to know its view already, would be found out by
//! chance alone. So each member looks up a random point now and then, exactly as if its caller had
//! asked for it: the same steps, the same questions, in the same order, from a point that no other
//! member can foresee. A member that is asked cannot tell it from any other lookup. Each view that
//! comes of it goes to one member next to its author (`witness`).
//!
//! Of every other lookup too some views are told, with the share of the configuration. Whom they
//! are told to is not the author's choice: its view may name accomplices only, so the lookup's last
//! group says who stands next to it.
//!
//! Source: "Our Brothers' Keepers" §3.4, by which a member that tells its neighbours and others
//! different groups is found out by asking both.

use std::time::Instant;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::context::Cx;
use crate::group::around;
use crate::key::RingKey;
use crate::limits::AUDIT_INTERVAL;
use crate::message::Message;
use crate::view::SignedHeader;

/// When this member audits others.
#[derive(Debug, Default)]
pub(crate) struct Audits {
    next: Option<Instant>,
}

impl Audits {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    /// The next audit is some time from now.
    pub(crate) fn plan(&mut self, cx: &mut Cx<'_>) {
        let pause = cx.jittered(AUDIT_INTERVAL.mul_f64(cx.health_multiplier()));
        self.next = Some(cx.now + pause);
    }

    /// The random point to look up now, if an audit is due.
    pub(crate) fn due(&mut self, cx: &mut Cx<'_>) -> Option<RingKey> {
        if !cx.member || self.next.is_none_or(|next| next > cx.now) {
            return None;
        }
        self.plan(cx);
        let mut point = [0; 32];
        cx.rng.fill_bytes(&mut point);
        Some(RingKey::from_bytes(point))
    }
}

/// A lookup has ended with `group`: what its members `said` is told to members next to them, `all`
/// of it after an audit.
pub(crate) fn pass_to_neighbours(
    cx: &mut Cx<'_>,
    group: &[RingKey],
    said: &[SignedHeader],
    all: bool,
) {
    for said in said {
        if !all && !cx.rng.random_bool(cx.config.witness_share) {
            continue;
        }
        let author = said.header.author;
        let beside = around(&author, cx.config.group, group.iter().copied());
        let usable = |key: &RingKey| *key != author && *key != cx.me && cx.trust.is_usable(key);
        let beside: Vec<RingKey> = beside.into_iter().filter(usable).collect();
        if let Some(neighbour) = beside.choose(cx.rng).copied() {
            cx.send(neighbour, Message::Witness { said: *said });
        }
    }
}
