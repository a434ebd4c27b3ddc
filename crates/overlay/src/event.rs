//! What goes in and out of [`Chord`](crate::Chord) besides messages: events, ids, errors, counters.

use std::time::Duration;

use crate::key::RingKey;
use crate::message::Message;
use crate::proof::Proof;
use crate::record::Record;
use crate::route::outcome::RouteFailure;
use crate::tally::Count;

/// A message that the caller must send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The member to send to; its key carries its address.
    pub to: RingKey,
    /// What to send.
    pub message: Message,
}

/// Names one lookup of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupId(pub(crate) u64);

/// Names one record that is being put or looked for by one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub(crate) u64);

/// Names one count that is being left, or one tally that is being read, by one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TallyId(pub(crate) u64);

/// Names one message that one member sends through the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub(crate) u64);

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Neither in the ring nor on the way into it.
    Outside,
    /// Looking for its place.
    Joining,
    /// In the ring.
    Member,
}

/// What a member that is on its way into the ring waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The members that have been asked and have not answered yet.
    pub answers_of: Vec<RingKey>,
    /// Tries to join that have failed since one found a place.
    pub failures: u32,
    /// Members' views that had ended by this member's clock, which may be wrong.
    pub ended_views: u32,
}

/// The part of a member's state that the ring's correctness depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The member's own key.
    pub key: RingKey,
    /// Where it stands.
    pub state: Membership,
    /// Its predecessor; none in a ring of one.
    pub predecessor: Option<RingKey>,
    /// Its successors, nearest first; empty in a ring of one.
    pub successors: Vec<RingKey>,
}

/// Something that happened, for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This member is in the ring now: its own first one, or after joining.
    Joined,
    /// A lookup found the owner.
    LookupDone {
        /// Which lookup.
        id: LookupId,
        /// The point that was looked up.
        target: RingKey,
        /// The live member that owns the point, as far as the asked members know.
        owner: RingKey,
        /// The group around the point, clockwise; only the owner after a plain lookup.
        group: Vec<RingKey>,
        /// Whether the answer was verified. If not, it is the best that was found, and may be a
        /// lie.
        verified: bool,
        /// The members that answered on the way, in that order, of a verified lookup the first at
        /// each step; without the owner's own confirmation. Empty if this member knew the
        /// owner.
        hops: Vec<RingKey>,
        /// How many questions were asked, each of which takes two messages.
        questions: u32,
        /// Time from the command to the answer.
        elapsed: Duration,
    },
    /// A lookup found no owner.
    LookupFailed {
        /// Which lookup.
        id: LookupId,
        /// The point that was looked up.
        target: RingKey,
        /// Why.
        reason: LookupFailure,
    },
    /// A record has been put, or not: see `copies`.
    RecordStored {
        /// Which operation.
        id: RecordId,
        /// Members around its point that have it now.
        copies: u32,
        /// Members around its point.
        group: u32,
        /// Whether the lookup of its point was verified.
        verified: bool,
    },
    /// The members around a point have said which record they have.
    RecordFound {
        /// Which operation.
        id: RecordId,
        /// The newest genuine one; none if no member has any.
        record: Option<Box<Record>>,
        /// Members that answered.
        answers: u32,
        /// Members around the point.
        group: u32,
        /// Whether the lookup of the point was verified.
        verified: bool,
    },
    /// The members around a record's point were not found.
    RecordFailed {
        /// Which operation.
        id: RecordId,
        /// Why.
        reason: LookupFailure,
    },
    /// A count has been left, or not: see `copies`.
    Counted {
        /// Which operation.
        id: TallyId,
        /// Routers around its point that have it now.
        copies: u32,
        /// Routers around its point.
        group: u32,
        /// Whether the lookup of its point was verified.
        verified: bool,
    },
    /// The routers around a point have said what was counted there.
    Tallied {
        /// Which operation.
        id: TallyId,
        /// The largest genuine count of each router, in the order of their keys.
        counts: Vec<Count>,
        /// Routers that answered.
        answers: u32,
        /// Routers around the point.
        group: u32,
        /// Whether the lookup of the point was verified.
        verified: bool,
    },
    /// The routers around a tally's point were not found.
    TallyFailed {
        /// Which operation.
        id: TallyId,
        /// Why.
        reason: LookupFailure,
    },
    /// A message that was sent through the ring has reached its receiver.
    RouteDone {
        /// Which message.
        id: RouteId,
        /// Who has it.
        by: RingKey,
        /// Whether that is certainly who was meant: the member that was named, or the owner of the
        /// point by a verified lookup. Otherwise it is a member that claims the point.
        verified: bool,
        /// How many ways it went.
        tries: u32,
        /// Time from the command to the answer.
        elapsed: Duration,
    },
    /// A message that was sent through the ring has not been answered. It may have arrived all the
    /// same.
    RouteFailed {
        /// Which message.
        id: RouteId,
        /// Why.
        reason: RouteFailure,
    },
    /// A message has come through the ring, and it is proven that `from` has sent it.
    Routed {
        /// Who sent it.
        from: RingKey,
        /// Where it was sent: this member's key, or a point that it owns.
        target: RingKey,
        /// What it says. At most 400 bytes.
        body: Vec<u8>,
    },
    /// The ring's owner has stated something new, which [`Credentials`](crate::Credentials) has
    /// taken in.
    Statement(Vec<u8>),
    /// The predecessor or the successor list is another one now.
    NeighboursChanged {
        /// The predecessor; none in a ring of one.
        predecessor: Option<RingKey>,
        /// The successors, nearest first.
        successors: Vec<RingKey>,
    },
    /// A member answered nothing, said that it is no member, or left. A local opinion, no evidence.
    MemberDead(RingKey),
    /// A member signed what none signs that follows the protocol. The proof convinces every member
    /// that checks it.
    Convicted {
        /// Who.
        member: RingKey,
        /// By what.
        proof: Box<Proof>,
    },
    /// This member itself has signed what convicts it, and others show it: they do not use it any
    /// more. Reported once.
    OwnConviction(Box<Proof>),
    /// A new start has begun without an end of the process, with this count of starts: to be kept
    /// on disk, so that the next one is higher.
    StartedOver(u32),
    /// All successors died at once. This member is a ring of one now, and looks for the others.
    Isolated,
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupFailure {
    /// The time limit of the configuration passed.
    #[error("the lookup took longer than its time limit")]
    TimedOut,
    /// No member that could be asked knew the way.
    #[error("no member that answers knows the way to the owner")]
    NoRoute,
    /// This member left the ring meanwhile.
    #[error("this member left the ring during the lookup")]
    Left,
}

