//! AMQP (0-9-1 §4.2.2, 1.0 §2.2) and NATS ("Client protocol").

use crate::classify::message::{Finding, Memory, Message, text_lines};
use crate::reader::{Reader, index};

/// AMQP's header with its version, or one of its frames up to the byte that ends it.
pub(super) fn amqp(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    if let Some(version) = message.bytes.strip_prefix(b"AMQP") {
        let known = matches!(
            version,
            [0, 0, 9, 0 | 1, ..]
                | [1, 1, 0, 9 | 10, ..]
                | [1, 1, 8, 0, ..]
                | [0 | 2 | 3, 1, 0, 0, ..]
        );
        return known.then(|| Finding::certain("the header with its version"));
    }
    // A method: kind, channel, length, class and number, and the end.
    let mut reader = Reader::new(message.bytes);
    let is_method = reader.u8()? == 1;
    reader.be16()?;
    let length = index(reader.be32()?);
    let body = reader.take(length)?;
    let (class, rest) = body.split_first_chunk()?;
    let class = u16::from_be_bytes(*class);
    let (number, _) = rest.split_first_chunk()?;
    let known = matches!(class, 10 | 20 | 40 | 50 | 60 | 85 | 90);
    (is_method && reader.u8()? == 0xce && known && u16::from_be_bytes(*number) <= 121)
        .then(|| Finding::certain("a method that ends where it says"))
}

/// `INFO {...}` of a server, `CONNECT {...}` of a client, with a key that they have.
pub(super) fn nats(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let (text, key) = match line.split_once(' ')? {
        ("INFO", text) => (text, "\"server_id\":"),
        ("CONNECT", text) => (text, "\"verbose\":"),
        _ => return None,
    };
    let text = text.trim_start_matches([' ', '\t']);
    (text.starts_with('{') && text.ends_with('}') && text.contains(key))
        .then(|| Finding::certain("a line with an object of its own"))
}
