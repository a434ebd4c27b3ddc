//! The ring owner's signed, numbered statement about the whole ring: its parameters, who is
//! revoked, and whose key is another now.
//!
//! A higher number replaces a lower one; nothing else does, so an old statement that somebody
//! replays cannot bring a revoked member back.
//!
//! A certificate that was replaced counts no more than a revoked one. The difference is for those
//! who have business with its holder: of a revoked member they let go, for one with a new key they
//! wait.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_overlay::is_group_size;
use ringway_transport::Signer;

use crate::certificate::RingId;
use crate::clock;
use crate::endpoint::Endpoint;
use crate::limits::{
    CERTIFICATE_LIFETIME, CLOCK_SKEW, CONTACT_BYTES, FORMER_ADDRESSES, GROUP, REVOCATIONS,
    STATEMENT_BYTES,
};
use crate::signed::{self, Signed};

/// Why bytes are not a valid statement of a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// Not the canonical encoding, or past a bound.
    #[error("the ring statement is not in the canonical form")]
    Malformed,
    /// Not signed by this ring's owner.
    #[error("the ring owner did not sign this ring statement")]
    BadSignature,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Body {
    #[n(0)]
    version: u8,
    #[n(1)]
    ring: ByteArray<32>,
    #[n(2)]
    number: u64,
    #[n(3)]
    successors: u8,
    #[n(4)]
    revoked: BTreeSet<u64>,
    /// None if there are none: so such a statement is that of versions which knew no rotation.
    #[n(5)]
    replaced: Option<BTreeMap<u64, u64>>,
    /// As above.
    #[n(6)]
    asked: Option<BTreeSet<u64>>,
    /// None for groups of the usual size: so such a statement is that of versions which knew no
    /// other.
    #[n(7)]
    group: Option<u8>,
    /// None while members reach the authority where they were told when they joined: so such a
    /// statement is that of versions which knew no other.
    #[n(8)]
    contact: Option<ContactBody>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct ContactBody {
    #[n(0)]
    dns: String,
    #[n(1)]
    enrol: String,
    #[n(2)]
    former: Vec<String>,
}

/// Where the authority is reached, since that is another place than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Where the ring's DNS is answered.
    pub dns: Endpoint,
    /// Where members ask the authority.
    pub enrol: Endpoint,
    /// Where DNS was answered before, the newest first: who asks there asks at `dns` now.
    pub former: Vec<Endpoint>,
}

impl Contact {
    fn body(&self) -> ContactBody {
        let (dns, enrol) = (self.dns.to_string(), self.enrol.to_string());
        let mut left = CONTACT_BYTES.saturating_sub(dns.len() + enrol.len());
        let former = self.former.iter().map(Endpoint::to_string);
        let former = former.take(FORMER_ADDRESSES).take_while(|text| {
            let fits = text.len() <= left;
            left = left.saturating_sub(text.len());
            fits
        });
        ContactBody {
            former: former.collect(),
            dns,
            enrol,
        }
    }
}

impl ContactBody {
    /// None if it breaks a bound, or if a text is no place or not its usual form.
    fn read(&self) -> Option<Contact> {
        let texts = [&self.dns, &self.enrol].into_iter().chain(&self.former);
        let bytes: usize = texts.map(String::len).sum();
        if self.former.len() > FORMER_ADDRESSES || bytes > CONTACT_BYTES {
            return None;
        }
        let read = |text: &String| {
            let endpoint: Endpoint = text.parse().ok()?;
            (endpoint.to_string() == *text).then_some(endpoint)
        };
        Some(Contact {
            dns: read(&self.dns)?,
            enrol: read(&self.enrol)?,
            former: self.former.iter().map(read).collect::<Option<_>>()?,
        })
    }
}

/// What every router of the ring goes by: fixed when it is founded, and taken when a router starts.
/// Routers that went by others would not believe each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Length of the successor lists, r.
    pub successors: u8,
    /// Members of a group, g: an odd number.
    pub group: u8,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            successors: 3,
            group: GROUP,
        }
    }
}

