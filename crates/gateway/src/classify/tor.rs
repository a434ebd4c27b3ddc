//! Tor's links between a client and a relay, which are TLS to a made-up name.
//!
//! Source: tor-spec.txt §2: a client offers a server name `www.` with random letters of base 32 and
//! `.com`; certificates name such a one as their issuer, and one in `.net` as their subject. What
//! hides behind a bridge's disguise (obfs4) is found by its behaviour only.

use super::message::{Finding, Memory, Message};
use super::tls::Offer;
use crate::reader::Reader;

/// A ClientHello that was just read: a random name, and none of the application protocols that
/// browsers offer.
pub(super) fn client_hello(_: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let Offer { name, protocols } = *memory.offer.take()?;
    let name = name?;
    let why = "a random name in base 32 and no application protocol";
    let found = match made_up(&name).filter(|_| protocols.is_empty())? {
        LONG.. => Finding::likely(why),
        // So few letters may be somebody's name.
        _ => Finding::guess(why),
    };
    Some(found.with_sni(Some(name)))
}

/// A relay's certificate, which the first versions of TLS show: the subject is a random name, and
/// so is who is said to have signed it.
pub(super) fn certificate(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    // The object identifier of a common name, and the two kinds of strings that it may be.
    const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let names = message.bytes.windows(COMMON_NAME.len()).enumerate();
    let mut names = names
        .filter(|(_, window)| *window == COMMON_NAME)
        .filter_map(|(at, _)| {
            let mut reader = Reader::new(message.bytes.get(at.checked_add(5)?..)?);
            let [0x0c | 0x13, length] = reader.array::<2>()? else {
                return None;
            };
            std::str::from_utf8(reader.take(length.into())?).ok()
        });
    let (issuer, subject) = (names.next()?, names.next()?);
    let fits = issuer != subject
        && issuer.ends_with(".com")
        && subject.ends_with(".net")
        && [issuer, subject].iter().all(|name| made_up(name).is_some());
    fits.then(|| Finding::likely("a certificate of two random names in base 32"))
}

/// From so many characters on a random name is no short one of a company by chance.
const LONG: usize = 8;

/// `www.`, 4 to 25 characters of base 32 that are no word, `.com` or `.net`: how many characters.
fn made_up(name: &str) -> Option<usize> {
    let middle = name
        .strip_prefix("www.")
        .and_then(|rest| rest.strip_suffix(".com").or(rest.strip_suffix(".net")))?;
    let fits = (4..=25).contains(&middle.len())
        && middle
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
        && is_random(middle);
    fits.then_some(middle.len())
}

/// Digits between letters, and fewer vowels than words have; of a short one two digits.
fn is_random(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mixed = bytes
        .windows(3)
        .filter(|window| matches!(window, [before, digit, after] if before.is_ascii_lowercase() && digit.is_ascii_digit() && after.is_ascii_lowercase()))
        .count();
    let vowels = bytes
        .iter()
        .filter(|byte| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
        .count();
    if bytes.len() < LONG {
        return mixed >= 2;
    }
    mixed >= 1 && vowels.saturating_mul(3) < bytes.len()
}

#[cfg(test)]
mod tests {
    use super::made_up;

    #[test]
    fn random_names_are_told_from_words() {
        for name in [
            "www.b5xkqz7mwt2rhvgd4sjpc.com",
            "www.k6fh3tdqm.net",
            "www.xz4nbrtq5wk2.com",
            "www.k4v7t.com",
        ] {
            assert!(made_up(name).is_some(), "{name}");
        }
        for name in [
            "www.wikipedia.com",
            "www.bbc.com",
            "www.web24hosting.com",
            "www.microsoft365.com",
            "www.example.com",
            "www.mp3.com",
            "www.web2go.com",
            "b5xkqz7mwt2rhvgd4sjpc.com",
            "www.b5xkqz7m-t2rhvgd4sjpc.com",
        ] {
            assert_eq!(made_up(name), None, "{name}");
        }
    }
}
