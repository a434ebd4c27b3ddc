//! Servers of the Source engine ("Server queries") and of Quake III.

use crate::classify::message::{Finding, Memory, Message};

/// What stands before messages outside of a game.
const OUTSIDE: [u8; 4] = [0xff; 4];
/// Texts of Quake's messages.
const QUAKE: [&[u8]; 8] = [
    b"getstatus",
    b"getinfo",
    b"getchallenge",
    b"getservers",
    b"statusResponse\n",
    b"infoResponse\n",
    b"challengeResponse",
    b"connect \"",
];

/// A question of Valve's: for information, players, rules; or an answer to one.
pub(super) fn source(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let (kind, rest) = message.bytes.strip_prefix(&OUTSIDE)?.split_first()?;
    match kind {
        b'T' if rest.starts_with(b"Source Engine Query\0") && matches!(rest.len(), 20 | 24) => {
            memory.numbers().ask("source", message.direction, 0);
            Some(Finding::certain("the question for information"))
        }
        b'U' | b'V' if rest.len() == 4 => {
            memory.numbers().ask("source", message.direction, 0);
            Some(Finding::likely("the question for players or rules"))
        }
        b'A' | b'D' | b'E' | b'I' => memory
            .numbers()
            .answers("source", message.direction, 0)
            .then(|| Finding::certain("a question and its answer")),
        _ => None,
    }
}

/// One of the texts, printable to its end.
pub(super) fn quake(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let text = message.bytes.strip_prefix(&OUTSIDE)?;
    let word = QUAKE.iter().find(|word| text.starts_with(word))?;
    Some(Finding::certain(format!(
        "the message {}",
        String::from_utf8_lossy(word).trim()
    )))
}
