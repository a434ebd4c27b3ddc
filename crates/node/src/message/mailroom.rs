//! Frames that links have brought, until the task that stores messages takes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringway_transport::MemberId;
use tokio::sync::Notify;

use crate::limits::{FRAME_BYTES_WAITING, FRAME_BYTES_WAITING_IN_ALL};

/// A member's frame.
pub(crate) type Came = (MemberId, Vec<u8>);

#[derive(Debug, Default)]
struct Queue {
    frames: Vec<Came>,
    /// Bytes of all, and of each member.
    bytes: usize,
    of_member: HashMap<MemberId, usize>,
}

/// Where frames wait: of each member no more than its share. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailroom {
    queue: Arc<Mutex<Queue>>,
    came: Arc<Notify>,
}

impl Mailroom {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame in; false if there is no room for it.
    pub(crate) fn put(&self, member: MemberId, frame: Vec<u8>) -> bool {
        {
            let mut queue = self.lock();
            let bytes = frame.len() + size_of::<Came>();
            let of_member = queue.of_member.get(&member).copied().unwrap_or(0) + bytes;
            if of_member > FRAME_BYTES_WAITING || queue.bytes + bytes > FRAME_BYTES_WAITING_IN_ALL {
                return false;
            }
            queue.of_member.insert(member, of_member);
            queue.bytes += bytes;
            queue.frames.push((member, frame));
        }
        self.came.notify_one();
        true
    }

    /// Waits until there is one.
    pub(super) async fn wait(&self) {
        loop {
            let came = self.came.notified();
            if !self.lock().frames.is_empty() {
                return;
            }
            came.await;
        }
    }

    /// All that wait.
    pub(super) fn take(&self) -> Vec<Came> {
        std::mem::take(&mut *self.lock()).frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn flood_of_one_leaves_room_for_others() {
        let room = Mailroom::default();
        let [flood, other] = [1, 2].map(|id| MemberId::new([id; 32]));
        let taken = (0..100)
            .filter(|_| room.put(flood, vec![0; 60_000]))
            .count();
        assert!((10..20).contains(&taken), "{taken}");
        assert!(room.put(other, vec![1]));
        room.wait().await;
        assert_eq!(room.take().last(), Some(&(other, vec![1])));
        assert!(room.put(flood, vec![0; 60_000]), "there is room again");
    }
}
