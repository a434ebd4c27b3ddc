//! Text of others: requests and replies as text that people carry, which is a prefix that says what
//! it is, then base64url, all of it one line; and what may be shown of words and names.

use data_encoding::BASE64URL_NOPAD;
pub(crate) use ringway_client::text::{is_harmful, printable};

use crate::limits::ADMISSION_TEXT;

pub(crate) fn to_text(prefix: &str, bytes: &[u8]) -> String {
    format!("{prefix}{}", BASE64URL_NOPAD.encode(bytes))
}

/// The bytes of a text with this prefix. White space may stand anywhere: mail breaks long lines.
pub(crate) fn from_text(text: &str, prefix: &str) -> Option<Vec<u8>> {
    if text.len() > ADMISSION_TEXT {
        return None;
    }
    let joined: String = text.split_ascii_whitespace().collect();
    let encoded = joined.strip_prefix(prefix)?;
    BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()
}
