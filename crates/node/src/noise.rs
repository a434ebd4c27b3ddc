//! Noise as links and enrolments use it: the protocol by snow, its AES-GCM by aws-lc, which expands
//! a key once and not for each message.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use curve25519_dalek::MontgomeryPoint;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use zeroize::Zeroizing;

/// Bytes of an authentication tag.
pub(crate) const TAG: usize = 16;

/// Begins a handshake by `pattern`, a Noise protocol name.
///
/// # Errors
/// The name is none that is known.
pub(crate) fn builder<'keys>(pattern: &str) -> Result<Builder<'keys>, Error> {
    let resolver = FallbackResolver::new(Box::new(AwsLc), Box::new(DefaultResolver));
    Ok(Builder::with_resolver(pattern.parse()?, Box::new(resolver)))
}

/// A handshake whose secrets are overwritten when it ends: snow leaves its chaining key, from which
/// the session's keys come, where it was.
#[cfg_attr(
    feature = "insecure",
    allow(dead_code, reason = "such a build has no keys")
)]
#[derive(Debug)]
pub(crate) struct Exchange(Box<HandshakeState>);

#[cfg_attr(
    feature = "insecure",
    allow(dead_code, reason = "such a build has no keys")
)]
impl Exchange {
    /// Takes a handshake that has not yet begun: from here on it stays in one place.
    pub(crate) fn new(state: HandshakeState) -> Exchange {
        Exchange(Box::new(state))
    }

    pub(crate) fn state(&mut self) -> &mut HandshakeState {
        &mut self.0
    }

    /// The keys of the two directions, the initiator's first, once the handshake is over.
    ///
    /// snow's own transport has no room for data that is authenticated and not encrypted, hence the
    /// bare keys.
    pub(crate) fn split(mut self) -> Result<(AesGcm, AesGcm), Error> {
        if !self.0.is_handshake_finished() {
            return Err(snow::error::StateProblem::HandshakeNotFinished.into());
        }
        let (first, second) = self.0.dangerously_get_raw_split();
        let (first, second) = (Zeroizing::new(first), Zeroizing::new(second));
        Ok((AesGcm::with(&first), AesGcm::with(&second)))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // A handshake without keys, in the same place.
        let blank = builder("Noise_NN_25519_AESGCM_SHA256").and_then(Builder::build_initiator);
        if let Ok(blank) = blank {
            *self.0 = blank;
            std::hint::black_box(&mut self.0);
        }
    }
}

/// Gives snow its cipher and its Diffie-Hellman, which wipe their keys, and leaves the rest to its
/// own.
struct AwsLc;

impl CryptoResolver for AwsLc {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        None
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::<X25519>::default()),
            _ => None,
        }
    }

    fn resolve_hash(&self, _choice: &HashChoice) -> Option<Box<dyn Hash>> {
        None
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        match choice {
            CipherChoice::AESGCM => Some(Box::<AesGcm>::default()),
            CipherChoice::ChaChaPoly => None,
        }
    }
}

/// X25519 (RFC 7748).
#[derive(Default)]
struct X25519 {
    secret: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl X25519 {
    fn derive(&mut self) {
        self.public = MontgomeryPoint::mul_base_clamped(*self.secret).to_bytes();
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    /// snow has checked the length.
    fn set(&mut self, secret: &[u8]) {
        if let Some(secret) = secret.first_chunk::<32>() {
            self.secret.copy_from_slice(secret);
            self.derive();
        }
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        rng.try_fill_bytes(self.secret.as_mut())?;
        self.derive();
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.secret.as_ref()
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = public.first_chunk::<32>().ok_or(Error::Dh)?;
        let output = out.first_chunk_mut::<32>().ok_or(Error::Dh)?;
        let shared = Zeroizing::new(MontgomeryPoint(*public).mul_clamped(*self.secret));
        *output = shared.to_bytes();
        Ok(())
    }
}

/// AES-256-GCM with the nonces of Noise §12.4: 32 bits of zeros and the counter, big-endian. aws-lc
/// wipes the key.
#[derive(Debug, Default)]
pub(crate) struct AesGcm(Option<LessSafeKey>);

impl AesGcm {
    #[cfg_attr(
        feature = "insecure",
        allow(dead_code, reason = "such a build has no keys")
    )]
    pub(crate) fn with(key: &[u8; 32]) -> AesGcm {
        let mut cipher = AesGcm::default();
        cipher.set(key);
        cipher
    }

