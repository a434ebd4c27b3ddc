//! What the validator keeps of each member and each of its addresses.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::budget::Bucket;
use super::timing::Timing;
use crate::address::AddressDescriptor;
use crate::member::MemberId;

/// A member that has sent a HELLO.
#[derive(Debug)]
pub(super) struct Advertiser {
    /// Its newest HELLO's; `None` if it has only passed on others'.
    pub(super) sequence: Option<u64>,
    /// The newest HELLO as it came.
    pub(super) hello: Bytes,
    /// When its newest HELLO came.
    pub(super) heard: Instant,
    pub(super) budget: Bucket,
    /// For what it passes on.
    pub(super) referrals: Bucket,
    pub(super) addresses: Vec<Entry>,
}

/// One of its addresses.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) descriptor: AddressDescriptor,
    /// The PING that is out.
    pub(super) probe: Option<Probe>,
    /// A HELLO has named it, and the PING that this allows has not left yet.
    pub(super) granted: bool,
    /// Whose budget PINGs cost, if it is another member's: that which passed the HELLO on.
    pub(super) payer: Option<MemberId>,
    /// PINGs sent since the last proof or the last rest.
    pub(super) attempts: u32,
    /// How often the member has been asked for its HELLO because a PING was lost.
    pub(super) asked: u32,
    /// Rests since the last proof.
    pub(super) rests: u32,
    /// The last proof; it may have expired.
    pub(super) valid: Option<Valid>,
    /// When to look at it again; `None` after it was given up.
    pub(super) due: Option<Instant>,
}

/// A PING that waits for its PONG.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) challenge: [u8; 32],
    pub(super) sent: Instant,
}

/// A proof that the member is at the address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Valid {
    pub(super) since: Instant,
    pub(super) rtt: Duration,
}

impl Entry {
    pub(super) fn new(descriptor: AddressDescriptor) -> Self {
        Self {
            descriptor,
            probe: None,
            granted: false,
            payer: None,
            attempts: 0,
            asked: 0,
            rests: 0,
            valid: None,
            due: None,
        }
    }

    pub(super) fn valid_at(&self, now: Instant) -> Option<Valid> {
        self.valid
            .filter(|v| now.saturating_duration_since(v.since) < self.timing().valid_for)
    }

    pub(super) fn timing(&self) -> &'static Timing {
        Timing::of(&self.descriptor)
    }
}

impl Advertiser {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sequence: None,
            hello: Bytes::new(),
            heard: now,
            budget: Bucket::full(now),
            referrals: Bucket::full(now),
            addresses: Vec::new(),
        }
    }
}
