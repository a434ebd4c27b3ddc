//! The few CBOR shapes (RFC 8949) that this crate writes and reads, definite lengths only.

use std::convert::Infallible;

use minicbor::{Decoder, Encoder, decode};

/// What writing into memory returns.
pub(crate) type Written = Result<(), minicbor::encode::Error<Infallible>>;

/// Writes into memory, which cannot fail.
pub(crate) fn encode(write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Written) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    let written = write(&mut encoder);
    debug_assert!(written.is_ok(), "memory refuses no bytes");
    encoder.into_writer()
}

/// Reads an array head of exactly `length` elements.
pub(crate) fn array(decoder: &mut Decoder<'_>, length: u64) -> Result<(), decode::Error> {
    if decoder.array()? == Some(length) {
        Ok(())
    } else {
        Err(decode::Error::message("array of another length"))
    }
}

/// Reads a byte string of exactly `N` bytes.
pub(crate) fn bytes<const N: usize>(decoder: &mut Decoder<'_>) -> Result<[u8; N], decode::Error> {
    <[u8; N]>::try_from(decoder.bytes()?)
        .map_err(|_| decode::Error::message("byte string of another length"))
}

/// Refuses anything behind the last value.
pub(crate) fn end(decoder: &Decoder<'_>) -> Result<(), decode::Error> {
    if decoder.position() == decoder.input().len() {
        Ok(())
    } else {
        Err(decode::Error::message("bytes behind the end"))
    }
}
