//! Direct Connect: NMDC (commands between `$` and `|`) and ADC (lines of four letters), over TCP
//! and UDP.
//!
//! Sources: NMDC protocol 1.3 §3 and §4, ADC 1.0.3 §4 and §5 (dcbase.org).

use super::message::{Finding, Memory, Message, is_number, text_lines};

/// Commands of NMDC that open a conversation or appear near its beginning.
const COMMANDS: [&str; 24] = [
    "$Lock",
    "$Key",
    "$Supports",
    "$ValidateNick",
    "$ValidateDenide",
    "$Hello",
    "$HubName",
    "$HubTopic",
    "$Version",
    "$GetNickList",
    "$NickList",
    "$OpList",
    "$MyINFO",
    "$MyNick",
    "$Direction",
    "$Get",
    "$Send",
    "$FileLength",
    "$ADCGET",
    "$ADCSND",
    "$Search",
    "$SR",
    "$ConnectToMe",
    "$RevConnectToMe",
];
/// Commands looked at in one stream.
const MAX_COMMANDS: usize = 16;

/// A chain of NMDC commands.
pub(super) fn nmdc(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut known = 0_u8;
    let mut first = "";
    for command in message
        .bytes
        .split_inclusive(|&byte| byte == b'|')
        .take(MAX_COMMANDS)
        .take_while(|command| command.ends_with(b"|"))
    {
        // A hub's greeting is chat: `<name> text|`.
        if command.first() == Some(&b'<') || command == b"|" {
            continue;
        }
        let name = command
            .split(|byte| matches!(byte, b' ' | b'|'))
            .next()
            .and_then(|name| std::str::from_utf8(name).ok())?;
        let Some(name) = COMMANDS.iter().find(|known| **known == name) else {
            // After the commands a transfer's bytes may follow.
            break;
        };
        if known == 0 {
            first = name;
        }
        known = known.saturating_add(1);
        if is_exact(name, command) {
            return Some(Finding::certain(format!("{name} with its fields")));
        }
    }
    match known {
        0 => None,
        1 => Some(Finding::likely(format!("the command {first}"))),
        count => Some(Finding::certain(format!(
            "{count} commands from {first} on"
        ))),
    }
}

/// The command's fields are as prescribed, and no other protocol has such.
fn is_exact(name: &str, command: &[u8]) -> bool {
    let Ok(command) = std::str::from_utf8(command) else {
        return false;
    };
    let mut words = command.trim_end_matches('|').split(' ').skip(1);
    match name {
        "$Lock" => words.any(|word| word.starts_with("Pk=")),
        "$ADCGET" | "$ADCSND" => {
            let kind = words
                .next()
                .is_some_and(|word| matches!(word, "file" | "list" | "tthl"));
            let place = words.next().is_some_and(|word| !word.is_empty());
            kind && place && words.next().is_some_and(|word| is_number(word, 20))
        }
        "$Direction" => {
            words
                .next()
                .is_some_and(|word| matches!(word, "Download" | "Upload"))
                && words.next().is_some_and(|word| is_number(word, 5))
        }
        _ => false,
    }
}

/// ADC: `SUP` with features of four letters, `SID`, `GET` of a tiger tree hash.
pub(super) fn adc(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let mut words = line.split(' ');
    let command = words.next()?;
    match command {
        "HSUP" | "CSUP" | "ISUP" => {
            let mut count = 0_u8;
            for word in words {
                let feature = word.strip_prefix("AD").or(word.strip_prefix("RM"))?;
                if feature.len() != 4 || !feature.bytes().all(is_feature_byte) {
                    return None;
                }
                count = count.saturating_add(1);
            }
            let why = format!("{command} with {count} features");
            (count > 0).then(|| Finding::certain(why))
        }
        "CGET" | "CSND" => {
            let kind = words.next()?;
            let by_hash = words.next().is_some_and(is_tree_hash);
            let known = matches!(kind, "file" | "list" | "tthl") && words.next().is_some();
            known.then(|| {
                if by_hash {
                    // A path may stand behind the same words in another protocol. A tiger tree
                    // hash does not.
                    Finding::certain(format!("{command} by tiger tree hash"))
                } else {
                    Finding::likely(command)
                }
            })
        }
        _ => None,
    }
}

/// Search results: NMDC's `$SR`, ADC's `URES` and `USCH`.
pub(super) fn datagram(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    if let Some(rest) = message.bytes.strip_prefix(b"$SR ") {
        // Name, file, size and slots, hub with its address in brackets; 5 parts them.
        let parts = rest.split(|&byte| byte == 5).count();
        let ends = rest.ends_with(b")|") || rest.ends_with(b")");
        return (parts >= 2 && ends).then(|| Finding::certain("$SR with its parts"));
    }
    let line = text_lines(message.bytes).next()?;
    let mut words = line.split(' ');
    let command = words
        .next()
        .filter(|word| matches!(*word, "URES" | "USCH" | "UINF"))?;
    let id = words.next()?;
    let named = id.len() == 39 && id.bytes().all(is_base32);
    named.then(|| Finding::certain(format!("{command} with a client id")))
}

fn is_feature_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

/// RFC 4648 §6.
fn is_base32(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'2'..=b'7')
}

fn is_tree_hash(word: &str) -> bool {
    word.strip_prefix("TTH/")
        .is_some_and(|hash| hash.len() == 39 && hash.bytes().all(is_base32))
}
