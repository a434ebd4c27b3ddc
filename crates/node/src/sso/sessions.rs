//! Sign-ins that are open. Sans-IO: no socket, and the time is an argument.
//!
//! `T` is what the person does meanwhile: a task that waits for the issuer, in the service.

use std::collections::HashMap;
use std::time::Instant;

use ringway_transport::MemberId;

use crate::limits::{SIGN_IN_SILENCE, SIGN_INS};

/// Names a sign-in to the one that has begun it.
pub(super) type SessionId = [u8; 16];

/// What a joining member has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The key that is to be a member's: the channel has proven that the other side has it.
    pub(crate) member: MemberId,
    /// Where a router is reached; none for a leaf.
    pub(crate) address: Option<std::net::SocketAddr>,
    /// What its person calls the machine.
    pub(crate) machine: String,
}

/// One that is open.
#[derive(Debug)]
pub(super) struct Session<T> {
    pub(super) wanted: Wanted,
    /// From then on it is closed.
    pub(super) ends: Instant,
    /// When its member was last heard.
    pub(super) heard: Instant,
    pub(super) work: T,
}

/// All that are open, at most [`SIGN_INS`].
#[derive(Debug)]
pub(super) struct Sessions<T> {
    open: HashMap<SessionId, Session<T>>,
}

impl<T> Default for Sessions<T> {
    fn default() -> Sessions<T> {
        Sessions {
            open: HashMap::new(),
        }
    }
}

impl<T> Sessions<T> {
    /// True if there is room for another. Those whose time is over are closed, and one that the
    /// same key has begun before.
    pub(super) fn make_room(&mut self, member: &MemberId, now: Instant) -> bool {
        self.sweep(now);
        self.open
            .retain(|_, session| session.wanted.member != *member);
        self.open.len() < SIGN_INS
    }

    /// Opens one; not if there is no room.
    pub(super) fn open(&mut self, id: SessionId, session: Session<T>) -> bool {
        let fits = self.open.len() < SIGN_INS && !self.open.contains_key(&id);
        if fits {
            self.open.insert(id, session);
        }
        fits
    }

    /// The one with this number, if it is this key's. Its member is there.
    pub(super) fn look(
        &mut self,
        id: &SessionId,
        member: &MemberId,
        now: Instant,
    ) -> Option<&mut Session<T>> {
        self.sweep(now);
        let session = self.open.get_mut(id)?;
        // A number alone is worth nothing: it may have been seen by others.
        if session.wanted.member != *member {
            return None;
        }
        session.heard = now;
        Some(session)
    }

    pub(super) fn close(&mut self, id: &SessionId) {
        self.open.remove(id);
    }

    fn sweep(&mut self, now: Instant) {
        let is_open = |session: &Session<T>| {
            now < session.ends && now.saturating_duration_since(session.heard) < SIGN_IN_SILENCE
        };
        self.open.retain(|_, session| is_open(session));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn session(key: u8, now: Instant) -> Session<()> {
        Session {
            wanted: Wanted {
                member: MemberId::new([key; 32]),
                address: None,
                machine: "laptop".to_owned(),
            },
            ends: now + Duration::from_secs(300),
            heard: now,
            work: (),
        }
    }

    #[test]
    fn another_key_finds_no_session() {
        let now = Instant::now();
        let mut sessions = Sessions::default();
        assert!(sessions.open([1; 16], session(1, now)));
        let [own, other] = [1, 2].map(|key| MemberId::new([key; 32]));
        assert!(sessions.look(&[1; 16], &other, now).is_none());
        assert!(sessions.look(&[2; 16], &own, now).is_none());
        assert!(sessions.look(&[1; 16], &own, now).is_some());
    }

    #[test]
    fn sessions_are_bounded_and_end() {
        let now = Instant::now();
        let mut sessions = Sessions::default();
        for n in 0..SIGN_INS {
            let key = u8::try_from(n).unwrap();
            assert!(sessions.make_room(&MemberId::new([key; 32]), now));
            assert!(sessions.open([key; 16], session(key, now)));
        }
        let stranger = MemberId::new([200; 32]);
        assert!(!sessions.make_room(&stranger, now));
        assert!(!sessions.open([200; 16], session(200, now)));
        // One that begins again leaves its own place.
        assert!(sessions.make_room(&MemberId::new([3; 32]), now));
        let silent = now + SIGN_IN_SILENCE;
        assert!(sessions.make_room(&stranger, silent));
        assert!(sessions.open.is_empty());
        assert!(sessions.open([1; 16], session(1, now)));
        let own = MemberId::new([1; 32]);
        let mut at = now;
        while sessions.look(&[1; 16], &own, at).is_some() {
            at += SIGN_IN_SILENCE / 2;
        }
        assert_eq!(at - now, Duration::from_secs(300));
    }
}
