//! Redis ("RESP protocol spec") and memcached (`protocol.txt`).

use crate::classify::message::{Finding, Memory, Message, is_number, text_lines};

/// Commands with which clients of Redis begin, and frequent ones.
const REDIS: [&str; 22] = [
    "AUTH",
    "HELLO",
    "PING",
    "SELECT",
    "CLIENT",
    "INFO",
    "GET",
    "SET",
    "COMMAND",
    "CONFIG",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "PUBLISH",
    "HGET",
    "HGETALL",
    "HSET",
    "LPUSH",
    "RPUSH",
    "EXISTS",
    "DEL",
    "REPLCONF",
    "CLUSTER",
];
/// Most arguments of a command that is looked at.
const MOST_ARGUMENTS: usize = 1_024;

/// An array of texts with their lengths, the first of them a known command.
pub(super) fn redis(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut lines = message.bytes.split_inclusive(|&byte| byte == b'\n');
    let mut next = || {
        let line = lines.next()?.strip_suffix(b"\r\n")?;
        std::str::from_utf8(line).ok()
    };
    let count = next()?.strip_prefix('*')?;
    let length = next()?.strip_prefix('$')?;
    let command = next()?;
    let counts = is_number(count, 4) && (1..=MOST_ARGUMENTS).contains(&count.parse().ok()?);
    let fits = is_number(length, 4) && length.parse::<usize>().ok()? == command.len();
    let known = REDIS.contains(&command.to_ascii_uppercase().as_str());
    (counts && fits && known).then(|| Finding::certain(format!("the command {command}")))
}

/// `set KEY FLAGS TIME LENGTH`, `get KEY`, `stats`, over TCP.
pub(super) fn memcached_command(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let words: Vec<&str> = line.split(' ').collect();
    // Words like these begin other protocols' lines too: numbers or an answer have to follow.
    let found = match words.as_slice() {
        [
            "set" | "add" | "replace" | "append" | "prepend",
            _,
            flags,
            time,
            length,
            rest @ ..,
        ] => {
            let numbers = [flags, time, length].iter().all(|text| is_number(text, 10));
            let quiet = matches!(rest, [] | ["noreply"]);
            (numbers && quiet).then(|| Finding::certain("a command that stores"))
        }
        ["get" | "gets", _, ..] => Some(Finding::guess("a command that fetches")),
        ["stats", ..] | ["version"] => Some(Finding::guess("a command")),
        _ => None,
    }?;
    memory.numbers().ask("memcached", message.direction, 0);
    Some(found)
}

/// What the server says to these.
pub(super) fn memcached_answer(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let words: Vec<&str> = line.split(' ').collect();
    let fits = match words.as_slice() {
        ["STORED" | "NOT_STORED" | "END"] => true,
        ["VALUE", _, flags, length, ..] => is_number(flags, 10) && is_number(length, 10),
        ["STAT", _, ..] | ["VERSION", _] => true,
        _ => false,
    };
    (fits && memory.numbers().answers("memcached", message.direction, 0))
        .then(|| Finding::certain("a command and its answer"))
}
