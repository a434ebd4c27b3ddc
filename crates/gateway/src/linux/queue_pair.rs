//! Two of the kernel's queues in front of one gateway: connections whose contents are followed have
//! their own, which is looked at when the other one is empty, and has its share when it is not: a
//! flood of new flows must not stop files.
//!
//! So no first packets, chats and phone calls wait behind files that are being scanned. It keeps
//! files fast, too: a sender that has once seen a short way across sends large pieces.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use super::queue::{Queue, Queued};
use crate::limits::MAX_STREAK;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueKind {
    /// Flows of which it is not known yet what they carry.
    New,
    /// Connections whose contents are followed.
    Followed,
}

/// A packet's name in both: its queue and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketId {
    kind: QueueKind,
    id: u32,
}

/// The bit of a token for the kind of queue.
const FOLLOWED: u64 = 1 << 32;

impl PacketId {
    /// The token of a packet for the gateway.
    pub(super) fn token(self) -> u64 {
        let kind = match self.kind {
            QueueKind::New => 0,
            QueueKind::Followed => FOLLOWED,
        };
        u64::from(self.id) | kind
    }

    /// It came by the queue of connections whose contents are followed.
    pub(super) fn is_followed(self) -> bool {
        self.kind == QueueKind::Followed
    }

    /// Back from that; `None`: it was never one.
    pub(super) fn of(token: u64) -> Option<Self> {
        let kind = if token & FOLLOWED == 0 {
            QueueKind::New
        } else {
            QueueKind::Followed
        };
        let id = u32::try_from(token & !FOLLOWED).ok()?;
        Some(Self { kind, id })
    }
}

/// Both queues.
#[derive(Debug)]
pub struct QueuePair {
    new: Queue,
    followed: Queue,
    latest: QueueKind,
    /// Reads of the first queue since the other one had a turn.
    streak: u8,
}

impl QueuePair {
    /// Binds queue `number` for new flows and queue `followed` for those whose contents are
    /// followed.
    ///
    /// # Errors
    /// As [`Queue::open`].
    pub fn open(number: u16, followed: u16, fail_open: bool) -> io::Result<Self> {
        Ok(Self {
            new: Queue::open(number, fail_open)?,
            followed: Queue::open(followed, fail_open)?,
            latest: QueueKind::New,
            streak: 0,
        })
    }

    /// What to wait for.
    pub(super) fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.new.as_fd(), self.followed.as_fd()]
    }

    /// Takes what the kernel has; gives false if there is nothing at the moment. A flow moves from
    /// one queue to the other by our own verdict only, so that its packets stay in order.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        let turns = if self.streak < MAX_STREAK {
            [QueueKind::New, QueueKind::Followed]
        } else {
            [QueueKind::Followed, QueueKind::New]
        };
        for kind in turns {
            if self.queue(kind).receive()? {
                self.latest = kind;
                self.streak = match kind {
                    QueueKind::New => self.streak.saturating_add(1),
                    QueueKind::Followed => 0,
                };
                return Ok(true);
            }
            if kind == QueueKind::New {
                // Their verdicts do not wait for those of a whole turn.
                self.new.flush()?;
            }
        }
        self.streak = 0;
        Ok(false)
    }

    /// The packets of the latest [`receive`](Self::receive).
    pub(super) fn packets(&self) -> impl Iterator<Item = (PacketId, Queued<'_>)> {
        let kind = self.latest;
        let queue = match kind {
            QueueKind::New => &self.new,
            QueueKind::Followed => &self.followed,
        };
        queue.packets().map(move |packet| {
            (
                PacketId {
                    kind,
                    id: packet.id,
                },
                packet,
            )
        })
    }

    /// As [`Queue::verdict`].
    pub(super) fn verdict(
        &mut self,
        id: PacketId,
        accept: bool,
        mark: Option<u32>,
        changed: Option<&[u8]>,
    ) -> io::Result<()> {
        self.queue(id.kind).verdict(id.id, accept, mark, changed)
    }

    /// As [`Queue::set_fail_open`], for both.
    pub(super) fn set_fail_open(&mut self, fail_open: bool) -> io::Result<()> {
        self.new.set_fail_open(fail_open)?;
        self.followed.set_fail_open(fail_open)
    }

    /// Sends the verdicts that wait.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.new.flush()?;
        self.followed.flush()
    }

    fn queue(&mut self, kind: QueueKind) -> &mut Queue {
        match kind {
            QueueKind::New => &mut self.new,
            QueueKind::Followed => &mut self.followed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PacketId, QueueKind};

    #[test]
    fn tokens_keep_lanes_and_numbers_apart() {
        let mut tokens = std::collections::BTreeSet::new();
        for kind in [QueueKind::New, QueueKind::Followed] {
            for id in [0, 1, u32::MAX] {
                let id = PacketId { kind, id };
                assert!(tokens.insert(id.token()));
                assert_eq!(PacketId::of(id.token()), Some(id));
            }
        }
        assert_eq!(PacketId::of(1 << 33), None);
    }
}
