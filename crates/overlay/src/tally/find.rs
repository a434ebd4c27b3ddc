//! Leaving a count, and reading a tally: a verified lookup of the name's point, and then everybody
//! around it.
//!
//! A reader takes from each keeper what its authors have signed, and of each author the largest
//! count. So one honest keeper that answers is enough, whatever the others leave out. An author
//! whose certificate is not at hand is proven by the keeper that names it, or not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Groups;
use super::keep::Keeping;
use super::{Count, TallyError};
use crate::context::Cx;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::{Event, LookupFailure, TallyId};
use crate::group::neighbours::Neighbours;
use crate::key::RingKey;
use crate::limits::{COUNTS_IN_MESSAGE, MAX_CERTIFICATES, MAX_TALLY_OPERATIONS, MAX_TALLY_PAGES};
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, Rule};
use crate::message::Message;
use crate::request::{Purpose, Request};

/// How far a keeper has been asked.
#[derive(Debug, Default)]
struct Asked {
    pages: usize,
    /// The author that its last page ends with, if more may follow.
    after: Option<RingKey>,
    /// Counts of authors whose certificates are not at hand. At most a page.
    unproven: Vec<Count>,
}

/// One count that is being left, or one tally that is being read.
#[derive(Debug)]
struct Operation {
    point: RingKey,
    /// The count to leave; none to read.
    count: Option<Count>,
    verified: bool,
    group: usize,
    waiting: BTreeMap<RingKey, Asked>,
    /// Of those, whose answer is late.
    slow: BTreeSet<RingKey>,
    answers: u32,
    copies: u32,
    best: BTreeMap<RingKey, Count>,
}

/// What is kept here, and whom this router stands among.
#[derive(Debug)]
pub(crate) struct Own<'a> {
    pub(crate) keeping: &'a mut Keeping,
    pub(crate) neighbours: &'a Neighbours,
}

/// All that run.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    running: BTreeMap<TallyId, Operation>,
    groups: Groups,
    next: u64,
}

impl Operations {
    /// Leaves what this router has counted: the answer comes as an event.
    pub(crate) fn count(
        &mut self,
        cx: &mut Cx<'_>,
        own: Own<'_>,
        point: RingKey,
        count: u64,
        expires: u64,
    ) -> Result<TallyId, TallyError> {
        let credentials = cx.trust.credentials().ok_or(TallyError::NotMember)?;
        let count = Count::sign(credentials, cx.me, &point, count, expires);
        if !count.is_current(credentials.unix_time(cx.now)) {
            return Err(TallyError::Invalid);
        }
        self.start(cx, own, point, Some(count))
    }

    /// Reads the tally at `point`: the answer comes as an event.
    pub(crate) fn read(
        &mut self,
        cx: &mut Cx<'_>,
        own: Own<'_>,
        point: RingKey,
    ) -> Result<TallyId, TallyError> {
        if !cx.trust.has_credentials() {
            return Err(TallyError::NotMember);
        }
        self.start(cx, own, point, None)
    }

    fn start(
        &mut self,
        cx: &mut Cx<'_>,
        own: Own<'_>,
        point: RingKey,
        count: Option<Count>,
    ) -> Result<TallyId, TallyError> {
        if !cx.member {
            return Err(TallyError::NotMember);
        }
        let running = self.running.len();
        if running >= MAX_TALLY_OPERATIONS {
            return Err(TallyError::TooMany(running));
        }
        self.next = self.next.wrapping_add(1);
        let id = TallyId(self.next);
        let operation = Operation {
            point,
            count,
            verified: false,
            group: 0,
            waiting: BTreeMap::new(),
            slow: BTreeSet::new(),
            answers: 0,
            copies: 0,
            best: BTreeMap::new(),
        };
        self.running.insert(id, operation);
        // What is counted all the time needs no lookup each time.
        let known = self.groups.get(cx.now, &point).map(<[RingKey]>::to_vec);
        if let Some(group) = known {
            if let Some(operation) = self.running.get_mut(&id) {
                operation.verified = true;
            }
            self.ask_group(cx, own, id, &group);
        } else {
            let inquiry = Inquiry::new(Asker::Tally(id), point, Rule::Verified);
            cx.effect(Effect::LookUp(Box::new(inquiry)));
        }
        Ok(id)
    }

