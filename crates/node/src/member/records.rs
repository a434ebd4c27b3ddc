//! Records: a router puts and gets them itself, a leaf through all of its parents at once.
//!
//! Whoever passes a record on cannot change it, only withhold it or give an older one: so a leaf
//! asks every parent, and takes the newest. What this member has put stays in its state, and is put
//! again once in [`RECORDS_AGAIN`]: so it outlives even all those who keep it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use minicbor::bytes::ByteVec;
use ringway_overlay::{Event, Record, RecordError, RecordId, RingKey};
use ringway_transport::{MemberId, Signer as _};
use tokio::sync::oneshot;

use super::LookupFailed;
use super::echo::answer;
use super::runtime::Runtime;
use crate::clock::unix_seconds;
use crate::credentials::CONTEXT;
use crate::limits::{
    LEAF_RECORDS, PARENT_RECORD_TIME, RECORD_TIME, RECORDS_AGAIN, RECORDS_AT_ONCE, RECORDS_FIRST,
};
use crate::link::LinkMessage;
use crate::state::OwnRecord;

/// How putting or getting a record ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordOutcome {
    /// Of a put: routers around its point that have it.
    pub(crate) copies: u32,
    /// Routers around its point that answered.
    pub(crate) answers: u32,
    /// Routers around its point.
    pub(crate) group: u32,
    /// Whether they are known for sure.
    pub(crate) verified: bool,
    /// Of a get: the newest.
    pub(crate) record: Option<Box<Record>>,
}

pub(super) type Reply = oneshot::Sender<Result<RecordOutcome, LookupFailed>>;

#[derive(Debug)]
enum Asker {
    Local(Reply),
    /// A leaf, and its number for it.
    Leaf(MemberId, u64),
    /// Nobody: it is put once more.
    Again,
}

/// A leaf's question to its parents.
#[derive(Debug)]
struct AtParents {
    waiting: BTreeSet<MemberId>,
    asked: usize,
    /// What is wanted: a record at this point, or none for a put.
    point: Option<RingKey>,
    best: Option<RecordOutcome>,
    /// When to make do with what has come.
    until: Instant,
    asker: Asker,
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Records {
    askers: BTreeMap<RecordId, Asker>,
    at_parents: BTreeMap<u64, AtParents>,
    next: u64,
    /// When own records are to be put again, and those whose turn has not come.
    again: Option<Instant>,
    queue: VecDeque<OwnRecord>,
}

impl Runtime {
    /// Signs a record and puts it. It is kept here first, so that it is put again after a restart.
    pub(super) fn put_own_record(
        &mut self,
        now: Instant,
        name: Vec<u8>,
        value: Vec<u8>,
        lifetime: Duration,
        reply: Reply,
    ) {
        let expires = unix_seconds().saturating_add(lifetime.as_secs());
        let number = match self.state.keep_record(&name, &value, expires) {
            Ok(number) => number,
            Err(error) => return answer(reply, Err(LookupFailed::Overlay(error.to_string()))),
        };
        let record = self.sign_record(name, value, number, expires);
        self.put_record(now, record, Asker::Local(reply));
    }

    fn sign_record(&self, name: Vec<u8>, value: Vec<u8>, number: u64, expires: u64) -> Record {
        let statement = Record::statement(&name, &value, number, expires);
        Record {
            certificate: self.membership.certificate.as_bytes().to_vec(),
            signature: self.identity.sign(CONTEXT, &statement),
            name,
            value,
            number,
            expires,
        }
    }

    fn put_record(&mut self, now: Instant, record: Record, asker: Asker) {
        match &mut self.chord {
            Some(chord) => {
                let begun = chord.put(now, record);
                self.record_begun(now, begun, asker);
            }
            None => {
                let record = Some(ByteVec::from(record.encode()));
                self.ask_parents_for_record(now, None, record, asker);
            }
        }
    }

