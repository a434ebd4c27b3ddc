//! Tor's links between a client and a relay, which are TLS to a made-up name.
//!
//! Source: tor-spec.txt §2: a client offers a server name `www.` with random letters of base 32 and
//! `.com`. What hides behind a bridge's disguise (obfs4) is found by its behaviour only.

use super::message::{Finding, Memory, Message};
use super::tls::Offer;

/// A ClientHello that was just read: a random name, and none of the application protocols that
/// browsers offer.
pub(super) fn client_hello(_: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let Offer { name, protocols } = *memory.offer.take()?;
    let name = name?;
    let fits = protocols.is_empty() && is_made_up(&name);
    fits.then(|| {
        Finding::likely("a random name in base 32 and no application protocol").with_sni(Some(name))
    })
}

/// `www.`, 8 to 25 characters of base 32 that are no word, `.com` or `.net`.
fn is_made_up(name: &str) -> bool {
    let middle = name
        .strip_prefix("www.")
        .and_then(|rest| rest.strip_suffix(".com").or(rest.strip_suffix(".net")));
    middle.is_some_and(|middle| {
        (8..=25).contains(&middle.len())
            && middle
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
            && is_random(middle)
    })
}

/// Digits between letters, and fewer vowels than words have.
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
    let few = vowels.saturating_mul(3) < bytes.len();
    mixed >= 1 && few
}

#[cfg(test)]
mod tests {
    use super::is_made_up;

    #[test]
    fn random_names_are_told_from_words() {
        for name in [
            "www.q4cyamnc6mtokjurvdclt.com",
            "www.s4ku5skci.net",
            "www.ct7ctrgb6cr7.com",
        ] {
            assert!(is_made_up(name), "{name}");
        }
        for name in [
            "www.wikipedia.com",
            "www.bbc.com",
            "www.web24hosting.com",
            "www.microsoft365.com",
            "www.example.com",
            "q4cyamnc6mtokjurvdclt.com",
            "www.q4cyamnc6m-okjurvdclt.com",
        ] {
            assert!(!is_made_up(name), "{name}");
        }
    }
}
