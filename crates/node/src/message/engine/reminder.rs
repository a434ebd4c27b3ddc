//! When what was read is said again. The sender may not have heard it, and has nothing of its own
//! to repeat: its messages are signed for.

use std::time::{Duration, Instant};

use crate::limits::{
    MESSAGE_RETRY_FIRST, MESSAGE_RETRY_MAIL, MESSAGE_RETRY_MAIL_LONGEST, READ_RETRY_LONGEST,
};

/// How often it was said, and when it is to be said next.
#[derive(Debug, Default)]
pub(super) struct Reminder {
    tries: u32,
    /// None where it is due at once: nothing was said since there was news.
    due: Option<Instant>,
    by_mail: bool,
}

impl Reminder {
    /// There is news, or the sender is back: it is due at once.
    pub(super) fn restart(&mut self) {
        self.tries = 0;
        self.due = None;
    }

    /// What is sent now goes by mail, or does not.
    pub(super) fn set_way(&mut self, by_mail: bool) {
        self.by_mail = by_mail;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// It is said now.
    pub(super) fn handle_said(&mut self, now: Instant) {
        let (first, longest) = if self.by_mail {
            (MESSAGE_RETRY_MAIL, MESSAGE_RETRY_MAIL_LONGEST)
        } else {
            (MESSAGE_RETRY_FIRST, READ_RETRY_LONGEST)
        };
        let doubled = 2u32.saturating_pow(self.tries.min(16));
        let pause: Duration = first.saturating_mul(doubled).min(longest);
        self.tries = self.tries.saturating_add(1);
        self.due = Some(now + pause);
    }

    /// When it is said next, if it has been said.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}
