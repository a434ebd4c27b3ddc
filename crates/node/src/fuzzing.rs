//! Doors to private decoders, for the targets in `fuzz/` only.

use crate::{enrol, invite, link, transfer};

/// A packet of a link, and the same bytes as a decrypted message.
pub fn link(data: &[u8]) {
    link::decode_anything(data);
}

/// A frame of a transfer, with the ranges and the file name in it.
pub fn transfer(data: &[u8]) {
    transfer::decode_anything(data);
}

/// What strangers say to each other before an enrolment with a spoken invite.
pub fn spoken(data: &[u8]) {
    enrol::decode_anything(data);
}

/// What a person types as an invite.
pub fn invite(data: &[u8]) {
    invite::decode_anything(data);
}
