//! Noise IK between two members: both prove their keys, both show their certificates.

use ringway_transport::MemberId;

use super::shown::Shown;
use crate::identity::{Identity, noise_public};
use crate::noise::{self, AesGcm, Exchange};

const PATTERN: &str = "Noise_IK_25519_AESGCM_SHA256";
const PROLOGUE: &[u8] = b"ringway link 3";
/// The version before, which has another format.
const EARLIER: &[u8] = b"ringway link 2";
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
}

impl Initiator {
    /// Begins towards `member`; gives the first Noise message.
    pub(super) fn begin(
        identity: &Identity,
        member: &MemberId,
        shown: &Shown,
    ) -> Result<(Initiator, Vec<u8>), HandshakeFailed> {
        let remote = noise_public(member).ok_or(HandshakeFailed)?;
        let secret = identity.noise_secret();
        let state = noise::builder(PATTERN)?
            .prologue(PROLOGUE)?
            .local_private_key(secret.as_ref())?
            .remote_public_key(&remote)?
            .build_initiator()?;
        let mut noise = Exchange::new(state);
        let message = write(&mut noise, shown)?;
        Ok((Initiator { noise }, message))
    }

    /// Takes the response; gives what the responder shows.
    ///
    /// A response that does not verify leaves the initiator as it was, so that a forged one cannot
    /// end the handshake.
    pub(super) fn finish(&mut self, message: &[u8]) -> Result<Shown, HandshakeFailed> {
        read(&mut self.noise, message)
    }

    pub(super) fn into_keys(self) -> Result<Keys, HandshakeFailed> {
        let (send, receive) = self.noise.split()?;
        Ok(Keys { send, receive })
    }
}

/// Reads an initiation: gives what is shown, and the state to answer with. This is where public-key
/// work begins.
pub(super) fn respond(
    identity: &Identity,
    message: &[u8],
) -> Result<(Responder, Shown), HandshakeFailed> {
    let mut noise = responder(identity, PROLOGUE)?;
    let shown = read(&mut noise, message)?;
    Ok((Responder { noise }, shown))
}

/// Whether an initiation that cannot be read is of the version before. It costs as much work as to
/// read it.
pub(super) fn is_earlier(identity: &Identity, message: &[u8]) -> bool {
    let mut payload = vec![0; MESSAGE];
    message.len() <= MESSAGE
        && responder(identity, EARLIER)
            .is_ok_and(|mut noise| noise.state().read_message(message, &mut payload).is_ok())
}

fn responder(identity: &Identity, prologue: &[u8]) -> Result<Exchange, HandshakeFailed> {
    let secret = identity.noise_secret();
    let state = noise::builder(PATTERN)?
        .prologue(prologue)?
        .local_private_key(secret.as_ref())?
        .build_responder()?;
    Ok(Exchange::new(state))
}

/// An initiation of the version before, for tests.
#[cfg(test)]
pub(super) fn earlier(identity: &Identity, member: &MemberId) -> Vec<u8> {
    let remote = noise_public(member).unwrap();
    let secret = identity.noise_secret();
    let builder = noise::builder(PATTERN).unwrap().prologue(EARLIER).unwrap();
    let builder = builder.local_private_key(secret.as_ref()).unwrap();
    let builder = builder.remote_public_key(&remote).unwrap();
    let mut noise = Exchange::new(builder.build_initiator().unwrap());
    let mut message = vec![0; MESSAGE];
    let length = noise.state().write_message(&[0; 40], &mut message).unwrap();
    message.truncate(length);
    message
}

/// An initiation that has been read.
#[derive(Debug)]
pub(super) struct Responder {
    noise: Exchange,
}

impl Responder {
    /// True if the initiator has proven to hold the key of `member`.
    pub(super) fn is(&mut self, member: &MemberId) -> bool {
        let noise = self.noise.state();
        noise_public(member).is_some_and(|key| noise.get_remote_static() == Some(key.as_slice()))
    }

    /// Answers; gives the second Noise message and the session's keys.
    pub(super) fn finish(mut self, shown: &Shown) -> Result<(Vec<u8>, Keys), HandshakeFailed> {
        let message = write(&mut self.noise, shown)?;
        let (receive, send) = self.noise.split()?;
        Ok((message, Keys { send, receive }))
    }
}

fn write(noise: &mut Exchange, shown: &Shown) -> Result<Vec<u8>, HandshakeFailed> {
    let mut message = vec![0; MESSAGE];
    let length = noise.state().write_message(&shown.encode(), &mut message)?;
    message.truncate(length);
    Ok(message)
}

fn read(noise: &mut Exchange, message: &[u8]) -> Result<Shown, HandshakeFailed> {
    if message.len() > MESSAGE {
        return Err(HandshakeFailed);
    }
    let mut payload = vec![0; MESSAGE];
    let length = noise.state().read_message(message, &mut payload)?;
    payload.truncate(length);
    Shown::decode(&payload).ok_or(HandshakeFailed)
}