/// What a statement says of certificates, by their serials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serials {
    /// Revoked, and not expired by themselves.
    pub revoked: BTreeSet<u64>,
    /// Replaced, each with the one that has taken its place.
    pub replaced: BTreeMap<u64, u64>,
    /// Their holders are asked to change their keys.
    pub asked: BTreeSet<u64>,
}

impl Serials {
    /// How many they are; a statement has room for [`REVOCATIONS`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.revoked.len() + 2 * self.replaced.len() + self.asked.len()
    }
}

impl signed::Body for Body {
    const CONTEXT: &'static [u8] = CONTEXT;
    const MOST: usize = STATEMENT_BYTES;

    fn version(&self) -> u8 {
        self.version
    }
}

/// Separates statements from everything else that a ring owner signs.
pub(crate) const CONTEXT: &[u8] = b"ringway ring statement";

/// A statement whose signature has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    body: Body,
    contact: Option<Contact>,
    bytes: Vec<u8>,
}

impl Statement {
    /// Signs a statement. `revoked` are serials of certificates that have not expired by
    /// themselves.
    #[must_use]
    pub fn issue(
        owner: &dyn Signer,
        number: u64,
        successors: u8,
        revoked: BTreeSet<u64>,
    ) -> Statement {
        let serials = Serials {
            revoked,
            ..Serials::default()
        };
        let parameters = Parameters {
            successors,
            ..Parameters::default()
        };
        Statement::issue_with(owner, number, parameters, serials)
    }

    /// Signs a statement that may also say whose keys are others now, or are to be.
    #[must_use]
    pub fn issue_with(
        owner: &dyn Signer,
        number: u64,
        parameters: Parameters,
        serials: Serials,
    ) -> Statement {
        Statement::issue_with_contact(owner, number, parameters, serials, None)
    }

    /// As [`Statement::issue_with`]; it may also say where the authority is now.
    #[must_use]
    pub fn issue_with_contact(
        owner: &dyn Signer,
        number: u64,
        parameters: Parameters,
        serials: Serials,
        contact: Option<&Contact>,
    ) -> Statement {
        let ring = (*owner.member().as_bytes()).into();
        let Serials {
            revoked,
            replaced,
            asked,
        } = serials;
        let body = Body {
            version: 1,
            ring,
            number,
            successors: parameters.successors,
            revoked,
            // Left out where there is nothing to say, so that versions without these fields read
            // it.
            replaced: Some(replaced).filter(|replaced| !replaced.is_empty()),
            asked: Some(asked).filter(|asked| !asked.is_empty()),
            group: Some(parameters.group).filter(|group| *group != GROUP),
            contact: contact.map(Contact::body),
        };
        let bytes = Signed::sign(&body, owner);
        let contact = body.contact.as_ref().and_then(ContactBody::read);
        Statement {
            body,
            contact,
            bytes,
        }
    }

