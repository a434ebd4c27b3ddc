//! Machines: Modbus, S7, OPC UA, FINS.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// A message of Modbus over TCP: a number, protocol 0, a length of a function's size.
const MOST: usize = 254;

/// A request, or the answer with its number and function.
pub(super) fn modbus(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let number = reader.be16()?;
    let protocol = reader.be16()?;
    let length = usize::from(reader.be16()?);
    let body = reader.take(length)?;
    let [unit, function, ..] = body else {
        return None;
    };
    let known = matches!(function & 0x7f, 1..=8 | 11 | 12 | 15..=17 | 20..=24 | 43);
    if protocol != 0 || length > MOST || !known || !reader.is_empty() {
        return None;
    }
    let key = u64::from(number) << 16 | u64::from(*unit) << 8 | u64::from(function & 0x7f);
    if memory.numbers().answers("modbus", message.direction, key) {
        return Some(Finding::certain("a request and the answer with its number"));
    }
    memory.numbers().ask("modbus", message.direction, key);
    (function & 0x80 == 0).then(|| Finding::likely("a function in a message of its length"))
}

/// TPKT, data of X.224, then S7's number, a kind, and two lengths.
pub(super) fn s7(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let is_tpkt = reader.be16()? == 0x0300;
    let length = usize::from(reader.be16()?);
    let is_data = reader.array()? == [2, 0xf0, 0x80];
    let number = reader.u8()?;
    let kind = reader.u8()?;
    reader.be32()?;
    let parameters = usize::from(reader.be16()?);
    let data = usize::from(reader.be16()?);
    // Answers have an error of two bytes.
    let header = match kind {
        1 | 7 => 17_usize,
        2 | 3 => 19,
        _ => return None,
    };
    let whole = header.saturating_add(parameters).saturating_add(data) == length;
    (is_tpkt && is_data && number == 0x32 && whole)
        .then(|| Finding::certain("a message whose parts fill it"))
}

/// A kind of three letters, a part, a length; of a greeting the version and sizes of buffers.
pub(super) fn opcua(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.array::<4>()?;
    let length = index(reader.le32()?);
    // Letters alone would be a word: sizes or a policy have to follow.
    match &kind {
        b"HELF" | b"ACKF" => {
            let version = reader.le32()?;
            let buffers = [reader.le32()?, reader.le32()?];
            let large = buffers.iter().all(|&size| (1_024..1 << 28).contains(&size));
            (version <= 16 && large && (28..8_192).contains(&length))
                .then(|| Finding::certain("a greeting with sizes of buffers"))
        }
        b"OPNF" => {
            reader.le32()?;
            let size = index(reader.le32()?);
            let policy = reader.take(size)?;
            (policy.starts_with(b"http://opcfoundation.org/UA/SecurityPolicy#") && length > size)
                .then(|| Finding::certain("a channel with its policy"))
        }
        _ => None,
    }
}

/// `FINS`, a length, and a command up to 6.
pub(super) fn fins_stream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes.strip_prefix(b"FINS")?);
    let length = index(reader.be32()?);
    let command = reader.be32()?;
    let error = reader.be32()?;
    ((8..4_096).contains(&length) && command <= 6 && error < 64)
        .then(|| Finding::certain("a header with length and command"))
}

/// A command, or the answer with its number and code.
pub(super) fn fins_datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let control = reader.u8()?;
    let reserved = reader.u8()?;
    let gateways = reader.u8()?;
    // Networks, nodes and units of both ends.
    reader.take(6)?;
    let number = reader.u8()?;
    let code = reader.be16()?;
    if control & 0xbe != 0x80 || reserved != 0 || gateways > 7 {
        return None;
    }
    let key = u64::from(number) << 16 | u64::from(code);
    if control & 0x40 != 0 {
        let answers = memory.numbers().answers("fins", message.direction, key);
        return answers.then(|| Finding::certain("a command and the answer with its number"));
    }
    memory.numbers().ask("fins", message.direction, key);
    (gateways == 2).then(|| Finding::likely("a command"))
}
