//! In place of `handshake`, in builds with the feature `insecure`: the same messages, with nothing
//! encrypted and no key proved.
//!
//! For benchmarks of what encryption costs, and for nothing else. Handshakes of such builds have
//! numbers of their own, so that no other build has a link with them.

use ringway_transport::MemberId;

use super::shown::Shown;
use super::version::LinkVersion;
use crate::identity::Identity;
use crate::noise::TAG;

/// As long as what encryption adds to what is shown, so that packets have the same sizes.
pub(super) const LEAST: usize = 32 + 48 + 16;
/// The same for the answer.
const ANSWER: usize = 32 + 16;

/// The handshake cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a link handshake cannot be read")]
pub(super) struct HandshakeFailed;

/// No keys: a message is its content and as many zeros as a tag has bytes.
#[derive(Debug)]
pub(super) struct Keys;

impl Keys {
    pub(super) fn seal(
        &self,
        _counter: u64,
        _around: &[u8],
        plain: &[u8],
        output: &mut [u8],
    ) -> bool {
        match output.split_at_mut_checked(plain.len()) {
            Some((content, tag)) if tag.len() == TAG => {
                content.copy_from_slice(plain);
                true
            }
            _ => false,
        }
    }

    pub(super) fn open(
        &self,
        _counter: u64,
        _around: &[u8],
        ciphertext: &[u8],
        output: &mut [u8],
    ) -> Option<usize> {
        let (content, _) = ciphertext.split_last_chunk::<TAG>()?;
        output.get_mut(..content.len())?.copy_from_slice(content);
        Some(content.len())
    }
}

fn padded(shown: &Shown, length: usize) -> Vec<u8> {
    let mut message = vec![0; length];
    message.extend(shown.encode(LinkVersion::Newest));
    message
}

fn read(message: &[u8], length: usize) -> Result<Shown, HandshakeFailed> {
    let shown = message.get(length..);
    let shown = shown.and_then(|bytes| Shown::decode(LinkVersion::Newest, bytes));
    shown.ok_or(HandshakeFailed)
}

#[derive(Debug)]
pub(super) struct Initiator;

impl Initiator {
    pub(super) fn begin(
        _identity: &Identity,
        _member: &MemberId,
        version: LinkVersion,
        shown: &Shown,
    ) -> Result<(Initiator, Vec<u8>), HandshakeFailed> {
        only_newest(version)?;
        Ok((Initiator, padded(shown, LEAST)))
    }

    pub(super) fn version(&self) -> LinkVersion {
        LinkVersion::Newest
    }

    pub(super) fn finish(&mut self, message: &[u8]) -> Result<Shown, HandshakeFailed> {
        read(message, ANSWER)
    }

    pub(super) fn into_keys(self) -> Result<Keys, HandshakeFailed> {
        Ok(Keys)
    }
}

pub(super) fn respond(
    _identity: &Identity,
    version: LinkVersion,
    message: &[u8],
) -> Result<(Responder, Shown), HandshakeFailed> {
    only_newest(version)?;
    Ok((Responder, read(message, LEAST)?))
}

/// Benchmarks are of one build.
fn only_newest(version: LinkVersion) -> Result<(), HandshakeFailed> {
    match version {
        LinkVersion::Newest => Ok(()),
        LinkVersion::Earlier => Err(HandshakeFailed),
    }
}

/// Nothing is said of versions here.
pub(super) fn other_version(_identity: &Identity, _message: &[u8]) -> Option<(u8, [u8; 32])> {
    None
}

#[derive(Debug)]
pub(super) struct Responder;

impl Responder {
    pub(super) fn version(&self) -> LinkVersion {
        LinkVersion::Newest
    }

    /// The sender of a certificate is believed.
    pub(super) fn is(&mut self, _member: &MemberId) -> bool {
        true
    }

    pub(super) fn finish(self, shown: &Shown) -> Result<(Vec<u8>, Keys), HandshakeFailed> {
        Ok((padded(shown, ANSWER), Keys))
    }
}
