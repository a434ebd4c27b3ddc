//! Versions of the link protocol: those that this build speaks, and what each peer has spoken last.
//!
//! A handshake is of one version, which its prologue says. A peer of which nothing is known is
//! called by the newest version, and later by the one before as well. Both are as secret, and prove
//! as much; version 2 shows no time, so such a handshake never counts as new
//! ([`super::times`]). A peer whose latest link was of the newest version is called by that one
//! only: what keeps packets back on the way does not lead to an older version.

use std::collections::BTreeMap;

use ringway_transport::MemberId;

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

/// The version of each member's latest link. Past [`TIMES_REMEMBERED`] members all others are
/// forgotten.
#[derive(Debug, Default)]
pub(super) struct Spoken(BTreeMap<MemberId, Latest>);

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