    /// The lookup of a name's point has ended.
    pub(crate) fn looked_up(
        &mut self,
        cx: &mut Cx<'_>,
        own: Own<'_>,
        id: TallyId,
        result: Result<Found, LookupFailure>,
    ) {
        match result.map(|found| found.around) {
            Ok(Around::Views(views)) => {
                let Some(operation) = self.running.get_mut(&id) else {
                    return;
                };
                operation.verified = views.verified;
                if views.verified {
                    self.groups
                        .learn(cx.now, operation.point, views.group.clone());
                }
                self.ask_group(cx, own, id, &views.group);
            }
            Ok(Around::Claimed(_)) => {}
            Err(reason) => self.fail(cx, id, reason),
        }
    }

    /// The routers around the point are known: all of them are asked.
    fn ask_group(&mut self, cx: &mut Cx<'_>, own: Own<'_>, id: TallyId, group: &[RingKey]) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        operation.group = group.len();
        let others = group.iter().copied().filter(|key| *key != cx.me);
        operation.waiting = others.map(|key| (key, Asked::default())).collect();
        let (point, count) = (operation.point, operation.count);
        let me = cx.me;
        for to in group.iter().copied().filter(|key| *key != me) {
            match count {
                Some(count) => cx.request(to, Purpose::Counting(id), |id| Message::Count {
                    id,
                    point,
                    count,
                }),
                None => ask_page(cx, id, to, point, None),
            }
        }
        // This router is one of those around the point.
        if group.contains(&cx.me) {
            operation.answers = operation.answers.saturating_add(1);
            match count {
                Some(count) => {
                    let kept = own.keeping.keep(cx, own.neighbours, point, count) >= count.count;
                    operation.copies = operation.copies.saturating_add(u32::from(kept));
                }
                None => {
                    for count in own.keeping.at(&point) {
                        operation.take(cx, count);
                    }
                }
            }
        }
        self.step(cx, id);
    }

    pub(crate) fn counting_answered(
        &mut self,
        cx: &mut Cx<'_>,
        id: TallyId,
        from: RingKey,
        answer: Option<&Message>,
    ) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        operation.waiting.remove(&from);
        if let Some(Message::Stored { number, .. }) = answer {
            let wanted = operation.count.map_or(u64::MAX, |count| count.count);
            operation.answers = operation.answers.saturating_add(1);
            let kept = u32::from(*number >= wanted);
            operation.copies = operation.copies.saturating_add(kept);
        } else {
            self.groups.forget(&operation.point);
        }
        self.step(cx, id);
    }

    /// A keeper has given a page of its tally, or certificates of authors that it named.
    pub(crate) fn reading_answered(
        &mut self,
        cx: &mut Cx<'_>,
        id: TallyId,
        request: &Request,
        answer: Option<Message>,
    ) {
        let from = request.to;
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        match (answer, &request.message) {
            (Some(Message::Tally { counts, .. }), _) => operation.page_came(cx, from, counts),
            (
                Some(Message::Certificates { certificates, .. }),
                Message::GetCertificates { members, .. },
            ) => {
                for (author, certificate) in &certificates {
                    if members.contains(author)
                        && let Some(credentials) = cx.trust.credentials_mut()
                    {
                        credentials.admit(author, certificate);
                    }
                }
                // Also those that it has not proven: they are not asked for again.
                operation.authors_came(cx, from, members);
            }
            _ => {
                operation.waiting.remove(&from);
                self.groups.forget(&operation.point);
                return self.step(cx, id);
            }
        }
        if operation.goes_on(cx, id, from) {
            return;
        }
        operation.waiting.remove(&from);
        operation.answers = operation.answers.saturating_add(1);
        self.step(cx, id);
    }

    /// Somebody takes longer than answers use to take.
    pub(crate) fn reading_slow(&mut self, cx: &mut Cx<'_>, id: TallyId, to: RingKey) {
        if let Some(operation) = self.running.get_mut(&id) {
            operation.slow.insert(to);
            self.step(cx, id);
        }
    }

    /// Ends the operation if nothing more is to be waited for. One honest answer is enough, so
    /// those that are late are not waited for once most have answered.
    fn step(&mut self, cx: &mut Cx<'_>, id: TallyId) {
        let Some(operation) = self.running.get(&id) else {
            return;
        };
        let most = usize::try_from(operation.answers).unwrap_or(0) > operation.group / 2;
        let slow = |key: &RingKey| operation.slow.contains(key);
        let late = operation.count.is_none() && most && operation.waiting.keys().all(slow);
        if !operation.waiting.is_empty() && !late {
            return;
        }
        let Some(operation) = self.running.remove(&id) else {
            return;
        };
        // Late answers would belong to nothing.
        cx.requests.forget(|purpose| purpose.tally() == Some(id));
        let group = u32::try_from(operation.group).unwrap_or(u32::MAX);
        let verified = operation.verified;
        cx.emit(match operation.count {
            Some(_) => Event::Counted {
                id,
                copies: operation.copies,
                group,
                verified,
            },
            None => Event::Tallied {
                id,
                counts: operation.best.into_values().collect(),
                answers: operation.answers,
                group,
                verified,
            },
        });
    }

    fn fail(&mut self, cx: &mut Cx<'_>, id: TallyId, reason: LookupFailure) {
        if self.running.remove(&id).is_some() {
            cx.emit(Event::TallyFailed { id, reason });
        }
    }

    /// Ends all that run: this member leaves.
    pub(crate) fn fail_all(&mut self, cx: &mut Cx<'_>, reason: LookupFailure) {
        self.groups.clear();
        let ids: Vec<TallyId> = self.running.keys().copied().collect();
        for id in ids {
            self.fail(cx, id, reason);
        }
    }
}

