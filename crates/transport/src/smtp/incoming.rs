//! Mails that arrive, whichever way: which are ours, and what is in them.

pub(super) mod imap;
pub(super) mod lmtp;
pub(super) mod maildir;
pub(super) mod pipe;
pub(super) mod pop3;

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use super::mime::{self, NotOurs};
use super::{Shared, session};
use crate::address::MailAddress;
use crate::limits::MAIL_SEEN;
use crate::transport::Inbox;

/// What a source does with a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was ours and is done with.
    Taken,
    /// It is somebody else's, or claims wrongly to be ours: it is left alone.
    Left,
    /// The receiver of messages is gone.
    Stopped,
}

/// Takes the mails of all sources.
#[derive(Debug)]
pub(super) struct Receiver {
    own: MailAddress,
    shared: Arc<Shared>,
    inbox: Inbox,
    seen: Mutex<Seen>,
}

impl Receiver {
    pub(super) fn new(own: MailAddress, shared: Arc<Shared>, inbox: Inbox) -> Self {
        Self {
            own,
            shared,
            inbox,
            seen: Mutex::default(),
        }
    }

    /// The header field by which our mails are known, and its value.
    pub(super) fn filter(&self) -> (&str, &str) {
        self.own.filter()
    }

    /// Whether a mail with these headers claims to be ours. Counts it if not: then the rest is not
    /// looked at.
    fn claims(&self, head: &[u8]) -> bool {
        let claims = std::panic::catch_unwind(|| mime::claims(head, &self.own)).unwrap_or(false);
        if !claims {
            self.shared.counters.foreign.add();
        }
        claims
    }

    /// Judges one mail and delivers what is in it.
    pub(super) fn take(&self, mail: &[u8]) -> Verdict {
        let counters = &self.shared.counters;
        // A mail that makes the parser panic must not end its source, and meet it again after each
        // start.
        let read = std::panic::catch_unwind(|| mime::read(mail, &self.own));
        let container = match read.unwrap_or(Err(NotOurs::Malformed)) {
            Ok(container) => container,
            Err(NotOurs::Foreign) => {
                counters.foreign.add();
                return Verdict::Left;
            }
            Err(NotOurs::Malformed) => {
                counters.malformed.add();
                return Verdict::Left;
            }
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let new = seen.insert(container.number);
        drop(seen);
        if !new {
            counters.duplicate.add();
            return Verdict::Taken;
        }
        let session = session(&self.shared, container.reply);
        for message in container.messages {
            if !self.inbox.deliver(session.clone(), message) {
                return Verdict::Stopped;
            }
        }
        Verdict::Taken
    }

    /// Counts a mail that is too long to be looked at.
    pub(super) fn too_long(&self) {
        self.shared.counters.malformed.add();
    }

    /// Counts a failure of a source, and says so.
    pub(super) fn failed(&self, source: &str, error: &dyn std::fmt::Display) {
        tracing::warn!(%error, "{source}: cannot receive mail");
        self.shared.counters.failed.add();
    }

    pub(super) fn timed_out(&self) {
        self.shared.counters.timed_out.add();
    }

    pub(super) fn refused(&self) {
        self.shared.counters.refused.add();
    }
}

/// Mails that are left where they are, by a hash of their names, so that each is read once.
#[derive(Debug, Default)]
struct LeftAlone {
    names: BTreeSet<u64>,
    hasher: RandomState,
}

impl LeftAlone {
    fn hash(&self, name: impl Hash) -> u64 {
        self.hasher.hash_one(name)
    }
}

/// The numbers of the mails that came last.
#[derive(Debug, Default)]
struct Seen {
    order: VecDeque<[u8; 16]>,
    numbers: BTreeSet<[u8; 16]>,
}

impl Seen {
    /// False if it was there.
    fn insert(&mut self, number: [u8; 16]) -> bool {
        if !self.numbers.insert(number) {
            return false;
        }
        self.order.push_back(number);
        if self.order.len() > MAIL_SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_known_for_a_while() {
        let mut seen = Seen::default();
        let number = |n: usize| {
            let mut number = [0; 16];
            number[..8].copy_from_slice(&n.to_be_bytes());
            number
        };
        assert!((0..MAIL_SEEN).all(|n| seen.insert(number(n))));
        assert!(!seen.insert(number(0)));
        assert!(seen.insert(number(MAIL_SEEN)));
        assert!(seen.insert(number(0)));
        assert_eq!(seen.order.len(), MAIL_SEEN);
        assert_eq!(seen.numbers.len(), MAIL_SEEN);
    }
}
