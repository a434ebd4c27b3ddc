//! What those who ask the member are answered: outcomes, and reasons why there is none.

use std::time::Duration;

use ringway_overlay::RingKey;
use tokio::sync::oneshot;

/// Why a peer could not be asked or reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error("`{0}` does not answer at any address known: is its `ringway node` running?")]
    Silent(String),
    #[error("`{0}` has no address that is known here")]
    NoAddress(String),
    #[error(
        "the ring does not know where the leaf `{0}` is: is its `ringway node` running? If it has only just started, try again in a \
         few seconds"
    )]
    NotFound(String),
    #[error(
        "this member hides its address from all but its parents (`node.hide_address` in ringway.toml), and `{0}` cannot be reached \
         through a parent or by mail now: `ringway status` lists the parents"
    )]
    Hidden(String),
    #[error(
        "this member hides its address from all but its parents (`node.hide_address` in ringway.toml), and the leaf `{0}` has none of \
         them as its parent: `{0}` can call this member, unless it hides as well"
    )]
    NoCommonParent(String),
    #[error("`{0}` advertises no QUIC address")]
    NoQuic(String),
    #[error("this member is stopping")]
    Stopping,
}

/// Makes the reason for a peer of the name that is given.
pub(super) type Reason = fn(String) -> Unreachable;

/// Why a key could not be looked up, or a message not be sent through the ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupFailed {
    #[error("this member is not part of the ring yet: `ringway status` shows how far it is")]
    NotInRing,
    #[error("this leaf has no parent yet: `ringway status` shows how far it is")]
    NoParent,
    #[error("only routers send messages through the ring, and this member is a leaf")]
    Leaf,
    #[error("no answer within the time")]
    TimedOut,
    #[error("{0}")]
    Overlay(String),
    #[error("this member is stopping")]
    Stopping,
}

/// A lookup's outcome.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) owner: RingKey,
    /// Whether several members agree on it; for a leaf, its parent says so.
    pub(crate) verified: bool,
    pub(crate) hops: Vec<RingKey>,
    /// How many questions were asked; of a leaf, those to its parents.
    pub(crate) questions: u32,
    pub(crate) elapsed: Duration,
}

/// Gives a reply. The asker may have gone meanwhile.
pub(super) fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::trace!("an answer is no longer wanted");
    }
}
