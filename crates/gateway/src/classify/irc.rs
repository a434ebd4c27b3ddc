//! IRC (RFC 2812, IRCv3 capability negotiation) and DCC, the connections between its clients.
//!
//! A DCC connection is announced in a private message between two \x01, or shows itself: the
//! receiver of a file answers with the number of bytes it has, in four bytes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::message::{Announced, Finding, Memory, Message, is_number, text_lines};
use crate::flow::Direction;
use crate::reader::Reader;

/// How much a line says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A nickname.
    Nick,
    /// A user's four fields.
    User,
    /// Fits other protocols of lines as well.
    Weak,
    /// Little else looks so.
    Strong,
    /// A numbered answer of a named server.
    Numeric,
}

/// Lines of IRC.
pub(super) fn lines(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let (mut nick, mut user, mut strong) = (false, false, 0_u8);
    let mut numeric = false;
    for line in text_lines(message.bytes).filter(|line| !line.is_empty()) {
        match kind(line)? {
            Line::Nick => nick = true,
            Line::User => user = true,
            Line::Weak => {}
            Line::Strong => strong = strong.saturating_add(1),
            Line::Numeric => numeric = true,
        }
    }
    let found = if nick && user {
        Finding::certain("NICK and USER")
    } else if numeric {
        Finding::certain("a server's numbered answer")
    } else if strong >= 2 {
        Finding::certain(format!("{strong} lines of IRC"))
    } else if strong == 1 || user {
        Finding::likely("one line of IRC")
    } else if nick {
        Finding::guess("NICK")
    } else {
        return None;
    };
    // Offers in later lines announce the connections of DCC.
    memory.listener = Some(offer);
    Some(found)
}

/// RFC 2812 §2.3.1: a source, a command, parameters, and the last one behind a colon.
fn kind(line: &str) -> Option<Line> {
    let (source, rest) = match line.strip_prefix(':') {
        Some(rest) => {
            let (source, rest) = rest.split_once(' ')?;
            (Some(source), rest)
        }
        None => (None, line),
    };
    let (head, trailing) = match rest.split_once(" :") {
        Some((head, trailing)) => (head, Some(trailing)),
        None => (rest, None),
    };
    let mut words = head.split(' ');
    let command = words.next()?;
    let first = words.next();
    let parameters = usize::from(first.is_some())
        .saturating_add(words.count())
        .saturating_add(trailing.is_some().into());
    let channel = first.is_some_and(|name| name.starts_with(['#', '&']));
    match command {
        "NICK" => (parameters >= 1).then_some(Line::Nick),
        "USER" => (parameters == 4).then_some(Line::User),
        // FTP, POP3 and SMTP have commands of these names, too.
        "PASS" | "PING" | "PONG" | "QUIT" | "ERROR" | "AUTHENTICATE" => {
            (parameters >= 1).then_some(Line::Weak)
        }
        "CAP" => first
            .is_some_and(|word| matches!(word, "LS" | "REQ" | "LIST" | "END") || source.is_some())
            .then_some(Line::Strong),
        "JOIN" | "PART" | "TOPIC" => {
            (channel || trailing.is_some_and(|name| name.starts_with('#'))).then_some(Line::Strong)
        }
        "MODE" | "WHO" | "WHOIS" | "ISON" | "KICK" => (parameters >= 1).then_some(Line::Weak),
        "PRIVMSG" | "NOTICE" => {
            (first.is_some() && (trailing.is_some() || parameters == 2)).then_some(Line::Strong)
        }
        _ => {
            let numbered = command.len() == 3 && is_number(command, 3);
            (numbered && source.is_some() && parameters >= 2).then_some(Line::Numeric)
        }
    }
}

/// `DCC SEND name address port size` or `DCC CHAT chat address port` between two \x01, of which the
/// second may be the next one's first.
fn offer(payload: &[u8]) -> Option<(usize, Option<Announced>)> {
    let start = payload
        .windows(5)
        .position(|window| window == b"\x01DCC ")?
        .checked_add(5)?;
    let rest = payload.get(start..)?;
    let end = rest.iter().position(|&byte| byte == 1)?;
    Some((start.checked_add(end)?, offered(rest.get(..end)?)))
}

fn offered(request: &[u8]) -> Option<Announced> {
    let rest = std::str::from_utf8(request).ok()?;
    let words: Vec<&str> = rest.split(' ').collect();
    if !matches!(words.first(), Some(&("SEND" | "CHAT" | "TSEND" | "SCHAT"))) {
        return None;
    }
    // The name may have spaces: the first pair that is an address and a port counts.
    let endpoint = words.windows(2).skip(2).find_map(|pair| {
        let [address, port] = pair else { return None };
        let address: IpAddr = match address.parse::<u32>() {
            Ok(bits) if bits > 0x00ff_ffff => Ipv4Addr::from_bits(bits).into(),
            _ => address.parse().ok()?,
        };
        let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
        Some(SocketAddr::new(address, port))
    })?;
    Some(Announced {
        endpoint,
        application: "dcc",
        by: "an offer in IRC",
    })
}

