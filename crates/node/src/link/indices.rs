//! Our names for sessions: what comes in says by one of them which session, or which handshake, it
//! belongs to.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ringway_transport::MemberId;

use super::dial::HalfOpen;

/// The names that are in use, and whose they are.
#[derive(Debug, Default)]
pub(super) struct Indices {
    pub(super) sessions: HashMap<u32, MemberId>,
    /// Of handshakes that we have begun; each becomes the name of their session.
    dials: BTreeMap<u32, MemberId>,
}

impl Indices {
    /// A name that no session has, nor any handshake. Those that we have answered, `half_open`,
    /// have names of their own.
    pub(super) fn free(&self, rng: &mut impl rand::Rng, half_open: &VecDeque<HalfOpen>) -> u32 {
        loop {
            let index: u32 = rng.next_u32();
            let answered = half_open.iter().any(|half| half.way(index).is_some());
            if !self.sessions.contains_key(&index) && !self.dials.contains_key(&index) && !answered
            {
                return index;
            }
        }
    }

    /// Whose session it is.
    pub(super) fn session(&self, index: u32) -> Option<MemberId> {
        self.sessions.get(&index).copied()
    }

    /// With whom we have begun this handshake.
    pub(super) fn dial(&self, index: u32) -> Option<MemberId> {
        self.dials.get(&index).copied()
    }

    pub(super) fn add_session(&mut self, index: u32, member: MemberId) {
        self.sessions.insert(index, member);
    }

    pub(super) fn add_dial(&mut self, index: u32, member: MemberId) {
        self.dials.insert(index, member);
    }

    pub(super) fn end_sessions(&mut self, ended: impl IntoIterator<Item = u32>) {
        for index in ended {
            self.sessions.remove(&index);
        }
    }

    pub(super) fn end_dial(&mut self, index: u32) {
        self.dials.remove(&index);
    }
}
