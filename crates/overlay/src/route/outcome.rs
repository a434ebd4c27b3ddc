//! Where a routed message may go, and why it does not.

use crate::key::RingKey;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To this router, sealed for it.
    Member(RingKey),
    /// To the owner of this point. Those on the way can read it, and the member that claims the
    /// point is believed.
    Point(RingKey),
}

impl Destination {
    /// The key that the message is routed by.
    #[must_use]
    pub fn key(&self) -> RingKey {
        match self {
            Destination::Member(key) | Destination::Point(key) => *key,
        }
    }
}

/// Why a message is not routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// This member is not in the ring.
    #[error("this member is not in the ring yet; wait for the event Joined")]
    NotMember,
    /// Too many are under way.
    #[error("{0} messages are under way already; wait until one has arrived")]
    TooMany(usize),
    /// The body is too long.
    #[error("a routed message of {0} bytes is too long; {max} are allowed", max = crate::limits::MAX_ROUTED_BODY)]
    TooLong(usize),
    /// The receiver's certificate is not at hand, or it is not a member any more.
    #[error("there is no certificate of the receiver at hand; fetch it first")]
    NoCertificate,
    /// It would be a message to oneself.
    #[error("the receiver is this member itself")]
    ToOneself,
}

/// Why a routed message has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteFailure {
    /// No answer came, whichever way it went.
    #[error("no answer, whichever way the message went")]
    NoAnswer,
    /// The owner of the point was not found.
    #[error("the owner of the point was not found")]
    NoOwner,
    /// This member left the ring meanwhile.
    #[error("this member left the ring meanwhile")]
    Left,
}
