//! Requests that wait for their answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::event::{LookupId, RecordId, TallyId};
use crate::health::Health;
use crate::key::RingKey;
use crate::limits::{MAX_REQUESTS, MIN_PATIENCE, PACE_SAMPLES};
use crate::message::{Message, RequestId};

/// What a request is for, and so who handles its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The state of the first successor, to stabilise from it.
    FromSuccessor,
    /// The state of the successor's predecessor, to stabilise from it.
    FromPredecessor,
    /// Whether the predecessor lives, to rectify.
    Rectify,
    /// The state of the future predecessor, to join.
    Join,
    /// The next step of a lookup.
    Hop(LookupId),
    /// Whether the owner that a lookup found lives.
    Confirm(LookupId),
    /// The view of a member of the own group.
    Contact,
    /// Whom a member knows near the next point of a verified lookup.
    Near(LookupId),
    /// The view of a member near the target of a verified lookup.
    FinalView(LookupId),
    /// Whether the owner that this member knows itself lives.
    Nearby(LookupId),
    /// The certificates of members that somebody named.
    Certificates(LookupId),
    /// The certificate of a member that somebody accuses.
    Accused,
    /// That a member keeps a record that is being put.
    Storing(RecordId),
    /// Which record a member has.
    Fetching(RecordId),
    /// Which records a member misses.
    Offered,
    /// That a member keeps a record that it missed.
    Copied,
    /// That a member keeps a count.
    Counting(TallyId),
    /// A page of a member's tally, or the certificates of those who have counted there.
    Reading(TallyId),
}

impl Purpose {
    /// Whether an answer of this kind can belong to a request of this purpose.
    pub(crate) fn fits(self, answer: &Message) -> bool {
        match answer {
            Message::State { .. } | Message::Pending { .. } => {
                matches!(
                    self,
                    Purpose::FromSuccessor | Purpose::FromPredecessor | Purpose::Join
                )
            }
            Message::Pong { .. } => self.is_ping(),
            Message::Owner { .. } | Message::Closer { .. } => matches!(self, Purpose::Hop(_)),
            Message::Near { .. } => matches!(self, Purpose::Near(_)),
            Message::ViewIs { .. } => matches!(self, Purpose::Contact | Purpose::FinalView(_)),
            Message::Unchanged { .. } => matches!(self, Purpose::Contact | Purpose::FinalView(_)),
            Message::Certificates { .. } => {
                matches!(
                    self,
                    Purpose::Certificates(_) | Purpose::Accused | Purpose::Reading(_)
                )
            }
            Message::Stored { .. } => {
                matches!(
                    self,
                    Purpose::Storing(_) | Purpose::Copied | Purpose::Counting(_)
                )
            }
            Message::Tally { .. } => matches!(self, Purpose::Reading(_)),
            Message::Fetched { .. } => matches!(self, Purpose::Fetching(_)),
            Message::Wanted { .. } => matches!(self, Purpose::Offered),
            // A ping asks who lives, and `Pong` says whether that is a member.
            Message::NotMember { .. } => !self.is_ping(),
            _ => false,
        }
    }

    fn is_ping(self) -> bool {
        matches!(
            self,
            Purpose::Rectify | Purpose::Confirm(_) | Purpose::Nearby(_)
        )
    }

    /// The record operation that the request belongs to.
    pub(crate) fn record(self) -> Option<RecordId> {
        match self {
            Purpose::Storing(id) | Purpose::Fetching(id) => Some(id),
            _ => None,
        }
    }

    /// The operation on a tally that the request belongs to.
    pub(crate) fn tally(self) -> Option<TallyId> {
        match self {
            Purpose::Counting(id) | Purpose::Reading(id) => Some(id),
            _ => None,
        }
    }

    /// The lookup that the request belongs to.
    pub(crate) fn lookup(self) -> Option<LookupId> {
        match self {
            Purpose::Hop(id)
            | Purpose::Confirm(id)
            | Purpose::Near(id)
            | Purpose::FinalView(id)
            | Purpose::Nearby(id)
            | Purpose::Certificates(id) => Some(id),
            _ => None,
        }
    }
}

/// One request without an answer so far.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) to: RingKey,
    pub(crate) message: Message,
    pub(crate) purpose: Purpose,
    pub(crate) sent: Instant,
    /// When it takes longer than answers use to take; none if it did already.
    pub(crate) slow_at: Option<Instant>,
    pub(crate) deadline: Instant,
    pub(crate) retries_left: u32,
    /// How often a sign of life may still give the request its retries back.
    pub(crate) extensions_left: u32,
}

/// How long answers take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    mean: f64,
    deviation: f64,
    samples: u32,
}

impl Pace {
    /// Source: RFC 6298 §2, with its weights.
    pub(crate) fn take_in(&mut self, seconds: f64) {
        if self.samples == 0 {
            (self.mean, self.deviation) = (seconds, seconds / 2.0);
        } else {
            self.deviation += ((self.mean - seconds).abs() - self.deviation) / 4.0;
            self.mean += (seconds - self.mean) / 8.0;
        }
        self.samples = self.samples.saturating_add(1);
    }