    pub(super) fn get_record(&mut self, now: Instant, point: RingKey, reply: Reply) {
        let asker = Asker::Local(reply);
        match &mut self.chord {
            Some(chord) => {
                let begun = chord.get(now, point);
                self.record_begun(now, begun, asker);
            }
            None => self.ask_parents_for_record(now, Some(point), None, asker),
        }
    }

    fn record_begun(&mut self, now: Instant, begun: Result<RecordId, RecordError>, asker: Asker) {
        match begun {
            Ok(id) => {
                self.records.askers.insert(id, asker);
            }
            Err(RecordError::NotMember) => {
                self.record_answered(now, asker, Err(LookupFailed::NotInRing));
            }
            Err(error) => {
                let failed = LookupFailed::Overlay(error.to_string());
                self.record_answered(now, asker, Err(failed));
            }
        }
    }

    fn ask_parents_for_record(
        &mut self,
        now: Instant,
        point: Option<RingKey>,
        record: Option<ByteVec>,
        asker: Asker,
    ) {
        let waiting: BTreeSet<MemberId> = self.parents().into_iter().collect();
        if waiting.is_empty() {
            return self.record_answered(now, asker, Err(LookupFailed::NoParent));
        }
        self.records.next += 1;
        let id = self.records.next;
        for parent in &waiting {
            let message = match (&point, &record) {
                (Some(point), _) => LinkMessage::GetRecord {
                    id,
                    point: (*point.as_bytes()).into(),
                },
                (None, record) => LinkMessage::PutRecord {
                    id,
                    record: record.clone().unwrap_or_else(|| Vec::new().into()),
                },
            };
            self.links.send(now, parent, message);
        }
        let until = now + RECORD_TIME;
        let question = AtParents {
            asked: waiting.len(),
            waiting,
            point,
            best: None,
            until,
            asker,
        };
        self.records.at_parents.insert(id, question);
    }

    /// A leaf wants a record put (`record`) or got (`point`); it is answered in any case.
    pub(super) fn record_for_leaf(
        &mut self,
        now: Instant,
        leaf: MemberId,
        id: u64,
        wanted: Result<Record, RingKey>,
    ) {
        let of_this_leaf =
            |asker: &&Asker| matches!(asker, Asker::Leaf(member, _) if *member == leaf);
        let busy = self.records.askers.values().filter(of_this_leaf).count() >= LEAF_RECORDS;
        let asker = Asker::Leaf(leaf, id);
        match &mut self.chord {
            Some(chord) if !busy => {
                let begun = match wanted {
                    Ok(record) => chord.put(now, record),
                    Err(point) => chord.get(now, point),
                };
                self.record_begun(now, begun, asker);
            }
            _ => {
                self.count("leaf_records_refused");
                self.record_answered(now, asker, Err(LookupFailed::NotInRing));
            }
        }
    }

    /// True for the overlay's events about records.
    pub(super) fn take_record_event(&mut self, now: Instant, event: &Event) -> bool {
        let (id, outcome) = match event {
            Event::RecordStored {
                id,
                copies,
                group,
                verified,
            } => {
                let outcome = RecordOutcome {
                    copies: *copies,
                    answers: *copies,
                    group: *group,
                    verified: *verified,
                    record: None,
                };
                (id, Ok(outcome))
            }
            Event::RecordFound {
                id,
                record,
                answers,
                group,
                verified,
            } => {
                let outcome = RecordOutcome {
                    copies: 0,
                    answers: *answers,
                    group: *group,
                    verified: *verified,
                    record: record.clone(),
                };
                (id, Ok(outcome))
            }
            Event::RecordFailed { id, reason } => {
                (id, Err(LookupFailed::Overlay(reason.to_string())))
            }
            _ => return false,
        };
        if let Some(asker) = self.records.askers.remove(id) {
            self.record_answered(now, asker, outcome);
        }
        true
    }