    fn nonce(counter: u64) -> Nonce {
        let mut nonce = [0; 12];
        let (_, output) = nonce.split_at_mut(4);
        output.copy_from_slice(&counter.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = UnboundKey::new(&AES_256_GCM, key)
            .ok()
            .map(LessSafeKey::new);
    }

    /// snow has checked that `out` has room. Gives 0, which no ciphertext is, where there is no
    /// key: snow then takes an empty message that cannot verify.
    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let length = plaintext.len();
        let (Some(key), Some((output, rest))) = (&self.0, out.split_at_mut_checked(length)) else {
            return 0;
        };
        output.copy_from_slice(plaintext);
        let aad = Aad::from(authtext);
        let sealed = key.seal_in_place_separate_tag(Self::nonce(nonce), aad, output);
        match (sealed, rest.first_chunk_mut::<TAG>()) {
            (Ok(tag), Some(output)) => {
                output.copy_from_slice(tag.as_ref());
                length + TAG
            }
            _ => {
                // Never shown, not even where sealing has failed half-way.
                output.fill(0);
                0
            }
        }
    }

    fn decrypt(
        &self,
        nonce: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let key = self.0.as_ref().ok_or(Error::Decrypt)?;
        let (content, tag) = ciphertext.split_last_chunk::<TAG>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..content.len()).ok_or(Error::Decrypt)?;
        let aad = Aad::from(authtext);
        key.open_separate_gather(Self::nonce(nonce), aad, content, tag, out)
            .map_err(|_| Error::Decrypt)?;
        Ok(content.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: &str = "Noise_XX_25519_AESGCM_SHA256";

    /// Both understand each other, whichever side has which cipher: ours is the one that Noise
    /// names.
    #[test]
    fn it_is_the_cipher_of_snow() {
        let ours = || builder(PATTERN).unwrap();
        let theirs = || Builder::new(PATTERN.parse().unwrap());
        for (first, second) in [(ours(), theirs()), (theirs(), ours())] {
            let keys = [first.generate_keypair(), second.generate_keypair()].map(Result::unwrap);
            let first = first.local_private_key(&keys[0].private).unwrap();
            let second = second.local_private_key(&keys[1].private).unwrap();
            let mut sides = [
                first.build_initiator().unwrap(),
                second.build_responder().unwrap(),
            ];
            for turn in [0, 1, 0] {
                let (mut message, mut read) = ([0; 200], [0; 200]);
                let length = sides[turn].write_message(b"hello", &mut message).unwrap();
                let length = sides[1 - turn].read_message(&message[..length], &mut read);
                assert_eq!(read[..length.unwrap()], *b"hello");
            }
            let [first, second] = sides.map(|side| side.into_stateless_transport_mode().unwrap());
            let (mut message, mut read) = ([0; 200], [0; 200]);
            for counter in [0, 7, 1 << 40] {
                let length = first.write_message(counter, b"text", &mut message).unwrap();
                assert_eq!(length, 4 + TAG);
                let got = second.read_message(counter, &message[..length], &mut read);
                assert_eq!(read[..got.unwrap()], *b"text");
                let other = second.read_message(counter + 1, &message[..length], &mut read);
                assert!(other.is_err());
                message[2] ^= 1;
                let torn = second.read_message(counter, &message[..length], &mut read);
                assert!(torn.is_err());
            }
        }
    }

    #[test]
    fn without_a_key_nothing_is_shown() {
        let cipher = AesGcm::default();
        let mut out = [0; 100];
        assert_eq!(cipher.encrypt(1, &[], b"secret", &mut out), 0);
        assert_eq!(out, [0; 100]);
        assert!(cipher.decrypt(1, &[], &[0; 50], &mut out).is_err());
    }
}
