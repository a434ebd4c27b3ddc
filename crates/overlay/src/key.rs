//! Ring keys: where a member stands on the ring, and which address it has.
//!
//! The ring is the integers modulo 2^256, written as 32 bytes, most significant first.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::limits::{KEY_ADDRESS_LEN, KEY_HASH_LEN, KEY_LEN};

/// A point on the ring: the key of a router, or a point to look up.
///
/// Keys order as big-endian integers; the ring wraps from the greatest to zero. `Debug` writes the
/// first four bytes in hex, `Display` all 32, and [`FromStr`] reads what `Display` writes.
///
/// Getters: [`as_bytes`](Self::as_bytes), [`address`](Self::address),
/// [`matches`](Self::matches), [`distance_to`](Self::distance_to).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingKey([u8; KEY_LEN]);

/// Why a text is not a ring key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseKeyError {
    /// The text does not have 64 characters.
    #[error("a ring key has 64 hexadecimal digits, this text has {0} bytes")]
    Length(usize),
    /// A character is no hexadecimal digit.
    #[error("a ring key has hexadecimal digits only, found {0:?}")]
    Digit(char),
}

impl RingKey {
    /// The greatest point below the wrap.
    pub const MAX: RingKey = RingKey([u8::MAX; KEY_LEN]);
    /// The point at which the ring wraps.
    pub const ZERO: RingKey = RingKey([0; KEY_LEN]);

    /// The key of the router at `address` in the ring `ring`: 14 bytes of
    /// `SHA-256(ring ‖ nonce ‖ address)` and then the 18 bytes of the address (IPv6 or
    /// IPv4-mapped, then the port, both most significant byte first).
    ///
    /// The ring owner chooses `nonce`, so that a member cannot choose its place by choosing a port.
    ///
    /// Source: "Our Brothers' Keepers" §3.1, with SHA-256 for SHA-1, IPv6 and the nonce added.
    #[must_use]
    pub fn derive(ring: &[u8; 32], nonce: &[u8; 16], address: SocketAddr) -> RingKey {
        let address = address_bytes(address);
        let digest = Sha256::new()
            .chain_update(ring)
            .chain_update(nonce)
            .chain_update(address)
            .finalize();
        let mut bytes = [0; KEY_LEN];
        for (to, from) in bytes
            .iter_mut()
            .zip(digest.iter().take(KEY_HASH_LEN).chain(&address))
        {
            *to = *from;
        }
        RingKey(bytes)
    }

    /// The point of `data` on the ring: its SHA-256. A point to look up, not a member.
    #[must_use]
    pub fn point(data: &[u8]) -> RingKey {
        RingKey(Sha256::digest(data).into())
    }

    /// The key with these bytes, most significant first.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> RingKey {
        RingKey(bytes)
    }

    /// The bytes, most significant first.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// The network address that the key carries; an IPv4-mapped address comes back as IPv4.
    ///
    /// A point made by [`point`](Self::point) carries no address: the answer is then meaningless.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let mut tail = self.0.iter().skip(KEY_HASH_LEN).copied();
        let mut ip = [0; 16];
        ip.iter_mut()
            .zip(tail.by_ref())
            .for_each(|(to, from)| *to = from);
        let mut port = [0; 2];
        port.iter_mut().zip(tail).for_each(|(to, from)| *to = from);
        SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), u16::from_be_bytes(port))
    }

    /// Whether the key is the one that `ring` and `nonce` give to the address it carries.
    #[must_use]
    pub fn matches(&self, ring: &[u8; 32], nonce: &[u8; 16]) -> bool {
        RingKey::derive(ring, nonce, self.address()) == *self
    }

    /// How far `other` lies clockwise of this key, as a 256-bit big-endian integer: 0 for the key
    /// itself.
    #[must_use]
    pub fn distance_to(&self, other: &RingKey) -> [u8; KEY_LEN] {
        let ((high, low), (my_high, my_low)) = (other.halves(), self.halves());
        let (low, borrow) = low.overflowing_sub(my_low);
        let high = high.wrapping_sub(my_high).wrapping_sub(u128::from(borrow));
        let mut distance = [0; KEY_LEN];
        distance
            .iter_mut()
            .zip(high.to_be_bytes().into_iter().chain(low.to_be_bytes()))
            .for_each(|(to, from)| *to = from);
        distance
    }

    /// The key as two numbers, the greater digits first.
    fn halves(&self) -> (u128, u128) {
        let half = |bytes: Option<&[u8; 16]>| bytes.map_or(0, |b| u128::from_be_bytes(*b));
        (half(self.0.first_chunk()), half(self.0.last_chunk()))
    }

    /// The point 2^`bit` clockwise of this key. `bit` is 0 to 255; past that the key itself.
    #[must_use]
    pub fn plus_power(&self, bit: u16) -> RingKey {
        let digit = 1_u8.checked_shl(u32::from(bit % 8)).unwrap_or(0);
        self.plus_digit(usize::from(bit / 8), digit)
    }

    /// The point `offset` clockwise of this key.
    #[must_use]
    pub fn plus(&self, offset: Offset) -> RingKey {
        let digit = if offset.level.is_multiple_of(2) {
            offset.digit
        } else {
            offset.digit.wrapping_shl(4)
        };
        self.plus_digit(usize::from(offset.level / 2), digit)
    }

    /// The key with `digit` added to the byte that is `from_end` bytes before the last.
    fn plus_digit(&self, from_end: usize, digit: u8) -> RingKey {
        let mut carry = digit;
        let mut sum = self.0;
        for to in sum.iter_mut().rev().skip(from_end) {
            let (digit, overflow) = to.overflowing_add(carry);
            *to = digit;
            carry = u8::from(overflow);
            if carry == 0 {
                break;
            }
        }
        RingKey(sum)
    }

    /// The way from here clockwise to `other` as a share of the whole ring, 0 to 1, to the 64th
    /// bit.
    #[must_use]
    pub fn share_to(&self, other: &RingKey) -> f64 {
        share(&self.distance_to(other))
    }
}

