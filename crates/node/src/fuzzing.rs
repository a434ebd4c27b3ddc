//! Doors to private decoders, for the targets in `fuzz/` only.

use ed25519_dalek::SigningKey;
use ringway_transport::Signer as _;

use crate::certificate::{self, Certificate};
use crate::limits::REVOCATIONS;
use crate::statement::{self, Statement};
use crate::{authority, control, enrol, invite, link, member, message, stream, transfer, zone};

/// The ring of fuzzers only: what is signed by its owner counts in no other.
const OWNER: [u8; 32] = [1; 32];

/// The fields of a certificate behind those of its version and its ring, as if the owner had signed
/// them.
///
/// # Panics
/// When what was taken is not what was signed.
pub fn certificate(fields: &[u8]) {
    let owner = SigningKey::from_bytes(&OWNER);
    let bytes = signed(&owner, certificate::CONTEXT, 10, fields);
    if let Ok(certificate) = Certificate::decode(&bytes, &owner.member()) {
        assert_eq!(certificate.as_bytes(), bytes);
        assert_eq!(
            certificate.ring_key().is_some(),
            certificate.address().is_some()
        );
        let ends = certificate.not_after();
        assert!(certificate.check_time(ends).is_err());
    }
}

/// Those of a ring statement likewise; the first byte says how many there are.
///
/// # Panics
/// When what was taken is not what was signed, or is past its bounds.
pub fn statement(data: &[u8]) {
    let Some((count, fields)) = data.split_first() else {
        return;
    };
    let owner = SigningKey::from_bytes(&OWNER);
    let bytes = signed(&owner, statement::CONTEXT, 5 + count % 4, fields);
    if let Ok(statement) = Statement::decode(&bytes, &owner.member()) {
        assert_eq!(statement.as_bytes(), bytes);
        assert!(ringway_overlay::is_group_size(statement.group()));
        let ended = (0..=u64::from(u8::MAX)).filter(|serial| statement.revokes(*serial));
        assert!(ended.count() <= REVOCATIONS);
        for serial in 0..=u64::from(u8::MAX) {
            assert!(statement.heir(serial).is_none_or(|heir| heir > serial));
        }
    }
}

/// A body of `count` fields, in CBOR, and the owner's signature.
fn signed(owner: &SigningKey, context: &'static [u8], count: u8, fields: &[u8]) -> Vec<u8> {
    let ring = owner.member();
    let body = [
        &[0x80 | count, 1, 0x58, 32],
        ring.as_bytes().as_slice(),
        fields,
    ]
    .concat();
    let signature = owner.sign(context, &body);
    [&[0x82], body.as_slice(), &[0x58, 64], &signature].concat()
}

/// What a DNS client sends over TCP.
pub fn query(data: &[u8]) {
    authority::decode_query(data);
}

/// A packet of a link, and the same bytes as a decrypted message.
pub fn link(data: &[u8]) {
    link::decode_anything(data);
}

/// A frame of stored messages, and what a receiver makes of it.
///
/// # Panics
/// When what was taken is past its bounds, or does not encode again.
pub fn messages(data: &[u8]) {
    message::decode_anything(data);
}

/// A frame of a transfer, with the ranges and the file name in it.
pub fn transfer(data: &[u8]) {
    transfer::decode_anything(data);
}

/// A frame or records of a stream to a service.
pub fn stream(data: &[u8]) {
    stream::decode_anything(data);
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
pub fn leaf_entry(data: &[u8]) {
    member::decode_leaf_entry(data);
}

/// What a program says on the control socket, and what it is answered.
pub fn control(data: &[u8]) {
    serde_json::from_slice::<control::Request>(data).ok();
    serde_json::from_slice::<control::Reply>(data).ok();
}

/// The strings of a TXT record, each with its length before it.
///
/// # Panics
/// What is read cannot be written: a fault of ours.
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
