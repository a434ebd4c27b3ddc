//! The chain of hashes over a sender's messages, and what a receiver signs.

use minicbor::Encode;
use minicbor::bytes::ByteArray;
use ringway_transport::{MemberId, Signer};

use super::record::{Epoch, Message};
use crate::certificate::RingId;

/// Keeps these signatures from being ones for another purpose.
const CONTEXT: &[u8] = b"ringway message receipt";
/// Keeps these hashes from being ones for another purpose.
const CHAIN: &str = "ringway message chain 1";

/// A hash of all messages up to one.
pub(super) type Chain = [u8; 32];

/// The chain of an epoch before its first message, whose number is one more than `base`.
pub(super) fn begin(epoch: &Epoch, base: u64) -> Chain {
    let mut hasher = blake3::Hasher::new_derive_key(CHAIN);
    hasher.update(epoch).update(&base.to_be_bytes());
    hasher.finalize().into()
}

/// The chain with one message more.
pub(super) fn extend(chain: &Chain, message: &Message) -> Chain {
    let length = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX).to_be_bytes();
    let mut hasher = blake3::Hasher::new_derive_key(CHAIN);
    hasher.update(chain).update(&message.id.0);
    hasher.update(&message.created.to_be_bytes());
    hasher.update(&length(message.attached.len()));
    for attached in &message.attached {
        hasher.update(attached);
    }
    hasher
        .update(&length(message.body.len()))
        .update(&message.body);
    hasher.finalize().into()
}

/// What a receiver signs: that it has stored all messages of an epoch up to a number.
#[derive(Clone, Debug, Encode)]
pub(super) struct Claims {
    #[n(0)]
    ring: ByteArray<32>,
    #[n(1)]
    sender: ByteArray<32>,
    #[n(2)]
    receiver: ByteArray<32>,
    #[n(3)]
    pub(super) epoch: ByteArray<16>,
    #[n(4)]
    pub(super) upto: u64,
    #[n(5)]
    pub(super) chain: ByteArray<32>,
    #[n(6)]
    pub(super) read: u64,
}

/// Who is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    pub(super) ring: RingId,
    pub(super) sender: MemberId,
    pub(super) receiver: MemberId,
}

impl Claims {
    pub(super) fn new(between: &Between, epoch: Epoch, at: (u64, Chain), read: u64) -> Claims {
        Claims {
            ring: (*between.ring.as_bytes()).into(),
            sender: (*between.sender.as_bytes()).into(),
            receiver: (*between.receiver.as_bytes()).into(),
            epoch: epoch.into(),
            upto: at.0,
            chain: at.1.into(),
            read,
        }
    }

    pub(super) fn sign(&self, receiver: &dyn Signer) -> [u8; 64] {
        receiver.sign(CONTEXT, &crate::cbor::encode(self))
    }

    /// Whether the receiver has signed this.
    pub(super) fn is_signed(&self, signature: &[u8; 64]) -> bool {
        let receiver = MemberId::new(*self.receiver);
        let bytes = crate::cbor::encode(self);
        receiver.verify(CONTEXT, &bytes, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    /// A signature counts for one ring, one sender, one receiver and one state of the chain.
    #[test]
    fn receipts_count_for_nothing_else() {
        let receiver = Identity::generate().unwrap();
        let [ring, sender, other] = [1, 2, 3].map(|id| MemberId::new([id; 32]));
        let between = Between {
            ring,
            sender,
            receiver: receiver.member(),
        };
        let claims = |between: &Between, epoch, upto, chain, read| {
            Claims::new(between, [epoch; 16], (upto, [chain; 32]), read)
        };
        let signature = claims(&between, 1, 2, 3, 1).sign(&receiver);
        assert!(claims(&between, 1, 2, 3, 1).is_signed(&signature));
        for (epoch, upto, chain, read) in [(2, 2, 3, 1), (1, 3, 3, 1), (1, 2, 4, 1), (1, 2, 3, 2)] {
            assert!(!claims(&between, epoch, upto, chain, read).is_signed(&signature));
        }
        for wrong in [
            Between {
                ring: other,
                ..between
            },
            Between {
                sender: other,
                ..between
            },
            Between {
                receiver: other,
                ..between
            },
        ] {
            assert!(!claims(&wrong, 1, 2, 3, 1).is_signed(&signature));
        }
    }
}
