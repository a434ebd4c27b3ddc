//! Putting and getting: a verified lookup of the record's point, and then everybody around it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::{Record, RecordError};
use crate::chord::Chord;
use crate::event::{Event, LookupFailure, RecordId};
use crate::key::RingKey;
use crate::limits::MAX_RECORD_OPERATIONS;
use crate::message::Message;
use crate::request::Purpose;

/// One record that is being put or looked for.
#[derive(Debug)]
struct Operation {
    point: RingKey,
    /// The record to put; none to get one.
    put: Option<Box<Record>>,
    /// Whether the lookup of the point was verified.
    verified: bool,
    group: usize,
    waiting: BTreeSet<RingKey>,
    /// Of those, whose answer is late.
    slow: BTreeSet<RingKey>,
    answers: u32,
    copies: u32,
    best: Option<Record>,
}

/// All that run.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    running: BTreeMap<RecordId, Operation>,
    next: u64,
}

impl Chord {
    /// Leaves a record with the members around its point. The answer comes as the event
    /// `RecordStored` or `RecordFailed`.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring or has no credentials, when the record is not one that
    /// others would keep, or when 128 operations run.
    pub fn put(&mut self, now: Instant, record: Record) -> Result<RecordId, RecordError> {
        let credentials = self.credentials.as_ref().ok_or(RecordError::NotMember)?;
        let author = record.author(credentials.as_ref());
        let author = author.filter(|_| record.is_current(credentials.unix_time(now)));
        let author = author.ok_or(RecordError::Invalid)?;
        let point = Record::point(&author, &record.name);
        self.start_record(now, point, Some(Box::new(record)))
    }

