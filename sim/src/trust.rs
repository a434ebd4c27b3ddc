//! [`Registry`]: the ring owner of a simulated ring, and signatures that cost nothing.
//!
//! A signature here is a hash with a secret that only the registry has. Members sign through the
//! registry, as themselves alone, so no member in the simulation can forge one; there is no
//! public-key work, which would take most of the time of large runs.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ringway_overlay::{Credentials, MEMBER_LEN, RingKey, SIGNATURE_LEN, Standing};

/// Keys are hashes already: their first bytes do.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().take(8) {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_usize(&mut self, _length: usize) {}
}

type Keys = HashSet<RingKey, BuildHasherDefault<FirstBytes>>;

/// Who has been admitted.
#[derive(Debug)]
pub struct Registry {
    base: Instant,
    secret: u64,
    admitted: RwLock<Keys>,
    /// Seconds that members' clocks are ahead.
    ahead: RwLock<BTreeMap<RingKey, u64>>,
}

impl Registry {
    /// A ring without members, whose owner's secret is `secret`. Its time begins at `base`.
    #[must_use]
    pub fn new(secret: u64, base: Instant) -> Arc<Registry> {
        Arc::new(Registry {
            base,
            secret,
            admitted: RwLock::default(),
            ahead: RwLock::default(),
        })
    }

    /// Admits a router.
    pub fn admit(&self, key: RingKey) {
        let mut admitted = self
            .admitted
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        admitted.insert(key);
    }

    /// Sets a member's clock ahead by so many seconds.
    pub fn set_clock(&self, key: RingKey, ahead: u64) {
        let mut clocks = self.ahead.write().unwrap_or_else(PoisonError::into_inner);
        clocks.insert(key, ahead);
    }

    fn ahead(&self, key: &RingKey) -> u64 {
        let clocks = self.ahead.read().unwrap_or_else(PoisonError::into_inner);
        clocks.get(key).copied().unwrap_or_default()
    }

    /// The owner's statement number `number`, signed.
    #[must_use]
    pub fn statement(&self, number: u64) -> Vec<u8> {
        let number = number.to_be_bytes();
        let signature = self.signature(&RingKey::ZERO, &number);
        [&number[..], &signature[..]].concat()
    }

    fn is_admitted(&self, key: &RingKey) -> bool {
        let admitted = self.admitted.read().unwrap_or_else(PoisonError::into_inner);
        admitted.contains(key)
    }

    /// Content that only the one could have made for the other. Anybody could read it; no member in
    /// the simulation looks.
    fn seal(&self, (from, to): (&RingKey, &RingKey), content: &[u8]) -> Vec<u8> {
        let statement = [to.as_bytes(), content].concat();
        let signature = self.signature(from, &statement);
        let mut sealed = signature[..SEAL_LEN].to_vec();
        sealed.extend_from_slice(content);
        sealed
    }

    fn signature(&self, author: &RingKey, statement: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut hash = FNV_OFFSET ^ self.secret;
        for byte in author.as_bytes().iter().chain(statement) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
        let mut signature = [0; SIGNATURE_LEN];
        signature
            .iter_mut()
            .zip(hash.to_be_bytes())
            .for_each(|(to, from)| *to = from);
        signature
    }
}

/// Bytes that sealing adds here.
const SEAL_LEN: usize = 16;

/// Source: the FNV-1a hash, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The credentials of one simulated member.
#[derive(Clone, Debug)]
pub struct MemberOf {
    registry: Arc<Registry>,
    me: RingKey,
    /// The number of the newest statement of the owner.
    stated: u64,
}

impl MemberOf {
    /// The credentials of `me`.
    #[must_use]
    pub fn new(registry: &Arc<Registry>, me: RingKey) -> MemberOf {
        let registry = Arc::clone(registry);
        let stated = 0;
        MemberOf {
            registry,
            me,
            stated,
        }
    }
}

impl Credentials for MemberOf {
    fn standing(&self, member: &RingKey) -> Standing {
        if self.registry.is_admitted(member) {
            Standing::Certified
        } else {
            Standing::Refused
        }
    }

    fn admit(&mut self, member: &RingKey, _certificate: &[u8]) -> Standing {
        self.standing(member)
    }

    fn certificate(&self, _member: &RingKey) -> Option<Vec<u8>> {
        None
    }

    fn sign(&self, statement: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.registry.signature(&self.me, statement)
    }

    fn verify(
        &self,
        member: &RingKey,
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<bool> {
        let admitted = self.registry.is_admitted(member);
        admitted.then(|| self.registry.signature(member, statement) == *signature)
    }

    fn seal(&mut self, to: &RingKey, content: &[u8]) -> Option<Vec<u8>> {
        let known = self.registry.is_admitted(to);
        known.then(|| self.registry.seal((&self.me, to), content))
    }

    fn open(&mut self, from: &RingKey, sealed: &[u8]) -> Option<Vec<u8>> {
        let (_, content) = sealed.split_at_checked(SEAL_LEN)?;
        let genuine = self.registry.seal((from, &self.me), content) == sealed;
        (genuine && self.registry.is_admitted(from)).then(|| content.to_vec())
    }

    /// In the simulation a certificate is the key of its member, and so is the member's id.
    fn author(
        &self,
        certificate: &[u8],
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<[u8; MEMBER_LEN]> {
        let id = <[u8; MEMBER_LEN]>::try_from(certificate).ok()?;
        let signed = self.verify(&RingKey::from_bytes(id), statement, signature)?;
        signed.then_some(id)
    }

    fn is_member(&self, member: &[u8; MEMBER_LEN]) -> bool {
        self.registry.is_admitted(&RingKey::from_bytes(*member))
    }

    fn take_statement(&mut self, statement: &[u8]) -> bool {
        let (number, signature) = statement.split_at(statement.len().min(8));
        let number = <[u8; 8]>::try_from(number).map_or(0, u64::from_be_bytes);
        let newer = number > self.stated && statement == self.registry.statement(number);
        if newer {
            self.stated = number;
        }
        newer && !signature.is_empty()
    }

    fn unix_time(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.registry.base);
        (EPOCH + since).as_secs() + self.registry.ahead(&self.me)
    }
}

/// The simulated world begins then.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
