//! What a member keeps of others' records, and how those who should have a copy get one.
//!
//! The g members around a record's point keep it. Each knows its own group and what its neighbours
//! say of theirs, so it knows who else ought to have it. Whoever comes into the own group is
//! offered what it ought to have, by number; it asks for what it misses. Once in [`RECORD_ROUND`]
//! one neighbour is offered everything again, so that what was lost is found.

use std::collections::VecDeque;
use std::time::Instant;

use rand::RngExt as _;

use super::store::Store;
use super::{MEMBER_LEN, Record};
use crate::chord::Chord;
use crate::credentials::Standing;
use crate::group::around;
use crate::key::RingKey;
use crate::limits::{MAX_OFFERED, MAX_OFFERS, MAX_RECORDS, OFFER_DELAY, OFFER_PAUSE, RECORD_ROUND};
use crate::message::{Message, RequestId};
use crate::request::Purpose;

/// A walk through the store, to offer one member what it ought to have.
#[derive(Debug)]
struct Walk {
    to: RingKey,
    after: Option<RingKey>,
    next: Instant,
}

/// What is kept, and who is being offered it.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    pub(super) store: Store,
    walks: VecDeque<Walk>,
    next_round: Option<Instant>,
    /// Who was offered everything last.
    last: Option<RingKey>,
}

impl Keeping {
    pub(crate) fn start(&mut self, now: Instant) {
        self.walks.clear();
        self.next_round = Some(now + RECORD_ROUND);
    }

    pub(crate) fn stop(&mut self) {
        self.walks.clear();
        self.next_round = None;
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let walks = self.walks.iter().map(|walk| walk.next);
        walks.chain(self.next_round).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }
}

impl Chord {
    /// The members around this one, as far as it and its neighbours say: itself among them.
    fn around_here(&self) -> Vec<RingKey> {
        let views = self.own_group().iter();
        let views = views.filter_map(|key| self.neighbours.view_of(key));
        let named = views.flat_map(|view| view.group.iter().copied());
        let mut all: Vec<RingKey> = named.chain(self.own_group().iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|key| *key == self.me || self.standing(key) != Standing::Refused);
        all
    }

    /// Whether `key` ought to keep what stands at `point`, if the ring near here is `all`.
    fn keeps(&self, key: &RingKey, point: &RingKey, all: &[RingKey]) -> bool {
        around(point, self.config.group, all.iter().copied()).contains(key)
    }

    /// Whether this member takes what stands at `point`: if it ought to, or others may well think
    /// so.
    fn takes(&self, point: &RingKey, all: &[RingKey]) -> bool {
        let generous = self.config.group.saturating_mul(2).saturating_sub(1);
        around(point, generous, all.iter().copied()).contains(&self.me)
    }

    /// Keeps a record, if this member should. Gives the number that it has then; 0 if it has none.
    pub(super) fn keep_record(&mut self, now: Instant, record: Record) -> u64 {
        let Some(credentials) = &self.credentials else {
            return 0;
        };
        if !self.is_member() || !record.is_current(credentials.unix_time(now)) {
            return 0;
        }
        let Some(author) = record.author(credentials.as_ref()) else {
            self.counters.malformed += 1;
            return 0;
        };
        let point = Record::point(&author, &record.name);
        if self.takes(&point, &self.around_here()) {
            self.keeping.store.keep(author, record);
        }
        self.keeping.store.number(&point).unwrap_or(0)
    }

    pub(crate) fn answer_store(
        &mut self,
        now: Instant,
        from: RingKey,
        id: RequestId,
        record: Record,
    ) {
        let number = self.keep_record(now, record);
        self.send(from, Message::Stored { id, number });
    }

    pub(crate) fn answer_fetch(
        &mut self,
        now: Instant,
        from: RingKey,
        id: RequestId,
        point: RingKey,
    ) {
        let record = self.record_at(now, &point).cloned();
        self.send(from, Message::Fetched { id, record });
    }

    pub(super) fn record_at(&self, now: Instant, point: &RingKey) -> Option<&Record> {
        let unix = self.credentials.as_ref()?.unix_time(now);
        let kept = self.keeping.store.get(point);
        kept.filter(|record| record.is_current(unix))
    }

