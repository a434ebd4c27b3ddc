//! Doors to private decoders, for the targets in `fuzz/` only.

use crate::{authority, control, enrol, invite, link, member, transfer, zone};

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

/// What a newcomer and the authority say to each other within their channel.
pub fn enrolment(data: &[u8]) {
    enrol::decode_inner(data);
}

/// The answer of a DNS server to an update, and the text of the key that signs both.
pub fn update(data: &[u8]) {
    authority::decode_update(data);
}

/// Where a leaf is, as another router says.
pub fn whereabout(data: &[u8]) {
    member::decode_whereabout(data);
}

/// What a program says on the control socket, and what it is answered.
pub fn control(data: &[u8]) {
    serde_json::from_slice::<control::Request>(data).ok();
    serde_json::from_slice::<control::Reply>(data).ok();
}

/// The strings of a TXT record, each with its length before it.
pub fn record(mut data: &[u8]) {
    let mut strings = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (string, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        strings.push(string);
        data = rest;
    }
    let content = zone::from_txt(strings.iter().copied());
    if let Some(content) = content {
        let again = zone::to_txt(&content);
        let read = zone::from_txt(again.iter().map(String::as_bytes));
        assert_eq!(read, Some(content), "what is read can be written");
    }
}
