//! What each transport counts: messages moved, and messages dropped by reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn add(&self) {
        self.add_many(1);
    }

    /// Adds `count`.
    pub fn add_many(&self, count: u64) {
        // Relaxed: counters order nothing else.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A size as counters take it.
pub(crate) fn as_count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// The counters of one transport, shared by its tasks.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages sent.
    pub sent: Counter,
    /// Bytes of messages sent.
    pub sent_bytes: Counter,
    /// Messages received and delivered.
    pub received: Counter,
    /// Bytes of messages received and delivered.
    pub received_bytes: Counter,
    /// Messages received but dropped: the queue to the core was full.
    pub queue_full: Counter,
    /// Messages not sent: the system's buffer was full.
    pub would_block: Counter,
    /// Messages not sent: longer than the MTU.
    pub too_large: Counter,
    /// Messages not sent, and not counted among what was dropped: longer than the system takes for
    /// that way, and than any before that it took. Such messages ask what the path carries, as
    /// [`Paths`](crate::Paths) does; this is the answer.
    pub probes_refused: Counter,
    /// Datagrams, frames or mails received that are too long or otherwise malformed.
    pub malformed: Counter,
    /// Connections refused: too many are open.
    pub refused: Counter,
    /// Connections closed because they were idle or too slow.
    pub timed_out: Counter,
    /// Errors of the network; for mail, messages that the relay did not take.
    pub failed: Counter,
    /// Messages not sent: the budget for mails is spent.
    pub budget: Counter,
    /// Mails received that are none of ours: another filter header, or none.
    pub foreign: Counter,
    /// Mails received before.
    pub duplicate: Counter,
}

impl Counters {
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_many(1, bytes);
    }

    pub(crate) fn sent_many(&self, messages: usize, bytes: usize) {
        self.sent.add_many(as_count(messages));
        self.sent_bytes.add_many(as_count(bytes));
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_many(1, bytes);
    }

    pub(crate) fn received_many(&self, messages: usize, bytes: usize) {
        self.received.add_many(as_count(messages));
        self.received_bytes.add_many(as_count(bytes));
    }

    /// The numbers now. They are read one after the other, not at one instant.
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            sent: self.sent.get(),
            sent_bytes: self.sent_bytes.get(),
            received: self.received.get(),
            received_bytes: self.received_bytes.get(),
            queue_full: self.queue_full.get(),
            would_block: self.would_block.get(),
            too_large: self.too_large.get(),
            probes_refused: self.probes_refused.get(),
            malformed: self.malformed.get(),
            refused: self.refused.get(),
            timed_out: self.timed_out.get(),
            failed: self.failed.get(),
            budget: self.budget.get(),
            foreign: self.foreign.get(),
            duplicate: self.duplicate.get(),
        }
    }
}

/// What the streams of an endpoint's connections have carried. The writers and readers of streams
/// count here.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Bytes written.
    pub sent_bytes: Counter,
    /// Bytes read.
    pub received_bytes: Counter,
}

/// The values of [`Counters`] at one time; the fields mean the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Messages sent.
    pub sent: u64,
    /// Bytes of messages sent.
    pub sent_bytes: u64,
    /// Messages received and delivered.
    pub received: u64,
    /// Bytes of messages received and delivered.
    pub received_bytes: u64,
    /// Messages received but dropped: the queue to the core was full.
    pub queue_full: u64,
    /// Messages not sent: the system's buffer was full.
    pub would_block: u64,
    /// Messages not sent: longer than the MTU.
    pub too_large: u64,
    /// Probes of what a way carries that the system refused: no losses.
    pub probes_refused: u64,
    /// Datagrams, frames or mails received that are too long or otherwise malformed.
    pub malformed: u64,
    /// Connections refused: too many are open.
    pub refused: u64,
    /// Connections closed because they were idle or too slow.
    pub timed_out: u64,
    /// Errors of the network; for mail, messages that the relay did not take.
    pub failed: u64,
    /// Messages not sent: the budget for mails is spent.
    pub budget: u64,
    /// Mails received that are none of ours: another filter header, or none.
    pub foreign: u64,
    /// Mails received before.
    pub duplicate: u64,
}

impl CounterSnapshot {
    /// What was not delivered, or refused, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("queue_full", self.queue_full),
            ("would_block", self.would_block),
            ("too_large", self.too_large),
            ("malformed", self.malformed),
            ("refused", self.refused),
            ("timed_out", self.timed_out),
            ("failed", self.failed),
            ("budget", self.budget),
            ("foreign", self.foreign),
            ("duplicate", self.duplicate),
        ]
        .into_iter()
    }
}
