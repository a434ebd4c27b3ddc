//! What members say to each other to keep the ring and to find owners.

use crate::key::RingKey;

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
}

impl Message {
    /// The id that an answer carries; none for requests and for messages without an answer.
    #[must_use]
    pub fn answers(&self) -> Option<RequestId> {
        match self {
            Message::Pong { id, .. }
            | Message::State { id, .. }
            | Message::Pending { id }
            | Message::NotMember { id }
            | Message::Owner { id, .. }
            | Message::Closer { id, .. } => Some(*id),
            Message::Ping { .. }
            | Message::GetState { .. }
            | Message::FindOwner { .. }
            | Message::Notify
            | Message::StabiliseSoon
            | Message::Leaving => None,
        }
    }
}