/// How far a finger reaches: `digit` times 16^`level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset {
    /// 0 to 63.
    pub(crate) level: u8,
    /// 1 to 15.
    pub(crate) digit: u8,
}

impl Offset {
    /// The greatest: fifteen sixteenths of the ring.
    pub(crate) const MAX: Offset = Offset {
        level: 63,
        digit: 15,
    };

    /// The greatest that is not beyond `distance`; none for 0.
    pub(crate) fn within(distance: &[u8; KEY_LEN]) -> Option<Offset> {
        let mut level = 63_u8;
        for byte in distance {
            for digit in [byte.wrapping_shr(4), byte & 0x0f] {
                if digit != 0 {
                    return Some(Offset { level, digit });
                }
                level = level.saturating_sub(1);
            }
        }
        None
    }

    /// The offsets that make up `distance`, one for each of its hexadecimal digits that is not 0,
    /// the greatest first.
    pub(crate) fn digits(distance: &[u8; KEY_LEN]) -> impl Iterator<Item = Offset> {
        let digits = distance
            .iter()
            .flat_map(|byte| [byte.wrapping_shr(4), byte & 0x0f]);
        let placed = (0..=63_u8).rev().zip(digits);
        let offsets = placed.map(|(level, digit)| Offset { level, digit });
        offsets.filter(|offset| offset.digit != 0)
    }

    /// The least that reaches over `share` of the ring.
    pub(crate) fn reaching(share: f64) -> Offset {
        let mut offset = Offset { level: 0, digit: 1 };
        while offset.share() < share && offset < Offset::MAX {
            offset = offset.next();
        }
        offset
    }

    /// The next greater one; after the greatest, itself.
    pub(crate) fn next(self) -> Offset {
        match (self.level, self.digit) {
            (63, 15..) => self,
            (level, 15..) => Offset {
                level: level.saturating_add(1),
                digit: 1,
            },
            (level, digit) => Offset {
                level,
                digit: digit.saturating_add(1),
            },
        }
    }

    /// How much of the ring it reaches over, 0 to 1.
    pub(crate) fn share(self) -> f64 {
        f64::from(self.digit) * 16_f64.powi(i32::from(self.level).saturating_sub(64))
    }
}

fn share(distance: &[u8; KEY_LEN]) -> f64 {
    let word = |bytes: Option<&[u8; 4]>| bytes.map_or(0.0, |b| f64::from(u32::from_be_bytes(*b)));
    let (first, rest) = distance.split_at(4);
    word(first.first_chunk()) / UNIT + word(rest.first_chunk()) / (UNIT * UNIT)
}

/// 2^32.
const UNIT: f64 = 4_294_967_296.0;

fn address_bytes(address: SocketAddr) -> [u8; KEY_ADDRESS_LEN] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; KEY_ADDRESS_LEN];
    let source = ip.octets().into_iter().chain(address.port().to_be_bytes());
    bytes
        .iter_mut()
        .zip(source)
        .for_each(|(to, from)| *to = from);
    bytes
}

/// Whether `x` lies strictly between `a` and `b`, clockwise. With `a == b` that is every point but
/// `a`.
///
/// Source: Zave, "Reasoning about Identifier Spaces: How to Make Chord Correct", §II.
#[must_use]
pub fn between(a: &RingKey, x: &RingKey, b: &RingKey) -> bool {
    if a < b {
        a < x && x < b
    } else {
        x > a || x < b
    }
}