/// Why a lookup is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// This member is not in the ring.
    #[error("this member is not in the ring yet; wait for the event Joined")]
    NotMember,
    /// Too many lookups run.
    #[error("{0} lookups are running already; wait until one ends")]
    TooMany(usize),
}

/// Why leaving is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaveRefused {
    /// This member is not in the ring.
    #[error("this member is not in the ring")]
    NotMember,
    /// The ring would be too small to survive deaths.
    #[error("leaving would leave {left} known members, and the ring needs {needed}")]
    TooFewMembers {
        /// Other members that this one knows.
        left: usize,
        /// r + 1.
        needed: usize,
    },
}

/// How often something was ignored, or had to be. Each counts from the start of this member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// New starts without an end of the process: the date was moved, or others have views of this
    /// member that it does not know.
    pub started_over: u64,
    /// Answers to no open request, or from another member than the one asked.
    pub unsolicited: u64,
    /// Answers that came after their request had been given up: this member, or those around it,
    /// are overloaded.
    pub late: u64,
    /// Answers that do not fit their request, or claim what cannot be.
    pub malformed: u64,
    /// Requests not answered because their sender asked too often.
    pub rate_limited: u64,
    /// Messages and events dropped because the caller did not drain them.
    pub output_dropped: u64,
    /// Notifications dropped because too many waited.
    pub notifications_dropped: u64,
    /// Requests that were repeated.
    pub repeated: u64,
    /// Requests that stayed without an answer.
    pub unanswered: u64,
    /// Answers "pending" received.
    pub pending: u64,
    /// Messages of members that are convicted.
    pub from_convicted: u64,
    /// Messages of others that were handed on.
    pub routed_on: u64,
    /// Messages of others that were not, for want of a way or of room.
    pub routed_dropped: u64,
    /// Messages through the ring from senders whose certificates are not known.
    pub routed_unknown: u64,
}
