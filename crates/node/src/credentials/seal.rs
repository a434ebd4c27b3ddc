//! What routers seal for each other: NaCl boxes between their member keys.
//!
//! Both ends compute the same key, so what one has sealed could be passed off as the other's: a
//! byte in front says who did.
//!
//! Source: libsodium's `crypto_box_curve25519xchacha20poly1305`, by the crate `crypto_box`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crypto_box::aead::Aead;
use crypto_box::{ChaChaBox, Nonce, PublicKey, SecretKey};
use ringway_transport::{MemberId, Signer};

use crate::identity::{Identity, noise_public};
use crate::limits::SEALING_KEYS;

const NONCE: usize = 24;

/// The keys shared with other members, computed once.
#[derive(Default)]
pub(super) struct Seals {
    keys: BTreeMap<MemberId, ChaChaBox>,
    /// The order in which they were computed.
    order: VecDeque<MemberId>,
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seals")
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

impl Seals {
    fn key(&mut self, own: &Identity, peer: &MemberId) -> Option<&ChaChaBox> {
        if !self.keys.contains_key(peer) {
            let public = PublicKey::from(noise_public(peer)?);
            let secret = SecretKey::from(*own.noise_secret());
            if self.keys.len() >= SEALING_KEYS
                && let Some(oldest) = self.order.pop_front()
            {
                self.keys.remove(&oldest);
            }
            self.keys.insert(*peer, ChaChaBox::new(&public, &secret));
            self.order.push_back(*peer);
        }
        self.keys.get(peer)
    }

    /// Seals `content` from the owner of `own` for `peer`. None if the peer's key is none, or the
    /// system gives no randomness.
    pub(super) fn seal(
        &mut self,
        own: &Identity,
        peer: &MemberId,
        content: &[u8],
    ) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).ok()?;
        let from = direction(&own.member(), peer);
        let content = [&[from], content].concat();
        let key = self.key(own, peer)?;
        let boxed = key.encrypt(Nonce::from_slice(&nonce), &content[..]).ok()?;
        Some([&nonce[..], &boxed[..]].concat())
    }

    /// What `peer` has sealed for the owner of `own`.
    pub(super) fn open(
        &mut self,
        own: &Identity,
        peer: &MemberId,
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        let (nonce, boxed) = sealed.split_at_checked(NONCE)?;
        let from = direction(peer, &own.member());
        let key = self.key(own, peer)?;
        let mut content = key.decrypt(Nonce::from_slice(nonce), boxed).ok()?;
        (content.first() == Some(&from)).then(|| content.split_off(1))
    }
}

/// Which of the two has sealed it.
fn direction(from: &MemberId, to: &MemberId) -> u8 {
    u8::from(from.as_bytes() > to.as_bytes())
}

#[cfg(test)]
mod tests {
    use ringway_overlay::limits::MAX_SEAL;

    use super::*;

    #[test]
    fn only_the_two_can_make_and_open_it() {
        let [alice, bob, eve] = [(); 3].map(|()| Identity::generate().unwrap());
        let mut seals = [(); 3].map(|()| Seals::default());
        let sealed = seals[0].seal(&alice, &bob.member(), b"secret").unwrap();
        assert_eq!(sealed.len(), b"secret".len() + MAX_SEAL);
        let opened = seals[1].open(&bob, &alice.member(), &sealed);
        assert_eq!(opened.as_deref(), Some(&b"secret"[..]));
        // Another receiver, another sender, back to where it came from, and damage.
        assert_eq!(seals[2].open(&eve, &alice.member(), &sealed), None);
        assert_eq!(seals[1].open(&bob, &eve.member(), &sealed), None);
        assert_eq!(seals[0].open(&alice, &bob.member(), &sealed), None);
        for index in [0, NONCE, sealed.len() - 1] {
            let mut torn = sealed.clone();
            torn[index] ^= 1;
            assert_eq!(seals[1].open(&bob, &alice.member(), &torn), None);
        }
        assert_eq!(seals[1].open(&bob, &alice.member(), &[0; 5]), None);
        let again = seals[0].seal(&alice, &bob.member(), b"secret").unwrap();
        assert_ne!(again, sealed);
    }

    #[test]
    fn keys_are_bounded() {
        let own = Identity::generate().unwrap();
        let mut seals = Seals::default();
        let peers = [(); 5].map(|()| Identity::generate().unwrap().member());
        for peer in peers {
            seals.seal(&own, &peer, b"").unwrap();
        }
        assert_eq!(seals.keys.len(), 5);
        assert_eq!(seals.order.len(), 5);
        let weak = MemberId::new([0; 32]);
        assert_eq!(seals.seal(&own, &weak, b""), None);
    }
}
