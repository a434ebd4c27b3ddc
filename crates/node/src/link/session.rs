//! The keys of one handshake: encrypts with a counter, decrypts each counter once.

use snow::StatelessTransportState;

use super::replay::ReplayWindow;
use super::wire::Packet;
use crate::limits::{REPORTED_BYTES, SESSION_MESSAGES};
use crate::noise::TAG;

/// An encrypted session with one member.
#[derive(Debug)]
pub(super) struct Session {
    keys: StatelessTransportState,
    /// The peer's name for this session.
    remote_index: u32,
    sent: u64,
    window: ReplayWindow,
}

impl Session {
    pub(super) fn new(keys: StatelessTransportState, remote_index: u32) -> Session {
        Session {
            keys,
            remote_index,
            sent: 0,
            window: ReplayWindow::default(),
        }
    }

    pub(super) fn remote_index(&self) -> u32 {
        self.remote_index
    }

    /// A data packet with encoded messages and its counter, or none once the session is used up.
    pub(super) fn seal(&mut self, plain: &[u8]) -> Option<(u64, Vec<u8>)> {
        if self.sent >= SESSION_MESSAGES {
            return None;
        }
        let counter = self.sent;
        self.sent += 1;
        let mut packet = Packet::data_header(self.remote_index, counter, plain.len() + TAG);
        let start = packet.len();
        packet.resize(start + plain.len() + TAG, 0);
        let place = packet.get_mut(start..)?;
        let length = place.len();
        let sealed = self.keys.write_message(counter, plain, place).ok()?;
        (sealed == length).then_some((counter, packet))
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

    /// The message in a data packet, or none if it is a replay or does not verify.
    pub(super) fn open(&mut self, counter: u64, ciphertext: &[u8]) -> Option<Vec<u8>> {
        if counter >= SESSION_MESSAGES || !self.window.is_fresh(counter) {
            return None;
        }
        let mut plain = vec![0; ciphertext.len()];
        let length = self
            .keys
            .read_message(counter, ciphertext, &mut plain)
            .ok()?;
        plain.truncate(length);
        self.window.mark(counter);
        Some(plain)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.sent >= SESSION_MESSAGES
    }
}
