//! Bencoding (BEP 3): enough to walk a dictionary without believing any length.

use crate::limits::{MAX_BENCODE_DEPTH, MAX_BENCODE_ENTRIES};
use crate::reader::Reader;

/// The entries of a bencoded dictionary, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Dictionary<'a> {
    entries: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Dictionary<'a> {
    /// Reads a dictionary; `None` if it is no complete one. Bytes after it do not matter.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::split(bytes).map(|(dictionary, _)| dictionary)
    }

    /// The same with the bytes after it.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != b'd' {
            return None;
        }
        let mut entries = Vec::new();
        while reader.rest().first() != Some(&b'e') {
            let key = string(&mut reader)?;
            let value = reader.take(value_len(reader.rest())?)?;
            entries.push((key, value));
            if entries.len() > MAX_BENCODE_ENTRIES {
                return None;
            }
        }
        reader.u8()?;
        Some((Self { entries }, reader.rest()))
    }

    /// The bencoded value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.entries
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| *value)
    }

    /// The value of a key that has a string.
    pub(crate) fn string(&self, key: &[u8]) -> Option<&'a [u8]> {
        string(&mut Reader::new(self.get(key)?))
    }

    /// The value of a key that has a number, zero or above.
    pub(crate) fn number(&self, key: &[u8]) -> Option<u64> {
        let digits = self.get(key)?.strip_prefix(b"i")?.strip_suffix(b"e")?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// The value of a key that has a dictionary.
    pub(crate) fn dictionary(&self, key: &[u8]) -> Option<Self> {
        Self::parse(self.get(key)?)
    }
}

/// Bytes of the value at the beginning of `bytes`.
fn value_len(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(bytes);
    // A counter in place of recursion: a sender's nesting must not use up the stack.
    let mut depth = 0_usize;
    loop {
        match reader.rest().first()? {
            b'd' | b'l' => {
                reader.u8()?;
                depth = depth.saturating_add(1);
                if depth > MAX_BENCODE_DEPTH {
                    return None;
                }
            }
            b'e' => {
                reader.u8()?;
                depth = depth.checked_sub(1)?;
            }
            b'i' => integer(&mut reader)?,
            _ => {
                string(&mut reader)?;
            }
        }
        if depth == 0 {
            return bytes.len().checked_sub(reader.rest().len());
        }
    }
}

fn integer(reader: &mut Reader<'_>) -> Option<()> {
    reader.u8()?;
    // The longest 64-bit number has 20 characters.
    for _ in 0..=20 {
        match reader.u8()? {
            b'e' => return Some(()),
            b'0'..=b'9' | b'-' => {}
            _ => return None,
        }
    }
    None
}

fn string<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    // No torrent that is read has more than seven digits of bytes.
    for _ in 0..=7 {
        match reader.u8()? {
            b':' => return reader.take(length),
            digit @ b'0'..=b'9' => {
                let digit = usize::from(digit.checked_sub(b'0')?);
                length = length.checked_mul(10)?.checked_add(digit)?;
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Dictionary;

    #[test]
    fn walks_nested_values() {
        let dictionary =
            Dictionary::parse(b"d1:ad2:id3:abce1:li1e1:ml2:xxe1:y1:qe trailing").unwrap();
        assert_eq!(dictionary.string(b"y"), Some(b"q".as_slice()));
        assert_eq!(
            dictionary.dictionary(b"a").unwrap().string(b"id"),
            Some(b"abc".as_slice())
        );
        assert_eq!(dictionary.get(b"l"), Some(b"i1e".as_slice()));
        assert_eq!(dictionary.number(b"l"), Some(1));
        assert_eq!(dictionary.number(b"m"), None);
        let (_, rest) = Dictionary::split(b"d1:ai7eebytes").unwrap();
        assert_eq!(rest, b"bytes");
    }

    #[test]
    fn refuses_what_is_cut_or_lies_about_lengths() {
        for bytes in [
            b"d1:ad2:id3:ab".as_slice(),
            b"d1:a99999:xe",
            b"d1:a999999:xe",
            b"d1:a000000001:xe",
            b"di1ee",
            b"le",
            b"d1:ae",
            b"",
        ] {
            assert!(Dictionary::parse(bytes).is_none(), "{bytes:?}");
        }
        assert!(
            Dictionary::parse(&[b"d1:a".as_slice(), &[b'l'; 40], &[b'e'; 41]].concat()).is_none()
        );
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(prop_oneof![Just(b'd'), Just(b'e'), Just(b'1'), Just(b':'), any::<u8>()], 0..200)) {
            let _ = Dictionary::parse(&bytes);
        }
    }
}
