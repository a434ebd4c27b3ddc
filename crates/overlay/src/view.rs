//! [`View`]: a member's signed statement of its group.
//!
//! A view has a number, and names the view before it by its hash, so that what one member says
//! after one start forms a chain. Two views of one start with the same number are proof that their
//! author told two stories: [`SignedHeader::contradicts`]. Views of different starts prove nothing:
//! a copy of a member's folder, or a machine that was set back, is not a liar.
//!
//! The signature covers a [`Header`], which has the hash of the group's keys and not the keys: so a
//! header alone proves what was signed, in 208 bytes.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]

use sha2::{Digest, Sha256};

use crate::credentials::{Credentials, SIGNATURE_LEN};
use crate::key::RingKey;
use crate::limits::{MAX_GROUP, MIN_GROUP};

/// Bytes of a hash.
pub const HASH_LEN: usize = 32;

/// Bytes of a [`Start`]: two of one member are never alike by chance.
pub const START_LEN: usize = 16;

/// A random number that a member draws when it starts, and that tells its starts apart.
pub type Start = [u8; START_LEN];

/// In place of a start: the view is of version 1, which had none. Builds of release 0.2 read and
/// write only that. It proves nothing against its author. No start is drawn like this by chance.
pub const NO_START: Start = [0xff; START_LEN];

const CONTEXT: &[u8] = b"ringway view 2";
const EARLIER_CONTEXT: &[u8] = b"ringway view 1";

/// The signed part of a [`View`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who states it.
    pub author: RingKey,
    /// Which start of the author it is from.
    pub start: Start,
    /// The count of the author's starts (upper 32 bits) and how many views it has signed since
    /// (lower 32 bits). Both only go up.
    pub number: u64,
    /// The hash of the author's view before this one; zeroes for the first after a start.
    pub previous: [u8; HASH_LEN],
    /// Seconds since 1970 after which the view says nothing any more.
    pub expires: u64,
    /// The hash of the group's keys in their order.
    pub content: [u8; HASH_LEN],
}

impl Header {
    /// The bytes that are signed.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        let earlier = self.is_earlier();
        bytes.extend_from_slice(if earlier { EARLIER_CONTEXT } else { CONTEXT });
        bytes.extend_from_slice(self.author.as_bytes());
        if !earlier {
            bytes.extend_from_slice(&self.start);
        }
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.previous);
        bytes.extend_from_slice(&self.expires.to_be_bytes());
        bytes.extend_from_slice(&self.content);
        bytes
    }

    /// Whether it is of version 1.
    #[must_use]
    pub fn is_earlier(&self) -> bool {
        self.start == NO_START
    }

    /// The hash by which the next view names this one.
    #[must_use]
    pub fn hash(&self) -> [u8; HASH_LEN] {
        Sha256::digest(self.statement()).into()
    }

    /// The count of the author's starts that the view belongs to.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.number.wrapping_shr(32)
    }
}

/// A header and its author's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedHeader {
    /// What is stated.
    pub header: Header,
    /// By whom, verifiably.
    pub signature: [u8; SIGNATURE_LEN],
}

impl SignedHeader {
    /// Whether the author signed it. Not so where it has no certificate.
    #[must_use]
    pub fn is_genuine(&self, credentials: &dyn Credentials) -> bool {
        self.is_signed(credentials) == Some(true)
    }

    /// Whether the author signed it; none where it has no certificate.
    pub(crate) fn is_signed(&self, credentials: &dyn Credentials) -> Option<bool> {
        credentials.verify(
            &self.header.author,
            &self.header.statement(),
            &self.signature,
        )
    }

    /// Whether no honest member signs both after one start: the same number for two statements, or
    /// a next view that names another view as the one before it. Both signatures have to be
    /// checked, too.
    #[must_use]
    pub fn contradicts(&self, other: &SignedHeader) -> bool {
        let (a, b) = (&self.header, &other.header);
        // Two of version 1 may be from different starts.
        if a.author != b.author || a.start != b.start || a.is_earlier() {
            return false;
        }
        let (older, newer) = if a.number <= b.number { (a, b) } else { (b, a) };
        if older.number == newer.number {
            return older != newer;
        }
        older.incarnation() == newer.incarnation()
            && older.number.checked_add(1) == Some(newer.number)
            && newer.previous != older.hash()
    }
}

/// A member's signed statement of who is in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The signed part.
    pub signed: SignedHeader,
    /// The members of the group, clockwise, the author among them. At most 15.
    pub group: Vec<RingKey>,
}

impl View {
    /// States that `group` is the group of `author`, after the view `previous`, which counts only
    /// if it is from the same start. `numbered`: the start and the number.
    #[must_use]
    pub fn sign(
        credentials: &dyn Credentials,
        author: RingKey,
        numbered: (Start, u64),
        previous: Option<&View>,
        expires: u64,
        group: Vec<RingKey>,
    ) -> View {
        let (start, number) = numbered;
        let previous = previous.map(|view| &view.signed.header);
        let previous = previous.filter(|header| header.start == start);
        let header = Header {
            author,
            start,
            number,
            previous: previous.map_or([0; HASH_LEN], Header::hash),
            expires,
            content: content_hash(&group),
        };
        let signature = credentials.sign(&header.statement());
        let signed = SignedHeader { header, signature };
        View { signed, group }
    }

    /// The author.
    #[must_use]
    pub fn author(&self) -> RingKey {
        self.signed.header.author
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.signed.header.number
    }

    /// Whether the view holds together: the group is the one that was signed, goes clockwise once,
    /// has the author in it, and the author signed it. Whether it has expired is another
    /// question.
    #[must_use]
    pub fn is_valid(&self, credentials: &dyn Credentials) -> bool {
        self.group.len() <= MAX_GROUP
            && self.group.contains(&self.author())
            && goes_round_once(&self.group)
            && content_hash(&self.group) == self.signed.header.content
            && self.signed.is_genuine(credentials)
    }

    /// Whether it still counts at `unix` seconds.
    #[must_use]
    pub fn is_current(&self, unix: u64) -> bool {
        unix < self.signed.header.expires
    }
}

/// The hash of a group's keys in their order.
pub(crate) fn content_hash(group: &[RingKey]) -> [u8; HASH_LEN] {
    let mut hash = Sha256::new();
    for key in group {
        hash.update(key.as_bytes());
    }
    hash.finalize().into()
}

/// Whether the keys go clockwise from the first without reaching it again.
fn goes_round_once(group: &[RingKey]) -> bool {
    let Some(first) = group.first() else {
        return false;
    };
    let distances = group.iter().map(|key| first.distance_to(key));
    distances.is_sorted_by(|a, b| a < b)
}

/// Whether a group may have this size: odd, from 5 to 15.
#[must_use]
pub fn is_group_size(g: usize) -> bool {
    (MIN_GROUP..=MAX_GROUP).contains(&g) && g % 2 == 1
}
