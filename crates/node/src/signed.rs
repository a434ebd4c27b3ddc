//! What one key signs: certificates, statements, requests for admission and the replies to them.
//!
//! On the wire it is a CBOR array of the body and 64 bytes of Ed25519 signature. The signature is
//! over the context and the body's one encoding ([`encode`]), so that no byte of either can vary.

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_transport::{BadSignature, MemberId, Signer};

use crate::cbor::encode;

/// A body that is signed.
pub(crate) trait Body: Clone + Encode<()> + for<'b> Decode<'b, ()> {
    /// Keeps a signature for one purpose from being one for another.
    const CONTEXT: &'static [u8];
    /// Bytes of a body with its signature.
    const MOST: usize;

    /// The number of the body's form, which is 1.
    fn version(&self) -> u8;
}

/// A body and a signature, which [`Signed::verify`] has yet to check.
#[derive(Encode, Decode)]
pub(crate) struct Signed<T> {
    #[n(0)]
    body: T,
    #[n(1)]
    signature: ByteArray<64>,
}

impl<T: Body> Signed<T> {
    /// The bytes of `body`, signed.
    pub(crate) fn sign(body: &T, signer: &dyn Signer) -> Vec<u8> {
        encode(&Self {
            body: body.clone(),
            signature: signer.sign(T::CONTEXT, &encode(body)).into(),
        })
    }

    /// Reads the one form that these bytes may have; `None` if they have another, or are too many.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > T::MOST {
            return None;
        }
        let signed: Self = minicbor::decode(bytes).ok()?;
        // Of two encodings of one body only one would be the one that was hashed or compared.
        (encode(&signed) == bytes && signed.body.version() == 1).then_some(signed)
    }

    /// The body, of which nothing has been checked but the form.
    pub(crate) fn unverified(&self) -> &T {
        &self.body
    }

    /// The body, if this member has signed it.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn verify(self, member: &MemberId) -> Result<T, BadSignature> {
        member.verify(T::CONTEXT, &encode(&self.body), &self.signature)?;
        Ok(self.body)
    }
}
