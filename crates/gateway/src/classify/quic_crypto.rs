//! The ClientHello of a QUIC connection, out of Initial packets (RFC 9001 §5.2).
//!
//! Their keys follow from the connection id that the client chose: an observer of the packet can
//! open it. The hello may be spread over several packets and be out of order; it is put together
//! up to a bound.

use std::sync::Arc;

use aws_lc_rs::aead::quic::{self as header, HeaderProtectionKey};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::quic::{types, variable};
use super::tls::{Offer, client_hello};
use crate::limits::{MAX_CRYPTO, MAX_CRYPTO_PARTS};
use crate::reader::Reader;

/// RFC 9001 §5.2, RFC 9369 §3.3.1, and the drafts that were deployed widely: first and last
/// version, salt.
const SALTS: [(u32, u32, [u8; 20]); 6] = [
    (1, 1, V1),
    (0xff00_0021, 0xff00_0022, V1),
    (
        0x6b33_43cf,
        0x6b33_43cf,
        [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
            0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
        ],
    ),
    (
        0xff00_001d,
        0xff00_0020,
        [
            0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61,
            0x11, 0xe0, 0x43, 0x90, 0xa8, 0x99,
        ],
    ),
    (0xff00_0017, 0xff00_001c, DRAFT_23),
    (0xface_b002, 0xface_b002, DRAFT_23),
];
const V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const DRAFT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65,
    0xbe, 0xf9, 0xf5, 0x02,
];
/// Bytes of the sample that header protection takes (RFC 9001 §5.4.3).
const SAMPLE: usize = 16;

/// A datagram that begins with a long header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Initial<'a> {
    pub(super) version: u32,
    /// The receiver's connection id.
    pub(super) receiver: &'a [u8],
    pub(super) datagram: &'a [u8],
    /// What follows both connection ids.
    pub(super) rest: Reader<'a>,
}

impl Initial<'_> {
    pub(super) fn is_initial(&self) -> bool {
        let (initial, _) = types(self.version);
        self.datagram
            .first()
            .is_some_and(|first| first >> 4 & 3 == initial)
    }
}

/// Keys of the client's Initial packets.
struct Keys {
    header: HeaderProtectionKey,
    packet: LessSafeKey,
    iv: [u8; 12],
}

/// A ClientHello in the making.
#[derive(Clone)]
pub(super) struct Hello {
    keys: Arc<Keys>,
    bytes: Vec<u8>,
    /// Parts that are there: beginning and end.
    parts: Vec<(usize, usize)>,
    open: bool,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello")
            .field("parts", &self.parts)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// A length, as the key derivation asks for it.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Hello {
    /// Derives the keys from the connection id of the client's first packet.
    pub(super) fn begin(initial: &Initial<'_>) -> Option<Self> {
        let (.., salt) = SALTS
            .iter()
            .find(|(from, to, _)| (*from..=*to).contains(&initial.version))?;
        let secret = Salt::new(HKDF_SHA256, salt).extract(initial.receiver);
        let secret = expand::<32>(&secret, b"client in")?;
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        // RFC 9369 §3.3.2: version 2 has labels of its own, and it numbers packet types otherwise
        // (§3.2).
        let [key, iv, header]: [&[u8]; 3] = if types(initial.version).0 == 0 {
            [b"quic key", b"quic iv", b"quic hp"]
        } else {
            [b"quicv2 key", b"quicv2 iv", b"quicv2 hp"]
        };
        let packet = UnboundKey::new(&AES_128_GCM, &expand::<16>(&secret, key)?).ok()?;
        let keys = Keys {
            header: HeaderProtectionKey::new(&header::AES_128, &expand::<16>(&secret, header)?)
                .ok()?,
            packet: LessSafeKey::new(packet),
            iv: expand(&secret, iv)?,
        };
        Some(Self {
            keys: Arc::new(keys),
            bytes: Vec::new(),
            parts: Vec::new(),
            open: true,
        })
    }

    /// More packets may complete the hello.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Bytes of the hello that are kept.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Takes in another Initial packet; returns the offer once the hello is whole.
    pub(super) fn take_in(&mut self, initial: &Initial<'_>) -> Option<Offer> {
        if !self.open {
            return None;
        }
        let read = self.keys.open(initial);
        if read.and_then(|frames| self.frames(&frames)).is_none() {
            // Not the keys' packet, or no hello: further packets would not help.
            self.open = false;
            return None;
        }
        let begun = self.begun();
        let mut reader = Reader::new(self.bytes.get(..begun)?);
        let is_hello = reader.u8()? == 1;
        let [high, middle, low] = reader.array::<3>()?;
        let body = reader.take(usize::from(u16::from_be_bytes([middle, low])))?;
        self.open = false;
        if is_hello && high == 0 {
            client_hello(body)
        } else {
            None
        }
    }

    /// Bytes from the beginning without a gap.
    fn begun(&mut self) -> usize {
        self.parts.sort_unstable();
        self.parts.iter().fold(
            0,
            |end, &(from, to)| {
                if from <= end { end.max(to) } else { end }
            },
        )
    }