/// What one side has acknowledged of a file (DCC).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acknowledged {
    /// Counts that were exactly what the other side had sent.
    exact: u8,
    /// Counts, as far as they matter.
    counts: u8,
    /// The last of them in units of 64 bytes: little is kept for each flow.
    last: u16,
}

/// No file's piece is smaller.
const UNIT: u32 = 64;
/// Counts that only grow, of a receiver who lags behind, before they are believed.
const GROWING: u8 = 3;

/// The number of bytes that the other side has sent, in four bytes. A receiver that is slower than
/// the line counts less than was sent by then, but says nothing else ever, and each count is more
/// than the last.
pub(super) fn acknowledgement(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let [from_client, from_server] = memory.sent;
    let (own, received) = match message.direction {
        Direction::FromClient => (from_client, from_server),
        Direction::FromServer => (from_server, from_client),
    };
    let seen = &mut memory.acknowledged;
    if message.bytes.is_empty() || !message.bytes.len().is_multiple_of(4) {
        return None;
    }
    let mut reader = Reader::new(message.bytes);
    let mut value = 0;
    while let Some(next) = reader.be32() {
        let units = u16::try_from(next / UNIT).ok()?;
        if next > received || units <= seen.last {
            return None;
        }
        seen.last = units;
        seen.counts = seen.counts.saturating_add(1);
        value = next;
    }
    if value == received {
        seen.exact = seen.exact.saturating_add(1);
    }
    let nothing_else = u32::from(seen.counts).saturating_mul(4) == own;
    // Four bytes of another protocol can equal a count by chance, but hardly twice.
    match (seen.exact, seen.counts) {
        (exact @ 2.., _) => Some(Finding::likely(format!(
            "{exact} packets that count what was received"
        ))),
        (_, counts @ GROWING..) if nothing_else => Some(Finding::likely(format!(
            "{counts} growing counts of what was received, and nothing else"
        ))),
        (1, _) => Some(Finding::guess("four bytes that count what was received")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{acknowledgement, offer};
    use crate::classify::Confidence;
    use crate::classify::message::{Memory, Message};
    use crate::flow::Direction;

    /// The client says these bytes when the server has sent so many.
    fn said(memory: &mut Memory, bytes: &[u8], sent: u32) -> Option<Confidence> {
        let [own, _] = memory.sent;
        let length = u32::try_from(bytes.len()).unwrap();
        memory.sent = [own.saturating_add(length), sent];
        let message = Message {
            bytes,
            at: 0,
            direction: Direction::FromClient,
            truncated: false,
        };
        acknowledgement(&message, memory).map(|found| found.confidence)
    }

    #[test]
    fn a_slow_receiver_is_known_by_three_counts() {
        let mut memory = Memory::default();
        assert_eq!(said(&mut memory, &512_u32.to_be_bytes(), 8_192), None);
        assert_eq!(said(&mut memory, &1_024_u32.to_be_bytes(), 8_192), None);
        let third = said(&mut memory, &3_072_u32.to_be_bytes(), 9_216);
        assert_eq!(third, Some(Confidence::Likely));
        // Two in one packet, where the line is slow.
        let mut memory = Memory::default();
        let two = [512_u32.to_be_bytes(), 1_024_u32.to_be_bytes()].concat();
        assert_eq!(said(&mut memory, &two, 8_192), None);
        let third = said(&mut memory, &2_048_u32.to_be_bytes(), 8_192);
        assert_eq!(third, Some(Confidence::Likely));
    }

    #[test]
    fn other_data_is_no_acknowledgement() {
        let mut memory = Memory::default();
        // Lengths of what follows, each in a packet of its own.
        for length in [512_u32, 700, 900, 1_000] {
            assert_eq!(said(&mut memory, &length.to_be_bytes(), 9_000), None);
            assert_eq!(said(&mut memory, &[7; 30], 9_000), None);
        }
        let mut memory = Memory::default();
        // They shrink, or count what never came.
        for value in [600_u32, 500, 400, 10_000, 20_000] {
            assert_eq!(said(&mut memory, &value.to_be_bytes(), 9_000), None);
        }
    }

    #[test]
    fn offers_name_address_and_port_also_behind_spaces() {
        let endpoint = |text: &[u8]| offer(text)?.1.map(|offer| offer.endpoint.to_string());
        assert_eq!(
            endpoint(b":a!b@c PRIVMSG d :\x01DCC SEND my file.ogg 3325256711 5000 1234\x01\r\n")
                .as_deref(),
            Some("198.51.100.7:5000")
        );
        assert_eq!(
            endpoint(b"PRIVMSG d :\x01DCC CHAT chat 2001:db8::7 5001\x01\r\n").as_deref(),
            Some("[2001:db8::7]:5001")
        );
        assert_eq!(
            endpoint(b"PRIVMSG d :\x01DCC SEND f 3325256711 0 12 7\x01\r\n"),
            None
        );
        assert_eq!(endpoint(b"PRIVMSG d :\x01VERSION\x01\r\n"), None);
    }
}