    /// After this time an answer is late.
    pub(crate) fn patience(&self, most: Duration) -> Duration {
        if self.samples < PACE_SAMPLES {
            return most;
        }
        let late = self.mean + 4.0 * self.deviation;
        Duration::try_from_secs_f64(late)
            .unwrap_or(most)
            .clamp(MIN_PATIENCE.min(most), most)
    }
}

/// All open requests of one member.
#[derive(Debug)]
pub(crate) struct Requests {
    open: BTreeMap<RequestId, Request>,
    next: RequestId,
    pace: Pace,
    pub(crate) health: Health,
    /// Whether any may have been repeated.
    repeated: bool,
}

impl Requests {
    /// Starts counting ids at `first`, so that a restarted member does not reuse them.
    pub(crate) fn new(first: RequestId) -> Requests {
        Requests {
            open: BTreeMap::new(),
            next: first,
            pace: Pace::default(),
            health: Health::default(),
            repeated: false,
        }
    }

    pub(crate) fn next_id(&mut self) -> RequestId {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Whether another lookup request may be opened; ring maintenance always may.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < MAX_REQUESTS
    }

    pub(crate) fn insert(&mut self, id: RequestId, request: Request) {
        self.open.insert(id, request);
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.open.get(&id)
    }

    /// Who has not answered yet, each once.
    pub(crate) fn asked(&self) -> Vec<RingKey> {
        let asked: BTreeSet<RingKey> = self.open.values().map(|request| request.to).collect();
        asked.into_iter().collect()
    }

    /// Whether `to` is being asked for this purpose already.
    pub(crate) fn is_open(&self, to: &RingKey, purpose: Purpose) -> bool {
        let mut open = self.open.values();
        open.any(|request| request.to == *to && request.purpose == purpose)
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.open.remove(&id)
    }

    /// Forgets the requests of one lookup, or of whatever `unwanted` names.
    pub(crate) fn forget(&mut self, unwanted: impl Fn(&Purpose) -> bool) {
        self.open.retain(|_, request| !unwanted(&request.purpose));
    }

    /// A sign of life of `peer`: its requests of ring maintenance get all their tries back, within
    /// bounds, because only their messages were lost. Not so for lookups, which had better go
    /// another way.
    pub(crate) fn extend(&mut self, peer: &RingKey, retries: u32) {
        if !self.repeated {
            return;
        }
        self.repeated = false;
        for request in self.open.values_mut() {
            self.repeated |= request.retries_left != retries;
            let lookup = request.purpose.lookup().is_some();
            if request.to != *peer || lookup || request.retries_left == retries {
                continue;
            }
            if let Some(left) = request.extensions_left.checked_sub(1) {
                request.extensions_left = left;
                request.retries_left = retries;
            }
        }
    }

    /// The requests to one member, taken out.
    pub(crate) fn take_to(&mut self, peer: &RingKey) -> Vec<Request> {
        self.open
            .extract_if(.., |_, request| request.to == *peer)
            .map(|(_, r)| r)
            .collect()
    }

    /// The ids of the requests whose time has passed, in order of id.
    pub(crate) fn due(&self, now: Instant) -> Vec<RequestId> {
        let due = self
            .open
            .iter()
            .filter(|(_, request)| request.deadline <= now);
        due.map(|(id, _)| *id).collect()
    }

    /// Moves a request to its next try. None if it has none left, or is not there.
    pub(crate) fn repeat(&mut self, id: RequestId, deadline: Instant) -> Option<Request> {
        let request = self.open.get_mut(&id)?;
        request.retries_left = request.retries_left.checked_sub(1)?;
        self.repeated = true;
        request.deadline = deadline;
        Some(request.clone())
    }

    /// The requests that have become late since the last call.
    pub(crate) fn late(&mut self, now: Instant) -> Vec<(RingKey, Purpose)> {
        let mut late = Vec::new();
        for request in self.open.values_mut() {
            if request.slow_at.is_some_and(|at| at <= now) {
                request.slow_at = None;
                late.push((request.to, request.purpose));
            }
        }
        late
    }

    /// An answer came at `now`. Which of its repetitions it answers is not known: the pace counts
    /// only those that were not repeated, health the time since the first.
    pub(crate) fn answered(&mut self, now: Instant, request: &Request, retries: u32) {
        let time = now.saturating_duration_since(request.sent);
        self.health.answered(time);
        if request.retries_left == retries {
            self.pace.take_in(time.as_secs_f64());
        }
    }

    /// The time after which an answer is late, at most `most`.
    pub(crate) fn patience(&self, most: Duration) -> Duration {
        self.pace.patience(most)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let times = self.open.values();
        times
            .map(|request| {
                request
                    .slow_at
                    .map_or(request.deadline, |at| at.min(request.deadline))
            })
            .min()
    }
}
