//! Members of other builds and versions, with which there are no links: how often that is looked
//! for, and said.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringway_transport::{Address, MemberId};

use crate::identity::noise_public;
use crate::limits::OTHER_VERSIONS;

/// How often an initiation that cannot be read is read as one of another version.
const OTHER_PAUSE: Duration = Duration::from_secs(1);

/// How often it is said that somebody runs another build.
const FOREIGN_PAUSE: Duration = Duration::from_secs(60);

/// What is said then.
const FOREIGN: &str = if cfg!(feature = "insecure") {
    "this build does not encrypt its links (feature `insecure`, for benchmarks only) and has no link with a member of a secure ring: \
             install a build without it"
} else {
    "refused a member whose build does not encrypt its links (feature `insecure`, for benchmarks only): it has to install a build \
              without it"
};

/// A member or program with which there is no link, because neither side speaks a version of the
/// link protocol that the other does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherVersion {
    /// The version: that of its handshake, or the newest that it says it speaks.
    pub(crate) version: u8,
    /// Where it was met.
    pub(crate) path: Address,
    /// What is known of it.
    pub(crate) who: Who,
}

/// Who speaks another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The holder of this X25519 key, as its handshake proves.
    Proved([u8; 32]),
    /// Something that answers at an address of this member, and proves nothing.
    Claimed(MemberId),
}

impl OtherVersion {
    /// Whether it is about this member.
    pub(crate) fn is_of(&self, member: &MemberId) -> bool {
        match &self.who {
            Who::Proved(key) => noise_public(member).as_ref() == Some(key),
            Who::Claimed(claimed) => claimed == member,
        }
    }
}

/// When others were met.
#[derive(Debug, Default)]
pub(super) struct OtherBuilds {
    /// When another version was looked for last.
    looked: Option<Instant>,
    /// Those that were met, the latest last.
    met: VecDeque<OtherVersion>,
    /// When it was last said that somebody runs another build.
    foreign_said: Option<Instant>,
}

impl OtherBuilds {
    /// An initiation could not be read: perhaps its sender's version is another one. That is looked
    /// at once a second at most. None if it is not; who that is, if it is new.
    pub(super) fn look(
        &mut self,
        now: Instant,
        path: Address,
        find: impl FnOnce() -> Option<(u8, [u8; 32])>,
    ) -> Option<Option<OtherVersion>> {
        if self.looked.is_some_and(|at| now < at + OTHER_PAUSE) {
            return None;
        }
        self.looked = Some(now);
        let (version, key) = find()?;
        let other = OtherVersion {
            version,
            path,
            who: Who::Proved(key),
        };
        Some(self.note(other.clone()).then_some(other))
    }

    /// Keeps it; true if it was not met before with this version.
    pub(super) fn note(&mut self, other: OtherVersion) -> bool {
        let before = self.met.iter().position(|met| met.who == other.who);
        let before = before.and_then(|position| self.met.remove(position));
        let new = before.is_none_or(|before| before.version != other.version);
        self.met.push_back(other);
        if self.met.len() > OTHER_VERSIONS {
            self.met.pop_front();
        }
        new
    }

    /// What was met of this member last.
    pub(super) fn of(&self, member: &MemberId) -> Option<&OtherVersion> {
        self.met.iter().rev().find(|met| met.is_of(member))
    }

    /// There is a link with this member: what was met before is over.
    pub(super) fn forget(&mut self, member: &MemberId) {
        if !self.met.is_empty() {
            self.met.retain(|met| !met.is_of(member));
        }
    }

    /// A build that differs from ours in whether links are encrypted has sent a handshake.
    pub(super) fn tell_foreign(&mut self, now: Instant, path: &Address) {
        if self
            .foreign_said
            .is_none_or(|said| now >= said + FOREIGN_PAUSE)
        {
            self.foreign_said = Some(now);
            tracing::warn!(%path, "{FOREIGN}");
        }
    }
}