    /// Checks form, bounds and signature.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8], ring: &RingId) -> Result<Statement, StatementError> {
        let signed = Signed::<Body>::decode(bytes).ok_or(StatementError::Malformed)?;
        let body = signed.unverified();
        if !body.is_sound() {
            return Err(StatementError::Malformed);
        }
        if *body.ring != *ring.as_bytes() {
            return Err(StatementError::BadSignature);
        }
        let forged = |_| StatementError::BadSignature;
        let body = signed.verify(ring).map_err(forged)?;
        let contact = body.contact.as_ref().and_then(ContactBody::read);
        Ok(Statement {
            body,
            contact,
            bytes: bytes.to_vec(),
        })
    }

    /// Where the authority is reached, if that was changed after the ring was founded.
    #[must_use]
    pub fn contact(&self) -> Option<&Contact> {
        self.contact.as_ref()
    }

    /// The number of what may be a statement: nothing about it has been checked.
    pub(crate) fn number_of(bytes: &[u8]) -> Option<u64> {
        if bytes.len() > STATEMENT_BYTES {
            return None;
        }
        let signed: Signed<Body> = minicbor::decode(bytes).ok()?;
        Some(signed.unverified().number)
    }

    /// The canonical bytes, as published.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Counts the owner's statements.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.body.number
    }

    /// Length of every router's successor list (r).
    #[must_use]
    pub fn successors(&self) -> usize {
        usize::from(self.body.successors)
    }

    /// Members of every group (g).
    #[must_use]
    pub fn group(&self) -> usize {
        usize::from(self.body.group.unwrap_or(GROUP))
    }

    /// True if the certificate with this serial counts no more: it is revoked, or another has taken
    /// its place.
    #[must_use]
    pub fn revokes(&self, serial: u64) -> bool {
        self.body.revoked.contains(&serial) || self.replacement(serial).is_some()
    }

    /// The serial of the certificate that its holder has now instead of this one; none if it has
    /// not been replaced, or the last one is revoked.
    #[must_use]
    pub fn heir(&self, serial: u64) -> Option<u64> {
        // Serials only grow, so this ends.
        let mut heir = self.replacement(serial)?;
        while let Some(next) = self.replacement(heir) {
            heir = next;
        }
        Some(heir).filter(|heir| !self.body.revoked.contains(heir))
    }

    fn replacement(&self, serial: u64) -> Option<u64> {
        self.body.replaced.as_ref()?.get(&serial).copied()
    }

    /// The serials of all certificates that count no more, each with the one in its place.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        let revoked = self.body.revoked.iter().map(|serial| (*serial, None));
        let replaced = self.body.replaced.iter().flatten();
        revoked.chain(replaced.map(|(old, new)| (*old, Some(*new))))
    }

    /// The serials of certificates that this statement ends and `newer` does not, although they are
    /// not known to have expired at `now`, in Unix seconds: the authority has forgotten that they
    /// ended. Of serials that name no time it is not known when they expire.
    pub(crate) fn lost_in<'a>(
        &'a self,
        newer: &'a Statement,
        now: u64,
    ) -> impl Iterator<Item = u64> + 'a {
        let over = move |serial| {
            let issued = clock::time_of(serial);
            let ends = issued.map(|at| at + CERTIFICATE_LIFETIME.as_secs());
            ends.is_some_and(|ends| ends <= now + CLOCK_SKEW.as_secs())
        };
        let ended = self.ended().map(|(serial, _)| serial);
        ended.filter(move |serial| !newer.revokes(*serial) && !over(*serial))
    }

    /// True if an authority whose newest statement has the number `newest`, and which has `ended`
    /// these certificates in all its time, can have written this one.
    pub(crate) fn is_known_at(&self, newest: u64, ended: &BTreeSet<u64>) -> bool {
        self.number() <= newest && self.ended().all(|(serial, _)| ended.contains(&serial))
    }

    /// True if the holder of the certificate with this serial is to change its key.
    #[must_use]
    pub fn asks(&self, serial: u64) -> bool {
        let asked = self.body.asked.as_ref();
        asked.is_some_and(|asked| asked.contains(&serial))
    }
}