    /// Looks for the newest record at `point` ([`Record::point`]). The answer comes as the event
    /// `RecordFound` or `RecordFailed`.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn get(&mut self, now: Instant, point: RingKey) -> Result<RecordId, RecordError> {
        if self.credentials.is_none() {
            return Err(RecordError::NotMember);
        }
        self.start_record(now, point, None)
    }

    /// Records that this member keeps for others.
    #[must_use]
    pub fn records_kept(&self) -> usize {
        self.keeping.len()
    }

    fn start_record(
        &mut self,
        now: Instant,
        point: RingKey,
        put: Option<Box<Record>>,
    ) -> Result<RecordId, RecordError> {
        if !self.is_member() {
            return Err(RecordError::NotMember);
        }
        let running = self.operations.running.len();
        if running >= MAX_RECORD_OPERATIONS {
            return Err(RecordError::TooMany(running));
        }
        self.operations.next = self.operations.next.wrapping_add(1);
        let id = RecordId(self.operations.next);
        let operation = Operation {
            point,
            put,
            verified: false,
            group: 0,
            waiting: BTreeSet::new(),
            slow: BTreeSet::new(),
            answers: 0,
            copies: 0,
            best: None,
        };
        self.operations.running.insert(id, operation);
        self.start_record_lookup(now, id, point);
        Ok(id)
    }

    /// The members around the point are known: all of them are asked.
    pub(crate) fn record_group_found(
        &mut self,
        now: Instant,
        id: RecordId,
        group: &[RingKey],
        verified: bool,
    ) {
        let Some(operation) = self.operations.running.get_mut(&id) else {
            return;
        };
        operation.verified = verified;
        operation.group = group.len();
        operation.waiting = group
            .iter()
            .copied()
            .filter(|key| *key != self.me)
            .collect();
        let (point, put) = (operation.point, operation.put.clone());
        for to in operation.waiting.clone() {
            match &put {
                Some(record) => {
                    let record = Record::clone(record);
                    self.request(now, to, Purpose::Storing(id), |id| Message::Store {
                        id,
                        record,
                    });
                }
                None => self.request(now, to, Purpose::Fetching(id), |id| Message::Fetch {
                    id,
                    point,
                }),
            }
        }
        if group.contains(&self.me) {
            self.take_part(now, id, &point, put);
        }
        self.record_step(id);
    }

    /// This member is one of those around the point.
    fn take_part(&mut self, now: Instant, id: RecordId, point: &RingKey, put: Option<Box<Record>>) {
        match put {
            Some(record) => {
                let number = record.number;
                let kept = self.keep_record(now, *record) >= number;
                if let Some(operation) = self.operations.running.get_mut(&id) {
                    operation.answers = operation.answers.saturating_add(1);
                    operation.copies = operation.copies.saturating_add(u32::from(kept));
                }
            }
            None => {
                let own = self.record_at(now, point).cloned();
                self.record_came(now, id, own);
            }
        }
    }

    pub(crate) fn storing_answered(
        &mut self,
        id: RecordId,
        from: RingKey,
        answer: Option<&Message>,
    ) {
        let Some(operation) = self.operations.running.get_mut(&id) else {
            return;
        };
        operation.waiting.remove(&from);
        if let Some(Message::Stored { number, .. }) = answer {
            let wanted = operation.put.as_ref().map_or(u64::MAX, |put| put.number);
            operation.answers = operation.answers.saturating_add(1);
            operation.copies = operation
                .copies
                .saturating_add(u32::from(*number >= wanted));
        }
        self.record_step(id);
    }

    pub(crate) fn fetching_answered(
        &mut self,
        now: Instant,
        id: RecordId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let Some(operation) = self.operations.running.get_mut(&id) else {
            return;
        };
        operation.waiting.remove(&from);
        if let Some(Message::Fetched { record, .. }) = answer {
            self.record_came(now, id, record);
        }
        self.record_step(id);
    }

    /// Somebody takes longer than answers use to take.
    pub(crate) fn fetching_slow(&mut self, id: RecordId, to: RingKey) {
        if let Some(operation) = self.operations.running.get_mut(&id) {
            operation.slow.insert(to);
            self.record_step(id);
        }
    }

    /// Somebody around the point has answered; with a record it counts if it is right, and newer
    /// than any before.
    fn record_came(&mut self, now: Instant, id: RecordId, record: Option<Record>) {
        let (Some(operation), Some(credentials)) =
            (self.operations.running.get_mut(&id), &self.credentials)
        else {
            return;
        };
        operation.answers = operation.answers.saturating_add(1);
        let Some(record) = record else {
            return;
        };
        let known = operation.best.as_ref();
        if known.is_some_and(|best| !record.is_newer_than(best)) {
            return;
        }
        let here = |author| Record::point(&author, &record.name) == operation.point;
        let genuine = record.is_current(credentials.unix_time(now))
            && record.author(credentials.as_ref()).is_some_and(here);
        if genuine {
            operation.best = Some(record);
        } else {
            self.counters.malformed += 1;
        }
    }

    /// Ends the operation if nothing more is to be waited for. One honest answer is enough, so
    /// those that are late are not waited for once most have answered.
    fn record_step(&mut self, id: RecordId) {
        let Some(operation) = self.operations.running.get(&id) else {
            return;
        };
        let most = usize::try_from(operation.answers).unwrap_or(0) > operation.group / 2;
        let gets = operation.put.is_none();
        let late = gets && most && operation.waiting.is_subset(&operation.slow);
        if !operation.waiting.is_empty() && !late {
            return;
        }
        let Some(operation) = self.operations.running.remove(&id) else {
            return;
        };
        let mine = |purpose: &Purpose| purpose.record() == Some(id);
        self.requests.forget(mine);
        let group = u32::try_from(operation.group).unwrap_or(u32::MAX);
        let verified = operation.verified;
        self.emit(match operation.put {
            Some(_) => Event::RecordStored {
                id,
                copies: operation.copies,
                group,
                verified,
            },
            None => Event::RecordFound {
                id,
                record: operation.best.map(Box::new),
                answers: operation.answers,
                group,
                verified,
            },
        });
    }

    pub(crate) fn record_failed(&mut self, id: RecordId, reason: LookupFailure) {
        if self.operations.running.remove(&id).is_some() {
            self.emit(Event::RecordFailed { id, reason });
        }
    }

    /// Ends all that run: this member leaves.
    pub(crate) fn fail_all_records(&mut self, reason: LookupFailure) {
        let ids: Vec<RecordId> = self.operations.running.keys().copied().collect();
        for id in ids {
            self.record_failed(id, reason);
        }
    }
}
