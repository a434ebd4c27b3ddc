//! What a member remembers of others beside its pointers: who is silent, who is known, who asks how
//! often. Nothing here is evidence against anybody; it only orders whom to ask.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::key::RingKey;
use crate::limits::{
    MAX_KNOWN, MAX_REQUESTS_PER_PEER, MAX_ROUTED_PER_PEER, MAX_SUSPECTS, MAX_WATCHED_PEERS,
    RATE_WINDOW, RATES_KEPT, SUSPECT_TIME,
};

#[derive(Debug, Default)]
pub(crate) struct Peers {
    suspects: VecDeque<(RingKey, Instant)>,
    known: VecDeque<RingKey>,
    rates: Rates,
    routed: Rates,
}

/// How often each of some members does something.
#[derive(Debug, Default)]
struct Rates {
    counts: BTreeMap<RingKey, (Instant, u32)>,
    /// How many there were when those whose window is over were last forgotten.
    kept: usize,
}

impl Peers {
    /// Remembers a member for later; the latest is kept longest.
    pub(crate) fn learn(&mut self, peer: RingKey) {
        if self.known.back() == Some(&peer) {
            return;
        }
        self.known.retain(|known| *known != peer);
        self.known.push_back(peer);
        if self.known.len() > MAX_KNOWN {
            self.known.pop_front();
        }
    }

    /// The remembered members, the latest first.
    pub(crate) fn known(&self) -> impl Iterator<Item = RingKey> {
        self.known.iter().rev().copied()
    }

    pub(crate) fn suspect(&mut self, now: Instant, peer: RingKey) {
        self.trust(&peer);
        self.suspects.push_back((peer, now + SUSPECT_TIME));
        if self.suspects.len() > MAX_SUSPECTS {
            self.suspects.pop_front();
        }
    }

    pub(crate) fn trust(&mut self, peer: &RingKey) {
        self.suspects.retain(|(suspect, _)| suspect != peer);
    }

    pub(crate) fn is_suspect(&self, now: Instant, peer: &RingKey) -> bool {
        self.suspects
            .iter()
            .any(|(suspect, until)| suspect == peer && *until > now)
    }

    /// Counts a request of `peer`; false if it asked too often.
    pub(crate) fn may_ask(&mut self, now: Instant, peer: RingKey) -> bool {
        self.rates.count(now, peer, MAX_REQUESTS_PER_PEER)
    }

    /// Counts a message that `peer` hands on; false if there were too many.
    pub(crate) fn may_route(&mut self, now: Instant, peer: RingKey) -> bool {
        self.routed.count(now, peer, MAX_ROUTED_PER_PEER)
    }
}

impl Rates {
    fn count(&mut self, now: Instant, peer: RingKey, most: u32) -> bool {
        let over = |since: &Instant| now.saturating_duration_since(*since) >= RATE_WINDOW;
        if let Some((since, count)) = self.counts.get_mut(&peer) {
            if over(since) {
                (*since, *count) = (now, 0);
            }
            *count = count.saturating_add(1);
            return *count <= most;
        }
        // A peer whose window is over begins again in any case.
        let many = self.kept.saturating_mul(2).max(RATES_KEPT);
        if self.counts.len() >= many.min(MAX_WATCHED_PEERS) {
            self.counts.retain(|_, (since, _)| !over(since));
            self.kept = self.counts.len();
        }
        if self.counts.len() >= MAX_WATCHED_PEERS {
            return false;
        }
        self.counts.insert(peer, (now, 1));
        true
    }
}
