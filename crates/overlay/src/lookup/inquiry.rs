//! [`Inquiry`]: what is asked of a lookup. [`LookupEnd`]: what comes of it.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::time::Duration;

use crate::event::{Event, LookupFailure, LookupId, RecordId, RouteId, TallyId};
use crate::key::{Offset, RingKey};
use crate::view::SignedHeader;

/// How a member with credentials looks things up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// As Chord does: every answer is believed, if it is possible at all.
    Plain,
    /// As the paper does: every answer is checked with one other member of the answerer's group.
    Paper,
    /// See the crate's documentation: right as long as one honest member is asked at each step.
    #[default]
    Verified,
}

/// Who asked, and so who gets the outcome: a lookup gives it back. `Lookups::start` counts those
/// of one kind that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The caller of the crate.
    Caller,
    /// The finger table.
    Finger(Offset),
    /// The own group: who stands around this member, seen from elsewhere.
    OwnGroup,
    /// An audit: what those around a random point say is compared with what they say to others.
    Audit,
    /// This member on its way into the ring, to find its place.
    Place,
    /// This member in the ring, to find out whether another ring knows it.
    Probe,
    /// The members around a record's point.
    Record(RecordId),
    /// The members around the point of a name that is counted.
    Tally(TallyId),
    /// A message whose point's owner is wanted.
    Route(RouteId),
}

impl Asker {
    /// Whether both are of one kind, whatever they are about.
    pub(super) fn is_like(self, other: Asker) -> bool {
        discriminant(&self) == discriminant(&other)
    }
}

/// Where a lookup begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At what this member knows of the ring.
    Own,
    /// At a random finger.
    AnyFinger,
    /// At those who can say most about the finger at this offset.
    Finger(Offset),
    /// Outside, at these members: one for each attempt of a verified lookup, the last first.
    Members(Vec<RingKey>),
}

impl Origin {
    /// Whether it goes through the members that it is given only, not through the own pointers.
    pub(super) fn is_outside(&self) -> bool {
        matches!(self, Origin::Members(_))
    }
}

/// A point that somebody wants to have looked up.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(crate) asker: Asker,
    pub(crate) target: RingKey,
    pub(crate) rule: Rule,
    pub(crate) origin: Origin,
    /// How many of one kind of asker may run at once.
    pub(crate) most: usize,
    /// Whether each view that comes is compared with what its author said before.
    pub(crate) compares_all: bool,
}

impl Inquiry {
    /// From the own pointers on, beside any number of others.
    pub(crate) fn new(asker: Asker, target: RingKey, rule: Rule) -> Inquiry {
        Inquiry {
            asker,
            target,
            rule,
            origin: Origin::Own,
            most: usize::MAX,
            compares_all: false,
        }
    }

    pub(crate) fn from(self, origin: Origin) -> Inquiry {
        Inquiry { origin, ..self }
    }

    pub(crate) fn at_most(self, most: usize) -> Inquiry {
        Inquiry { most, ..self }
    }

    pub(crate) fn comparing_all(self) -> Inquiry {
        let compares_all = true;
        Inquiry {
            compares_all,
            ..self
        }
    }
}

/// How a lookup ended.
#[derive(Debug)]
pub(crate) struct LookupEnd {
    pub(crate) id: LookupId,
    pub(crate) asker: Asker,
    pub(crate) target: RingKey,
    pub(crate) result: Result<Found, LookupFailure>,
}

impl LookupEnd {
    /// For the caller.
    pub(crate) fn into_event(self) -> Event {
        let (id, target) = (self.id, self.target);
        let found = match self.result {
            Ok(found) => found,
            Err(reason) => return Event::LookupFailed { id, target, reason },
        };
        let (group, verified) = match found.around {
            Around::Views(views) => (views.group, views.verified),
            // No group was stated, so the owner stands for it.
            Around::Claimed(_) => (vec![found.owner], false),
        };
        Event::LookupDone {
            id,
            target,
            owner: found.owner,
            group,
            verified,
            hops: found.hops,
            questions: found.questions,
            elapsed: found.elapsed,
        }
    }
}

/// What a lookup found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) owner: RingKey,
    /// The members that answered on the way.
    pub(crate) hops: Vec<RingKey>,
    pub(crate) questions: u32,
    pub(crate) elapsed: Duration,
    pub(crate) around: Around,
}

/// What is known of the members around the target.
#[derive(Debug)]
pub(crate) enum Around {
    /// A plain lookup's: who says that it is the target's predecessor; none if this member knew
    /// the owner itself.
    Claimed(Option<RingKey>),
    /// A verified lookup's.
    Views(Views),
}

/// The group around the target, by its members' own views.
#[derive(Debug)]
pub(crate) struct Views {
    /// Clockwise.
    pub(crate) group: Vec<RingKey>,
    /// Whether the group is known to be whole.
    pub(crate) verified: bool,
    /// The numbers of the views near the target that came.
    pub(crate) numbers: BTreeMap<RingKey, u64>,
    /// What those near the target said, signed.
    pub(crate) said: Vec<SignedHeader>,
}
