//! IRC: messages, and the offers of files and chats in them (CTCP and DCC).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::held::{Held, Reason};
use super::names::{file_name, text};
use super::reading::{Emit, Reading};
use super::{Expected, FileHead, Message, Seen};
use crate::flow::{Both, Direction};
use crate::limits::{MAX_CHAT_LINE, MAX_DETAIL};

/// Parameters of a message (RFC 2812 §2.3).
const MAX_PARAMETERS: usize = 15;
/// A channel's topic, and somebody's words for being away.
const RPL_TOPIC: &str = "332";
const RPL_AWAY: &str = "301";
/// "STARTTLS successful".
const RPL_STARTTLS: &str = "670";

/// A client's connection to its server.
#[derive(Debug, Default)]
pub(super) struct Irc {
    lines: Both<Held>,
    /// The client's name.
    nick: Option<String>,
}

/// One message of the protocol.
struct Line<'a> {
    prefix: Option<&'a str>,
    command: &'a str,
    parameters: Vec<&'a str>,
}

impl<'a> Line<'a> {
    /// RFC 2812 §2.3.1, with the tags of IRCv3 before it.
    fn parse(line: &'a str) -> Option<Self> {
        let line = match line.strip_prefix('@') {
            Some(tagged) => tagged.split_once(' ')?.1.trim_start(),
            None => line,
        };
        let (prefix, line) = match line.strip_prefix(':') {
            Some(prefixed) => {
                let (prefix, line) = prefixed.split_once(' ')?;
                (Some(prefix), line.trim_start())
            }
            None => (None, line),
        };
        let (command, mut rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut parameters = Vec::new();
        while !rest.is_empty() && parameters.len() < MAX_PARAMETERS {
            rest = rest.trim_start_matches(' ');
            if let Some(last) = rest.strip_prefix(':') {
                parameters.push(last);
                break;
            }
            let (parameter, after) = rest.split_once(' ').unwrap_or((rest, ""));
            parameters.push(parameter);
            rest = after;
        }
        Some(Self {
            prefix,
            command,
            parameters,
        })
    }

    fn nick(&self) -> Option<&'a str> {
        self.prefix?.split(['!', '@']).next()
    }
}

impl Irc {
    fn handle_line(
        &mut self,
        direction: Direction,
        line: &str,
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        let Some(line) = Line::parse(line) else {
            return Ok(());
        };
        let from_client = direction == Direction::FromClient;
        // What a client says of itself is passed on by no server.
        let sender = match self.nick.as_deref().filter(|_| from_client) {
            Some(nick) => Some(nick),
            None => line.nick(),
        };
        let command = line.command.to_ascii_uppercase();
        match (command.as_str(), line.parameters.as_slice()) {
            ("PRIVMSG" | "NOTICE" | "CPRIVMSG" | "CNOTICE", [to, .., said]) => {
                emit_text(said, sender, Some(to), emit);
            }
            // Others read these as well: topics, parting words, reasons.
            ("TOPIC" | "PART" | "SQUERY" | RPL_TOPIC | RPL_AWAY, [.., to, said]) => {
                emit_text(said, sender, Some(to), emit);
            }
            ("KICK" | "KILL", [to, .., said]) => emit_text(said, sender, Some(to), emit),
            ("QUIT" | "AWAY" | "WALLOPS" | "SETNAME", [said]) => {
                emit_text(said, sender, None, emit);
            }
            ("NICK", [nick, ..]) if from_client || line.nick() == self.nick.as_deref() => {
                self.nick = Some((*nick).to_owned()).filter(|nick| nick.len() <= MAX_DETAIL);
            }
            (RPL_STARTTLS, _) if !from_client => return Err("encrypted"),
            _ => {}
        }
        Ok(())
    }
}

impl Reading for Irc {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        while let Some(line) = self.lines.of(direction).line(input, MAX_CHAT_LINE)? {
            let line = text(&line);
            self.handle_line(direction, line.trim_end_matches(['\r', '\n']), emit)?;
        }
        Ok(())
    }

    fn held(&self) -> usize {
        let nick = self.nick.as_ref().map_or(0, String::capacity);
        self.lines.held().saturating_add(nick)
    }
}

/// A chat between two clients: each line is a message.
#[derive(Debug, Default)]
pub(super) struct Chat {
    lines: Both<Held>,
}

impl Reading for Chat {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        while let Some(line) = self.lines.of(direction).line(input, MAX_CHAT_LINE)? {
            let line = text(&line);
            emit_text(line.trim_end_matches(['\r', '\n']), None, None, emit);
        }
        Ok(())
    }

    fn end(&mut self, direction: Direction, emit: Emit<'_>) -> Result<(), Reason> {
        let line = text(&self.lines.of(direction).take());
        emit_text(line.trim_end_matches('\r'), None, None, emit);
        Ok(())
    }

    fn held(&self) -> usize {
        self.lines.held()
    }
}