    /// RFC 9000 §12.4: an Initial packet holds padding, pings, acknowledgements and parts of the
    /// handshake.
    fn frames(&mut self, frames: &[u8]) -> Option<()> {
        let mut reader = Reader::new(frames);
        while let Some(kind) = reader.u8() {
            match kind {
                0 | 1 => {}
                2 | 3 => acknowledgement(&mut reader, kind)?,
                6 => {
                    let offset = usize::try_from(variable(&mut reader)?).ok()?;
                    let length = usize::try_from(variable(&mut reader)?).ok()?;
                    self.part(offset, reader.take(length)?)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn part(&mut self, offset: usize, data: &[u8]) -> Option<()> {
        let end = offset.checked_add(data.len())?;
        if end > MAX_CRYPTO || self.parts.len() >= MAX_CRYPTO_PARTS {
            return None;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes.get_mut(offset..end)?.copy_from_slice(data);
        self.parts.push((offset, end));
        Some(())
    }
}

impl Keys {
    /// Removes both protections of the first packet of a datagram; returns its frames.
    fn open(&self, initial: &Initial<'_>) -> Option<Vec<u8>> {
        let mut reader = initial.rest;
        let token = usize::try_from(variable(&mut reader)?).ok()?;
        reader.take(token)?;
        let length = usize::try_from(variable(&mut reader)?).ok()?;
        let body = reader.rest().get(..length)?;
        let sample = body.get(4..)?.get(..SAMPLE)?;
        let [mask, masks @ ..] = self.header.new_mask(sample).ok()?;
        let first = initial.datagram.first()? ^ (mask & 0x0f);
        let number_bytes = usize::from(first & 3).checked_add(1)?;
        let (number, sealed) = body.split_at_checked(number_bytes)?;
        let number: Vec<u8> = number
            .iter()
            .zip(masks)
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        let before = initial.datagram.len().checked_sub(reader.rest().len())?;
        let mut around = initial.datagram.get(..before)?.to_vec();
        *around.first_mut()? = first;
        around.extend_from_slice(&number);
        // Early packet numbers are not shortened: the number's bytes are all of it.
        let mut nonce = self.iv;
        for (place, byte) in nonce.iter_mut().rev().zip(number.iter().rev()) {
            *place ^= byte;
        }
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = self
            .packet
            .open_in_place(nonce, Aad::from(around), &mut sealed)
            .ok()?;
        Some(plain.to_vec())
    }
}

/// A client's Initial packet with these frames, padded to a datagram of `size` bytes: what
/// [`Hello`] opens.
pub(crate) fn initial(
    version: u32,
    receiver: &[u8],
    frames: &[u8],
    size: usize,
) -> Option<Vec<u8>> {
    let keys = Hello::begin(&Initial {
        version,
        receiver,
        datagram: &[],
        rest: Reader::new(&[]),
    })?
    .keys;
    let kind = types(version).0;
    let id = u8::try_from(receiver.len()).ok()?;
    // One byte of packet number; no sender's id, no token; the length takes two bytes.
    let mut packet = vec![0xc0 | kind << 4];
    packet.extend_from_slice(&version.to_be_bytes());
    packet.push(id);
    packet.extend_from_slice(receiver);
    packet.extend_from_slice(&[0, 0]);
    let body = size.checked_sub(packet.len().checked_add(2)?)?;
    packet.extend_from_slice(&(u16::try_from(body).ok()? | 0x4000).to_be_bytes());
    let number_at = packet.len();
    packet.push(0);
    let mut sealed = frames.to_vec();
    sealed.resize(body.checked_sub(1 + 16)?, 0);
    let nonce = Nonce::assume_unique_for_key(keys.iv);
    let around = Aad::from(packet.as_slice());
    keys.packet
        .seal_in_place_append_tag(nonce, around, &mut sealed)
        .ok()?;
    packet.extend_from_slice(&sealed);
    let sample = packet.get(number_at.checked_add(4)?..)?.get(..SAMPLE)?;
    let [mask, number_mask, ..] = keys.header.new_mask(sample).ok()?;
    *packet.first_mut()? ^= mask & 0x0f;
    *packet.get_mut(number_at)? ^= number_mask;
    Some(packet)
}

/// RFC 9000 §19.3: ranges, and counts of marks for kind 3.
fn acknowledgement(reader: &mut Reader<'_>, kind: u8) -> Option<()> {
    variable(reader)?;
    variable(reader)?;
    let ranges = variable(reader)?;
    variable(reader)?;
    if ranges > 64 {
        return None;
    }
    let marks = if kind == 3 { 3 } else { 0 };
    for _ in 0..ranges.saturating_mul(2).saturating_add(marks) {
        variable(reader)?;
    }
    Some(())
}

/// RFC 8446 §7.1: HKDF-Expand-Label with an empty context.
fn expand<const N: usize>(secret: &Prk, label: &[u8]) -> Option<[u8; N]> {
    const PREFIX: &[u8] = b"tls13 ";
    let length = u16::try_from(N).ok()?.to_be_bytes();
    let label_length = u8::try_from(label.len().checked_add(PREFIX.len())?).ok()?;
    let info = [&length, &[label_length][..], PREFIX, label, &[0]];
    let mut out = [0; N];
    secret.expand(&info, Length(N)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{Hello, Initial};
    use crate::reader::Reader;

    #[test]
    fn keys_match_the_examples_of_rfc_9001() {
        // RFC 9001 §A.1: the connection id 0x8394c8f03e515708 gives this iv.
        let initial = Initial {
            version: 1,
            receiver: &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08],
            datagram: &[],
            rest: Reader::new(&[]),
        };
        let hello = Hello::begin(&initial).unwrap();
        assert_eq!(
            hello.keys.iv,
            [
                0xfa, 0x04, 0x4b, 0x2f, 0x42, 0xa3, 0xfd, 0x3b, 0x46, 0xfb, 0x25, 0x5c
            ]
        );
    }
}
