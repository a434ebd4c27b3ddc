//! [`Accusation`] and [`Proof`]: what convicts a member, and who is convicted by it.
//!
//! A member that accuses another signs that it does. An accusation therefore convicts one of two:
//! the accused, if it has signed two views that contradict each other, or else the accuser, who has
//! looked at them and says that it has. No member that follows the protocol signs either. Where the
//! statements contradict each other and the certificate of the accused is not at hand, or has
//! ended, no member can say what it has signed: then none is convicted.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]

use crate::credentials::{Credentials, SIGNATURE_LEN};
use crate::key::RingKey;
use crate::view::SignedHeader;

const CONTEXT: &[u8] = b"ringway accusation 2";

/// Two statements of one member that contradict each other, as its accuser says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accusation {
    /// Who accuses.
    pub accuser: RingKey,
    /// The one statement. Its author is the accused.
    pub first: SignedHeader,
    /// The other.
    pub second: SignedHeader,
    /// The accuser's signature of both, with the signatures that they have.
    pub signature: [u8; SIGNATURE_LEN],
}

impl Accusation {
    /// Accuses the author of `first`, as `accuser`, whose credentials these are.
    #[must_use]
    pub fn sign(
        credentials: &dyn Credentials,
        accuser: RingKey,
        first: SignedHeader,
        second: SignedHeader,
    ) -> Accusation {
        let mut accusation = Accusation {
            accuser,
            first,
            second,
            signature: [0; SIGNATURE_LEN],
        };
        accusation.signature = credentials.sign(&accusation.statement());
        accusation
    }

    /// Who is accused.
    #[must_use]
    pub fn accused(&self) -> RingKey {
        self.first.header.author
    }

    /// The bytes that the accuser signs.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(CONTEXT);
        bytes.extend_from_slice(self.accuser.as_bytes());
        for said in [&self.first, &self.second] {
            bytes.extend_from_slice(&said.header.statement());
            bytes.extend_from_slice(&said.signature);
        }
        bytes
    }

    /// Whether the two statements contradict each other, if the accused has signed both:
    /// [`SignedHeader::contradicts`].
    #[must_use]
    pub fn contradicts(&self) -> bool {
        self.first.contradicts(&self.second)
    }

    /// Whether it is about views of version 1, which prove nothing.
    pub(crate) fn is_earlier(&self) -> bool {
        self.first.header.is_earlier() || self.second.header.is_earlier()
    }

    /// Whether the accuser signed it; none where it has no certificate.
    pub(crate) fn is_signed(&self, credentials: &dyn Credentials) -> Option<bool> {
        credentials.verify(&self.accuser, &self.statement(), &self.signature)
    }

    /// Whether the accused signed both statements, and they contradict each other; none if what it
    /// has signed cannot be verified.
    pub(crate) fn is_right(&self, credentials: &dyn Credentials) -> Option<bool> {
        // Two that do not contradict each other convict no member, whichever has signed them.
        if !self.contradicts() {
            return Some(false);
        }
        let first = self.first.is_signed(credentials);
        let second = self.second.is_signed(credentials);
        match (first, second) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            (None, _) | (_, None) => None,
        }
    }
}

/// What a member has signed, and no member signs that follows the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Two statements that contradict each other.
    TwoStories {
        /// The one.
        first: SignedHeader,
        /// The other.
        second: SignedHeader,
    },
    /// An accusation of somebody who has not signed any such thing.
    FalseAccusation(Accusation),
}

impl Proof {
    /// Whom it convicts.
    #[must_use]
    pub fn guilty(&self) -> RingKey {
        match self {
            Proof::TwoStories { first, .. } => first.header.author,
            Proof::FalseAccusation(accusation) => accusation.accuser,
        }
    }
}