impl Operation {
    /// A count that somebody gives out is taken if it is larger than what is known of its author,
    /// and signed by it.
    fn take(&mut self, cx: &mut Cx<'_>, count: Count) {
        let known = self.best.get(&count.author);
        // Signatures are checked only where the count could stand.
        if known.is_some_and(|best| !count.is_newer_than(best)) {
            return;
        }
        let genuine = cx.trust.credentials().is_some_and(|credentials| {
            count.is_current(credentials.unix_time(cx.now))
                && count.is_genuine(credentials, &self.point)
        });
        if genuine && cx.trust.is_usable(&count.author) {
            self.best.insert(count.author, count);
        } else {
            cx.count_malformed();
        }
    }

    fn page_came(&mut self, cx: &mut Cx<'_>, from: RingKey, counts: Vec<Count>) {
        let Some(mut asked) = self.waiting.remove(&from) else {
            return;
        };
        let authors = counts.iter().map(|count| count.author);
        // One that does not go on where its last page ended would be asked the same for ever.
        let in_order = asked
            .after
            .into_iter()
            .chain(authors)
            .is_sorted_by(|a, b| a < b);
        asked.pages = asked.pages.saturating_add(1);
        let full = counts.len() >= COUNTS_IN_MESSAGE;
        let more = full && in_order && asked.pages < MAX_TALLY_PAGES;
        asked.after = counts.last().map(|count| count.author).filter(|_| more);
        for count in counts.into_iter().take(COUNTS_IN_MESSAGE) {
            match cx.standing(&count.author) {
                Standing::Certified => self.take(cx, count),
                Standing::Unknown => asked.unproven.push(count),
                Standing::Refused => {}
            }
        }
        self.waiting.insert(from, asked);
    }

    /// Whether these authors are routers has become as clear as `from` can make it.
    fn authors_came(&mut self, cx: &mut Cx<'_>, from: RingKey, authors: &[RingKey]) {
        let Some(asked) = self.waiting.get_mut(&from) else {
            return;
        };
        let (known, unproven) = std::mem::take(&mut asked.unproven)
            .into_iter()
            .partition::<Vec<Count>, _>(|count| authors.contains(&count.author));
        asked.unproven = unproven;
        for count in known {
            if cx.standing(&count.author) == Standing::Certified {
                self.take(cx, count);
            }
        }
    }

    /// Asks a keeper for what is still missing of its tally; false if that is nothing.
    fn goes_on(&mut self, cx: &mut Cx<'_>, id: TallyId, keeper: RingKey) -> bool {
        let Some(asked) = self.waiting.get(&keeper) else {
            return false;
        };
        let unproven = asked.unproven.iter().map(|count| count.author);
        let members: Vec<RingKey> = unproven.take(MAX_CERTIFICATES).collect();
        if !members.is_empty() {
            cx.request(keeper, Purpose::Reading(id), |id| {
                Message::GetCertificates { id, members }
            });
            return true;
        }
        let Some(after) = asked.after else {
            return false;
        };
        ask_page(cx, id, keeper, self.point, Some(after));
        true
    }
}

fn ask_page(cx: &mut Cx<'_>, id: TallyId, to: RingKey, point: RingKey, after: Option<RingKey>) {
    cx.request(to, Purpose::Reading(id), |id| Message::GetTally {
        id,
        point,
        after,
    });
}
