//! What comes: messages of others, and which of them were read.

use super::{Conversations, MessageError, Round};
use crate::certificate::Certificate;
use crate::limits::MESSAGE_EPOCHS;
use crate::message::record::MessageId;
use crate::message::store::PeerKey;
use crate::message::wire::{Batch, Frame, Noted, Refusal};
use crate::state::StateError;

impl Conversations<'_> {
    pub(super) fn take_frame(
        &mut self,
        round: &mut Round<'_, '_>,
        from: &Certificate,
        bytes: &[u8],
    ) -> Result<(), StateError> {
        let Some(frame) = Frame::decode(bytes) else {
            tracing::debug!(peer = %from.name(), "a frame of messages is malformed");
            return Ok(());
        };
        // Only who begins a conversation makes a place for it.
        if !matches!(frame, Frame::Batch(_) | Frame::Rest(_)) && !self.is_known(round, from) {
            return Ok(());
        }
        let key = match self.open(round, from)? {
            Ok(key) => key,
            Err(error) => {
                tracing::debug!(peer = %from.name(), %error, "a frame of messages is dropped");
                return Ok(());
            }
        };
        match frame {
            Frame::Batch(batch) => self.take_batch(round, key, batch)?,
            Frame::Rest(rest) => {
                if let Some(peer) = self.peers.get_mut(&key)
                    && round.own.rules.takes(from.name().as_str())
                {
                    peer.incoming.handle_rest(rest);
                }
            }
            Frame::Receipt(receipt) => self.take_receipt(round, key, &receipt)?,
            Frame::Refusal(refusal) => self.take_refusal(round, key, &refusal)?,
            Frame::Noted(noted) => self.take_noted(round, key, &noted)?,
        }
        Ok(())
    }

    /// The sender knows what was read. What is not all of it is not worth a write.
    fn take_noted(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        noted: &Noted,
    ) -> Result<(), StateError> {
        let Some(peer) = self.peers.get_mut(&key) else {
            return Ok(());
        };
        if peer.incoming.note(&noted.epoch, noted.read) {
            peer.reminder.restart();
            if let Some((reached, _)) = peer.incoming.reached(&noted.epoch) {
                round.writing.note(key, &reached)?;
            }
        }
        Ok(())
    }

    fn take_batch(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        batch: Batch,
    ) -> Result<(), StateError> {
        let mut room = self.room(key);
        let Some(peer) = self.peers.get_mut(&key) else {
            return Ok(());
        };
        let epoch = *batch.epoch;
        if !round.own.rules.takes(&peer.holder.name) {
            // One says as much as many.
            if peer.refusals.is_empty() {
                peer.refusals.push(Frame::Refusal(Refusal {
                    epoch: epoch.into(),
                    upto: batch.last(),
                    reason: "this member takes no messages from the sender".to_owned(),
                }));
            }
            return Ok(());
        }
        let before = peer.incoming.reached(&epoch).map(|(reached, _)| reached);
        let new = peer.incoming.handle_batch(batch, &mut room);
        peer.owed = Some(epoch);
        let Some((reached, _)) = peer.incoming.reached(&epoch) else {
            return Ok(());
        };
        if before != Some(reached) {
            round.writing.reach(key, &reached)?;
        }
        if before.is_none() {
            round.writing.forget_runs(key, MESSAGE_EPOCHS)?;
        }
        for (number, message) in new {
            if round.writing.put_incoming(key, &epoch, number, &message)? {
                peer.unread.0 += 1;
                peer.unread.1 += message.weight();
                round.changed = true;
            }
        }
        Ok(())
    }

    /// All messages of a peer up to this one were read.
    pub(super) fn mark_read(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        upto: &MessageId,
    ) -> Result<Result<(), MessageError>, StateError> {
        let Some(position) = round.writing.position(key, upto)? else {
            return Ok(Err(MessageError::Unknown(upto.to_string())));
        };
        let Some(peer) = self.peers.get_mut(&key) else {
            return Ok(Err(MessageError::Unknown(upto.to_string())));
        };
        let (read, runs) = round.writing.read_here(key, position, round.moment.unix)?;
        if read.messages == 0 {
            return Ok(Ok(()));
        }
        peer.unread.0 = peer.unread.0.saturating_sub(read.messages);
        peer.unread.1 = peer.unread.1.saturating_sub(read.bytes);
        peer.history[0] += read.messages;
        for (epoch, number) in runs {
            if peer.incoming.mark_read(&epoch, number)
                && let Some((reached, _)) = peer.incoming.reached(&epoch)
            {
                round.writing.reach(key, &reached)?;
                peer.reminder.restart();
            }
        }
        // Those whose messages had no room may go on.
        for peer in self.peers.values_mut().filter(|peer| peer.incoming.full) {
            peer.incoming.full = false;
            peer.owed = peer.incoming.latest();
        }
        round.changed = true;
        Ok(Ok(()))
    }

    fn is_known(&self, round: &Round<'_, '_>, from: &Certificate) -> bool {
        let member = from.member();
        let succeeds = |serial| round.kin.succeeds(serial, from);
        self.by_member.contains_key(&member)
            || self.peers.values().any(|peer| succeeds(peer.holder.serial))
    }
}
