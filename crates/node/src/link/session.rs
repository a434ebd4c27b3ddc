//! The keys of one handshake: encrypts with a counter, decrypts each counter once, and grows old.

use std::time::{Duration, Instant};

use ringway_transport::MemberId;

use super::handshake::Keys;
use super::replay::ReplayWindow;
use super::wire::{DATA_HEADER, Packet};
use crate::limits::{
    MAIL_HANDSHAKE, MAIL_REKEY_AFTER, OLD_SESSION, REKEY_AFTER, REKEY_BYTES, REKEY_MESSAGES,
    REKEY_PAUSE, REPORTED_BYTES, SESSION_BYTES, SESSION_LENGTH, SESSION_MESSAGES, SESSION_TIME,
};
use crate::noise::TAG;

/// How much a session is used; the limits' own, except in tests.
#[derive(Clone, Debug)]
pub(super) struct KeyBounds {
    /// Age at which a link in use makes new keys, and the same for one by mail.
    pub(super) rekey_after: Duration,
    pub(super) mail_rekey_after: Duration,
    /// Messages and bytes sent after which it does.
    pub(super) rekey_messages: u32,
    pub(super) rekey_bytes: u64,
    /// Age, messages and bytes at which the session ends whether there are new keys or not.
    pub(super) time: Duration,
    pub(super) messages: u32,
    pub(super) bytes: u64,
    /// How long an old session is still understood, and the same for a link by mail.
    pub(super) old_for: Duration,
    pub(super) mail_old_for: Duration,
    /// Pause between two attempts to make new keys.
    pub(super) pause: Duration,
}

impl Default for KeyBounds {
    fn default() -> KeyBounds {
        KeyBounds {
            rekey_after: REKEY_AFTER,
            mail_rekey_after: MAIL_REKEY_AFTER,
            rekey_messages: REKEY_MESSAGES,
            rekey_bytes: REKEY_BYTES,
            time: SESSION_TIME,
            messages: SESSION_MESSAGES,
            bytes: SESSION_BYTES,
            old_for: OLD_SESSION,
            mail_old_for: MAIL_HANDSHAKE,
            pause: REKEY_PAUSE,
        }
    }
}

/// Between whom a session is, and how they name it. Every message is bound to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) own: MemberId,
    pub(super) peer: MemberId,
    /// Our name for the session.
    pub(super) local: u32,
    /// The peer's.
    pub(super) remote: u32,
    /// Its number among the link's sessions.
    pub(super) epoch: u32,
    /// Whether we have begun it.
    pub(super) initiator: bool,
}

/// What is authenticated beside a message's content: the packet's header, with session, epoch and
/// counter, who sends, and to whom.
#[derive(Clone, Copy, Debug)]
struct Around([u8; DATA_HEADER + 64]);

impl Around {
    fn of(from: &MemberId, to: &MemberId) -> Around {
        let mut bytes = [0; DATA_HEADER + 64];
        let ids = from.as_bytes().iter().chain(to.as_bytes());
        for (target, byte) in bytes.iter_mut().skip(DATA_HEADER).zip(ids) {
            *target = *byte;
        }
        Around(bytes)
    }

    fn with(mut self, header: [u8; DATA_HEADER]) -> [u8; DATA_HEADER + 64] {
        let (target, _) = self.0.split_at_mut(DATA_HEADER);
        target.copy_from_slice(&header);
        self.0
    }
}

/// An encrypted session with one member.
#[derive(Debug)]
pub(super) struct Session {
    keys: Keys,
    names: Names,
    /// Around what we send and what we receive.
    around: (Around, Around),
    since: Instant,
    sent: u32,
    sent_bytes: u64,
    window: ReplayWindow,
    /// Whether the peer has said anything over it.
    received: bool,
    /// There is a newer one: until when this one is still understood.
    old_until: Option<Instant>,
}

impl Session {
    /// The peer got another name of ours for the session: it has sent nothing over it yet.
    pub(super) fn rename(&mut self, local: u32) {
        self.names.local = local;
    }

    pub(super) fn new(now: Instant, keys: Keys, names: Names) -> Session {
        Session {
            keys,
            names,
            around: (
                Around::of(&names.own, &names.peer),
                Around::of(&names.peer, &names.own),
            ),
            since: now,
            sent: 0,
            sent_bytes: 0,
            window: ReplayWindow::default(),
            received: false,
            old_until: None,
        }
    }

