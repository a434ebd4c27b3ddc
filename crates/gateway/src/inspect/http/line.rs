//! Request lines with raw spaces in their target, as programs send them that write a file's name
//! as it is.

use std::borrow::Cow;

use crate::inspect::held::Reason;
use crate::inspect::names::in_target;

/// The head with the target's spaces encoded, so that a strict parser reads it.
///
/// Servers differ: most take all between the first and the last space for the target, some only
/// what lies before the second one. Where both would send files of different kinds it is not known
/// which one comes.
///
/// # Errors
/// The target can be read as the names of two kinds of files.
pub(super) fn with_whole_target(head: &[u8]) -> Result<Cow<'_, [u8]>, Reason> {
    let end = head.iter().position(|&byte| byte == b'\n');
    let (line, rest) = head.split_at(end.unwrap_or(head.len()));
    let spaces = line.iter().filter(|&&byte| byte == b' ').count();
    let first = line.iter().position(|&byte| byte == b' ');
    let last = line.iter().rposition(|&byte| byte == b' ');
    let (Some(first), Some(last), true) = (first, last, spaces > 2) else {
        return Ok(Cow::Borrowed(head));
    };
    let (Some(method), Some(target), Some(version)) = (
        line.get(..=first),
        line.get(first.saturating_add(1)..last),
        line.get(last..),
    ) else {
        return Ok(Cow::Borrowed(head));
    };
    if target.trim_ascii() != target {
        // Several spaces between the parts are for a strict parser to refuse.
        return Ok(Cow::Borrowed(head));
    }
    let whole = String::from_utf8_lossy(target);
    let short = whole.split(' ').next().unwrap_or_default();
    let of_short = kind(short);
    if of_short.is_some() && of_short != kind(&whole) {
        return Err("a request line with two targets");
    }
    let target: Vec<u8> = target
        .iter()
        .flat_map(|byte| match byte {
            b' ' => b"%20".as_slice(),
            byte => std::slice::from_ref(byte),
        })
        .copied()
        .collect();
    Ok(Cow::Owned([method, &target, version, rest].concat()))
}

/// What a file's name ends with, in small letters.
fn kind(target: &str) -> Option<String> {
    let name = in_target(target)?;
    let (_, ending) = name.rsplit_once('.')?;
    Some(ending.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::with_whole_target;

    #[test]
    fn only_spaces_of_a_target_are_encoded() {
        for (head, expected) in [
            (
                "GET /a b.exe HTTP/1.1\r\nA: b c d\r\n",
                "GET /a%20b.exe HTTP/1.1\r\nA: b c d\r\n",
            ),
            (
                "GET /a  b HTTP/1.0\r\n\r\n",
                "GET /a%20%20b HTTP/1.0\r\n\r\n",
            ),
            ("GET /a.exe HTTP/1.1\r\n\r\n", "GET /a.exe HTTP/1.1\r\n\r\n"),
            (
                "GET /a.mp3 b.mp3 HTTP/1.1\r\n\r\n",
                "GET /a.mp3%20b.mp3 HTTP/1.1\r\n\r\n",
            ),
            ("GET  /a b HTTP/1.1\r\n\r\n", "GET  /a b HTTP/1.1\r\n\r\n"),
            ("GET", "GET"),
        ] {
            let read = with_whole_target(head.as_bytes()).unwrap();
            assert_eq!(read.as_ref(), expected.as_bytes());
        }
    }

    #[test]
    fn a_target_of_two_file_kinds_is_refused() {
        for head in [
            "GET /a.exe b.txt HTTP/1.1\r\n\r\n",
            "GET /a.exe b HTTP/1.1\r\n\r\n",
        ] {
            assert!(with_whole_target(head.as_bytes()).is_err(), "{head}");
        }
    }
}
