//! The address of a child program's transport.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::InvalidAddress;
use crate::limits::{ADDRESS_BYTES, EXEC_NAME_BYTES};

/// The name of a transport, and what its program makes of the rest: `exec://NAME/REST`.
///
/// The name has letters, digits and hyphens, the rest visible ASCII.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecAddress {
    text: Arc<str>,
}

const SCHEME: &str = "exec://";

impl ExecAddress {
    /// An address of the transport `name`.
    ///
    /// # Errors
    /// [`InvalidAddress`] if the name or the rest has other characters, or both are too long.
    pub fn new(name: &str, rest: &str) -> Result<Self, InvalidAddress> {
        format!("{SCHEME}{name}/{rest}").parse()
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The transport's name.
    pub fn name(&self) -> &str {
        self.parts().0
    }

    /// What the program understands.
    pub fn rest(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        let tail = self.text.strip_prefix(SCHEME).unwrap_or_default();
        tail.split_once('/').unwrap_or((tail, ""))
    }
}

impl FromStr for ExecAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = |reason| Err(InvalidAddress::new(text, reason));
        if text.len() > ADDRESS_BYTES {
            return invalid("it is too long");
        }
        let parts = text.strip_prefix(SCHEME).and_then(|t| t.split_once('/'));
        let Some((name, rest)) = parts else {
            return invalid("it is written exec://NAME/REST");
        };
        let named = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !named || name.is_empty() || name.len() > EXEC_NAME_BYTES {
            return invalid("the name has lower-case letters, digits and hyphens");
        }
        if !rest.bytes().all(|b| b.is_ascii_graphic()) {
            return invalid("after the name stands visible ASCII");
        }
        Ok(Self { text: text.into() })
    }
}

impl fmt::Display for ExecAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_a_name_and_a_rest() {
        let address = ExecAddress::new("radio", "ch/7?x").unwrap();
        assert_eq!((address.name(), address.rest()), ("radio", "ch/7?x"));
        for (name, rest) in [
            ("", "x"),
            ("Radio", "x"),
            ("a b", "x"),
            ("radio", "a b"),
            ("radio", "\n"),
        ] {
            assert!(ExecAddress::new(name, rest).is_err(), "{name:?} {rest:?}");
        }
        assert!(ExecAddress::new("radio", &"x".repeat(ADDRESS_BYTES)).is_err());
    }
}
