//! Records: a router puts and gets them itself, a leaf through all of its parents at once.
//!
//! Those who pass a record on cannot change it, only withhold it or give an older one: so a leaf
//! asks every parent, and takes the newest. What this member has put stays in its state, and is put
//! again once in [`RECORDS_AGAIN`]: so it outlives even all those who keep it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use minicbor::bytes::ByteVec;
use ringway_overlay::{Event, Record, RecordError, RecordId, RingKey};
use ringway_transport::{MemberId, Signer as _};
use tokio::sync::oneshot;

use crate::clock::unix_seconds;
use crate::credentials::{CONTEXT, record_author};
use crate::limits::{
    LEAF_RECORDS, PARENT_RECORD_TIME, RECORD_TIME, RECORDS_AGAIN, RECORDS_AT_ONCE, RECORDS_FIRST,
};
use crate::link::LinkMessage;
use crate::member::answer::{LookupFailed, answer};
use crate::member::core::Core;
use crate::member::counters::counters;
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, Service};
use crate::state::{OwnRecord, StateError};

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

type Reply = oneshot::Sender<Result<RecordOutcome, LookupFailed>>;

/// A record is to be put or got.
#[derive(Debug)]
pub(in crate::member) enum Command {
    /// One of this member.
    Put {
        name: Vec<u8>,
        value: Vec<u8>,
        lifetime: Duration,
        reply: Reply,
    },
    /// The newest at a point.
    Get { point: RingKey, reply: Reply },
}

