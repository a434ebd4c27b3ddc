//! A spoken invite: a number and three words, short enough to be read aloud. It stands for the long
//! one.
//!
//! `7-crackdown-adviser-ragtime@ring.example.org`: the number says which invite is meant and is no
//! secret, the words are 24 secret bits, and what follows the `@` is the ring's domain, whose DNS
//! says where to enrol. So few bits are enough because words cannot be tried without the authority
//! (see `crate::enrol::pake`), which lets three wrong ones pass.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use super::words::{EVEN, ODD};
use crate::limits::INVITE_TEXT;
use crate::zone::is_domain;

/// Words of a spoken invite, eight bits each.
pub(crate) const WORDS: usize = 3;

/// Letters from which on the beginning of a word may stand for it, if no other word of the list
/// begins so.
const BEGINNING: usize = 3;

/// Why a text is no spoken invite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSpoken {
    /// No number comes first.
    #[error("a spoken invite begins with its number, such as `7-crackdown-adviser-ragtime`")]
    Number,
    /// Too few words, or too many.
    #[error("a spoken invite has {WORDS} words after its number; here are {0}")]
    Count(usize),
    /// A word is not in the list, or not among those for its position.
    #[error(
        "word {0} of the invite was misheard or mistyped: no invite has it at that place; the authority was not asked yet, so this cost no try"
    )]
    Word(usize),
    /// What follows the `@` is no domain.
    #[error(
        "after the `@` of a spoken invite stands the ring's domain, such as ring.example.org; an address is given with --at"
    )]
    Domain,
}

/// A spoken invite in the form in which it is used.
#[derive(Clone)]
pub(crate) struct SpokenInvite {
    /// Which invite of the ring it is. No secret.
    pub(crate) number: u32,
    /// The ring's domain in lower case, if it was given.
    pub(crate) domain: Option<String>,
    secret: Zeroizing<[u8; WORDS]>,
}

impl fmt::Debug for SpokenInvite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpokenInvite")
            .field("number", &self.number)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

impl SpokenInvite {
    /// Puts one together; `secret` comes from the operating system's randomness.
    pub(crate) fn new(number: u32, secret: [u8; WORDS], domain: Option<String>) -> SpokenInvite {
        SpokenInvite {
            number,
            domain,
            secret: Zeroizing::new(secret),
        }
    }

    /// The secret of both sides.
    pub(crate) fn secret(&self) -> &[u8; WORDS] {
        &self.secret
    }

    /// The text to read aloud.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(INVITE_TEXT));
        text.push_str(&self.number.to_string());
        for (position, byte) in self.secret.iter().enumerate() {
            text.push('-');
            text.push_str(
                list(position)
                    .get(usize::from(*byte))
                    .copied()
                    .unwrap_or(""),
            );
        }
        if let Some(domain) = &self.domain {
            text.push('@');
            text.push_str(domain);
        }
        text
    }
}

fn list(position: usize) -> &'static [&'static str; 256] {
    if position.is_multiple_of(2) {
        &EVEN
    } else {
        &ODD
    }
}

/// The number of the word that is meant: the one written, or the only one that begins so.
fn meant(written: &str, position: usize) -> Option<u8> {
    let words = list(position).iter().enumerate();
    let mut fitting = words.filter(|(_, word)| word.starts_with(written));
    let (number, word) = fitting.next()?;
    // No word of a list is the beginning of another.
    let is_clear = *word == written || (written.len() >= BEGINNING && fitting.next().is_none());
    u8::try_from(number).ok().filter(|_| is_clear)
}

impl FromStr for SpokenInvite {
    type Err = InvalidSpoken;

