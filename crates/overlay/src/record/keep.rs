//! What a member keeps of others' records, and how those who should have a copy get one.
//!
//! The g members around a record's point keep it. Each knows its own group and what its neighbours
//! say of theirs, so it knows who else ought to have it. A member that comes into the own group is
//! offered what it ought to have, by number; it asks for what it misses. Once in [`RECORD_ROUND`]
//! one neighbour is offered everything again, so that what was lost is found.

use std::collections::VecDeque;
use std::time::Instant;

use rand::RngExt as _;

use super::Record;
use super::store::Store;
use crate::context::Cx;
use crate::credentials::MEMBER_LEN;
use crate::credentials::Standing;
use crate::group::around;
use crate::group::neighbours::Neighbours;
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

    /// Keeps a record, if this member should. Gives the number that it has then; 0 if it has none.
    pub(super) fn keep(&mut self, cx: &mut Cx<'_>, group: &Neighbours, record: Record) -> u64 {
        let Some(credentials) = cx.trust.credentials() else {
            return 0;
        };
        if !cx.member || !record.is_current(credentials.unix_time(cx.now)) {
            return 0;
        }
        let Some(author) = record.author(credentials) else {
            cx.count_malformed();
            return 0;
        };
        let point = Record::point(&author, &record.name);
        if Vicinity::new(cx, group).takes(&point) {
            self.store.keep(author, record);
        }
        self.store.number(&point).unwrap_or(0)
    }

    pub(crate) fn answer_store(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        from: RingKey,
        id: RequestId,
        record: Record,
    ) {
        let number = self.keep(cx, group, record);
        cx.send(from, Message::Stored { id, number });
    }

    pub(crate) fn answer_fetch(
        &self,
        cx: &mut Cx<'_>,
        from: RingKey,
        id: RequestId,
        point: RingKey,
    ) {
        let record = self.record_at(cx, &point).cloned();
        cx.send(from, Message::Fetched { id, record });
    }

    pub(super) fn record_at(&self, cx: &Cx<'_>, point: &RingKey) -> Option<&Record> {
        let unix = cx.trust.unix_time(cx.now)?;
        let kept = self.store.get(point);
        kept.filter(|record| record.is_current(unix))
    }

    /// Says which of the records that are offered are wanted.
    pub(crate) fn answer_offer(
        &self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        from: RingKey,
        id: RequestId,
        offered: &[(RingKey, u64)],
    ) {
        let vicinity = Vicinity::new(cx, group);
        let store = &self.store;
        let misses =
            |(point, number): &&(RingKey, u64)| store.number(point).is_none_or(|own| own < *number);
        let wanted = offered.iter().filter(misses).map(|(point, _)| *point);
        let points: Vec<RingKey> = wanted.filter(|point| vicinity.takes(point)).collect();
        cx.send(from, Message::Wanted { id, points });
    }

    /// A member has come into the own group, or has started again: it is offered what it ought to
    /// have.
    pub(crate) fn offer_to(&mut self, cx: &mut Cx<'_>, to: RingKey) {
        let known = self.walks.iter().any(|walk| walk.to == to);
        if known || self.walks.len() >= MAX_OFFERS || self.len() == 0 {
            return;
        }
        // All around it notice at once: those who come later find that it has them.
        let delay = OFFER_DELAY.mul_f64(cx.rng.random::<f64>());
        let next = cx.now + delay;
        let after = None;
        self.walks.push_back(Walk { to, after, next });
    }

    pub(crate) fn due(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        let now = cx.now;
        if self.next_round.is_some_and(|at| at <= now) {
            let pause = cx.jittered(RECORD_ROUND);
            self.next_round = Some(now + pause);
            self.begin_round(cx, group);
        }
        let due = |walk: &Walk| walk.next <= now;
        while let Some(place) = self.walks.iter().position(due) {
            if let Some(walk) = self.walks.remove(place) {
                self.offer_some(cx, group, walk);
            }
        }
    }

    /// Forgets what has expired, whose author is no member any more, or what is others' to keep
    /// once there is much; and begins to offer the next neighbour everything.
    fn begin_round(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        let vicinity = Vicinity::new(cx, group);
        let Some(credentials) = cx.trust.credentials() else {
            return;
        };
        let unix = credentials.unix_time(cx.now);
        let much = self.len() > MAX_RECORDS / 2;
        let far: Vec<RingKey> = if much {
            let points = self.store.from(None).map(|(point, _)| point);
            points.filter(|point| !vicinity.takes(point)).collect()
        } else {
            Vec::new()
        };
        let unwanted = |point: &RingKey, author: &[u8; MEMBER_LEN], record: &Record| {
            !record.is_current(unix)
                || far.binary_search(point).is_ok()
                || !credentials.is_member(author)
        };
        self.store.forget(unwanted);
        let last = self.last;
        // One after the other, so that each is offered all in turn.
        let next = last.and_then(|last| group.keys().find(|key| *key > last));
        let next = next.or_else(|| group.keys().next());
        self.last = next;
        if let Some(next) = next {
            self.offer_to(cx, next);
        }
    }

    fn offer_some(&mut self, cx: &mut Cx<'_>, group: &Neighbours, walk: Walk) {
        if !cx.member || cx.is_suspect(&walk.to) {
            return;
        }
        // It may have come just now, so that no neighbour names it so far.
        let vicinity = Vicinity::new(cx, group).with(walk.to);
        let mut after = walk.after;
        let mut records = Vec::new();
        for (point, number) in self.store.from(walk.after) {
            if records.len() >= MAX_OFFERED {
                break;
            }
            after = Some(point);
            if vicinity.keeps(&walk.to, &point) {
                records.push((point, number));
            }
        }
        let more = records.len() >= MAX_OFFERED;
        if !records.is_empty() {
            cx.request(walk.to, Purpose::Offered, |id| Message::Offer {
                id,
                records,
            });
        }
        if more {
            let next = cx.now + OFFER_PAUSE;
            let to = walk.to;
            self.walks.push_back(Walk { to, after, next });
        }
    }

    /// A member wants some of what it was offered.
    pub(crate) fn offer_answered(&self, cx: &mut Cx<'_>, from: RingKey, answer: Message) {
        let Message::Wanted { points, .. } = answer else {
            return;
        };
        for point in points.into_iter().take(MAX_OFFERED) {
            if let Some(record) = self.record_at(cx, &point).cloned() {
                cx.request(from, Purpose::Copied, |id| Message::Store { id, record });
            }
        }
    }
}