    /// Says which of the records that are offered are wanted.
    pub(crate) fn answer_offer(
        &mut self,
        from: RingKey,
        id: RequestId,
        offered: &[(RingKey, u64)],
    ) {
        let all = self.around_here();
        let store = &self.keeping.store;
        let misses =
            |(point, number): &&(RingKey, u64)| store.number(point).is_none_or(|own| own < *number);
        let wanted = offered.iter().filter(misses).map(|(point, _)| *point);
        let points: Vec<RingKey> = wanted.filter(|point| self.takes(point, &all)).collect();
        self.send(from, Message::Wanted { id, points });
    }

    /// A member has come into the own group, or has started again: it is offered what it ought to
    /// have.
    pub(crate) fn offer_records(&mut self, now: Instant, to: RingKey) {
        let known = self.keeping.walks.iter().any(|walk| walk.to == to);
        if known || self.keeping.walks.len() >= MAX_OFFERS || self.keeping.len() == 0 {
            return;
        }
        // All around it notice at once: those who come later find that it has them.
        let delay = OFFER_DELAY.mul_f64(self.rng.random::<f64>());
        let next = now + delay;
        let after = None;
        self.keeping.walks.push_back(Walk { to, after, next });
    }

    pub(crate) fn records_due(&mut self, now: Instant) {
        if self.keeping.next_round.is_some_and(|at| at <= now) {
            let pause = self.jittered(RECORD_ROUND);
            self.keeping.next_round = Some(now + pause);
            self.begin_record_round(now);
        }
        let due = |walk: &Walk| walk.next <= now;
        while let Some(place) = self.keeping.walks.iter().position(due) {
            if let Some(walk) = self.keeping.walks.remove(place) {
                self.offer_some(now, walk);
            }
        }
    }

    /// Forgets what has expired, whose author is no member any more, or what is others' to keep
    /// once there is much; and begins to offer the next neighbour everything.
    fn begin_record_round(&mut self, now: Instant) {
        let all = self.around_here();
        let Some(credentials) = &self.credentials else {
            return;
        };
        let unix = credentials.unix_time(now);
        let much = self.keeping.len() > MAX_RECORDS / 2;
        let far: Vec<RingKey> = match much {
            true => {
                let points = self.keeping.store.from(None).map(|(point, _)| point);
                points.filter(|point| !self.takes(point, &all)).collect()
            }
            false => Vec::new(),
        };
        let unwanted = |point: &RingKey, author: &[u8; MEMBER_LEN], record: &Record| {
            !record.is_current(unix)
                || far.binary_search(point).is_ok()
                || !credentials.is_member(author)
        };
        self.keeping.store.forget(unwanted);
        let last = self.keeping.last;
        let next = last.and_then(|last| self.neighbours.keys().find(|key| *key > last));
        let next = next.or_else(|| self.neighbours.keys().next());
        self.keeping.last = next;
        if let Some(next) = next {
            self.offer_records(now, next);
        }
    }

    fn offer_some(&mut self, now: Instant, walk: Walk) {
        if !self.is_member() || self.peers.is_suspect(now, &walk.to) {
            return;
        }
        let mut all = self.around_here();
        if let Err(place) = all.binary_search(&walk.to) {
            all.insert(place, walk.to);
        }
        let mut after = walk.after;
        let mut records = Vec::new();
        for (point, number) in self.keeping.store.from(walk.after) {
            if records.len() >= MAX_OFFERED {
                break;
            }
            after = Some(point);
            if self.keeps(&walk.to, &point, &all) {
                records.push((point, number));
            }
        }
        let more = records.len() >= MAX_OFFERED;
        if !records.is_empty() {
            self.request(now, walk.to, Purpose::Offered, |id| Message::Offer {
                id,
                records,
            });
        }
        if more {
            let next = now + OFFER_PAUSE;
            let to = walk.to;
            self.keeping.walks.push_back(Walk { to, after, next });
        }
    }

    /// A member wants some of what it was offered.
    pub(crate) fn offer_answered(&mut self, now: Instant, from: RingKey, answer: Message) {
        let Message::Wanted { points, .. } = answer else {
            return;
        };
        for point in points.into_iter().take(MAX_OFFERED) {
            if let Some(record) = self.record_at(now, &point).cloned() {
                self.request(now, from, Purpose::Copied, |id| Message::Store {
                    id,
                    record,
                });
            }
        }
    }
}
