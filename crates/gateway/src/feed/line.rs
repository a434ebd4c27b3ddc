//! One line of a list, in the forms in which lists are published.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use crate::infohash::InfoHash;

/// Access levels of eMule's `ipfilter.dat` from which a line does not block.
const ALLOWED_FROM: u16 = 128;

/// The line without its comment: from `#` or `;` at the beginning or after a space.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    let mut before = b' ';
    let begins = line.iter().position(|&byte| {
        let comment = matches!(byte, b'#' | b';') && before.is_ascii_whitespace();
        before = byte;
        comment
    });
    let end = begins.unwrap_or(line.len());
    line.get(..end).unwrap_or(line).trim_ascii()
}

/// Networks of a line: a network, an address, a span of addresses, or a line of a P2P (`name:first
/// - last`) or DAT (`first - last , level , name`) block list.
pub(super) fn networks(line: &str) -> Result<Vec<IpNet>, String> {
    let wrong = || format!("`{line}` is no network, address, or span of addresses");
    let word = line.split_whitespace().next().unwrap_or_default();
    if word == line {
        if let Ok(network) = word.parse::<IpNet>() {
            if network.addr() != network.network() {
                let network = network.trunc();
                return Err(format!(
                    "`{word}` has bits behind its prefix; the network is {network}"
                ));
            }
            return Ok(vec![network]);
        }
        if let Some(address) = address(word) {
            return Ok(vec![address.into()]);
        }
    }
    // DAT: the level says whether the span is blocked.
    if let Some((ends, rest)) = line.split_once(',') {
        let level = rest.split(',').next().unwrap_or_default().trim();
        let level: u16 = level.parse().map_err(|_| wrong())?;
        let networks = span(ends).ok_or_else(wrong)?;
        return Ok(if level < ALLOWED_FROM {
            networks
        } else {
            Vec::new()
        });
    }
    // P2P: the name may have colons, the addresses of IPv4 have none.
    let named = line.rsplit_once(':').map(|(_, ends)| ends);
    span(line)
        .or_else(|| named.and_then(span))
        .ok_or_else(wrong)
}

/// An address; octets may begin with zeros, as DAT files write them.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let mut octets = text.split('.').map(|octet| {
        let digits = (1..=3).contains(&octet.len()) && octet.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| octet.parse::<u8>().ok()).flatten()
    });
    let octets = [octets.next()??, octets.next()??, octets.next()??, {
        let last = octets.next()??;
        octets.next().is_none().then_some(last)?
    }];
    Some(Ipv4Addr::from(octets).into())
}

/// The networks that make up a span of addresses, both ends included.
fn span(text: &str) -> Option<Vec<IpNet>> {
    let (first, last) = text.split_once('-')?;
    match (address(first)?, address(last)?) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            let subnets = Ipv4Subnets::new(first, last, 0);
            Some(subnets.map(IpNet::V4).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            let subnets = Ipv6Subnets::new(first, last, 0);
            Some(subnets.map(IpNet::V6).collect())
        }
        _ => None,
    }
}

/// Hosts of a line: names with or without a dot or `*.` before them, lines of a hosts file (an
/// address, then names), or of a filter list (`||name^`).
pub(super) fn hosts(line: &str) -> Result<Vec<String>, String> {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    if first.parse::<IpAddr>().is_ok() {
        // Names without a dot are those of the machine itself.
        let names = words.filter(|name| name.contains('.') && !is_null(name));
        return names.map(host).collect();
    }
    if words.next().is_some() {
        return Err(format!("`{line}` is more than one name"));
    }
    let filtered = first
        .strip_prefix("||")
        .and_then(|rest| rest.strip_suffix('^'));
    host(filtered.unwrap_or(first)).map(|name| vec![name])
}

/// The address that hosts files name as if it were a host.
fn is_null(name: &str) -> bool {
    name.parse::<Ipv4Addr>().is_ok() || name.parse::<Ipv6Addr>().is_ok()
}

/// A name in small letters, without a dot at either end (RFC 1035 §2.3.4: at most 253 signs, labels
/// of at most 63).
fn host(text: &str) -> Result<String, String> {
    let name = text.strip_prefix('*').unwrap_or(text);
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |label: &str| {
        let signs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(signs)
    };
    if name.len() <= 253 && name.split('.').all(fits) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(format!(
        "`{text}` is no name of a host (other alphabets are written as xn--)"
    ))
}

