//! The address of a member that is reached through another.

use std::fmt;
use std::str::FromStr;

use super::InvalidAddress;
use crate::member::MemberId;

/// A member without an address of its own, and a router that has a link with it:
/// `relay://ROUTER/MEMBER`.
///
/// On the wire the 32 bytes of the router's id, then those of the member's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayAddress {
    /// The router that passes packets on.
    pub parent: MemberId,
    /// The member that gets them.
    pub member: MemberId,
}

const SCHEME: &str = "relay://";

impl RelayAddress {
    pub(super) fn to_wire(self) -> Vec<u8> {
        let mut bytes = self.parent.as_bytes().to_vec();
        bytes.extend_from_slice(self.member.as_bytes());
        bytes
    }

    pub(super) fn from_wire(bytes: &[u8]) -> Option<Self> {
        let (parent, member) = bytes.split_first_chunk::<32>()?;
        Some(Self {
            parent: MemberId::new(*parent),
            member: MemberId::new(member.try_into().ok()?),
        })
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.parent, self.member)
    }
}

impl FromStr for RelayAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let ids = text.strip_prefix(SCHEME).and_then(|t| t.split_once('/'));
        let ids = ids.and_then(|(parent, member)| {
            Some(Self {
                parent: parent.parse().ok()?,
                member: member.parse().ok()?,
            })
        });
        ids.ok_or_else(|| {
            InvalidAddress::new(
                text,
                "it is written relay://ROUTER-ID/MEMBER-ID, ids in base32",
            )
        })
    }
}
