//! The names of torrents.

use std::fmt;

use data_encoding::{BASE32_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The infohash of a torrent as it stands in packets: 20 bytes. Of version 2 (BEP 52) these are the
/// first 20 of the 32 bytes of its SHA-256, which is what peers, trackers and the DHT are given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InfoHash([u8; 20]);

/// Why a text names no torrent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no infohash: one has 40 hexadecimal digits, or 64 of version 2")]
pub struct InfoHashError;

/// Bytes that name a hash of SHA-256, in a multihash (BEP 52).
const MULTIHASH: &str = "1220";

impl InfoHash {
    /// The infohash of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Reads 40 or 64 hexadecimal digits, or 32 signs of base 32 (RFC 4648) as older magnet links
    /// have them, after `urn:btih:` or `urn:btmh:` or not.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(text: &str) -> Result<Self, InfoHashError> {
        let text = text.trim();
        let bare = ["urn:btih:", "urn:btmh:"]
            .iter()
            .find_map(|prefix| {
                let (head, rest) = text.split_at_checked(prefix.len())?;
                head.eq_ignore_ascii_case(prefix).then_some(rest)
            })
            .unwrap_or(text);
        let bytes = match bare.len() {
            40 | 64 => HEXLOWER_PERMISSIVE.decode(bare.as_bytes()),
            68 if bare.starts_with(MULTIHASH) => {
                let digits = bare.get(MULTIHASH.len()..).unwrap_or_default();
                HEXLOWER_PERMISSIVE.decode(digits.as_bytes())
            }
            32 => BASE32_NOPAD.decode(bare.to_ascii_uppercase().as_bytes()),
            _ => return Err(InfoHashError),
        };
        let bytes = bytes.map_err(|_| InfoHashError)?;
        let first = bytes.first_chunk::<20>().ok_or(InfoHashError)?;
        Ok(Self(*first))
    }
}

impl fmt::Display for InfoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for InfoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for InfoHash {
    type Err = InfoHashError;

    fn from_str(text: &str) -> Result<Self, InfoHashError> {
        Self::parse(text)
    }
}

impl Serialize for InfoHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InfoHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::InfoHash;

    #[test]
    fn infohashes_are_read_in_each_published_form() {
        let hex = "0123456789abcdef0123456789abcdef01234567";
        let one = InfoHash::parse(hex).unwrap();
        assert_eq!(one.to_string(), hex);
        let long = format!("{hex}89abcdef0123456789abcdef");
        for text in [
            &hex.to_uppercase(),
            &format!("urn:btih:{hex}"),
            &long,
            &format!("urn:btmh:1220{long}"),
            "AERUKZ4JVPG66AJDIVTYTK6N54ASGRLH",
        ] {
            assert_eq!(InfoHash::parse(text), Ok(one), "{text}");
        }
        for text in ["", "0123", &hex.replace('0', "g"), &format!("{hex}0")] {
            assert!(InfoHash::parse(text).is_err(), "{text}");
        }
    }
}
