//! Noise IK between two members: both prove their keys, both show their certificates.

use ringway_transport::MemberId;
use snow::{HandshakeState, StatelessTransportState};

use crate::identity::{Identity, noise_public};
use crate::limits::CERTIFICATE_BYTES;
use crate::noise;

const PATTERN: &str = "Noise_IK_25519_AESGCM_SHA256";
const PROLOGUE: &[u8] = b"ringway link 1";
/// Ephemeral and static key, two authentication tags and the certificate, with room.
const MESSAGE: usize = 32 + 48 + 16 + CERTIFICATE_BYTES + 64;

/// The handshake did not verify.
#[derive(Debug, thiserror::Error)]
#[error("a link handshake did not verify")]
pub(super) struct HandshakeFailed;

impl From<snow::Error> for HandshakeFailed {
    fn from(_: snow::Error) -> HandshakeFailed {
        HandshakeFailed
    }
}

/// An initiation that has been sent.
#[derive(Debug)]
pub(super) struct Initiator {
    noise: HandshakeState,
}

impl Initiator {
    /// Begins towards `member`; gives the first Noise message.
    pub(super) fn begin(
        identity: &Identity,
        member: &MemberId,
        certificate: &[u8],
    ) -> Result<(Initiator, Vec<u8>), HandshakeFailed> {
        let remote = noise_public(member).ok_or(HandshakeFailed)?;
        let secret = identity.noise_secret();
        let mut noise = noise::builder(PATTERN)?
            .prologue(PROLOGUE)?
            .local_private_key(secret.as_ref())?
            .remote_public_key(&remote)?
            .build_initiator()?;
        let message = write(&mut noise, certificate)?;
        Ok((Initiator { noise }, message))
    }

    /// Takes the response; gives the session's keys and the responder's certificate.
    ///
    /// A response that does not verify leaves the initiator as it was, so that a forged one cannot end the handshake.
    pub(super) fn finish(&mut self, message: &[u8]) -> Result<Vec<u8>, HandshakeFailed> {
        read(&mut self.noise, message)
    }

    pub(super) fn into_keys(self) -> Result<StatelessTransportState, HandshakeFailed> {
        Ok(self.noise.into_stateless_transport_mode()?)
    }
}

/// Reads an initiation: gives who it is by certificate, and the state to answer with.
pub(super) fn respond(
    identity: &Identity,
    message: &[u8],
) -> Result<(Responder, Vec<u8>), HandshakeFailed> {
    let secret = identity.noise_secret();
    let mut noise = noise::builder(PATTERN)?
        .prologue(PROLOGUE)?
        .local_private_key(secret.as_ref())?
        .build_responder()?;
    let certificate = read(&mut noise, message)?;
    Ok((Responder { noise }, certificate))
}

/// An initiation that has been read.
#[derive(Debug)]
pub(super) struct Responder {
    noise: HandshakeState,
}

impl Responder {
    /// True if the initiator has proven to hold the key of `member`.
    pub(super) fn is(&self, member: &MemberId) -> bool {
        noise_public(member)
            .is_some_and(|key| self.noise.get_remote_static() == Some(key.as_slice()))
    }

    /// Answers; gives the second Noise message and the session's keys.
    pub(super) fn finish(
        mut self,
        certificate: &[u8],
    ) -> Result<(Vec<u8>, StatelessTransportState), HandshakeFailed> {
        let message = write(&mut self.noise, certificate)?;
        Ok((message, self.noise.into_stateless_transport_mode()?))
    }
}

fn write(noise: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, HandshakeFailed> {
    let mut message = vec![0; MESSAGE];
    let length = noise.write_message(payload, &mut message)?;
    message.truncate(length);
    Ok(message)
}

fn read(noise: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, HandshakeFailed> {
    if message.len() > MESSAGE {
        return Err(HandshakeFailed);
    }
    let mut payload = vec![0; MESSAGE];
    let length = noise.read_message(message, &mut payload)?;
    payload.truncate(length);
    Ok(payload)
}