    fn record_answered(
        &mut self,
        now: Instant,
        asker: Asker,
        outcome: Result<RecordOutcome, LookupFailed>,
    ) {
        let own = !matches!(asker, Asker::Leaf(..));
        if own && outcome.is_err() {
            // Perhaps it was a put, and this member is not in the ring yet.
            let soon = now + RECORDS_FIRST;
            self.records.again = self.records.again.map(|again| again.min(soon));
        }
        match asker {
            Asker::Local(reply) => answer(reply, outcome),
            Asker::Again => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "a record could not be put again");
                }
            }
            Asker::Leaf(leaf, id) => {
                let found = outcome.ok();
                let numbers = found.as_ref();
                let reply = LinkMessage::RecordReply {
                    id,
                    copies: numbers.map_or(0, |found| found.copies),
                    answers: numbers.map_or(0, |found| found.answers),
                    group: numbers.map_or(0, |found| found.group),
                    verified: numbers.is_some_and(|found| found.verified),
                    record: found
                        .and_then(|found| found.record)
                        .map(|record| record.encode().into()),
                };
                self.links.send(now, &leaf, reply);
            }
        }
    }

    /// A parent says what it has found. Whether the record is right does not depend on its word.
    pub(super) fn record_from_parent(
        &mut self,
        now: Instant,
        parent: MemberId,
        id: u64,
        mut outcome: RecordOutcome,
    ) {
        let Some(question) = self.records.at_parents.get_mut(&id) else {
            return;
        };
        if !question.waiting.remove(&parent) {
            return self.count("record_replies_unwanted");
        }
        let genuine = |record: &Record| {
            let author = crate::credentials::record_author(&self.directory, record);
            let point = author.map(|author| Record::point(author.as_bytes(), &record.name));
            point.is_some() && point == question.point && record.is_current(unix_seconds())
        };
        outcome.record = outcome.record.filter(|record| genuine(record));
        let better = match &question.best {
            None => true,
            Some(best) => match (&outcome.record, &best.record) {
                (Some(new), Some(old)) => new.is_newer_than(old),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => outcome.copies > best.copies,
            },
        };
        // A parent that failed says so by a group of none.
        if better && outcome.group > 0 {
            question.best = Some(outcome);
        }
        // Once most have answered, the others get a little longer. Not before: one that lies is the
        // first to answer.
        let answered = question.asked - question.waiting.len();
        if question.best.is_some() && 2 * answered > question.asked {
            question.until = question.until.min(now + PARENT_RECORD_TIME);
        }
        self.end_record_questions(now);
    }

    /// Ends questions to parents that are answered, or have waited for too long; puts own records
    /// again.
    pub(super) fn look_after_records(&mut self, now: Instant) {
        self.end_record_questions(now);
        let again = *self.records.again.get_or_insert(now + RECORDS_FIRST);
        if now >= again && self.records.queue.is_empty() {
            self.records.again = Some(now + RECORDS_AGAIN);
            match self.state.records() {
                Ok(own) => self.records.queue.extend(own),
                Err(error) => tracing::error!(%error, "own records could not be read"),
            }
        }
        // A few at a time: a router takes no more of one leaf, and has other things to do.
        for _ in 0..RECORDS_AT_ONCE {
            let Some(own) = self.records.queue.pop_front() else {
                return;
            };
            let record = self.sign_record(own.name, own.value, own.number, own.expires);
            self.put_record(now, record, Asker::Again);
        }
    }

    fn end_record_questions(&mut self, now: Instant) {
        let ended: Vec<u64> = self
            .records
            .at_parents
            .iter()
            .filter(|(_, question)| question.waiting.is_empty() || now >= question.until)
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            if let Some(question) = self.records.at_parents.remove(&id) {
                let failed = || match question.waiting.is_empty() {
                    true => LookupFailed::Overlay("no parent could reach the ring".to_owned()),
                    false => LookupFailed::TimedOut,
                };
                let outcome = question.best.ok_or_else(failed);
                self.record_answered(now, question.asker, outcome);
            }
        }
    }
}
