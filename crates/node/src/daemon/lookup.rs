//! Looking points of the ring up, for programs that run a router within themselves.

use std::time::Duration;

use ringway_overlay::RingKey;

use super::RingSender;

/// Who owns a point of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The router.
    pub key: RingKey,
    /// Whether several routers agree on it; if not, it is the best answer and may be a lie.
    pub verified: bool,
    /// Questions that were asked, each of which takes two messages.
    pub questions: u32,
    /// Time from the question to the answer, as the ring's part of the member saw it.
    pub elapsed: Duration,
}

/// Why the owner of a point is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotFound(String);

impl RingSender {
    /// Finds the router that owns `point`.
    ///
    /// # Errors
    /// When this router is not part of the ring, too many of its lookups run already, or no router
    /// that answers knows the way.
    pub async fn look_up(&self, point: RingKey) -> Result<Owner, NotFound> {
        let found = self.member.lookup(point).await;
        let found = found.map_err(|error| NotFound(error.to_string()))?;
        Ok(Owner {
            key: found.owner,
            verified: found.verified,
            questions: found.questions,
            elapsed: found.elapsed,
        })
    }
}
