//! What the validator keeps of each member and each of its addresses.

use std::time::{Duration, Instant};

use super::budget::Bucket;
use super::timing::Timing;
use crate::address::AddressDescriptor;

/// A member that has sent a HELLO.
#[derive(Debug)]
pub(super) struct Advertiser {
    /// Its newest HELLO's; `None` before it is taken up.
    pub(super) sequence: Option<u64>,
    /// When its newest HELLO came.
    pub(super) heard: Instant,
    pub(super) budget: Bucket,
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
            heard: now,
            budget: Bucket::full(now),
            addresses: Vec::new(),
        }
    }
}
