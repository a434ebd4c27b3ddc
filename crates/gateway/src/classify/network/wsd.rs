//! WS-Discovery (OASIS, 1.1): XML that names the protocol's own namespace.

use crate::classify::message::{Finding, Memory, Message};

/// The namespace of 2005, and that of the standard.
const NAMESPACES: [&[u8]; 2] = [
    b"://schemas.xmlsoap.org/ws/2005/04/discovery",
    b"://docs.oasis-open.org/ws-dd/ns/discovery/",
];

/// An envelope of SOAP with one of them.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let bytes = message.bytes;
    let is_name = |byte: &u8| byte.is_ascii_alphabetic() || b"!?:_".contains(byte);
    if bytes.first() != Some(&b'<') || !bytes.get(1).is_some_and(is_name) {
        return None;
    }
    let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    (has(b"Envelope") && NAMESPACES.iter().any(|namespace| has(namespace)))
        .then(|| Finding::certain("an envelope with the namespace of the discovery"))
}
