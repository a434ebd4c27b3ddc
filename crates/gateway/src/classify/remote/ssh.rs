//! SSH (RFC 4253 §4.2): a line that names the version and the program.

use crate::classify::message::{Finding, Memory, Message};

/// RFC 4253 §4.2: with its end.
const LONGEST: usize = 255;
/// Version 2, both, version 1.
const VERSIONS: [&[u8]; 3] = [b"2.0-", b"1.99-", b"1.5-"];

/// The line with which each side begins.
pub(super) fn greeting(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let rest = message.bytes.strip_prefix(b"SSH-")?;
    let program = VERSIONS
        .iter()
        .find_map(|version| rest.strip_prefix(*version))?;
    let line = program.split(|&byte| byte == b'\n').next()?;
    let ended = line.len() < program.len();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    if line.is_empty() || line.len() > LONGEST || !line.iter().all(printable) {
        return None;
    }
    let program = String::from_utf8_lossy(line.get(..line.len().min(40))?).into_owned();
    Some(if ended {
        Finding::certain(format!("version and program {program}"))
    } else {
        Finding::likely("the beginning of a line with version and program")
    })
}
