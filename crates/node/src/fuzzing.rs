//! Doors to private decoders, for the targets in `fuzz/` only.

use crate::{link, transfer};

/// A packet of a link, and the same bytes as a decrypted message.
pub fn link(data: &[u8]) {
    link::decode_anything(data);
}

/// A frame of a transfer, with the ranges and the file name in it.
pub fn transfer(data: &[u8]) {
    transfer::decode_anything(data);
}
