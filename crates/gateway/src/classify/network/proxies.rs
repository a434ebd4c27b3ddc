//! What stands before another conversation: the PROXY protocol of HAProxy.

use crate::classify::message::{Finding, Memory, Message, text_lines};

/// Version 2 begins so, and says so in its next four bits.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A line with two addresses and two ports, or the binary form. What follows has a name of its own,
/// which is better.
pub(super) fn haproxy(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    if let Some(rest) = message.bytes.strip_prefix(BINARY) {
        let version = rest.first()? >> 4;
        return (version == 2).then(|| Finding::likely("the binary form"));
    }
    let line = text_lines(message.bytes).next()?;
    let fields: Vec<&str> = line.split(' ').collect();
    let ["PROXY", "TCP4" | "TCP6", from, to, ports @ ..] = fields.as_slice() else {
        return None;
    };
    let addresses = [from, to]
        .iter()
        .all(|text| text.parse::<std::net::IpAddr>().is_ok());
    let [one, other] = ports else { return None };
    let are_ports = [one, other].iter().all(|text| text.parse::<u16>().is_ok());
    (addresses && are_ports).then(|| Finding::likely("a line with both ends"))
}