impl fmt::Debug for RingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .take(4)
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for RingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for RingKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != KEY_LEN.saturating_mul(2) {
            return Err(ParseKeyError::Length(text.len()));
        }
        let mut digits = text.chars().map(|digit| {
            let value = digit
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok());
            value.ok_or(ParseKeyError::Digit(digit))
        });
        let mut bytes = [0_u8; KEY_LEN];
        for byte in &mut bytes {
            for _ in 0..2 {
                let digit = digits
                    .next()
                    .unwrap_or(Err(ParseKeyError::Length(text.len())))?;
                *byte = byte.wrapping_shl(4) | digit;
            }
        }
        Ok(RingKey(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> RingKey {
        let mut bytes = [0; KEY_LEN];
        bytes[0] = first;
        RingKey(bytes)
    }

    #[test]
    fn between_is_strict_and_wraps() {
        assert!(between(&key(1), &key(2), &key(3)));
        assert!(!between(&key(1), &key(1), &key(3)));
        assert!(!between(&key(1), &key(3), &key(3)));
        assert!(between(&key(3), &key(0), &key(1)));
        assert!(between(&key(3), &key(9), &key(1)));
        assert!(!between(&key(3), &key(2), &key(1)));
        assert!(between(&key(5), &key(4), &key(5)));
        assert!(!between(&key(5), &key(5), &key(5)));
    }

    #[test]
    fn derive_follows_the_written_recipe() {
        let (ring, nonce) = ([7; 32], [9; 16]);
        let key = RingKey::derive(&ring, &nonce, "192.0.2.1:4242".parse().unwrap());
        let mut input = vec![7; 32];
        input.extend([9; 16]);
        input.extend([
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, 0x10, 0x92,
        ]);
        let digest = Sha256::digest(&input);
        assert_eq!(key.as_bytes()[..14], digest[..14]);
        assert_eq!(key.as_bytes()[14..], input[48..]);
    }

    #[test]
    fn a_derived_key_carries_its_address_and_matches() {
        for text in ["192.0.2.1:4242", "[2001:db8::1]:80", "127.0.0.1:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let key = RingKey::derive(&[1; 32], &[2; 16], address);
            assert_eq!(key.address(), address);
            assert!(key.matches(&[1; 32], &[2; 16]));
            assert!(!key.matches(&[1; 32], &[3; 16]));
            assert!(!key.matches(&[0; 32], &[2; 16]));
        }
    }

    #[test]
    fn text_round_trips_and_bad_text_is_named() {
        let key = RingKey::point(b"x");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!("ab".parse::<RingKey>(), Err(ParseKeyError::Length(2)));
        let bad = format!("g{}", "0".repeat(63));
        assert_eq!(bad.parse::<RingKey>(), Err(ParseKeyError::Digit('g')));
        let wide = format!("é{}", "0".repeat(62));
        assert_eq!(wide.parse::<RingKey>(), Err(ParseKeyError::Digit('é')));
    }

    #[test]
    fn offsets_within_a_distance_add_up_to_it() {
        let here = RingKey::point(b"here");
        for text in ["a", "b", "c", "d"] {
            let mut there = here;
            let target = RingKey::point(text.as_bytes());
            let mut steps = 0;
            while let Some(offset) = Offset::within(&there.distance_to(&target)) {
                assert!((1..=15).contains(&offset.digit));
                there = there.plus(offset);
                steps += 1;
            }
            assert_eq!(there, target);
            assert!(steps <= 64);
        }
        assert_eq!(Offset::within(&[0; KEY_LEN]), None);
        assert_eq!(Offset::within(&[0xff; KEY_LEN]), Some(Offset::MAX));
    }

    #[test]
    fn offsets_go_up_one_by_one() {
        let mut offset = Offset { level: 0, digit: 1 };
        let mut count = 1;
        while offset != Offset::MAX {
            assert!(offset.next() > offset && offset.next().share() > offset.share());
            offset = offset.next();
            count += 1;
        }
        assert_eq!(count, 64 * 15);
        assert_eq!(offset.next(), Offset::MAX);
        assert!((Offset::MAX.share() - 15.0 / 16.0).abs() < 1e-12);
        let half = Offset::reaching(0.5);
        assert_eq!((half.level, half.digit), (63, 8));
        assert_eq!(RingKey::ZERO.plus(half).share_to(&RingKey::ZERO), 0.5);
    }

    #[test]
    fn powers_and_distances_wrap() {
        assert_eq!(RingKey::MAX.plus_power(0), RingKey::ZERO);
        assert_eq!(key(0x80).plus_power(255), RingKey::ZERO);
        assert_eq!(RingKey::ZERO.plus_power(8).as_bytes()[30], 1);
        let from = RingKey::point(b"from");
        assert_eq!(from.distance_to(&from.plus_power(9))[30], 2);
    }
}
