//! Putting and getting: a verified lookup of the record's point, and then everybody around it.

use std::collections::{BTreeMap, BTreeSet};

use super::keep::Keeping;
use super::{Record, RecordError};
use crate::context::Cx;
use crate::effect::Effect;
use crate::event::{Event, LookupFailure, RecordId};
use crate::group::neighbours::Neighbours;
use crate::key::RingKey;
use crate::limits::MAX_RECORD_OPERATIONS;
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, Rule, Views};
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

impl Operations {
    /// Puts a record: the answer comes as an event.
    pub(crate) fn put(&mut self, cx: &mut Cx<'_>, record: Record) -> Result<RecordId, RecordError> {
        let credentials = cx.trust.credentials().ok_or(RecordError::NotMember)?;
        let author = record.author(credentials);
        let author = author.filter(|_| record.is_current(credentials.unix_time(cx.now)));
        let author = author.ok_or(RecordError::Invalid)?;
        let point = Record::point(&author, &record.name);
        self.start(cx, point, Some(Box::new(record)))
    }

    /// Looks for the newest record at `point`: the answer comes as an event.
    pub(crate) fn get(&mut self, cx: &mut Cx<'_>, point: RingKey) -> Result<RecordId, RecordError> {
        if !cx.trust.has_credentials() {
            return Err(RecordError::NotMember);
        }
        self.start(cx, point, None)
    }

    fn start(
        &mut self,
        cx: &mut Cx<'_>,
        point: RingKey,
        put: Option<Box<Record>>,
    ) -> Result<RecordId, RecordError> {
        if !cx.member {
            return Err(RecordError::NotMember);
        }
        let running = self.running.len();
        if running >= MAX_RECORD_OPERATIONS {
            return Err(RecordError::TooMany(running));
        }
        self.next = self.next.wrapping_add(1);
        let id = RecordId(self.next);
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
        self.running.insert(id, operation);
        let inquiry = Inquiry::new(Asker::Record(id), point, Rule::Verified);
        cx.effect(Effect::LookUp(Box::new(inquiry)));
        Ok(id)
    }

    /// The lookup of a record's point has ended.
    pub(crate) fn looked_up(
        &mut self,
        cx: &mut Cx<'_>,
        keeping: &mut Keeping,
        neighbours: &Neighbours,
        id: RecordId,
        result: Result<Found, LookupFailure>,
    ) {
        match result.map(|found| found.around) {
            Ok(Around::Views(views)) => self.group_found(cx, keeping, neighbours, id, &views),
            Ok(Around::Claimed(_)) => {}
            Err(reason) => self.fail(cx, id, reason),
        }
    }

    /// The members around the point are known: all of them are asked.
    fn group_found(
        &mut self,
        cx: &mut Cx<'_>,
        keeping: &mut Keeping,
        neighbours: &Neighbours,
        id: RecordId,
        views: &Views,
    ) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        let group = &views.group;
        operation.verified = views.verified;
        operation.group = group.len();
        operation.waiting = group.iter().copied().filter(|key| *key != cx.me).collect();
        let (point, put) = (operation.point, operation.put.clone());
        for to in operation.waiting.clone() {
            match &put {
                Some(record) => {
                    let record = Record::clone(record);
                    cx.request(to, Purpose::Storing(id), |id| Message::Store { id, record });
                }
                None => cx.request(to, Purpose::Fetching(id), |id| Message::Fetch { id, point }),
            }
        }
        // This member is one of those around the point.
        if group.contains(&cx.me) {
            self.take_part(cx, keeping, neighbours, id);
        }
        self.step(cx, id);
    }

    /// Does at once what the others around the point are asked for.
    fn take_part(
        &mut self,
        cx: &mut Cx<'_>,
        keeping: &mut Keeping,
        neighbours: &Neighbours,
        id: RecordId,
    ) {
        let Some(operation) = self.running.get(&id) else {
            return;
        };
        let (point, put) = (operation.point, operation.put.clone());
        match put {
            Some(record) => {
                let number = record.number;
                // This member counts only if it has the record, as the others do.
                let kept = keeping.keep(cx, neighbours, *record) >= number;
                if let Some(operation) = self.running.get_mut(&id) {
                    operation.answers = operation.answers.saturating_add(1);
                    operation.copies = operation.copies.saturating_add(u32::from(kept));
                }
            }
            None => {
                let own = keeping.record_at(cx, &point).cloned();
                self.record_came(cx, id, own);
            }
        }
    }

    pub(crate) fn storing_answered(
        &mut self,
        cx: &mut Cx<'_>,
        id: RecordId,
        from: RingKey,
        answer: Option<&Message>,
    ) {
        let Some(operation) = self.running.get_mut(&id) else {
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
        self.step(cx, id);
    }

    pub(crate) fn fetching_answered(
        &mut self,
        cx: &mut Cx<'_>,
        id: RecordId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        operation.waiting.remove(&from);
        if let Some(Message::Fetched { record, .. }) = answer {
            self.record_came(cx, id, record);
        }
        self.step(cx, id);
    }

    /// Somebody takes longer than answers use to take.
    pub(crate) fn fetching_slow(&mut self, cx: &mut Cx<'_>, id: RecordId, to: RingKey) {
        if let Some(operation) = self.running.get_mut(&id) {
            operation.slow.insert(to);
            self.step(cx, id);
        }
    }

    /// Somebody around the point has answered; with a record it counts if it is right, and newer
    /// than any before.
    fn record_came(&mut self, cx: &mut Cx<'_>, id: RecordId, record: Option<Record>) {
        let (Some(operation), Some(credentials)) =
            (self.running.get_mut(&id), cx.trust.credentials())
        else {
            return;
        };
        operation.answers = operation.answers.saturating_add(1);
        let Some(record) = record else {
            return;
        };
        let known = operation.best.as_ref();
        // Signatures are checked only where the record could count.
        if known.is_some_and(|best| !record.is_newer_than(best)) {
            return;
        }
        let here = |author| Record::point(&author, &record.name) == operation.point;
        let genuine = record.is_current(credentials.unix_time(cx.now))
            && record.author(credentials).is_some_and(here);
        if genuine {
            operation.best = Some(record);
        } else {
            cx.count_malformed();
        }
    }

    /// Ends the operation if nothing more is to be waited for. One honest answer is enough, so
    /// those that are late are not waited for once most have answered.
    fn step(&mut self, cx: &mut Cx<'_>, id: RecordId) {
        let Some(operation) = self.running.get(&id) else {
            return;
        };
        let most = usize::try_from(operation.answers).unwrap_or(0) > operation.group / 2;
        let gets = operation.put.is_none();
        let late = gets && most && operation.waiting.is_subset(&operation.slow);
        if !operation.waiting.is_empty() && !late {
            return;
        }
        let Some(operation) = self.running.remove(&id) else {
            return;
        };
        // Late answers would belong to nothing.
        let mine = |purpose: &Purpose| purpose.record() == Some(id);
        cx.requests.forget(mine);
        let group = u32::try_from(operation.group).unwrap_or(u32::MAX);
        let verified = operation.verified;
        cx.emit(match operation.put {
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

    fn fail(&mut self, cx: &mut Cx<'_>, id: RecordId, reason: LookupFailure) {
        if self.running.remove(&id).is_some() {
            cx.emit(Event::RecordFailed { id, reason });
        }
    }

    /// Ends all that run: this member leaves.
    pub(crate) fn fail_all(&mut self, cx: &mut Cx<'_>, reason: LookupFailure) {
        let ids: Vec<RecordId> = self.running.keys().copied().collect();
        for id in ids {
            self.fail(cx, id, reason);
        }
    }
}
