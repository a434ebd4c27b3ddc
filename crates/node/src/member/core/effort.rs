//! How much work a member's signed messages may cost: each check of a signature takes some 60 µs,
//! and a packet holds one. What does not verify is held against its sender, for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringway_transport::MemberId;

use super::Core;
use crate::limits::{MEMBERS_CHECKED, SIGNATURE_BAN, SIGNATURES_AT_ONCE, SIGNATURES_PER_SECOND};

/// Pause between two lines about members whose signatures do not verify.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two looks for those who have used none: longer than a share takes to come back.
const TIDY_PAUSE: Duration = Duration::from_millis(500);

/// Until when each member has used its share up. Who has used none is not here.
#[derive(Debug, Default)]
pub(super) struct Effort {
    used: BTreeMap<MemberId, Instant>,
    /// When to forget who has used none, if there may be somebody.
    tidy: Option<Instant>,
    logged: Option<Instant>,
}

impl Effort {
    /// Takes the work for one signature of `member`, if it has some left.
    fn take(&mut self, now: Instant, member: &MemberId) -> bool {
        let until = self.used.get(member).copied();
        if until.is_none() && self.used.len() >= MEMBERS_CHECKED {
            return false;
        }
        let each = Duration::from_secs(1) / SIGNATURES_PER_SECOND;
        let until = until.unwrap_or(now).max(now);
        let left = until.saturating_duration_since(now) < each * SIGNATURES_AT_ONCE;
        if left {
            self.note(now, member, until + each);
        }
        left
    }

    /// A signature of `member` did not verify.
    fn failed(&mut self, now: Instant, member: &MemberId) {
        let each = Duration::from_secs(1) / SIGNATURES_PER_SECOND;
        let until = now + each * SIGNATURES_AT_ONCE + SIGNATURE_BAN;
        self.note(now, member, until);
    }

    fn note(&mut self, now: Instant, member: &MemberId, until: Instant) {
        self.used.insert(*member, until);
        self.tidy.get_or_insert(now + TIDY_PAUSE);
    }

    /// When to call [`Effort::tidy`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.tidy
    }

    /// Forgets those who have used none.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.used.retain(|_, until| *until > now);
        self.tidy = (!self.used.is_empty()).then_some(now + TIDY_PAUSE);
    }
}

impl Core {
    /// Whether a signed message of `member` is worth the work of reading it.
    pub(in crate::member) fn may_check(&mut self, member: &MemberId) -> bool {
        let may = self.effort.take(self.now, member);
        if !may {
            self.counted.signatures_not_checked += 1;
        }
        may
    }

    /// What `member` said was not signed as it has to be.
    pub(in crate::member) fn badly_signed(&mut self, member: &MemberId) {
        let now = self.now;
        self.effort.failed(now, member);
        self.counted.signatures_bad += 1;
        let logged = &mut self.effort.logged;
        if logged.is_none_or(|at| now >= at + LOG_PAUSE) {
            *logged = Some(now);
            let name = self.name_of(member);
            tracing::warn!(%name, "a member sends what is not signed as it has to be: its signatures are not looked at for a while");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u16) -> MemberId {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        MemberId::new(bytes)
    }

    /// Each member has a share and bad signatures end it.
    #[test]
    fn bad_signatures_end_a_members_share() {
        let now = Instant::now();
        let mut effort = Effort::default();
        let taken = |effort: &mut Effort, at: Instant, n: u16| {
            let tries = 0..10_000;
            tries.filter(|_| effort.take(at, &member(n))).count()
        };
        let at_once = usize::try_from(SIGNATURES_AT_ONCE).unwrap();
        assert_eq!(taken(&mut effort, now, 1), at_once);
        assert_eq!(taken(&mut effort, now, 2), at_once, "another's is its own");
        let second = now + Duration::from_secs(1);
        let each_second = usize::try_from(SIGNATURES_PER_SECOND).unwrap();
        // A second is not quite a whole number of pauses.
        let more = taken(&mut effort, second, 1);
        assert!((each_second..=each_second + 1).contains(&more), "{more}");
        effort.failed(second, &member(3));
        assert_eq!(taken(&mut effort, second + SIGNATURE_BAN / 2, 3), 0);
        assert!(taken(&mut effort, second + SIGNATURE_BAN * 2, 3) > 0);
    }

    #[test]
    fn accounts_are_bounded_and_forgotten() {
        let now = Instant::now();
        let mut effort = Effort::default();
        let many = u16::try_from(MEMBERS_CHECKED).unwrap();
        for n in 0..many {
            assert!(effort.take(now, &member(n)));
        }
        assert!(!effort.take(now, &member(many)));
        effort.tidy(now + Duration::from_secs(1));
        assert!(effort.used.is_empty());
    }
}
