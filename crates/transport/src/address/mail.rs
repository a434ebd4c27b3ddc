//! A mailbox, and the header by which its owner knows our mail.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::InvalidAddress;
use crate::limits::{ADDRESS_BYTES, MAIL_FILTER_BYTES};

/// A mailbox with the header field that its owner filters by:
/// `smtp://oslo@example.org?X-Ringway=k3`.
///
/// Only what is safe in a mail's header and envelope by its characters: a dot-atom (RFC 5322
/// §3.2.3) at a host name, a field whose name begins with `X-`, a value of letters, digits, dots
/// and hyphens. A peer that chose another header's name could make us write to third parties.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailAddress {
    text: Arc<str>,
}

const SCHEME: &str = "smtp://";

impl MailAddress {
    /// The address of `mailbox`, whose owner filters by `header: value`.
    ///
    /// # Errors
    /// [`InvalidAddress`] says what is wrong with which part.
    pub fn new(mailbox: &str, header: &str, value: &str) -> Result<Self, InvalidAddress> {
        format!("{SCHEME}{mailbox}?{header}={value}").parse()
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The mailbox: `oslo@example.org`.
    pub fn mailbox(&self) -> &str {
        self.parts().map_or("", |(mailbox, _, _)| mailbox)
    }

    /// The filter field's name and value.
    pub fn filter(&self) -> (&str, &str) {
        self.parts()
            .map_or(("", ""), |(_, header, value)| (header, value))
    }

    fn parts(&self) -> Option<(&str, &str, &str)> {
        split(&self.text)
    }
}

fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (mailbox, filter) = text.strip_prefix(SCHEME)?.split_once('?')?;
    let (header, value) = filter.split_once('=')?;
    Some((mailbox, header, value))
}

fn is_mailbox(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let atom = |part: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$&*+-/^_`{|}~%'".contains(&b);
        !part.is_empty() && part.bytes().all(allowed)
    };
    let label = |part: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let inner = !part.starts_with('-') && !part.ends_with('-');
        !part.is_empty() && part.len() <= 63 && inner && part.bytes().all(allowed)
    };
    local.len() <= 64 && local.split('.').all(atom) && domain.split('.').all(label)
}

impl FromStr for MailAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = |reason| Err(InvalidAddress::new(text, reason));
        if text.len() > ADDRESS_BYTES {
            return invalid("it is too long");
        }
        let Some((mailbox, header, value)) = split(text) else {
            return invalid("it is written smtp://MAILBOX?X-HEADER=VALUE");
        };
        if !is_mailbox(mailbox) {
            return invalid(
                "the mailbox is not of the form name@host.example, in lower-case host letters",
            );
        }
        let token = |part: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
            !part.is_empty() && part.len() <= MAIL_FILTER_BYTES && part.bytes().all(allowed)
        };
        let name = header.strip_prefix("X-").is_some_and(token) && !header.contains('.');
        if !name {
            return invalid(
                "the filter header begins with `X-` and has letters, digits and hyphens",
            );
        }
        if !token(value) {
            return invalid("the filter value has letters, digits, dots and hyphens");
        }
        Ok(Self { text: text.into() })
    }
}

impl fmt::Display for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_a_mailbox_and_a_filter() {
        let address =
            MailAddress::new("oslo.ring+x@mail.example.org", "X-Ringway", "k3.v-1").unwrap();
        assert_eq!(address.mailbox(), "oslo.ring+x@mail.example.org");
        assert_eq!(address.filter(), ("X-Ringway", "k3.v-1"));
    }

    #[test]
    fn injection_of_headers_or_recipients_is_refused() {
        for (mailbox, header, value) in [
            ("a@b", "Bcc", "c"),
            ("a@b", "X-A\r\nBcc", "c"),
            ("a@b", "X-A: x", "c"),
            ("a@b", "X-A", "c\r\nBcc: d@e"),
            ("a@b,c@d", "X-A", "c"),
            ("a b@c", "X-A", "c"),
            ("<a@b>", "X-A", "c"),
            ("\"a\"@b", "X-A", "c"),
            ("a@b..c", "X-A", "c"),
            ("a@-b", "X-A", "c"),
            ("@b", "X-A", "c"),
            ("a@", "X-A", "c"),
            ("a", "X-A", "c"),
            ("a@b", "X-", "c"),
            ("a@b", "X-A", ""),
        ] {
            assert!(
                MailAddress::new(mailbox, header, value).is_err(),
                "{mailbox} {header} {value}"
            );
        }
    }
}
