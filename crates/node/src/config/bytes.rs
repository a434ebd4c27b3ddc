//! Numbers of bytes as people write them: `20971520`, `20MiB`, `"1 GB"`.

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Reads a whole number of bytes with an optional unit: `B`, `kB`, `KiB`, `MB`, `MiB`, `GB`, `GiB`,
/// `TB`, `TiB`, and `/s` behind it. None if it is none, or more than 2^64 - 1.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let plain = text.strip_suffix("/s").unwrap_or(text).trim();
    let end = plain.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = plain.split_at(end.unwrap_or(plain.len()));
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "k" | "kB" | "KB" => 1_000,
        "K" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number, or a text with a unit.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    from.deserialize_any(Bytes)
}

/// As [`deserialize`], for a key that may be absent.
pub(super) fn deserialize_some<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(Bytes).map(Some)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = u64;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a number of bytes")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        number
            .try_into()
            .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse_bytes(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("20MiB", 20 << 20),
            ("20 MiB/s", 20 << 20),
            ("1GB", 1_000_000_000),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5MiB", "99999999999GiB", "20Mb"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }
}
