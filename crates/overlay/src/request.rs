//! Requests that wait for their answer.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::event::LookupId;
use crate::key::RingKey;
use crate::limits::MAX_REQUESTS;
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
            Message::Pong { .. } => matches!(self, Purpose::Rectify | Purpose::Confirm(_)),
            Message::Owner { .. } | Message::Closer { .. } => matches!(self, Purpose::Hop(_)),
            Message::NotMember { .. } => !matches!(self, Purpose::Rectify | Purpose::Confirm(_)),
            _ => false,
        }
    }

    /// The lookup that the request belongs to.
    pub(crate) fn lookup(self) -> Option<LookupId> {
        match self {
            Purpose::Hop(id) | Purpose::Confirm(id) => Some(id),
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
    pub(crate) deadline: Instant,
    pub(crate) retries_left: u32,
    /// How often a sign of life may still give the request its retries back.
    pub(crate) extensions_left: u32,
}

/// All open requests of one member.
#[derive(Debug)]
pub(crate) struct Requests {
    open: BTreeMap<RequestId, Request>,
    next: RequestId,
}

impl Requests {
    /// Starts counting ids at `first`, so that a restarted member does not reuse them.
    pub(crate) fn new(first: RequestId) -> Requests {
        Requests {
            open: BTreeMap::new(),
            next: first,
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

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.open.remove(&id)
    }

    /// Forgets the requests of one lookup, or of whatever `unwanted` names.
    pub(crate) fn forget(&mut self, unwanted: impl Fn(&Purpose) -> bool) {
        self.open.retain(|_, request| !unwanted(&request.purpose));
    }

    /// A sign of life of `peer`: its requests of ring maintenance get all their tries back, within bounds,
    /// because only their messages were lost. Not so for lookups, which had better go another way.
    pub(crate) fn extend(&mut self, peer: &RingKey, retries: u32) {
        for request in self.open.values_mut() {
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
        request.deadline = deadline;
        Some(request.clone())
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.open.values().map(|request| request.deadline).min()
    }
}
