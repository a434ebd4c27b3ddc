//! MGCP (RFC 3435 §3.2): commands of a call agent to gateways of telephones.

use crate::classify::message::{Finding, Memory, Message, is_number};

const COMMANDS: [&str; 9] = [
    "EPCF", "CRCX", "MDCX", "DLCX", "RQNT", "NTFY", "AUEP", "AUCX", "RSIP",
];

/// `RSIP 1201 *@gateway.example MGCP 1.0`
pub(super) fn request(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    // Some end their lines with a carriage return alone.
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let line = message.bytes.split(ends).next()?;
    let line = std::str::from_utf8(line).ok()?;
    let fields: Vec<&str> = line.split(' ').collect();
    let [command, number, endpoint, "MGCP", version, ..] = fields.as_slice() else {
        return None;
    };
    let known = COMMANDS.contains(command) && is_number(number, 9) && endpoint.contains('@');
    let version = version.split_once('.')?;
    (known && is_number(version.0, 1) && is_number(version.1, 1))
        .then(|| Finding::certain(format!("the command {command}")))
}
