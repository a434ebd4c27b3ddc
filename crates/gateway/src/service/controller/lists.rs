//! Lists in files, looked after, and flows about torrents.

use std::sync::Arc;

use super::{Controller, InForce, held};
use crate::accounting::FlowAccount;
use crate::limits::QUEUE_ANSWER;

impl Controller {
    /// Reads the lists again whose files are others by now. What cannot be read leaves the list as
    /// it was.
    pub(super) fn look_at_feeds(&self) {
        let closed = held(&self.changes);
        if *closed {
            return;
        }
        let before = held(&self.state).now.clone();
        let new = held(&self.feeds).look(&before.policy.feeds());
        if new.is_empty() {
            return;
        }
        let policy = before.policy.as_ref().clone().renewed(&new);
        // The packet filter and the kernel's table know networks only, and of lists few.
        let is_same = policy.concern() == before.policy.concern();
        let next = InForce {
            policy: Arc::new(policy),
            ..before
        };
        let done = if is_same {
            Ok(self.hand_out(&next))
        } else {
            self.put(&next)
        };
        match done {
            Ok(_) => {
                held(&self.state).now = next;
                for feed in &new {
                    let (file, entries) = (feed.path().display(), feed.entries().len());
                    tracing::info!(%file, entries, "a list has changed, and is at work");
                }
            }
            Err(failure) => {
                tracing::error!(reason = %failure, "a changed list is not at work: it is tried again");
            }
        }
    }

    /// The flows about torrents, or with names of such, that are not over, at most so many.
    #[must_use]
    pub fn torrents(&self, most: usize) -> Vec<FlowAccount> {
        let accounts = self.accounts.as_ref();
        let known = accounts.and_then(|accounts| accounts.known(QUEUE_ANSWER));
        let flows = known.unwrap_or_default().into_iter();
        let about = flows.filter(|flow| {
            let says = !flow.torrents.is_empty() || !flow.torrent_names.is_empty();
            flow.ended.is_none() && says
        });
        about.take(most).collect()
    }
}
