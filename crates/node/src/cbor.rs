//! CBOR of our own types.

use minicbor::Encode;

/// The one encoding of `value`: definite lengths, shortest forms, fields in order.
///
/// A derived encoder that writes to memory does not fail; were one to, the empty result verifies
/// nowhere.
pub(crate) fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    minicbor::to_vec(value).unwrap_or_default()
}
