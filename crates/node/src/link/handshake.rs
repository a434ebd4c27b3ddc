//! Noise IK between two members: both prove their keys, both show their certificates.

use ringway_transport::MemberId;

use super::shown::Shown;
use super::version::{LinkVersion, OTHERS, prologue};
use crate::identity::{Identity, noise_public};
use crate::noise::{self, AesGcm, Exchange};

const PATTERN: &str = "Noise_IK_25519_AESGCM_SHA256";
/// Ephemeral and static key, two authentication tags and what is shown, with room.
const MESSAGE: usize = 32 + 48 + 16 + Shown::BYTES + 64;
/// Bytes of the shortest message that begins a handshake: what encryption adds to what is shown.
pub(super) const LEAST: usize = 32 + 48 + 16;

/// The handshake did not verify.
#[derive(Debug, thiserror::Error)]
#[error("a link handshake did not verify")]
pub(super) struct HandshakeFailed;

impl From<snow::Error> for HandshakeFailed {
    fn from(_: snow::Error) -> HandshakeFailed {
        HandshakeFailed
    }
}

/// The keys of a session, one for each direction.
#[derive(Debug)]
pub(super) struct Keys {
    send: AesGcm,
    receive: AesGcm,
}

impl Keys {
    /// Encrypts into `output`, which is [`noise::TAG`] longer than `plain`. False if that failed;
    /// nothing is shown then.
    pub(super) fn seal(
        &self,
        counter: u64,
        around: &[u8],
        plain: &[u8],
        output: &mut [u8],
    ) -> bool {
        use snow::types::Cipher as _;
        let sealed = plain.len() + noise::TAG;
        output.len() == sealed && self.send.encrypt(counter, around, plain, output) == sealed
    }

    /// Decrypts into `output`; gives how many bytes that are, if they verify.
    pub(super) fn open(
        &self,
        counter: u64,
        around: &[u8],
        ciphertext: &[u8],
        output: &mut [u8],
    ) -> Option<usize> {
        use snow::types::Cipher as _;
        self.receive
            .decrypt(counter, around, ciphertext, output)
            .ok()
    }

    #[cfg(test)]
    pub(super) fn of(send: [u8; 32], receive: [u8; 32]) -> Keys {
        Keys {
            send: AesGcm::with(&send),
            receive: AesGcm::with(&receive),
        }
    }
}

/// An initiation that has been sent.
#[derive(Debug)]
pub(super) struct Initiator {
    noise: Exchange,
    version: LinkVersion,
}

impl Initiator {
    /// Begins towards `member`; gives the first Noise message.
    pub(super) fn begin(
        identity: &Identity,
        member: &MemberId,
        version: LinkVersion,
        shown: &Shown,
    ) -> Result<(Initiator, Vec<u8>), HandshakeFailed> {
        let state = initiator(identity, member, &prologue(version.number()))?;
        let mut noise = Exchange::new(state);
        let message = write(&mut noise, version, shown)?;
        Ok((Initiator { noise, version }, message))
    }

    pub(super) fn version(&self) -> LinkVersion {
        self.version
    }

    /// Takes the response; gives what the responder shows.
    ///
    /// A response that does not verify leaves the initiator as it was, so that a forged one cannot
    /// end the handshake.
    pub(super) fn finish(&mut self, message: &[u8]) -> Result<Shown, HandshakeFailed> {
        read(&mut self.noise, self.version, message)
    }

    pub(super) fn into_keys(self) -> Result<Keys, HandshakeFailed> {
        let (send, receive) = self.noise.split()?;
        Ok(Keys { send, receive })
    }
}

fn initiator(
    identity: &Identity,
    member: &MemberId,
    prologue: &[u8],
) -> Result<snow::HandshakeState, HandshakeFailed> {
    let remote = noise_public(member).ok_or(HandshakeFailed)?;
    let secret = identity.noise_secret();
    let builder = noise::builder(PATTERN)?.prologue(prologue)?;
    let builder = builder.local_private_key(secret.as_ref())?;
    Ok(builder.remote_public_key(&remote)?.build_initiator()?)
}

/// Reads an initiation of this version: gives what is shown, and the state to answer with. This is
/// where public-key work begins.
pub(super) fn respond(
    identity: &Identity,
    version: LinkVersion,
    message: &[u8],
) -> Result<(Responder, Shown), HandshakeFailed> {
    let mut noise = responder(identity, version.number())?;
    let shown = read(&mut noise, version, message)?;
    Ok((Responder { noise, version }, shown))
}

/// The version of an initiation that is of none of ours, if that is one of [`OTHERS`], and the
/// X25519 key that its sender has proved to hold. It costs as much work as to read a few.
pub(super) fn other_version(identity: &Identity, message: &[u8]) -> Option<(u8, [u8; 32])> {
    let mut payload = vec![0; MESSAGE];
    if message.len() > MESSAGE {
        return None;
    }
    OTHERS.into_iter().find_map(|version| {
        let mut noise = responder(identity, version).ok()?;
        let state = noise.state();
        state.read_message(message, &mut payload).ok()?;
        let key = state.get_remote_static()?.try_into().ok()?;
        Some((version, key))
    })
}

fn responder(identity: &Identity, version: u8) -> Result<Exchange, HandshakeFailed> {
    let secret = identity.noise_secret();
    let state = noise::builder(PATTERN)?
        .prologue(&prologue(version))?
        .local_private_key(secret.as_ref())?
        .build_responder()?;
    Ok(Exchange::new(state))
}

/// An initiation of any version, for tests.
#[cfg(test)]
pub(super) fn of_version(identity: &Identity, member: &MemberId, version: u8) -> Vec<u8> {
    let mut noise = Exchange::new(initiator(identity, member, &prologue(version)).unwrap());
    let mut message = vec![0; MESSAGE];
    let length = noise.state().write_message(&[0; 40], &mut message).unwrap();
    message.truncate(length);
    message
}

/// An initiation that has been read.
#[derive(Debug)]
pub(super) struct Responder {
    noise: Exchange,
    version: LinkVersion,
}

impl Responder {
    pub(super) fn version(&self) -> LinkVersion {
        self.version
    }

    /// True if the initiator has proven to hold the key of `member`.
    pub(super) fn is(&mut self, member: &MemberId) -> bool {
        let noise = self.noise.state();
        noise_public(member).is_some_and(|key| noise.get_remote_static() == Some(key.as_slice()))
    }

    /// Answers; gives the second Noise message and the session's keys.
    pub(super) fn finish(mut self, shown: &Shown) -> Result<(Vec<u8>, Keys), HandshakeFailed> {
        let message = write(&mut self.noise, self.version, shown)?;
        let (receive, send) = self.noise.split()?;
        Ok((message, Keys { send, receive }))
    }
}

fn write(
    noise: &mut Exchange,
    version: LinkVersion,
    shown: &Shown,
) -> Result<Vec<u8>, HandshakeFailed> {
    let mut message = vec![0; MESSAGE];
    let payload = shown.encode(version);
    let length = noise.state().write_message(&payload, &mut message)?;
    message.truncate(length);
    Ok(message)
}

fn read(
    noise: &mut Exchange,
    version: LinkVersion,
    message: &[u8],
) -> Result<Shown, HandshakeFailed> {
    if message.len() > MESSAGE {
        return Err(HandshakeFailed);
    }
    let mut payload = vec![0; MESSAGE];
    let length = noise.state().read_message(message, &mut payload)?;
    payload.truncate(length);
    Shown::decode(version, &payload).ok_or(HandshakeFailed)
}
