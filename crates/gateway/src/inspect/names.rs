//! Names as their receiver would show them: percent and MIME encodings, parameters of header lines,
//! paths.

use data_encoding::BASE64_MIME_PERMISSIVE;

use crate::limits::MAX_CONTINUED;
use crate::limits::MAX_FILE_NAME;

/// Text from the wire: UTF-8, else Latin-1, in which every byte is a character.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Percent-decoding (RFC 3986 §2.1); what is no escape stays.
pub(super) fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut rest = text;
    let mut decoded = Vec::with_capacity(text.len());
    while let Some((&byte, after)) = rest.split_first() {
        let escape = match after {
            [high, low, ..] if byte == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            decoded.push((high << 4) | low);
            rest = after.get(2..).unwrap_or_default();
        } else {
            decoded.push(byte);
            rest = after;
        }
    }
    decoded
}

fn hex_digit(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// A file name without folders, control characters, and the blanks and full stops that systems drop
/// at its end.
pub(super) fn file_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|sign| !sign.is_control()).collect();
    let shown = shown.trim().trim_end_matches(['.', ' ']);
    let begin = shown.len().saturating_sub(MAX_FILE_NAME);
    let end = (begin..=shown.len()).find_map(|at| shown.get(at..))?;
    (!end.is_empty()).then(|| end.to_owned())
}

/// The name in a request target: the last segment of its path, else what in its query looks like a
/// file name.
pub(super) fn in_target(target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // The absolute form names a host first, which is no file.
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => path,
    };
    let segment = path.rsplit('/').next().unwrap_or_default();
    file_name(&text(&percent_decoded(segment.as_bytes()))).or_else(|| in_query(query))
}

/// The first value of a query that ends like a file name.
fn in_query(query: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let value = pair.split_once('=').map_or(pair, |(_, value)| value);
        let value = value.replace('+', " ");
        let name = file_name(&text(&percent_decoded(value.as_bytes())))?;
        let (stem, ending) = name.rsplit_once('.')?;
        let plausible = (1..=8).contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (plausible && !stem.is_empty()).then_some(name)
    })
}

/// The file name in a `Content-Disposition` (RFC 6266 §4.3): `filename*` before `filename`.
pub(super) fn in_disposition(value: &str) -> Option<String> {
    let found = parameters(value);
    let get = |name: &str| {
        found
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    };
    let extended = get("filename*").and_then(|value| extended_value(value));
    let extended = extended.or_else(|| continued(&found));
    let name = extended.or_else(|| get("filename").map(|value| shown(value)))?;
    file_name(&name)
}

/// A name in several parameters (RFC 2231 §3 and §4.1): `filename*0`, `filename*1*` and so on, of
/// which those with a star at the end are encoded, in the charset that the first one names.
fn continued(found: &[(String, String)]) -> Option<String> {
    let mut charset = String::new();
    let mut bytes = Vec::new();
    for number in 0..MAX_CONTINUED {
        let plain = format!("filename*{number}");
        let part = found
            .iter()
            .find(|(key, _)| key.strip_suffix('*').unwrap_or(key) == plain);
        let Some((key, value)) = part else { break };
        let mut value = value.as_str();
        if !key.ends_with('*') {
            bytes.extend_from_slice(value.as_bytes());
            continue;
        }
        if number == 0 {
            let mut parts = value.splitn(3, '\'');
            charset = parts.next()?.to_owned();
            value = parts.nth(1)?;
        }
        bytes.extend(percent_decoded(value.as_bytes()));
    }
    if bytes.is_empty() {
        return None;
    }
    let charset = if charset.is_empty() {
        "utf-8"
    } else {
        &charset
    };
    in_charset(charset, &bytes).or_else(|| Some(text(&bytes)))
}

/// An extended value (RFC 8187 §3.2): charset, language, and percent-encoded bytes.
fn extended_value(value: &str) -> Option<String> {
    let mut parts = value.splitn(3, '\'');
    let (charset, _language, encoded) = (parts.next()?, parts.next()?, parts.next()?);
    in_charset(charset, &percent_decoded(encoded.as_bytes()))
}

fn in_charset(charset: &str, bytes: &[u8]) -> Option<String> {
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" | "us-ascii" => std::str::from_utf8(bytes).ok().map(str::to_owned),
        "iso-8859-1" | "latin1" | "windows-1252" => Some(latin1(bytes)),
        _ => None,
    }
}

/// A plain `filename`: browsers also take off encoded words and percent encoding, against RFC 6266.
fn shown(value: &str) -> String {
    let words = encoded_words(value);
    let decoded = percent_decoded(words.as_bytes());
    String::from_utf8(decoded).unwrap_or(words)
}

/// Encoded words (RFC 2047 §2) in a text; what is none stays.
pub(super) fn encoded_words(value: &str) -> String {
    let mut shown = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("=?") {
        let Some((word, length)) = encoded_word(after) else {
            shown.push_str(before);
            shown.push_str("=?");
            rest = after;
            continue;
        };
        // Blanks between two encoded words only separate them.
        if shown.is_empty() || !before.trim().is_empty() {
            shown.push_str(before);
        }
        shown.push_str(&word);
        rest = after.get(length..).unwrap_or_default();
    }
    shown.push_str(rest);
    shown
}

/// The text of an encoded word and its length, both without the leading `=?`.
fn encoded_word(rest: &str) -> Option<(String, usize)> {
    // RFC 2047 §2 allows 75 characters. Programs exceed it, but the search for the end must have
    // one.
    let most = rest.len().min(MAX_FILE_NAME);
    let word = (most.saturating_sub(3)..=most)
        .rev()
        .find_map(|end| rest.get(..end))?;
    let mut parts = word.splitn(3, '?');
    let (charset, encoding, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (payload, after) = rest.split_once("?=")?;
    let bytes = match encoding {
        "B" | "b" => BASE64_MIME_PERMISSIVE.decode(payload.as_bytes()).ok()?,
        "Q" | "q" => {
            let escaped = payload
                .replace('%', "%25")
                .replace('_', " ")
                .replace('=', "%");
            percent_decoded(escaped.as_bytes())
        }
        _ => return None,
    };
    Some((
        in_charset(charset, &bytes)?,
        word.len().saturating_sub(after.len()),
    ))
}

/// A parameter of a header line's value, such as a boundary.
pub(super) fn parameter(value: &str, name: &str) -> Option<String> {
    let found = parameters(value).into_iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value)
}

/// The parameters in a header line's value, names in lower case. A first part without `=` is the
/// value itself.
fn parameters(value: &str) -> Vec<(String, String)> {
    let mut quoted = false;
    let mut escaped = false;
    let parts = value.split(|sign| {
        let ends = sign == ';' && !quoted;
        if sign == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = sign == '\\' && quoted && !escaped;
        ends
    });
    let named = parts.filter_map(|part| part.split_once('='));
    named
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), unquoted(value.trim())))
        .collect()
}

/// Takes off quotes. Only quotes and backslashes count as escaped: others send Windows paths as
/// they are.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    let mut plain = String::with_capacity(inner.len());
    let mut signs = inner.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' => break,
            '\\' => plain.push(
                signs
                    .next_if(|next| matches!(next, '"' | '\\'))
                    .unwrap_or(sign),
            ),
            _ => plain.push(sign),
        }
    }
    plain
}

/// A media type in lower case, without parameters.
pub(super) fn media_type(value: &str) -> Option<String> {
    let kind = value.split(';').next()?.trim().to_ascii_lowercase();
    let (main, sub) = kind.split_once('/')?;
    (!main.is_empty() && !sub.is_empty()).then_some(kind)
}
