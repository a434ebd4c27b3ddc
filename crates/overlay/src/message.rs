//! What members say to each other to keep the ring and to find owners.

use crate::key::RingKey;
use crate::proof::Accusation;
use crate::record::Record;
use crate::tally::Count;
use crate::view::{SignedHeader, View};

/// Matches an answer to its request: unique among the requests that one member has open.
pub type RequestId = u64;

/// One message between two members of the ring.
///
/// The link below authenticates the sender, so no message names it. [`encode`](Self::encode) and
/// [`decode`](Self::decode) are in the module `wire`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Are you alive, and a member? Answered at once, even while "pending".
    Ping {
        /// Comes back in the answer.
        id: RequestId,
    },
    /// The answer to [`Message::Ping`].
    Pong {
        /// From the request.
        id: RequestId,
        /// Whether the sender is a member of the ring, not only alive.
        member: bool,
    },
    /// What are your predecessor and your successors?
    GetState {
        /// Comes back in the answer.
        id: RequestId,
    },
    /// The answer to [`Message::GetState`].
    State {
        /// From the request.
        id: RequestId,
        /// The sender's predecessor, if it has one.
        predecessor: Option<RingKey>,
        /// The sender's successors, nearest first. At most 16; empty in a ring of one.
        successors: Vec<RingKey>,
    },
    /// The answer to [`Message::GetState`] while the sender's own state may be about to change.
    Pending {
        /// From the request.
        id: RequestId,
    },
    /// The answer to any request but a ping by one who is no member (yet, or any more).
    NotMember {
        /// From the request.
        id: RequestId,
    },
    /// I am your predecessor, I think. No answer.
    Notify,
    /// Your successor may have changed: stabilise soon. A hint that changes no state. No answer.
    StabiliseSoon,
    /// Who owns `target`? Asked of one member after the other, by the one who wants to know.
    FindOwner {
        /// Comes back in the answer.
        id: RequestId,
        /// The point whose owner is wanted.
        target: RingKey,
    },
    /// The answer to [`Message::FindOwner`] by the target's predecessor.
    Owner {
        /// From the request.
        id: RequestId,
        /// The owner, then those who own the target if those before are dead. 1 to 16.
        owners: Vec<RingKey>,
    },
    /// The answer to [`Message::FindOwner`] by anyone else.
    Closer {
        /// From the request.
        id: RequestId,
        /// Members closer before the target than the sender, the closest first. 1 to 16.
        candidates: Vec<RingKey>,
    },
    /// I leave the ring now. No answer.
    Leaving,
    /// Whom do you know around `point`?
    GetNear {
        /// Comes back in the answer.
        id: RequestId,
        /// The point.
        point: RingKey,
    },
    /// The answer to [`Message::GetNear`].
    Near {
        /// From the request.
        id: RequestId,
        /// The nearest members that the sender knows, clockwise. 1 to 16.
        members: Vec<RingKey>,
    },
    /// What is your view?
    GetView {
        /// Comes back in the answer.
        id: RequestId,
        /// The number of the view that the asker has already; 0 for none.
        have: u64,
    },
    /// The answer to [`Message::GetView`].
    ViewIs {
        /// From the request.
        id: RequestId,
        /// The sender's latest view.
        view: View,
    },
    /// The answer to [`Message::GetView`] if the asker has the latest view.
    Unchanged {
        /// From the request.
        id: RequestId,
    },
    /// My view is another one now. No answer.
    Announce {
        /// The sender's latest view.
        view: View,
    },
    /// Somebody in your group told me this. No answer.
    Witness {
        /// What was said.
        said: SignedHeader,
    },
    /// A member has signed two statements that contradict each other: proof that it lies. No
    /// answer.
    Evidence {
        /// Of whom, and signed by the sender: false, it is proof against the sender.
        accusation: Box<Accusation>,
    },
    /// An accusation is false: proof that its accuser lies. No answer.
    FalseAccusation {
        /// What the accuser has signed.
        accusation: Box<Accusation>,
    },
    /// Prove that these keys are routers of the ring.
    GetCertificates {
        /// Comes back in the answer.
        id: RequestId,
        /// The keys. 1 to 2.
        members: Vec<RingKey>,
    },
    /// The answer to [`Message::GetCertificates`].
    Certificates {
        /// From the request.
        id: RequestId,
        /// The certificates that the sender has of those that were asked for. 0 to 2, of 512 bytes
        /// at most.
        certificates: Vec<(RingKey, Vec<u8>)>,
    },
    /// Keep this record.
    Store {
        /// Comes back in the answer.
        id: RequestId,
        /// The record.
        record: Record,
    },
    /// The answer to [`Message::Store`].
    Stored {
        /// From the request.
        id: RequestId,
        /// The number of the record that the sender has at that point now; 0 if it has none.
        number: u64,
    },
    /// Which record do you have at `point`?
    Fetch {
        /// Comes back in the answer.
        id: RequestId,
        /// The point.
        point: RingKey,
    },
    /// The answer to [`Message::Fetch`].
    Fetched {
        /// From the request.
        id: RequestId,
        /// The record, if the sender has one.
        record: Option<Record>,
    },
    /// You ought to keep these: which of them do you miss?
    Offer {
        /// Comes back in the answer.
        id: RequestId,
        /// Their points and numbers. 1 to 16.
        records: Vec<(RingKey, u64)>,
    },
    /// The answer to [`Message::Offer`].
    Wanted {
        /// From the request.
        id: RequestId,
        /// The points of those that the sender misses, or has in an older form. 0 to 16.
        points: Vec<RingKey>,
    },
    /// Keep what I have counted at `point`: the author is the sender. The answer is
    /// [`Message::Stored`], with what the receiver has of the author then.
    Count {
        /// Comes back in the answer.
        id: RequestId,
        /// The point.
        point: RingKey,
        /// The sender's count.
        count: Count,
    },
    /// What was counted at `point`?
    GetTally {
        /// Comes back in the answer.
        id: RequestId,
        /// The point.
        point: RingKey,
        /// Only authors after this one are wanted.
        after: Option<RingKey>,
    },
    /// The answer to [`Message::GetTally`].
    Tally {
        /// From the request.
        id: RequestId,
        /// In the order of their authors. 0 to 8; with 8 there may be more.
        counts: Vec<Count>,
    },
    /// Carry this to the owner of `target`. Its answer comes back the same way.
    Route {
        /// The sender's number for it.
        id: RequestId,
        /// Where it goes.
        target: RingKey,
        /// How often it may still be handed on.
        hops_left: u8,
        /// What it carries from end to end. 1 to 1 040 bytes.
        payload: Vec<u8>,
    },
    /// The same, of the sender's own. A router that is handed one hands it on as
    /// [`Message::Route`].
    Own {
        /// The sender's number for it.
        id: RequestId,
        /// Where it goes.
        target: RingKey,
        /// How often it may still be handed on.
        hops_left: u8,
        /// The receiver's clock, as it last told the sender; 0 if it never has.
        clock: u64,
        /// What it carries from end to end. 1 to 1 040 bytes.
        payload: Vec<u8>,
    },
    /// These messages have come, and are on their way; told if their answers take long. No answer.
    TakenOn {
        /// The receiver's numbers. 1 to 64.
        ids: Vec<RequestId>,
    },
    /// Your message has reached its target, which says this.
    Reached {
        /// The number of the hop that this goes to; straight from the target the sender's, which
        /// the target knows.
        id: RequestId,
        /// The sender's number, for the confirmation.
        label: RequestId,
        /// The sender's clock: seconds from a beginning of its own choice.
        clock: u64,
        /// From end to end. 1 to 1 040 bytes.
        payload: Vec<u8>,
    },
    /// Carry this to the target, too, the same way. No answer.
    Confirm {
        /// The receiver's number for the message.
        id: RequestId,
        /// From end to end. 1 to 1 040 bytes.
        payload: Vec<u8>,
    },
    /// Your message came straight from you, and has been delivered here. No answer.
    Delivered {
        /// The receiver's number for the message.
        id: RequestId,
        /// The sender's clock, as in [`Message::Reached`].
        clock: u64,
    },
    /// The ring's owner states this. No answer.
    Statement {
        /// In the caller's encoding, signed. 1 to 1 000 bytes.
        statement: Vec<u8>,
    },
}