impl Body {
    /// Whether it keeps to the bounds, says nothing in two ways, and no certificate is replaced by
    /// an older one.
    fn is_sound(&self) -> bool {
        let (mut count, mut sound) = (self.revoked.len(), true);
        if let Some(replaced) = &self.replaced {
            count += 2 * replaced.len();
            sound &= !replaced.is_empty() && replaced.iter().all(|(old, new)| old < new);
        }
        if let Some(asked) = &self.asked {
            count += asked.len();
            sound &= !asked.is_empty();
        }
        if let Some(group) = self.group {
            sound &= group != GROUP && is_group_size(usize::from(group));
        }
        if let Some(contact) = &self.contact {
            sound &= contact.read().is_some();
        }
        sound && count <= REVOCATIONS
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::identity::Identity;

    #[test]
    fn it_survives_and_every_changed_bit_shows() {
        let owner = Identity::generate().unwrap();
        let statement = Statement::issue(&owner, 9, 3, BTreeSet::from([4, 7]));
        let decoded = Statement::decode(statement.as_bytes(), &owner.member()).unwrap();
        assert_eq!(decoded, statement);
        assert!(decoded.revokes(4) && decoded.revokes(7) && !decoded.revokes(5));
        for index in 0..statement.as_bytes().len() {
            let mut bytes = statement.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(
                Statement::decode(&bytes, &owner.member()).is_err(),
                "byte {index}"
            );
        }
    }

    fn rotated(revoked: &[u64], replaced: &[(u64, u64)], asked: &[u64]) -> Serials {
        Serials {
            revoked: revoked.iter().copied().collect(),
            replaced: replaced.iter().copied().collect(),
            asked: asked.iter().copied().collect(),
        }
    }

    #[test]
    fn a_replaced_certificate_leads_to_its_successor() {
        let owner = Identity::generate().unwrap();
        let serials = rotated(&[2, 8], &[(1, 3), (3, 6), (4, 7), (7, 8)], &[6]);
        let statement = Statement::issue_with(&owner, 9, Parameters::default(), serials);
        let decoded = Statement::decode(statement.as_bytes(), &owner.member()).unwrap();
        assert_eq!(decoded, statement);
        for ended in [1, 2, 3, 4, 7, 8] {
            assert!(decoded.revokes(ended), "{ended}");
        }
        assert!(!decoded.revokes(6) && !decoded.revokes(5));
        assert_eq!((decoded.heir(1), decoded.heir(3)), (Some(6), Some(6)));
        // What was revoked later has no successor, nor has what that succeeded.
        assert_eq!((decoded.heir(4), decoded.heir(7)), (None, None));
        assert_eq!((decoded.heir(2), decoded.heir(6)), (None, None));
        assert!(decoded.asks(6) && !decoded.asks(1));
    }

    #[test]
    fn without_rotations_its_bytes_are_unchanged() {
        let owner = Identity::generate().unwrap();
        let statement = Statement::issue(&owner, 9, 3, BTreeSet::from([4]));
        // An array of two; within it one of five, as written by earlier versions.
        assert_eq!(statement.as_bytes()[..2], [0x82, 0x85]);
    }

    #[test]
    fn the_authoritys_places_survive_and_are_bounded() {
        let owner = Identity::generate().unwrap();
        let issue = |contact: &Contact| {
            let (parameters, serials) = (Parameters::default(), Serials::default());
            Statement::issue_with_contact(&owner, 2, parameters, serials, Some(contact))
        };
        let former = |count: u8| {
            let former =
                (0..count).map(|last| Endpoint::from(SocketAddr::from(([192, 0, 2, last], 53))));
            former.collect::<Vec<_>>()
        };
        let contact = Contact {
            dns: "ring.example.org:53".parse().unwrap(),
            enrol: "192.0.2.9:7410".parse().unwrap(),
            former: former(3),
        };
        let statement = issue(&contact);
        let decoded = Statement::decode(statement.as_bytes(), &owner.member()).unwrap();
        assert_eq!(decoded.contact(), Some(&contact));
        let long: Endpoint = format!("{}a.org:53", "abcdefghi.".repeat(18))
            .parse()
            .unwrap();
        for (dns, count) in [
            (contact.dns.clone(), FORMER_ADDRESSES),
            (long, FORMER_ADDRESSES),
        ] {
            let many = Contact {
                dns: dns.clone(),
                former: former(40),
                ..contact.clone()
            };
            let statement = issue(&many);
            assert!(
                statement.as_bytes().len() <= 1_000,
                "members send it to each other"
            );
            let decoded = Statement::decode(statement.as_bytes(), &owner.member()).unwrap();
            let decoded = decoded.contact().unwrap();
            assert_eq!((&decoded.dns, decoded.former.len()), (&dns, count));
        }
    }

    #[test]
    fn texts_that_are_no_places_are_refused() {
        let owner = Identity::generate().unwrap();
        let statement = Statement::issue(&owner, 9, 3, BTreeSet::new());
        for (dns, former) in [
            ("192.0.2.1", 0),
            ("RING.example.org:53", 0),
            ("192.0.2.1:53", FORMER_ADDRESSES + 1),
        ] {
            let contact = ContactBody {
                dns: dns.to_owned(),
                enrol: "192.0.2.1:7410".to_owned(),
                former: vec!["192.0.2.2:53".to_owned(); former],
            };
            let body = Body {
                contact: Some(contact),
                ..statement.body.clone()
            };
            let bytes = Signed::sign(&body, &owner);
            let refused = Statement::decode(&bytes, &owner.member());
            assert_eq!(refused, Err(StatementError::Malformed), "{dns} {former}");
        }
    }

    #[test]
    fn group_sizes_are_odd_and_bounded() {
        let owner = Identity::generate().unwrap();
        let usual = ringway_overlay::Config::default().group;
        assert_eq!(usize::from(GROUP), usual);
        for group in 0..=20 {
            let parameters = Parameters {
                group,
                ..Parameters::default()
            };
            let serials = Serials::default();
            let statement = Statement::issue_with(&owner, 1, parameters, serials);
            let decoded = Statement::decode(statement.as_bytes(), &owner.member());
            match group {
                5 | 7 | 9 | 11 | 13 | 15 => {
                    assert_eq!(decoded.unwrap().group(), usize::from(group));
                }
                _ => assert_eq!(decoded, Err(StatementError::Malformed), "{group}"),
            }
        }
    }

    #[test]
    fn circular_and_large_statements_are_refused() {
        let owner = Identity::generate().unwrap();
        let decoded = |serials| {
            let statement = Statement::issue_with(&owner, 9, Parameters::default(), serials);
            Statement::decode(statement.as_bytes(), &owner.member())
        };
        for replaced in [&[(5, 5)][..], &[(5, 4)], &[(1, 2), (2, 1)]] {
            let refused = decoded(rotated(&[], replaced, &[]));
            assert_eq!(refused, Err(StatementError::Malformed), "{replaced:?}");
        }
        let most = u64::try_from(REVOCATIONS).unwrap();
        let full = |more: u64| {
            rotated(
                &(10..most + 6).collect::<Vec<_>>(),
                &[(1, 2)],
                &[3, 3 + more],
            )
        };
        assert_eq!(full(1).count(), REVOCATIONS);
        assert!(decoded(full(1)).is_ok());
        let mut over = full(1);
        over.asked.insert(9);
        assert_eq!(decoded(over), Err(StatementError::Malformed));
    }

    proptest! {
        #[test]
        fn every_statement_survives_a_round_trip(
            revoked in proptest::collection::btree_set(any::<u64>(), 0..20),
            replaced in proptest::collection::btree_map(0..u64::MAX / 2, 1..u64::MAX / 2, 0..20),
            asked in proptest::collection::btree_set(any::<u64>(), 0..20),
        ) {
            let owner = Identity::generate().unwrap();
            let replaced = replaced.into_iter().map(|(old, more)| (old, old + more)).collect();
            let serials = Serials { revoked, replaced, asked };
            let statement = Statement::issue_with(&owner, 1, Parameters::default(), serials);
            let decoded = Statement::decode(statement.as_bytes(), &owner.member());
            prop_assert_eq!(decoded, Ok(statement));
        }

        #[test]
        fn random_bytes_are_no_statement(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let ring = RingId::new([1; 32]);
            prop_assert!(Statement::decode(&bytes, &ring).is_err());
        }
    }
}
