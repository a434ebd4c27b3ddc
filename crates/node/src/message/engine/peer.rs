//! One conversation, both halves.

use super::Own;
use crate::certificate::Certificate;
use crate::directory::Directory;
use crate::message::chain::{Between, Claims};
use crate::message::incoming::Incoming;
use crate::message::outgoing::Outgoing;
use crate::message::record::{Epoch, Holder};
use crate::message::store::Left;
use crate::message::wire::{Frame, Receipt};

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
pub(super) struct Peer {
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
    pub(super) refusals: Vec<Frame>,
    /// Receipts that were verified in this round.
    pub(super) verified: usize,
    /// Why it was not reached when that was last tried.
    pub(super) reason: Option<String>,
}

impl Peer {
    pub(super) fn new(holder: Holder) -> Peer {
        Peer {
            holder,
            outgoing: None,
            incoming: Incoming::default(),
            unread: (0, 0),
            history: [0, 0],
            owed: None,
            refusals: Vec::new(),
            verified: 0,
            reason: None,
        }
    }

    pub(super) fn restore(left: Left) -> Peer {
        let outgoing = left.settled.map(|settled| {
            let mut outgoing = Outgoing::new(settled);
            for (message, priority) in left.pending {
                outgoing.push(message, priority);
            }
            outgoing
        });
        Peer {
            outgoing,
            incoming: Incoming::restore(left.reached),
            unread: left.unread,
            history: left.history,
            ..Peer::new(left.holder)
        }
    }

    /// The receipt that is owed, signed.
    pub(super) fn receipt(&mut self, own: &Own) -> Option<Frame> {
        self.verified = 0;
        let epoch = self.owed.take()?;
        let (reached, ahead) = self.incoming.reached(&epoch)?;
        let between = Between {
            ring: own.ring,
            sender: self.holder.member,
            receiver: own.identity.signing_key().into(),
        };
        let read = if own.rules.receipts { reached.read } else { 0 };
        let claims = Claims::new(&between, epoch, (reached.upto, reached.chain), read);
        Some(Frame::Receipt(Receipt {
            signature: claims.sign(own.identity.signing_key()).into(),
            epoch: claims.epoch,
            upto: claims.upto,
            chain: claims.chain,
            read,
            ahead,
            full: self.incoming.full,
        }))
    }
}
