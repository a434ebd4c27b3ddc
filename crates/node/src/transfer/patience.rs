//! How long an attempt waits for content that does not move.
//!
//! A transfer of priority 0 may have to wait for others for hours, and its receiver cannot
//! distinguish that from a peer that does nothing. So one that waits keeps its permit for as long
//! as no other needs it.

use std::pin::pin;
use std::time::Duration;

use ringway_transport::quic::{QuicConnection, member_address};
use tokio::time::{Instant, timeout, timeout_at};

use crate::limits::{STALL_LOOK, STALL_TIME, STALL_TIME_WITH_ROOM};

/// How long nothing may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// However few permits are left.
    pub(super) always: Duration,
    /// For one that may stay.
    pub(super) with_room: Duration,
    /// How often it is looked whether it may.
    pub(super) look: Duration,
}

impl Patience {
    /// As the limits say.
    pub(super) const USUAL: Patience = Patience {
        always: STALL_TIME,
        with_room: STALL_TIME_WITH_ROOM,
        look: STALL_LOOK,
    };

    /// The same for what goes by `connection`. Over links nothing keeps QUIC alive, as each packet
    /// may be a mail: there a peer that is gone says as little as one that waits, and is given
    /// no longer than always.
    pub(super) fn towards(self, connection: &QuicConnection) -> Patience {
        let over_links = connection.remote() == Some(member_address(&connection.peer()));
        Patience {
            with_room: if over_links {
                self.always
            } else {
                self.with_room
            },
            ..self
        }
    }

    /// What `moves` comes to; none if that takes too long, or if it `may_stay` no longer. `moves`
    /// is dropped only then, so that nothing of it is lost between two looks.
    pub(super) async fn wait<T>(
        self,
        moves: impl Future<Output = T>,
        may_stay: impl Fn() -> bool,
    ) -> Option<T> {
        let mut moves = pin!(moves);
        let begun = Instant::now();
        if let Ok(moved) = timeout(self.always, &mut moves).await {
            return Some(moved);
        }
        let last = begun + self.with_room;
        while Instant::now() < last && may_stay() {
            let next = (Instant::now() + self.look).min(last);
            if let Ok(moved) = timeout_at(next, &mut moves).await {
                return Some(moved);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    const PATIENCE: Patience = Patience {
        always: Duration::from_secs(5),
        with_room: Duration::from_secs(60),
        look: Duration::from_secs(1),
    };

    /// How many seconds something was waited for that never moves, if there is room for so many
    /// seconds.
    async fn waited(room: u64) -> u64 {
        let begun = Instant::now();
        let there = || begun.elapsed() < Duration::from_secs(room);
        assert_eq!(PATIENCE.wait(pending::<()>(), there).await, None);
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_transfers_wait_while_there_is_room() {
        assert_eq!(waited(0).await, 5, "always");
        assert_eq!(waited(20).await, 20, "others want the place");
        assert_eq!(waited(u64::MAX).await, 60, "not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn what_moves_at_last_is_whole() {
        let steps = Cell::new(0);
        let moves = async {
            for _ in 0..30 {
                sleep(Duration::from_millis(900)).await;
                steps.set(steps.get() + 1);
            }
            steps.get()
        };
        assert_eq!(PATIENCE.wait(moves, || true).await, Some(30));
        let soon = sleep(Duration::from_secs(4));
        assert_eq!(PATIENCE.wait(soon, || false).await, Some(()));
    }
}