/// The infohash of a line; a name may follow it, and a magnet link has it inside.
pub(super) fn infohash(line: &str) -> Result<InfoHash, String> {
    let word = line.split([' ', '\t', ',']).next().unwrap_or_default();
    let link = word.split_once("xt=").map(|(_, rest)| rest);
    let text = link.map_or(word, |rest| rest.split('&').next().unwrap_or_default());
    InfoHash::parse(text).map_err(|error| format!("`{word}`: {error}"))
}

/// A file's SHA-256, with or without a name or other columns behind it, as `sha256sum` writes it.
pub(super) fn file_hash(line: &str) -> Result<[u8; 32], String> {
    let word = line.split([' ', '\t', ',', ';']).next().unwrap_or_default();
    let word = word.trim_matches('"');
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match (is_hex, word.len()) {
        (true, 64) => {}
        (true, 32 | 40) => {
            return Err(format!(
                "`{word}` is an MD5 or a SHA-1; files are told by SHA-256"
            ));
        }
        _ => return Err(format!("`{word}` is no SHA-256: 64 hexadecimal digits")),
    }
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(word.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::{bare, file_hash, hosts, infohash, networks};

    #[test]
    fn hashes_of_files_may_have_names_beside_them() {
        let hex = "0123456789abcdef".repeat(4);
        for line in [
            hex.clone(),
            format!("{hex}  a file.exe"),
            format!("\"{}\",\"2026-11-29\"", hex.to_uppercase()),
        ] {
            let hash = file_hash(&line).unwrap();
            assert_eq!(hash[..4], [0x01, 0x23, 0x45, 0x67]);
        }
        for wrong in [&hex[..40], &hex[..63], "a file", ""] {
            assert!(file_hash(wrong).is_err(), "{wrong}");
        }
    }

    fn spans(line: &str) -> Vec<String> {
        let networks = networks(line).unwrap();
        networks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn comments_end_lines() {
        let text = |line: &'static str| String::from_utf8_lossy(bare(line.as_bytes()));
        assert_eq!(text("# all of it"), "");
        assert_eq!(text("; all of it"), "");
        assert_eq!(text(" 10.0.0.0/8 ; SBL1 "), "10.0.0.0/8");
        assert_eq!(text("example.org\t# ads"), "example.org");
        assert_eq!(text("a#b"), "a#b");
    }

    #[test]
    fn networks_come_in_each_published_form() {
        assert_eq!(spans("10.0.0.0/8"), ["10.0.0.0/8"]);
        assert_eq!(spans("2001:db8::/32"), ["2001:db8::/32"]);
        assert_eq!(spans("2001:db8::1"), ["2001:db8::1/128"]);
        assert_eq!(spans("10.0.0.0 - 10.0.0.2"), ["10.0.0.0/31", "10.0.0.2/32"]);
        assert_eq!(spans("2001:db8::-2001:db8::1"), ["2001:db8::/127"]);
        assert_eq!(spans("Some: body:1.2.3.4-1.2.3.5"), ["1.2.3.4/31"]);
        let dat = "001.009.096.104 - 001.009.096.105 , 000 , Some body";
        assert_eq!(spans(dat), ["1.9.96.104/31"]);
        assert!(spans(&dat.replace("000 ,", "200 ,")).is_empty());
        for line in [
            "10.0.0.1/8",
            "10.0.0.2-10.0.0.1",
            "10.0.0.256",
            "x",
            "1.2.3",
            "1.2.3.4-::1",
        ] {
            assert!(networks(line).is_err(), "{line}");
        }
    }

    #[test]
    fn hosts_come_in_each_published_form() {
        for line in [
            "Example.org",
            ".example.org",
            "*.example.org",
            "||example.org^",
            "example.org.",
        ] {
            assert_eq!(hosts(line).unwrap(), ["example.org"], "{line}");
        }
        assert_eq!(
            hosts("0.0.0.0 a.example b.example localhost").unwrap(),
            ["a.example", "b.example"]
        );
        assert!(hosts("0.0.0.0 0.0.0.0").unwrap().is_empty());
        for line in ["a..b", "exa mple", "m\u{fc}ller.example", "a/b", ""] {
            assert!(hosts(line).is_err(), "{line}");
        }
    }

    #[test]
    fn infohashes_may_have_names_beside_them() {
        let hex = "0123456789abcdef0123456789abcdef01234567";
        for line in [
            hex.to_owned(),
            format!("{hex}  a film.mkv"),
            format!("{hex},a film"),
            format!("magnet:?dn=x&xt=urn:btih:{hex}&tr=y"),
        ] {
            assert_eq!(infohash(&line).unwrap().to_string(), hex);
        }
        assert!(infohash("a film").is_err());
    }
}
