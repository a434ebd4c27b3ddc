//! What shows on the wire of the packets that links exchange: enough for a gateway to know them.
//!
//! The first byte is the kind. Numbers are big-endian. The crate `ringway-node` has the rest
//! (`link::wire`): it is encrypted, except in builds that encrypt nothing.

/// Sender's index u32, cookie of 16 bytes or zeros, first Noise message (IK).
pub const INITIATION: u8 = 1;

/// Sender's index u32, receiver's index u32, second Noise message.
pub const RESPONSE: u8 = 2;

/// Receiver's index u32, epoch u32, counter u32, ciphertext with its tag of 16 bytes.
pub const DATA: u8 = 3;

/// Receiver's index u32: the sender knows no session with this index.
pub const UNKNOWN: u8 = 4;

/// Receiver's index u32, 16 bytes that name the initiation, cookie of 16 bytes.
pub const COOKIE: u8 = 5;

/// Receiver's index u32, 16 bytes that name the initiation, oldest and newest version as u8 each.
pub const VERSIONS: u8 = 6;

/// What is added to [`INITIATION`] and [`RESPONSE`] by builds that do not encrypt.
pub const OPEN: u8 = 16;

/// Bytes of a cookie.
pub const COOKIE_BYTES: usize = 16;

/// Bytes of the first Noise message (IK) without its payload: a key, an encrypted key, a tag.
pub const INITIATION_NOISE: usize = 32 + (32 + 16) + 16;

/// Bytes of the second Noise message without its payload: a key and a tag.
pub const RESPONSE_NOISE: usize = 32 + 16;

/// The subprotocol of our WebSockets (RFC 6455 §1.9).
pub const SUBPROTOCOL: &str = "ringway";