/// The members around this one, as far as it and its neighbours say: itself among them.
#[derive(Debug)]
pub(crate) struct Vicinity {
    me: RingKey,
    g: usize,
    /// In the order of their keys.
    keys: Vec<RingKey>,
}

impl Vicinity {
    pub(crate) fn new(cx: &Cx<'_>, group: &Neighbours) -> Vicinity {
        let views = group.members().iter();
        let views = views.filter_map(|key| group.view_of(key));
        let named = views.flat_map(|view| view.group.iter().copied());
        let mut keys: Vec<RingKey> = named.chain(group.members().iter().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| *key == cx.me || cx.standing(key) != Standing::Refused);
        Vicinity {
            me: cx.me,
            g: cx.config.group,
            keys,
        }
    }

    fn with(mut self, key: RingKey) -> Vicinity {
        if let Err(index) = self.keys.binary_search(&key) {
            self.keys.insert(index, key);
        }
        self
    }

    /// Whether `key` ought to keep what stands at `point`.
    fn keeps(&self, key: &RingKey, point: &RingKey) -> bool {
        around(point, self.g, self.keys.iter().copied()).contains(key)
    }

    /// Whether this member takes what stands at `point`: if it ought to, or others may well think
    /// so.
    pub(crate) fn takes(&self, point: &RingKey) -> bool {
        let generous = self.g.saturating_mul(2).saturating_sub(1);
        around(point, generous, self.keys.iter().copied()).contains(&self.me)
    }
}