    /// Takes what people type: either case, any mixture of hyphens, commas, dots and white space
    /// between the words, and words cut short.
    fn from_str(text: &str) -> Result<SpokenInvite, InvalidSpoken> {
        if text.len() > INVITE_TEXT {
            return Err(InvalidSpoken::Number);
        }
        let lower = Zeroizing::new(text.to_ascii_lowercase());
        let (code, domain) = match lower.split_once('@') {
            Some((code, domain)) => (code, Some(domain.trim())),
            None => (lower.as_str(), None),
        };
        let between = |c: char| c.is_whitespace() || matches!(c, '-' | ',' | '.' | '_');
        let mut parts = code.split(between).filter(|part| !part.is_empty());
        let number = parts
            .next()
            .filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        let number = number.and_then(|number| number.parse().ok());
        let number = number.ok_or(InvalidSpoken::Number)?;
        let words = parts.clone().count();
        if words != WORDS {
            return Err(InvalidSpoken::Count(words));
        }
        let mut secret = Zeroizing::new([0; WORDS]);
        for (position, (byte, word)) in secret.iter_mut().zip(parts).enumerate() {
            *byte = meant(word, position).ok_or(InvalidSpoken::Word(position + 1))?;
        }
        if domain.is_some_and(|domain| !is_domain(domain)) {
            return Err(InvalidSpoken::Domain);
        }
        let domain = domain.map(|domain| domain.trim_end_matches('.').to_owned());
        Ok(SpokenInvite::new(number, *secret, domain))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn invite() -> SpokenInvite {
        SpokenInvite::new(7, [0x40, 0x01, 0xa0], Some("ring.example".to_owned()))
    }

    #[test]
    fn it_is_read_as_people_type_it() {
        let text = invite().to_text();
        let (code, _) = text.split_once('@').unwrap();
        assert_eq!(*text, "7-crackdown-adviser-ragtime@ring.example");
        let typed = [
            text.to_string(),
            text.to_ascii_uppercase(),
            format!("  {code} @ ring.example.\n"),
            "7 crackdown adviser ragtime@ring.example".to_owned(),
            "7, Crackdown, Adviser, Ragtime. @Ring.Example".to_owned(),
            "007 crackd adv rag@ring.example".to_owned(),
        ];
        for typed in typed {
            let read: SpokenInvite = typed.parse().unwrap();
            assert_eq!(read.secret(), invite().secret(), "{typed}");
            assert_eq!((read.number, read.domain), (7, invite().domain), "{typed}");
        }
        assert_eq!(code.parse::<SpokenInvite>().unwrap().domain, None);
    }

    #[test]
    fn misheard_words_are_noticed_before_any_request() {
        let wrong = [
            ("crackdown adviser ragtime", InvalidSpoken::Number),
            (
                "99999999999-crackdown-adviser-ragtime",
                InvalidSpoken::Number,
            ),
            ("7-crackdown-adviser", InvalidSpoken::Count(2)),
            (
                "7-crackdown-adviser-ragtime-ragtime",
                InvalidSpoken::Count(4),
            ),
            ("7-crackdwn-adviser-ragtime", InvalidSpoken::Word(1)),
            ("7-adviser-crackdown-ragtime", InvalidSpoken::Word(1)),
            ("7-crackdown-ragtime-adviser", InvalidSpoken::Word(2)),
            // Two begin so: classic and classroom.
            ("7-clas-adviser-ragtime", InvalidSpoken::Word(1)),
            ("7-cr-adviser-ragtime", InvalidSpoken::Word(1)),
            ("7-crackdown-adviser-ragtime@", InvalidSpoken::Domain),
            (
                "7-crackdown-adviser-ragtime@ring example",
                InvalidSpoken::Domain,
            ),
        ];
        for (text, error) in wrong {
            assert_eq!(text.parse::<SpokenInvite>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn no_word_is_another_or_its_beginning() {
        for position in 0..2 {
            for word in list(position) {
                assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
                let other = |all: &[&str; 256]| all.iter().filter(|o| o.starts_with(word)).count();
                assert_eq!(other(&EVEN) + other(&ODD), 1, "{word}");
            }
        }
    }

    #[test]
    fn debug_output_does_not_show_the_words() {
        assert!(!format!("{:?}", invite()).contains("crackdown"));
    }

    proptest! {
        #[test]
        fn every_spoken_invite_survives_its_text_form(number: u32, secret: [u8; WORDS]) {
            for domain in [None, Some("ring.example".to_owned())] {
                let text = SpokenInvite::new(number, secret, domain.clone()).to_text();
                let read: SpokenInvite = text.parse().unwrap();
                prop_assert_eq!((read.number, read.secret(), read.domain.clone()), (number, &secret, domain));
            }
        }

        #[test]
        fn other_text_is_refused(text in ".{0,200}") {
            prop_assert!(text.parse::<SpokenInvite>().is_err());
        }
    }
}
