//! What leaves: new messages, and what receivers say of them.

use std::sync::Arc;

use super::{Conversations, MessageError, Round, SentAll};
use crate::certificate::Certificate;
use crate::limits::{
    ATTACHMENTS, MESSAGE_BYTES, PENDING_MESSAGE_BYTES, PENDING_MESSAGE_BYTES_IN_ALL,
    PENDING_MESSAGES, RECEIPTS_IN_ROUND,
};
use crate::message::chain::{self, Between, Claims};
use crate::message::outgoing::{Effect, Outgoing, Settled};
use crate::message::record::{Message, MessageId, Standing, Stored};
use crate::message::store::PeerKey;
use crate::message::wire::{Noted, Receipt, Refusal};
use crate::state::StateError;

impl Conversations<'_> {
    pub(super) fn send(
        &mut self,
        round: &mut Round<'_, '_>,
        to: &Certificate,
        message: Message,
        priority: f64,
    ) -> Result<Result<Stored, MessageError>, StateError> {
        if let Err(error) = check(&message) {
            return Ok(Err(error));
        }
        if to.member() == round.own.identity.signing_key().into() {
            return Ok(Err(MessageError::Oneself));
        }
        let key = match self.open(round, to)? {
            Ok(key) => key,
            Err(error) => return Ok(Err(error)),
        };
        // One peer that is away must not fill the disk, nor many together.
        let pending = self.peers.values().flat_map(|peer| &peer.outgoing);
        let in_all: usize = pending.map(|outgoing| outgoing.pending().1).sum();
        let Some(peer) = self.peers.get_mut(&key) else {
            return Ok(Err(MessageError::TooMany));
        };
        let name = peer.holder.name.clone();
        let waiting = peer.outgoing.as_ref().map_or((0, 0), Outgoing::pending);
        let weight = message.weight();
        if waiting.0 >= PENDING_MESSAGES
            || waiting.1 + weight > PENDING_MESSAGE_BYTES
            || in_all + weight > PENDING_MESSAGE_BYTES_IN_ALL
        {
            return Ok(Err(MessageError::Full(name)));
        }
        if peer.outgoing.is_none() {
            let epoch = (round.moment.random)();
            let settled = Settled {
                epoch,
                upto: 0,
                chain: chain::begin(&epoch, 0),
                read: 0,
            };
            round.writing.settle(key, &settled, None)?;
            peer.outgoing = Some(Outgoing::new(settled));
        }
        let Some(outgoing) = &mut peer.outgoing else {
            return Ok(Err(MessageError::TooMany));
        };
        let message = Arc::new(message);
        let number = outgoing.push(Arc::clone(&message), priority);
        let position = round
            .writing
            .put_outgoing(key, number, &message, priority)?;
        round.changed = true;
        let reason = peer.reason.clone().filter(|_| outgoing.tries > 0);
        Ok(Ok(Stored {
            position,
            outgoing: true,
            peer: name,
            number,
            message: Arc::unwrap_or_clone(message),
            standing: Standing::Pending,
            signed: None,
            read: None,
            reason,
            priority,
        }))
    }

    /// Some messages in order, until one is not taken. None may be taken: that is an error.
    pub(super) fn send_all(
        &mut self,
        round: &mut Round<'_, '_>,
        to: &Certificate,
        messages: Vec<Message>,
        priority: f64,
    ) -> Result<Result<SentAll, MessageError>, StateError> {
        if let Some(error) = messages.iter().find_map(|message| check(message).err()) {
            return Ok(Err(error));
        }
        let mut sent: Option<SentAll> = None;
        for message in messages {
            match (self.send(round, to, message, priority)?, &mut sent) {
                (Ok(stored), sent) => {
                    *sent = Some(SentAll {
                        stored: sent.as_ref().map_or(1, |sent| sent.stored + 1),
                        last: stored.message.id,
                        left: None,
                    });
                }
                (Err(error), None) => return Ok(Err(error)),
                (Err(error), Some(sent)) => {
                    sent.left = Some(error);
                    break;
                }
            }
        }
        Ok(sent.ok_or(MessageError::Empty))
    }

    pub(super) fn take_receipt(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        receipt: &Receipt,
    ) -> Result<(), StateError> {
        let Some(peer) = self.peers.get_mut(&key) else {
            return Ok(());
        };
        let outgoing = peer.outgoing.as_mut();
        let Some(outgoing) = outgoing.filter(|out| out.settled().epoch == *receipt.epoch) else {
            // These numbers are over, here at least: there is nothing to note.
            if receipt.asks {
                let (epoch, read) = (receipt.epoch, receipt.read);
                peer.noted = Some(Noted { epoch, read });
            }
            return Ok(());
        };
        if peer.verified >= RECEIPTS_IN_ROUND {
            return Ok(());
        }
        peer.verified += 1;
        let between = Between {
            ring: round.own.ring,
            sender: round.own.identity.signing_key().into(),
            receiver: peer.holder.member,
        };
        let at = (receipt.upto, *receipt.chain);
        let claims = Claims::new(&between, *receipt.epoch, at, receipt.read);
        if !claims.is_signed(&receipt.signature) {
            tracing::warn!(
                peer = peer.holder.name,
                "a receipt is signed by another key, or for something else: it counts for nothing"
            );
            return Ok(());
        }
        let now = round.moment.now;
        let before = *outgoing.settled();
        let effect = outgoing.handle_receipt(now, receipt);
        // It leaves once that is on the disk.
        let (epoch, read) = (receipt.epoch, outgoing.settled().read);
        if receipt.asks && read >= receipt.read {
            peer.noted = Some(Noted { epoch, read });
        }
        match effect {
            Effect::None => return Ok(()),
            Effect::Differs => {
                // Once a pause: a peer that says so again and again keeps its own mail waiting.
                if outgoing.tries == 0 || outgoing.poll_timeout().is_none_or(|due| due <= now) {
                    tracing::warn!(
                        peer = peer.holder.name,
                        "the peer has other messages under the numbers of what waits for it, as if one of both homes were an old copy: what waits is numbered again"
                    );
                    outgoing.begin_again(now, (round.moment.random)());
                    round.writing.settle(key, outgoing.settled(), None)?;
                }
                return Ok(());
            }
            Effect::Settled => {}
        }
        peer.reason = None;
        let settled = *outgoing.settled();
        let mut proof = crate::cbor::encode(&claims);
        proof.extend_from_slice(receipt.signature.as_slice());
        // The newest one is kept.
        let proof = (receipt.upto == settled.upto).then_some(proof.as_slice());
        round.writing.settle(key, &settled, proof)?;
        let unix = round.moment.unix;
        if settled.upto > before.upto {
            let numbers = before.upto + 1..=settled.upto;
            peer.history[1] += round.writing.sign(key, &numbers, unix)?;
        }
        if settled.read > before.read {
            let numbers = before.read + 1..=settled.read;
            round.writing.read_there(key, &numbers, unix)?;
        }
        round.changed = true;
        Ok(())
    }

    pub(super) fn take_refusal(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        refusal: &Refusal,
    ) -> Result<(), StateError> {
        let peer = self.peers.get(&key);
        let outgoing = peer.and_then(|peer| peer.outgoing.as_ref());
        if outgoing.is_none_or(|outgoing| outgoing.settled().epoch != *refusal.epoch) {
            return Ok(());
        }
        let reason = format!("the peer refused: {}", refusal.reason);
        self.give_up(round, key, refusal.upto, &reason)
    }

    /// Those up to `upto` will never be taken.
    pub(super) fn give_up(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        upto: u64,
        reason: &str,
    ) -> Result<(), StateError> {
        let Some(peer) = self.peers.get_mut(&key) else {
            return Ok(());
        };
        let Some(outgoing) = &mut peer.outgoing else {
            return Ok(());
        };
        if let Some(numbers) = outgoing.give_up(upto) {
            let settled = outgoing.settled();
            peer.history[1] += round.writing.fail_messages(key, &numbers, reason)?;
            round.writing.settle(key, settled, None)?;
            round.changed = true;
        }
        Ok(())
    }

    pub(super) fn set_priority(
        &mut self,
        round: &mut Round<'_, '_>,
        id: &MessageId,
        priority: f64,
    ) -> Result<Result<(), MessageError>, StateError> {
        for (key, peer) in self.peers.iter_mut() {
            let outgoing = peer.outgoing.as_mut();
            if outgoing.is_some_and(|outgoing| outgoing.set_priority(id, priority)) {
                round.writing.set_priority(*key, id, priority)?;
                return Ok(Ok(()));
            }
        }
        Ok(Err(MessageError::Ended(id.to_string())))
    }
}

fn check(message: &Message) -> Result<(), MessageError> {
    if message.body.len() > MESSAGE_BYTES {
        return Err(MessageError::TooLong(message.body.len()));
    }
    if message.attached.len() > ATTACHMENTS {
        return Err(MessageError::TooManyAttached(message.attached.len()));
    }
    Ok(())
}