impl Message {
    pub(crate) fn evidence(accusation: Accusation) -> Message {
        let accusation = Box::new(accusation);
        Message::Evidence { accusation }
    }

    pub(crate) fn false_accusation(accusation: Accusation) -> Message {
        let accusation = Box::new(accusation);
        Message::FalseAccusation { accusation }
    }

    /// Whether it belongs to a message through the ring.
    pub(crate) fn is_routing(&self) -> bool {
        matches!(
            self,
            Message::Route { .. }
                | Message::Own { .. }
                | Message::TakenOn { .. }
                | Message::Reached { .. }
                | Message::Confirm { .. }
                | Message::Delivered { .. }
        )
    }

    /// Whether it is about tallies, which routers of release 0.2 do not know.
    #[must_use]
    pub fn is_of_tallies(&self) -> bool {
        matches!(
            self,
            Message::Count { .. } | Message::GetTally { .. } | Message::Tally { .. }
        )
    }

    /// What a router would answer that keeps no counts; none if this asks nothing about them. So a
    /// router that does not know these messages need not be asked.
    #[must_use]
    pub fn answer_without_tallies(&self) -> Option<Message> {
        match self {
            Message::Count { id, .. } => Some(Message::Stored { id: *id, number: 0 }),
            Message::GetTally { id, .. } => Some(Message::Tally {
                id: *id,
                counts: Vec::new(),
            }),
            _ => None,
        }
    }

    /// The id that an answer carries; none for requests and for messages without an answer.
    #[must_use]
    pub fn answers(&self) -> Option<RequestId> {
        match self {
            Message::Pong { id, .. }
            | Message::State { id, .. }
            | Message::Pending { id }
            | Message::NotMember { id }
            | Message::Owner { id, .. }
            | Message::Closer { id, .. }
            | Message::Near { id, .. }
            | Message::ViewIs { id, .. }
            | Message::Unchanged { id }
            | Message::Certificates { id, .. }
            | Message::Stored { id, .. }
            | Message::Fetched { id, .. }
            | Message::Tally { id, .. }
            | Message::Wanted { id, .. } => Some(*id),
            Message::Ping { .. }
            | Message::GetState { .. }
            | Message::FindOwner { .. }
            | Message::GetNear { .. }
            | Message::GetView { .. }
            | Message::GetCertificates { .. }
            | Message::Store { .. }
            | Message::Fetch { .. }
            | Message::Offer { .. }
            | Message::Count { .. }
            | Message::GetTally { .. }
            | Message::Announce { .. }
            | Message::Witness { .. }
            | Message::Evidence { .. }
            | Message::FalseAccusation { .. }
            | Message::Statement { .. }
            | Message::Route { .. }
            | Message::Own { .. }
            | Message::TakenOn { .. }
            | Message::Reached { .. }
            | Message::Confirm { .. }
            | Message::Delivered { .. }
            | Message::Notify
            | Message::StabiliseSoon
            | Message::Leaving => None,
        }
    }
}
