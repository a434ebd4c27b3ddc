//! Info dictionaries: to which torrent one belongs, and the name in it.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::TorrentName;
use crate::bencode::Dictionary;
use crate::infohash::InfoHash;
use crate::limits::MAX_TORRENT_NAME;

/// The infohashes that a dictionary has, of version 1 and 2.
fn hashes(info: &[u8]) -> [Option<InfoHash>; 2] {
    let algorithms = [&SHA1_FOR_LEGACY_USE_ONLY, &SHA256];
    algorithms.map(|algorithm| {
        let hash = digest(algorithm, info);
        hash.as_ref()
            .first_chunk::<20>()
            .copied()
            .map(InfoHash::new)
    })
}

/// The names of the torrent whose metadata these bytes are said to be: one for each version that it
/// has. None, if the bytes are another torrent's, or have no name.
pub(super) fn of_metadata(infohash: InfoHash, info: &[u8]) -> Vec<TorrentName> {
    let hashes = hashes(info);
    if !hashes.contains(&Some(infohash)) {
        return Vec::new();
    }
    let mut names = named(info, hashes);
    // Peers call it by this hash, whatever its dictionary says of versions.
    if let Some(first) = names.first()
        && !names.iter().any(|name| name.infohash == infohash)
    {
        let name = first.name.clone();
        names.push(TorrentName { infohash, name });
    }
    names
}

/// The names of the torrent in a `.torrent` file (BEP 3, BEP 52): one for each version that it has.
pub(super) fn of_file(bytes: &[u8]) -> Vec<TorrentName> {
    let file = Dictionary::parse(bytes);
    let info = file.as_ref().and_then(|file| file.get(b"info"));
    info.map_or_else(Vec::new, |info| named(info, hashes(info)))
}

fn named(info: &[u8], [first, second]: [Option<InfoHash>; 2]) -> Vec<TorrentName> {
    let Some((dictionary, [])) = Dictionary::split(info) else {
        return Vec::new();
    };
    // Older clients wrote the name in another character set, and that of UTF-8 beside it.
    let name = [b"name.utf-8".as_slice(), b"name"]
        .into_iter()
        .find_map(|key| readable(dictionary.string(key)?));
    let Some(name) = name else {
        return Vec::new();
    };
    let is_second = dictionary.number(b"meta version") == Some(2);
    let is_first = dictionary.get(b"pieces").is_some() || !is_second;
    let versions = [first.filter(|_| is_first), second.filter(|_| is_second)];
    let hashes = versions.into_iter().flatten();
    let named = hashes.map(|infohash| TorrentName {
        infohash,
        name: name.clone(),
    });
    named.collect()
}

/// A name of others as a line of text; `None`: there is nothing in it.
fn readable(bytes: &[u8]) -> Option<String> {
    const CUT: char = '…';
    let text = String::from_utf8_lossy(bytes);
    let mut name = String::new();
    for c in text.trim().chars() {
        let before = name.len();
        if is_harmful(c) {
            // A string takes all that is written to it.
            write!(name, "{}", c.escape_unicode()).ok()?;
        } else {
            name.push(c);
        }
        if name.len() > MAX_TORRENT_NAME {
            name.truncate(before);
            while name.len().saturating_add(CUT.len_utf8()) > MAX_TORRENT_NAME {
                name.pop();
            }
            name.push(CUT);
            break;
        }
    }
    (!name.is_empty()).then_some(name)
}

/// It would move a cursor, break a line, or turn the direction of text.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::{hashes, of_file, of_metadata, readable};
    use crate::infohash::InfoHash;
    use crate::limits::MAX_TORRENT_NAME;

    /// The info dictionary of a torrent of version 1 with one file, so many bytes of hashes long.
    pub(in crate::torrent) fn info(name: &str, pieces: usize) -> Vec<u8> {
        let head = format!(
            "d6:lengthi9e4:name{}:{name}12:piece lengthi16384e6:pieces{pieces}:",
            name.len()
        );
        [head.as_bytes(), &vec![7; pieces], b"e"].concat()
    }

    pub(in crate::torrent) fn infohash(info: &[u8]) -> InfoHash {
        hashes(info)[0].unwrap()
    }

    #[test]
    fn names_belong_to_the_hash_of_their_dictionary() {
        let info = info("A film", 40);
        let hash = infohash(&info);
        let [one] = of_metadata(hash, &info).try_into().unwrap();
        assert_eq!((one.infohash, one.name.as_str()), (hash, "A film"));
        assert!(of_metadata(InfoHash::new([1; 20]), &info).is_empty());
        // What follows is not part of the dictionary.
        let longer = [info.as_slice(), b"x"].concat();
        assert!(of_metadata(infohash(&longer), &longer).is_empty());
        let file = [b"d8:announce3:url4:info".as_slice(), &info, b"e"].concat();
        assert_eq!(of_file(&file), [one]);
    }

    #[test]
    fn hybrid_torrents_have_a_name_for_each_version() {
        let info = b"d12:meta versioni2e4:name3:abc10:name.utf-84:\xc3\xa4bc6:pieces0:e";
        let [first, second] = hashes(info).map(Option::unwrap);
        for hash in [first, second] {
            let names = of_metadata(hash, info);
            let hashes: Vec<InfoHash> = names.iter().map(|name| name.infohash).collect();
            assert_eq!(hashes, [first, second]);
            assert!(names.iter().all(|name| name.name == "äbc"));
        }
        let second = b"d12:meta versioni2e4:name3:abce";
        let [_, hash] = hashes(second).map(Option::unwrap);
        let file = [b"d4:info".as_slice(), second, b"e"].concat();
        let [one] = of_file(&file).try_into().unwrap();
        assert_eq!(one.infohash, hash);
    }

    #[test]
    fn names_are_one_line_of_bounded_text() {
        let shown = |name: &[u8]| readable(name).unwrap();
        assert_eq!(shown(b" a\x1b[2J\nb "), "a\\u{1b}[2J\\u{a}b");
        assert_eq!(shown("x\u{202e}4pm".as_bytes()), "x\\u{202e}4pm");
        assert_eq!(shown(b"a\xffb"), "a\u{fffd}b");
        let long = shown("ä".repeat(300).as_bytes());
        assert!(
            long.len() <= MAX_TORRENT_NAME && long.ends_with("ä…"),
            "{long}"
        );
        assert!(shown(&[1; 300]).len() <= MAX_TORRENT_NAME);
        assert_eq!(readable(b" \n"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_short_and_plain(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Some(name) = readable(&bytes) {
                prop_assert!(name.len() <= MAX_TORRENT_NAME && !name.contains(char::is_control));
            }
        }
    }
}
