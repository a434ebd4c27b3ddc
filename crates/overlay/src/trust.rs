//! [`Trust`]: who may be used at all: what the ring's owner has certified, and who is convicted.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::credentials::{Credentials, Standing};
use crate::key::RingKey;
use crate::limits::{MAX_CONVICTED, VIEW_GRACE};
use crate::message::Message;
use crate::proof::Proof;
use crate::view::{SignedHeader, View};

/// A proof against a member, and how others are notified of it: signed once, sent often.
#[derive(Debug)]
pub(crate) struct Conviction {
    pub(crate) proof: Proof,
    pub(crate) notice: Message,
    /// When the convicted member was shown it last.
    pub(crate) shown: Option<Instant>,
}

/// What a member goes by when it judges others. Every machine reads it.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    credentials: Option<Box<dyn Credentials>>,
    convicted: BTreeMap<RingKey, Conviction>,
    /// Views that have come since this member is outside the ring and had ended by its clock.
    ended_views: u32,
}

impl Trust {
    pub(crate) fn give(&mut self, credentials: Box<dyn Credentials>) {
        self.credentials = Some(credentials);
    }

    /// Whether this member has credentials: without them it believes what others say.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    pub(crate) fn credentials(&self) -> Option<&dyn Credentials> {
        self.credentials.as_deref()
    }

    pub(crate) fn credentials_mut(&mut self) -> Option<&mut dyn Credentials> {
        match &mut self.credentials {
            Some(credentials) => Some(credentials.as_mut()),
            None => None,
        }
    }

    /// Unix time in seconds; none without credentials.
    pub(crate) fn unix_time(&self, now: Instant) -> Option<u64> {
        Some(self.credentials()?.unix_time(now))
    }

    /// Whether `key` may be used at all.
    pub(crate) fn standing(&self, key: &RingKey) -> Standing {
        if self.is_convicted(key) {
            return Standing::Refused;
        }
        let credentials = self.credentials();
        credentials.map_or(Standing::Certified, |credentials| credentials.standing(key))
    }

    /// Whether a key may be used: a certified router, and not one that is known to lie.
    pub(crate) fn is_usable(&self, key: &RingKey) -> bool {
        self.standing(key) == Standing::Certified
    }

    pub(crate) fn is_convicted(&self, key: &RingKey) -> bool {
        self.convicted.contains_key(key)
    }

    pub(crate) fn convictions(&self) -> impl ExactSizeIterator<Item = (&RingKey, &Conviction)> {
        self.convicted.iter()
    }

    pub(crate) fn conviction_mut(&mut self, key: &RingKey) -> Option<&mut Conviction> {
        self.convicted.get_mut(key)
    }

    /// Whether one more may be convicted.
    pub(crate) fn has_room(&self) -> bool {
        self.convicted.len() < MAX_CONVICTED
    }

    pub(crate) fn convict(&mut self, member: RingKey, conviction: Conviction) {
        self.convicted.insert(member, conviction);
    }

    pub(crate) fn is_genuine(&self, said: &SignedHeader) -> bool {
        let credentials = self.credentials();
        credentials.is_some_and(|credentials| said.is_genuine(credentials))
    }

    /// Whether a view is well formed, signed by its author, and has not ended for long. Counts
    /// those that have: many of them mean that this member's clock is wrong.
    pub(crate) fn accepts(&mut self, now: Instant, view: &View) -> bool {
        let Some(credentials) = self.credentials() else {
            return false;
        };
        let unix = credentials.unix_time(now);
        let current = view.is_current(unix.saturating_sub(VIEW_GRACE.as_secs()));
        let accepted = current && view.is_valid(credentials);
        if !current {
            self.ended_views = self.ended_views.saturating_add(1);
        }
        accepted
    }

    pub(crate) fn ended_views(&self) -> u32 {
        self.ended_views
    }

    /// This member enters or leaves the ring: views are counted from the start again.
    pub(crate) fn forget_ended_views(&mut self) {
        self.ended_views = 0;
    }
}
