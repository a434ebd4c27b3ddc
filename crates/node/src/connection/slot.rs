//! How many connections each member may have open to this one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ringway_transport::MemberId;

use crate::limits::CONNECTIONS_PER_MEMBER;

/// How many connections each member has open.
pub(super) type OpenConnections = Arc<Mutex<HashMap<MemberId, usize>>>;

/// One of the connections that a member may have open; dropping it gives it back.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    open: OpenConnections,
    peer: MemberId,
}

impl ConnectionSlot {
    pub(super) fn take(open: &OpenConnections, peer: MemberId) -> Option<ConnectionSlot> {
        let mut counts = open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= CONNECTIONS_PER_MEMBER {
            return None;
        }
        *count += 1;
        let open = Arc::clone(open);
        Some(ConnectionSlot { open, peer })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let left = counts
            .get(&self.peer)
            .map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            counts.remove(&self.peer);
        } else {
            counts.insert(self.peer, left);
        }
    }
}
