//! Kad, the distributed index of eMule (Kademlia over UDP).

use super::edonkey::Weight;
use super::message::{Finding, Memory, Message};

const KAD: u8 = 0xe4;
const KAD_PACKED: u8 = 0xe5;

/// A datagram that may be Kad's.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let [protocol @ (KAD | KAD_PACKED), opcode, body @ ..] = message.bytes else {
        return None;
    };
    let weight = if *protocol == KAD_PACKED {
        packed(body)?
    } else {
        plain(*opcode, body)?
    };
    memory.edonkey.count(message.direction);
    let confidence = weight.judge(memory.edonkey)?;
    Some(Finding::new(
        confidence,
        format!("Kad message {opcode:#04x} with a fitting length"),
    ))
}

/// RFC 1950: deflate, and a check sum over the two header bytes.
fn packed(body: &[u8]) -> Option<Weight> {
    let &[method, flags, _, _, _, _, ..] = body else {
        return None;
    };
    let valid = method == 0x78 && u16::from_be_bytes([method, flags]).is_multiple_of(31);
    valid.then_some(Weight::Fixed)
}

fn plain(opcode: u8, body: &[u8]) -> Option<Weight> {
    let length = body.len();
    let derived = |fits: bool| fits.then_some(Weight::Derived);
    let fixed = |fits: bool| fits.then_some(Weight::Fixed);
    let open = |fits: bool| fits.then_some(Weight::Open);
    match opcode {
        // Bootstrap, ping, pong, firewall tests.
        0x01 | 0x59 | 0x60 => fixed(length == 0),
        0x61 | 0x50 => fixed(length == 2),
        0x58 => fixed(length == 4),
        0x53 => fixed(length == 19),
        // Bootstrap answer: id, port, version, count, contacts of 25 bytes.
        0x09 => derived(listed(body, 19)),
        // Hello and its answer: id, port, version up to 10, number of tags.
        0x11 | 0x19 => open(
            length >= 20
                && body
                    .get(18)
                    .is_some_and(|version| (1..=10).contains(version)),
        ),
        0x10 | 0x18 => fixed(length == 25),
        // Look-up: how many, target, receiver.
        0x20 | 0x21 => derived(length == 33 && matches!(body.first(), Some(2 | 4 | 11))),
        // Its answer: target, count, contacts.
        0x28 | 0x29 => derived(counted(body)),
        // Search by key and by source, search answer, publish and its answer.
        0x33 => open(length >= 18),
        0x34 => fixed(length == 26),
        0x35 => fixed(length == 24),
        0x3b | 0x43..=0x45 | 0x5a => open(length >= 34),
        0x4b => fixed(matches!(length, 17 | 18)),
        0x51 => fixed(length == 34),
        _ => None,
    }
}

/// 16 bytes, a count in one byte, contacts of 25 bytes.
fn counted(body: &[u8]) -> bool {
    let Some((_, [count, contacts @ ..])) = body.split_at_checked(16) else {
        return false;
    };
    contacts.len() == usize::from(*count).saturating_mul(25)
}

/// A head, a little-endian count in two bytes, contacts of 25 bytes.
fn listed(body: &[u8], head: usize) -> bool {
    let Some((_, [low, high, contacts @ ..])) = body.split_at_checked(head) else {
        return false;
    };
    let count = usize::from(u16::from_le_bytes([*low, *high]));
    count > 0 && contacts.len() == count.saturating_mul(25)
}
