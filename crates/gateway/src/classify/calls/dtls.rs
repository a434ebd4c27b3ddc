//! DTLS (RFC 6347 §4.1): TLS over datagrams, by which WebRTC and some private networks agree on
//! keys.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// Change of cipher, alert, handshake, data, heartbeat, data with a connection's number.
const KINDS: std::ops::RangeInclusive<u8> = 20..=25;
/// DTLS 1.0, and 1.2, which 1.3 writes too.
const VERSIONS: [u16; 2] = [0xfeff, 0xfefd];
/// As over TCP; RFC 5246 §6.2.3.
const MAX_RECORD: usize = 18_432;
/// Records that may be lost between two datagrams.
const MOST_LOST: u64 = 64;

/// Its head and what is in it.
struct Record<'a> {
    kind: u8,
    /// 0 before keys are agreed on.
    epoch: u16,
    number: u64,
    body: &'a [u8],
}

fn next<'a>(reader: &mut Reader<'a>) -> Option<Record<'a>> {
    let kind = reader.u8()?;
    let version = reader.be16()?;
    let epoch = reader.be16()?;
    let number = u64::from(reader.be16()?) << 32 | u64::from(reader.be32()?);
    let length = usize::from(reader.be16()?);
    let known = KINDS.contains(&kind) && VERSIONS.contains(&version);
    let body = reader.take(length)?;
    let fits = (1..=MAX_RECORD).contains(&length);
    (known && fits).then_some(Record {
        kind,
        epoch,
        number,
        body,
    })
}

/// Records that fill the datagram.
pub(super) fn record(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let mut best = None;
    while !reader.is_empty() {
        let record = next(&mut reader)?;
        // Before keys are agreed on all can be read, so what cannot be is no DTLS.
        let found = match (record.epoch, record.kind) {
            (0, HANDSHAKE) => Finding::certain(handshake(record.body)?),
            (0, ALERT) if record.body.len() == 2 => Finding::likely("an alert"),
            (0, _) => Finding::guess("a record without keys"),
            (epoch, _) => {
                let steps = memory.numbers().count(
                    "dtls",
                    message.direction,
                    epoch.into(),
                    record.number,
                    MOST_LOST,
                );
                match steps {
                    0 => Finding::guess("a record"),
                    _ => Finding::likely("records, numbered on"),
                }
            }
        };
        let better = |best: &Finding| best.confidence < found.confidence;
        if best.as_ref().is_none_or(better) {
            best = Some(found);
        }
    }
    best
}

fn be24(reader: &mut Reader<'_>) -> Option<usize> {
    let [high, middle, low] = reader.array()?;
    Some(index(u32::from_be_bytes([0, high, middle, low])))
}

/// A handshake message or a fragment of one, which fills its record; RFC 6347 §4.2.2.
fn handshake(body: &[u8]) -> Option<&'static str> {
    let mut reader = Reader::new(body);
    let kind = reader.u8()?;
    let whole = be24(&mut reader)?;
    let _message = reader.be16()?;
    let (at, length) = (be24(&mut reader)?, be24(&mut reader)?);
    let fits = at.checked_add(length)? <= whole && body.len() >= length.checked_add(12)?;
    // Longer records hold several messages.
    if !fits || whole > 65_535 {
        return None;
    }
    match kind {
        1 => Some("a ClientHello"),
        2 => Some("a ServerHello"),
        3 => Some("a HelloVerifyRequest"),
        0 | 4 | 11..=16 | 20 | 22 => Some("a handshake message"),
        _ => None,
    }
}