    pub(super) fn local(&self) -> u32 {
        self.names.local
    }

    pub(super) fn remote(&self) -> u32 {
        self.names.remote
    }

    pub(super) fn epoch(&self) -> u32 {
        self.names.epoch
    }

    /// A data packet with encoded messages and its counter, or none once the session is used up.
    pub(super) fn seal(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        plain: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        if self.is_used_up(now, bounds) || plain.len() + TAG > SESSION_LENGTH {
            return None;
        }
        let counter = self.sent;
        let header = Packet::data_header(self.names.remote, self.names.epoch, counter);
        let around = self.around.0.with(header);
        let mut packet = Vec::with_capacity(DATA_HEADER + plain.len() + TAG);
        packet.extend_from_slice(&header);
        packet.resize(DATA_HEADER + plain.len() + TAG, 0);
        // Used, whether or not it leaves.
        self.sent += 1;
        self.sent_bytes += u64::try_from(plain.len() + TAG).unwrap_or(u64::MAX);
        let target = packet.get_mut(DATA_HEADER..)?;
        let counter = u64::from(counter);
        self.keys
            .seal(counter, &around, plain, target)
            .then_some((counter, packet))
    }

    /// Which of the counters below `highest` have come: a bit for each, nearest first.
    pub(super) fn seen_below(&self, highest: u64) -> [u8; REPORTED_BYTES] {
        let mut seen = [0; REPORTED_BYTES];
        for (below, byte) in (0_u64..).step_by(8).zip(&mut seen) {
            for bit in 0..8 {
                let counter = highest.checked_sub(below + bit + 1);
                if counter.is_some_and(|counter| self.window.has_seen(counter)) {
                    *byte |= 1 << bit;
                }
            }
        }
        seen
    }

    /// The messages in a data packet of `epoch`, or none if it is a replay, too late, or does not
    /// verify.
    pub(super) fn open(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        packet: (u32, u32),
        ciphertext: &[u8],
    ) -> Option<Vec<u8>> {
        let (epoch, counter) = packet;
        let number = u64::from(counter);
        let known = epoch == self.names.epoch && counter < bounds.messages;
        if !known || self.is_over(now, bounds) || !self.window.is_fresh(number) {
            return None;
        }
        let header = Packet::data_header(self.names.local, epoch, counter);
        let around = self.around.1.with(header);
        let mut plain = vec![0; ciphertext.len()];
        let length = self.keys.open(number, &around, ciphertext, &mut plain)?;
        plain.truncate(length);
        self.window.mark(number);
        self.received = true;
        Some(plain)
    }

    /// Whether nothing more may be sent over it.
    pub(super) fn is_used_up(&self, now: Instant, bounds: &KeyBounds) -> bool {
        self.sent >= bounds.messages || self.sent_bytes >= bounds.bytes || self.is_over(now, bounds)
    }

    /// Whether nothing more is taken over it: its keys can go.
    pub(super) fn is_over(&self, now: Instant, bounds: &KeyBounds) -> bool {
        let old = self.old_until.is_some_and(|until| now >= until);
        old || now >= self.since + bounds.time
    }

    /// Whether a session in use should be followed by another. The side that has begun it begins
    /// the next; the other side only if that does not happen for a quarter as long again.
    pub(super) fn wants_rekey(&self, now: Instant, bounds: &KeyBounds, by_mail: bool) -> bool {
        let after = if by_mail {
            bounds.mail_rekey_after
        } else {
            bounds.rekey_after
        };
        let patience = u64::from(!self.names.initiator);
        let late = |bound: u64| bound + patience * (bound / 4);
        now >= self.since + after + after / 4 * u32::from(!self.names.initiator)
            || u64::from(self.sent) >= late(u64::from(bounds.rekey_messages))
            || self.sent_bytes >= late(bounds.rekey_bytes)
    }

    /// True in the last quarter of its time: a link that is only kept needs new keys now, or it
    /// ends.
    pub(super) fn ends_soon(&self, now: Instant, bounds: &KeyBounds) -> bool {
        now >= self.since + bounds.time / 4 * 3
    }

    /// A newer session is there: this one is understood for `time` more.
    pub(super) fn grow_old(&mut self, now: Instant, time: Duration) {
        self.old_until.get_or_insert(now + time);
    }

    pub(super) fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// Whether the peer has not yet shown that it uses the session, which we have begun.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.names.initiator && !self.received
    }
}

#[cfg(all(test, not(feature = "insecure")))]
mod tests;
