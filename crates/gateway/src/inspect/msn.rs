//! MSN Messenger: messages and invitations to transfer files, in the payloads of `MSG`.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use super::held::{Held, Reason, count, up_to};
use super::names::{file_name, text};
use super::reading::{Emit, Reading, head_size};
use super::{Expected, FileHead, Message, Seen};
use crate::flow::{Both, Direction};
use crate::limits::{MAX_CHAT_LINE, MAX_DETAIL, MAX_FILE_OFFERS, MAX_MSN_MESSAGE};

/// Where a sender waits if it does not say where.
const MSNFTP_PORT: u16 = 6891;
/// Commands with a payload whose length is their last word.
const WITH_PAYLOAD: [&str; 19] = [
    "MSG", "QRY", "UUX", "UBX", "NOT", "ADL", "RML", "FQY", "UUN", "UBN", "GCF", "UBM", "UUM",
    "PAG", "IPG", "PUT", "DEL", "NFY", "SDG",
];

/// A connection to a notification server or a switchboard.
#[derive(Debug, Default)]
pub(super) struct Msn {
    sides: Both<Side>,
    /// The client's account.
    account: Option<String>,
    /// Files offered, by the cookies of their invitations.
    offers: VecDeque<(String, FileHead)>,
}

#[derive(Debug, Default)]
struct Side {
    held: Held,
    payload: Option<Payload>,
}

#[derive(Debug)]
enum Payload {
    Message {
        from: Option<String>,
        length: usize,
    },
    /// Of no interest.
    Skip(u64),
}

impl Msn {
    fn handle_line(&mut self, direction: Direction, line: &str) -> Result<(), Reason> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&command, arguments)) = words.split_first() else {
            return Ok(());
        };
        let from_client = direction == Direction::FromClient;
        if from_client && matches!(command, "USR" | "ANS") {
            let account = arguments.iter().find(|word| word.contains('@'));
            // Newer programs add an identifier of the machine.
            let account = account.and_then(|account| account.split(';').next());
            let account = account.filter(|account| account.len() <= MAX_DETAIL);
            self.account = account.map(str::to_owned).or(self.account.take());
        }
        let length = arguments.last().filter(|_| WITH_PAYLOAD.contains(&command));
        let length = length.and_then(|length| length.parse::<u64>().ok());
        // A number that stands alone is that of a request which is answered.
        let Some(length) = length.filter(|_| arguments.len() > 1 || command == "NOT") else {
            return if command == "MSG" {
                Err("a message without a length")
            } else {
                Ok(())
            };
        };
        let payload = if command == "MSG" {
            let from = if from_client {
                self.account.clone()
            } else {
                arguments.first().map(|from| (*from).to_owned())
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > MAX_MSN_MESSAGE {
                return Err("a message that is too long");
            }
            Payload::Message { from, length }
        } else {
            Payload::Skip(length)
        };
        self.sides.of(direction).payload = Some(payload);
        Ok(())
    }

    fn handle_message(&mut self, from: Option<String>, payload: &[u8], emit: Emit<'_>) {
        let payload = text(payload);
        let (head, body) = payload.split_once("\r\n\r\n").unwrap_or((&payload, ""));
        let kind = field(head, "Content-Type").and_then(|kind| kind.split(';').next());
        let kind = kind.map(|kind| kind.trim().to_ascii_lowercase());
        // The second and further parts of a long text have no type.
        let is_text = kind.is_some() || field(head, "Chunk").is_some();
        match kind.as_deref() {
            Some("text/x-msmsgsinvite") => self.handle_invitation(body, emit),
            Some("text/plain") | None if is_text && !body.is_empty() => {
                emit(Seen::Message(Message {
                    text: body.to_owned(),
                    from,
                    to: None,
                }));
            }
            _ => {}
        }
    }

    fn handle_invitation(&mut self, body: &str, emit: Emit<'_>) {
        let cookie = field(body, "Invitation-Cookie").filter(|cookie| cookie.len() <= MAX_DETAIL);
        if let Some(name) = field(body, "Application-File") {
            let size = field(body, "Application-FileSize");
            let head = FileHead {
                name: file_name(name),
                size: size.and_then(|size| size.parse().ok()),
                ..FileHead::default()
            };
            emit(Seen::Offer(head.clone()));
            if let Some(cookie) = cookie {
                self.offers.retain(|(other, _)| other != cookie);
                if self.offers.len() >= MAX_FILE_OFFERS {
                    self.offers.pop_front();
                }
                self.offers.push_back((cookie.to_owned(), head));
            }
        }
        let offered = self
            .offers
            .iter()
            .find(|(other, _)| Some(other.as_str()) == cookie);
        // Behind a translating router it names both addresses.
        for (address, port) in [("IP-Address", "Port"), ("IP-Address-Internal", "PortX")] {
            let ip = field(body, address).and_then(|ip| ip.parse::<IpAddr>().ok());
            let port = field(body, port).map_or(Some(MSNFTP_PORT), |port| port.parse().ok());
            if let Some((ip, port)) = ip.zip(port) {
                emit(Seen::Expect(Expected {
                    server: SocketAddr::new(ip, port),
                    application: "msnftp",
                    file: offered.map(|(_, head)| head.clone()).unwrap_or_default(),
                }));
            }
        }
    }
}

/// The value of a line `Name: value`.
fn field<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    lines.split("\r\n").find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

impl Reading for Msn {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        loop {
            let side = self.sides.of(direction);
            match &mut side.payload {
                None => match side.held.line(input, MAX_CHAT_LINE)? {
                    None => return Ok(()),
                    Some(line) => self.handle_line(direction, &text(&line))?,
                },
                Some(Payload::Skip(left)) => {
                    *left = left.saturating_sub(count(up_to(input, *left)));
                    if *left > 0 {
                        return Ok(());
                    }
                    side.payload = None;
                }
                Some(Payload::Message { from, length }) => {
                    let Some(payload) = side.held.exactly(input, *length) else {
                        return Ok(());
                    };
                    let from = from.take();
                    side.payload = None;
                    self.handle_message(from, &payload, emit);
                }
            }
        }
    }

    fn held(&self) -> usize {
        let offers = self.offers.iter().map(|(cookie, head)| {
            let texts = cookie.capacity().saturating_add(head_size(head));
            texts.saturating_add(size_of::<(String, FileHead)>())
        });
        let offers = offers.fold(0, usize::saturating_add);
        let account = self.account.as_ref().map_or(0, String::capacity);
        let sides = self.sides.sum(|side| side.held.len());
        offers.saturating_add(account).saturating_add(sides)
    }
}