/// What somebody said: text, and between bytes of 1 requests of client to client.
fn emit_text(said: &str, from: Option<&str>, to: Option<&str>, emit: Emit<'_>) {
    for (index, part) in said.split('\u{1}').enumerate() {
        let is_request = index % 2 == 1;
        let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
        let spoken = match word {
            _ if !is_request => part,
            "ACTION" => rest,
            "DCC" => {
                emit_dcc(rest, emit);
                continue;
            }
            _ => continue,
        };
        let shown = without_colours(spoken);
        if !shown.trim().is_empty() {
            emit(Seen::Message(Message {
                text: shown,
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
            }));
        }
    }
}

/// Takes off the signs for bold, colours and the like, which could stand amid a word.
fn without_colours(said: &str) -> String {
    let mut shown = String::with_capacity(said.len());
    let mut signs = said.chars().peekable();
    while let Some(sign) = signs.next() {
        let (base, most) = match sign {
            '\u{2}' | '\u{f}' | '\u{11}' | '\u{16}' | '\u{1d}' | '\u{1e}' | '\u{1f}' => continue,
            '\u{3}' => (10, 2),
            '\u{4}' => (16, 6),
            _ => {
                shown.push(sign);
                continue;
            }
        };
        let skip = |signs: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            (0..most)
                .take_while(|_| signs.next_if(|next| next.is_digit(base)).is_some())
                .count()
        };
        // A second colour stands behind a comma.
        if skip(&mut signs) > 0 {
            let mut ahead = signs.clone();
            let comma = ahead.next() == Some(',');
            if comma && ahead.next().is_some_and(|next| next.is_digit(base)) {
                signs.next();
                skip(&mut signs);
            }
        }
    }
    shown
}

/// An offer to connect: `SEND name address port [size [token]]`, `CHAT chat address port`.
fn emit_dcc(request: &str, emit: Emit<'_>) {
    let (kind, rest) = request.split_once(' ').unwrap_or((request, ""));
    match kind.to_ascii_uppercase().as_str() {
        "SEND" | "TSEND" => emit_send(rest, emit),
        "CHAT" => {
            let server = address(rest.split_whitespace().skip(1));
            if let Some(server) = server.filter(|server| server.port() != 0) {
                emit(Seen::Expect(Expected {
                    server,
                    application: "dcc-chat",
                    file: FileHead::default(),
                }));
            }
        }
        // Over TLS: the name is all that can be seen.
        "SSEND" => {
            if let Some((name, _)) = name_and_rest(rest) {
                emit(Seen::Offer(FileHead {
                    name: file_name(&name),
                    ..FileHead::default()
                }));
            }
        }
        _ => {}
    }
}

fn emit_send(rest: &str, emit: Emit<'_>) {
    let Some((name, words)) = name_and_rest(rest) else {
        return;
    };
    let head = FileHead {
        name: file_name(&name),
        size: words.get(2).and_then(|size| size.parse().ok()),
        ..FileHead::default()
    };
    emit(Seen::Offer(head.clone()));
    let server = address(words.iter().copied());
    // Port 0 asks the receiver to be called instead; its answer repeats the token.
    if let Some(server) = server.filter(|server| server.port() != 0) {
        let sender = match words.get(3) {
            Some(_) => Direction::FromClient,
            None => Direction::FromServer,
        };
        emit(Seen::Expect(Expected {
            server,
            application: "dcc",
            file: FileHead {
                sender: Some(sender),
                ..head
            },
        }));
    }
}

/// The file's name, in quotes or up to what looks like an address and a port, and the words behind
/// it.
fn name_and_rest(rest: &str) -> Option<(String, Vec<&str>)> {
    if let Some((name, rest)) = rest
        .strip_prefix('"')
        .and_then(|quoted| quoted.split_once('"'))
    {
        return Some((name.to_owned(), rest.split_whitespace().collect()));
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    // Names with blanks are sent without quotes too: then address and port are the first that fit.
    let split = (1..words.len()).find(|&at| {
        let behind = words.get(at..).unwrap_or_default();
        behind.len() <= 4 && address(behind.iter().copied()).is_some()
    });
    let (name, behind) = words.split_at_checked(split.unwrap_or(1))?;
    Some((name.join(" "), behind.to_vec()))
}

/// An address, as one decimal number or in its usual form, and a port.
fn address<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<SocketAddr> {
    let (host, port) = (words.next()?, words.next()?);
    let ip = match host.parse::<u32>() {
        Ok(number) => IpAddr::V4(Ipv4Addr::from(number)),
        Err(_) => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port.parse().ok()?))
}
