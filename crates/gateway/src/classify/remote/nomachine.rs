//! NoMachine: a line with program and version over TCP, numbered datagrams over UDP.

use crate::classify::message::{Finding, Memory, Message, text_lines};
use crate::reader::Reader;

/// `NXSH-8.10.1` of the client, `NXD-8.10.1` of the server.
pub(super) fn greeting(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let version = line
        .strip_prefix("NXSH-")
        .or_else(|| line.strip_prefix("NXD-"))?;
    let parts: Vec<&str> = version.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (parts.len() == 3 && parts.iter().all(number))
        .then(|| Finding::certain(format!("version {version}")))
}

/// Four fixed bytes, the length and a number in little-endian order.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let head = reader.be32()?;
    let length = usize::from(reader.le16()?);
    let number = reader.le16()?;
    if head != 0x0100_0100 || length != message.bytes.len() {
        return None;
    }
    let steps = memory
        .numbers()
        .count("nomachine", message.direction, 0, number.into(), 4);
    (steps >= 2).then(|| Finding::likely("datagrams of exact length, numbered on"))
}
