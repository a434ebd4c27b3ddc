//! This member's side of every handshake: its key, and the certificate that it shows.

use ringway_transport::MemberId;

use super::handshake::{self, HandshakeFailed, Initiator, Responder};
use super::shown::Shown;
use super::version::LinkVersion;
use crate::certificate::Certificate;
use crate::identity::Identity;

/// Who this member is to others.
pub(super) struct Own {
    pub(super) identity: Identity,
    certificate: Vec<u8>,
}

impl Own {
    pub(super) fn new(identity: Identity, certificate: &Certificate) -> Own {
        Own {
            identity,
            certificate: certificate.as_bytes().to_vec(),
        }
    }

    /// Shows another certificate for the same key from now on.
    pub(super) fn renew(&mut self, certificate: &Certificate) {
        self.certificate = certificate.as_bytes().to_vec();
    }

    /// This member.
    pub(super) fn member(&self) -> MemberId {
        use ringway_transport::Signer as _;
        self.identity.member()
    }

    /// What a handshake shows. `newest`: the epoch of the newest session with the peer, 0 if there
    /// is none; `time`: microseconds since 1970.
    pub(super) fn shown(&self, newest: u32, time: u64) -> Shown {
        Shown {
            newest,
            time,
            certificate: self.certificate.clone(),
        }
    }

    /// The first message to `member`, in this version.
    pub(super) fn begin(
        &self,
        member: &MemberId,
        version: LinkVersion,
        shown: &Shown,
    ) -> Result<(Initiator, Vec<u8>), HandshakeFailed> {
        Initiator::begin(&self.identity, member, version, shown)
    }

    /// Reads a first message as one of this version.
    pub(super) fn read(&self, version: LinkVersion, noise: &[u8]) -> Option<(Responder, Shown)> {
        handshake::respond(&self.identity, version, noise).ok()
    }

    /// The version of a first message that is none of ours, and its sender's X25519 key.
    pub(super) fn read_other(&self, noise: &[u8]) -> Option<(u8, [u8; 32])> {
        handshake::other_version(&self.identity, noise)
    }
}