impl MemberHandle {
    /// Leaves a record of this member in the ring.
    pub(crate) async fn put(
        &self,
        name: Vec<u8>,
        value: Vec<u8>,
        lifetime: Duration,
    ) -> Result<RecordOutcome, LookupFailed> {
        let command = |reply| Command::Put {
            name,
            value,
            lifetime,
            reply,
        };
        let answer = self.ask(command).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Finds the newest record at a point of the ring.
    pub(crate) async fn get(&self, point: RingKey) -> Result<RecordOutcome, LookupFailed> {
        let answer = self.ask(|reply| Command::Get { point, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }
}

#[derive(Debug)]
enum Asker {
    Local(Reply),
    /// A leaf, and its number for it.
    Leaf(MemberId, u64),
    /// This member puts one of its records once more.
    Again,
}

/// What is asked of the ring.
#[derive(Clone, Debug)]
enum Wanted {
    /// Keep this record.
    Put(Record),
    /// The newest record at this point.
    Get(RingKey),
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

counters! {
    /// What this service counts.
    Counters {
        leaf_records_refused,
        record_replies_unwanted,
        records_malformed,
    }
}

/// What is under way.
#[derive(Debug)]
pub(in crate::member) struct Records {
    askers: BTreeMap<RecordId, Asker>,
    at_parents: BTreeMap<u64, AtParents>,
    last: u64,
    /// When own records are to be put again, and those whose turn has not come.
    again: Instant,
    queue: VecDeque<OwnRecord>,
    /// When the next ones of the queue have their turn.
    turn: Instant,
    counted: Counters,
}

impl Records {
    /// Signs a record and puts it. It is kept here first, so that it is put again after a restart.
    fn put_own(
        &mut self,
        core: &mut Core,
        name: Vec<u8>,
        value: Vec<u8>,
        lifetime: Duration,
        reply: Reply,
    ) {
        let expires = unix_seconds().saturating_add(lifetime.as_secs());
        // A crash after this forgets nothing that was answered.
        let number = match core.state.keep_record(&name, &value, expires) {
            Ok(number) => number,
            Err(error) => return answer(reply, Err(LookupFailed::Overlay(error.to_string()))),
        };
        let own = OwnRecord {
            name,
            value,
            number,
            expires,
        };
        self.begin(core, Wanted::Put(sign(core, own)), Asker::Local(reply));
    }

    fn begin(&mut self, core: &mut Core, wanted: Wanted, asker: Asker) {
        let now = core.now;
        let Some(chord) = &mut core.chord else {
            return self.ask_parents(core, wanted, asker);
        };
        let begun = match wanted {
            Wanted::Put(record) => chord.put(now, record),
            Wanted::Get(point) => chord.get(now, point),
        };
        let failed = match begun {
            Ok(id) => {
                self.askers.insert(id, asker);
                return;
            }
            Err(RecordError::NotMember) => LookupFailed::NotInRing,
            Err(error) => LookupFailed::Overlay(error.to_string()),
        };
        self.end(core, asker, Err(failed));
    }

    fn ask_parents(&mut self, core: &mut Core, wanted: Wanted, asker: Asker) {
        let waiting: BTreeSet<MemberId> = core.parents().into_iter().collect();
        if waiting.is_empty() {
            return self.end(core, asker, Err(LookupFailed::NoParent));
        }
        self.last += 1;
        let id = self.last;
        let (message, point) = match wanted {
            Wanted::Put(record) => {
                let record = ByteVec::from(record.encode());
                (LinkMessage::PutRecord { id, record }, None)
            }
            Wanted::Get(point) => {
                let at = (*point.as_bytes()).into();
                (LinkMessage::GetRecord { id, point: at }, Some(point))
            }
        };
        // All of them: one may withhold what another gives.
        for parent in &waiting {
            core.send(parent, message.clone());
        }
        let question = AtParents {
            asked: waiting.len(),
            waiting,
            point,
            best: None,
            until: core.now + RECORD_TIME,
            asker,
        };
        self.at_parents.insert(id, question);
    }

    /// A leaf wants a record put or got; it is answered in any case.
    fn begin_for_leaf(&mut self, core: &mut Core, leaf: MemberId, id: u64, wanted: Wanted) {
        let of_this_leaf =
            |asker: &&Asker| matches!(asker, Asker::Leaf(member, _) if *member == leaf);
        let busy = self.askers.values().filter(of_this_leaf).count() >= LEAF_RECORDS;
        let asker = Asker::Leaf(leaf, id);
        if busy || core.chord.is_none() {
            self.counted.leaf_records_refused += 1;
            return self.end(core, asker, Err(LookupFailed::NotInRing));
        }
        self.begin(core, wanted, asker);
    }

    fn end(&mut self, core: &mut Core, asker: Asker, outcome: Result<RecordOutcome, LookupFailed>) {
        let own = !matches!(asker, Asker::Leaf(..));
        if own && outcome.is_err() {
            // Perhaps it was a put, and this member is not in the ring yet.
            self.again = self.again.min(core.now + RECORDS_FIRST);
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
                core.send(&leaf, reply);
            }
        }
    }

    /// A parent says what it has found. Whether the record is right does not depend on its word.
    fn parent_answered(
        &mut self,
        core: &mut Core,
        parent: MemberId,
        id: u64,
        mut outcome: RecordOutcome,
    ) {
        let Some(question) = self.at_parents.get_mut(&id) else {
            return;
        };
        if !question.waiting.remove(&parent) {
            self.counted.record_replies_unwanted += 1;
            return;
        }
        let genuine = |record: &Record| {
            let author = record_author(&core.directory, record);
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
            question.until = question.until.min(core.now + PARENT_RECORD_TIME);
        }
        self.end_questions(core);
    }

    /// Puts own records again: a few at a time, for a router takes no more of one leaf, and has
    /// other things to do.
    fn put_again(&mut self, core: &mut Core) {
        if core.now >= self.again && self.queue.is_empty() {
            self.again = core.now + RECORDS_AGAIN;
            self.turn = core.now;
            match core.state.records() {
                Ok(own) => self.queue.extend(own),
                Err(error) => tracing::error!(%error, "own records could not be read"),
            }
        }
        // The deadline may have been a question's.
        if core.now < self.turn {
            return;
        }
        self.turn = core.next_look();
        for _ in 0..RECORDS_AT_ONCE {
            let Some(own) = self.queue.pop_front() else {
                return;
            };
            self.begin(core, Wanted::Put(sign(core, own)), Asker::Again);
        }
    }

    fn end_questions(&mut self, core: &mut Core) {
        let ended: Vec<u64> = self
            .at_parents
            .iter()
            .filter(|(_, question)| question.waiting.is_empty() || core.now >= question.until)
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            if let Some(question) = self.at_parents.remove(&id) {
                let failed = if question.waiting.is_empty() {
                    LookupFailed::Overlay("no parent could reach the ring".to_owned())
                } else {
                    LookupFailed::TimedOut
                };
                let outcome = question.best.ok_or(failed);
                self.end(core, question.asker, outcome);
            }
        }
    }
}

fn sign(core: &Core, own: OwnRecord) -> Record {
    let OwnRecord {
        name,
        value,
        number,
        expires,
    } = own;
    let statement = Record::statement(&name, &value, number, expires);
    Record {
        certificate: core.membership.certificate.as_bytes().to_vec(),
        signature: core.identity.sign(CONTEXT, &statement),
        name,
        value,
        number,
        expires,
    }
}

impl Service for Records {
    type Command = Command;

    fn start(core: &mut Core) -> Result<Records, StateError> {
        Ok(Records {
            askers: BTreeMap::new(),
            at_parents: BTreeMap::new(),
            last: 0,
            again: core.now + RECORDS_FIRST,
            queue: VecDeque::new(),
            turn: core.now,
            counted: Counters::default(),
        })
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        match command {
            Command::Put {
                name,
                value,
                lifetime,
                reply,
            } => self.put_own(core, name, value, lifetime, reply),
            Command::Get { point, reply } => {
                self.begin(core, Wanted::Get(point), Asker::Local(reply));
            }
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        match message {
            LinkMessage::PutRecord { id, record } => match Record::decode(record) {
                Ok(record) => self.begin_for_leaf(core, member, *id, Wanted::Put(record)),
                Err(_) => self.counted.records_malformed += 1,
            },
            LinkMessage::GetRecord { id, point } => {
                let wanted = Wanted::Get(RingKey::from_bytes(**point));
                self.begin_for_leaf(core, member, *id, wanted);
            }
            LinkMessage::RecordReply {
                id,
                copies,
                answers,
                group,
                verified,
                record,
            } => {
                // One that cannot be read is as good as none.
                let record = record.as_ref().and_then(|bytes| Record::decode(bytes).ok());
                let outcome = RecordOutcome {
                    copies: *copies,
                    answers: *answers,
                    group: *group,
                    verified: *verified,
                    record: record.map(Box::new),
                };
                self.parent_answered(core, member, *id, outcome);
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }

    fn on_ring(&mut self, core: &mut Core, event: &Event) {
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
            _ => return,
        };
        if let Some(asker) = self.askers.remove(id) {
            self.end(core, asker, outcome);
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        let own = if self.queue.is_empty() {
            self.again
        } else {
            self.turn
        };
        let questions = self.at_parents.values();
        let questions = questions.map(|question| question.until);
        questions.chain([own]).min()
    }

    fn on_deadline(&mut self, core: &mut Core) {
        self.end_questions(core);
        self.put_again(core);
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
