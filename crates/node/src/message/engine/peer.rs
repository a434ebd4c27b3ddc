//! One conversation, both halves.

use std::time::Instant;

use super::Own;
use super::reminder::Reminder;
use crate::certificate::Certificate;
use crate::directory::Directory;
use crate::message::chain::{Between, Claims};
use crate::message::incoming::Incoming;
use crate::message::outgoing::Outgoing;
use crate::message::record::{Epoch, Holder};
use crate::message::store::Left;
use crate::message::wire::{Frame, Noted, Receipt};

/// What is known of keys that members have had and have.
pub(in crate::message) trait Kin {
    /// Whether the owner has stated that this certificate takes the place of the one with that
    /// serial.
    fn succeeds(&self, serial: u64, certificate: &Certificate) -> bool;

    /// Whether the owner has ended the membership for good.
    fn has_lost(&self, holder: &Holder) -> bool;
}

impl Kin for Directory {
    fn succeeds(&self, serial: u64, certificate: &Certificate) -> bool {
        Directory::succeeds(self, serial, certificate)
    }

    fn has_lost(&self, holder: &Holder) -> bool {
        Directory::has_lost(self, &holder.member, holder.serial)
    }
}

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) holder: Holder,
    /// None before the first message.
    pub(super) outgoing: Option<Outgoing>,
    pub(super) incoming: Incoming,
    /// Received and not read: how many, and their bytes.
    pub(super) unread: (usize, usize),
    /// How many of the messages received, and sent, wait for nothing.
    pub(super) history: [usize; 2],
    /// The run of numbers for which the peer is to get a receipt.
    pub(super) owed: Option<Epoch>,
    /// When what was read is said again.
    pub(super) reminder: Reminder,
    /// What the peer is to learn of its receipts.
    pub(super) noted: Option<Noted>,
    pub(super) refusals: Vec<Frame>,
    /// Receipts that were verified in this round.
    pub(super) verified: usize,
    /// Why it was not reached when that was last tried.
    pub(super) reason: Option<String>,
}

impl Conversation {
    pub(super) fn new(holder: Holder) -> Conversation {
        Conversation {
            holder,
            outgoing: None,
            incoming: Incoming::default(),
            unread: (0, 0),
            history: [0, 0],
            owed: None,
            reminder: Reminder::default(),
            noted: None,
            refusals: Vec::new(),
            verified: 0,
            reason: None,
        }
    }

    pub(super) fn restore(left: Left) -> Conversation {
        let outgoing = left.settled.map(|settled| {
            let mut outgoing = Outgoing::new(settled);
            for (message, priority) in left.pending {
                outgoing.push(message, priority);
            }
            outgoing
        });
        Conversation {
            outgoing,
            incoming: Incoming::restore(left.reached),
            unread: left.unread,
            history: left.history,
            ..Conversation::new(left.holder)
        }
    }

    /// What is sent to it goes by mail, or does not.
    pub(super) fn set_way(&mut self, by_mail: bool) {
        self.reminder.set_way(by_mail);
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.set_way(by_mail);
        }
    }

    /// It is back, or the network is.
    pub(super) fn wake(&mut self, now: Instant) {
        self.reminder.restart();
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.wake(now);
        }
    }

    /// The run of which the peer may not know what was read, where it is told.
    fn unnoted(&self, own: &Own) -> Option<Epoch> {
        self.incoming.unnoted().filter(|_| own.rules.receipts)
    }

    /// When the peer is to be told again what was read.
    pub(super) fn poll_reminder(&self, own: &Own) -> Option<Instant> {
        self.unnoted(own)?;
        self.reminder.poll_timeout()
    }

    /// Receipts that are owed, and what else the peer is to learn of receipts.
    pub(super) fn poll_receipts(&mut self, now: Instant, own: &Own) -> Vec<Frame> {
        self.verified = 0;
        let mut frames = Vec::new();
        let owed = self.owed.take();
        let again = self.unnoted(own).filter(|_| self.reminder.is_due(now));
        for epoch in [owed, again.filter(|again| owed != Some(*again))] {
            let receipt = epoch.and_then(|epoch| self.receipt(own, epoch));
            // Those that answer batches are not counted: they say nothing of what is lost.
            let asks = receipt.as_ref().is_some_and(|receipt| receipt.asks);
            if asks && self.reminder.is_due(now) {
                self.reminder.handle_said(now);
            }
            frames.extend(receipt.map(Frame::Receipt));
        }
        frames.extend(self.noted.take().map(Frame::Noted));
        frames.append(&mut self.refusals);
        frames
    }

    /// The receipt for a run, signed.
    fn receipt(&self, own: &Own, epoch: Epoch) -> Option<Receipt> {
        let (reached, ahead) = self.incoming.reached(&epoch)?;
        let between = Between {
            ring: own.ring,
            sender: self.holder.member,
            receiver: own.identity.signing_key().into(),
        };
        let read = if own.rules.receipts { reached.read } else { 0 };
        let claims = Claims::new(&between, epoch, (reached.upto, reached.chain), read);
        Some(Receipt {
            signature: claims.sign(own.identity.signing_key()).into(),
            epoch: claims.epoch,
            upto: claims.upto,
            chain: claims.chain,
            read,
            ahead,
            full: self.incoming.full,
            asks: reached.noted < read,
        })
    }
}
