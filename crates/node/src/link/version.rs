//! Versions of the link protocol: those that this build speaks, and what each peer has spoken last.
//!
//! A handshake is of one version, which its prologue says. A peer of which nothing is known is
//! called by the newest version, and later by the one before as well. Both are as secret, and prove
//! as much; version 2 shows no time, so such a handshake never counts as new
//! ([`super::times`]). A peer whose latest link was of the newest version is called by that one
//! only: what keeps packets back on the way does not lead to an older version.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::{Address, MemberId};

use super::Event;
use super::builds::{OtherBuilds, OtherVersion, Who};
use super::cookie::{COOKIE, name_of};
use super::output::Output;
use super::own::Own;
use super::wire::{Packet, Told};
use crate::limits::TIMES_REMEMBERED;
use crate::versions::{LINK, LINK_OLDEST};

/// Versions that this build does not speak and knows when it meets them: the first, and the next
/// two.
pub(super) const OTHERS: [u8; 3] = [LINK_OLDEST - 1, LINK + 1, LINK + 2];

/// A version that this build speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkVersion {
    /// Of release 0.2: handshakes show no time.
    Earlier,
    /// The newest.
    Newest,
}

impl LinkVersion {
    /// The number that is shown, and that the handshake binds.
    pub(crate) fn number(self) -> u8 {
        match self {
            LinkVersion::Earlier => LINK_OLDEST,
            LinkVersion::Newest => LINK,
        }
    }
}

/// What both sides of a handshake of this version bind.
pub(super) fn prologue(version: u8) -> Vec<u8> {
    format!("ringway link {version}").into_bytes()
}

/// What others speak: those that there are links with, and those that there are none with, because
/// their version or build is another one.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    spoken: Spoken,
    others: OtherBuilds,
}

/// An initiation that could not be read.
pub(super) struct Unread<'a> {
    pub(super) path: Address,
    /// Its sender's name for the session.
    pub(super) sender: u32,
    /// The whole packet.
    pub(super) bytes: &'a [u8],
}

impl Versions {
    /// The version of the latest link with this member.
    pub(crate) fn of(&self, member: &MemberId) -> Option<LinkVersion> {
        self.spoken.of(member)
    }

    /// What was met of this member that speaks none of our versions, unless there has been a link
    /// since.
    pub(crate) fn other(&self, member: &MemberId) -> Option<&OtherVersion> {
        self.others.of(member)
    }

    /// A handshake of this version has become a link: what was met before is over.
    pub(super) fn linked(&mut self, member: MemberId, version: LinkVersion, output: &mut Output) {
        if self.spoken.learn(member, version) {
            output.emit(Event::EarlierVersion(member));
        }
        self.others.forget(&member);
    }

    /// The link has ended, or the member has restarted, perhaps by another build.
    pub(super) fn restarted(&mut self, member: &MemberId) {
        self.spoken.restarted(member);
    }

    /// An initiation could not be read: perhaps its version is none of ours. Its sender is answered
    /// which those are, by fewer bytes than it has sent. True if it is of another version.
    pub(super) fn look(
        &mut self,
        now: Instant,
        unread: Unread<'_>,
        own: &Own,
        output: &mut Output,
    ) -> bool {
        let find = || {
            // The first version had no cookie.
            let noise = unread.bytes.get(COOKIE + 5..);
            let first = unread.bytes.get(5..);
            let mut read = noise.into_iter().chain(first);
            read.find_map(|noise| own.read_other(noise))
        };
        let Some(found) = self.others.look(now, unread.path.clone(), find) else {
            return false;
        };
        if let Some(other) = found {
            output.emit(Event::OtherVersion(other));
        }
        let answer = Packet::Versions {
            receiver: unread.sender,
            initiation: &name_of(unread.bytes),
            oldest: LINK_OLDEST,
            newest: LINK,
        };
        let answer = answer.encode();
        output.transmit(unread.path, answer);
        true
    }

    /// Somebody at `path` answers an initiation to `member` with the versions that it speaks. It
    /// proves nothing, so that nothing ends by it. False if it makes no sense: we have sent no such
    /// initiation, or it speaks one of ours and has answered something else, or lies.
    pub(super) fn told(
        &mut self,
        member: Option<MemberId>,
        path: Address,
        told: &Told<'_>,
        output: &mut Output,
    ) -> bool {
        let spoken = told.oldest..=told.newest;
        let speaks_ours = spoken.contains(&LINK) || spoken.contains(&LINK_OLDEST);
        let Some(member) = member.filter(|_| !speaks_ours) else {
            return false;
        };
        let other = OtherVersion {
            version: told.newest,
            path,
            who: Who::Claimed(member),
        };
        if self.others.note(other.clone()) {
            output.emit(Event::OtherVersion(other));
        }
        true
    }

    /// A build that differs from ours in whether links are encrypted has sent a handshake: there is
    /// no link with it.
    pub(super) fn foreign(
        &mut self,
        now: Instant,
        path: Address,
        bytes: &[u8],
        output: &mut Output,
    ) {
        self.others.tell_foreign(now, &path);
        // The other side learns of it by an empty answer, shorter than what it has sent.
        if let Some(answer) = Packet::foreign_answer(bytes) {
            output.transmit(path, answer);
        }
    }
}

/// The version of each member's latest link. Past [`TIMES_REMEMBERED`] members all others are
/// forgotten.
#[derive(Debug, Default)]
struct Spoken(BTreeMap<MemberId, Latest>);

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    version: Option<LinkVersion>,
    /// Whether it was said that its build is an earlier one.
    named: bool,
}

impl Spoken {
    pub(super) fn of(&self, member: &MemberId) -> Option<LinkVersion> {
        self.0.get(member)?.version
    }

    /// A handshake of this version has become a link. True if it is for the first time of the
    /// earlier version, since the last one that was not.
    pub(super) fn learn(&mut self, member: MemberId, version: LinkVersion) -> bool {
        if self.0.len() >= TIMES_REMEMBERED && !self.0.contains_key(&member) {
            self.0.clear();
        }
        let latest = self.0.entry(member).or_default();
        let earlier = version == LinkVersion::Earlier;
        latest.version = Some(version);
        earlier && !std::mem::replace(&mut latest.named, earlier)
    }

    /// The link has ended, or the member has restarted, perhaps by another build: an older version
    /// is no reason any more to call it by that.
    pub(super) fn restarted(&mut self, member: &MemberId) {
        let latest = self.0.get_mut(member);
        if let Some(latest) = latest.filter(|it| it.version == Some(LinkVersion::Earlier)) {
            latest.version = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_link_counts() {
        let member = MemberId::new([1; 32]);
        let mut spoken = Spoken::default();
        assert!(!spoken.learn(member, LinkVersion::Newest));
        spoken.restarted(&member);
        assert_eq!(spoken.of(&member), Some(LinkVersion::Newest));
        assert!(spoken.learn(member, LinkVersion::Earlier));
        spoken.restarted(&member);
        assert_eq!(spoken.of(&member), None);
        assert!(!spoken.learn(member, LinkVersion::Earlier), "said once");
        assert_eq!(prologue(LinkVersion::Newest.number()), b"ringway link 3");
    }
}
