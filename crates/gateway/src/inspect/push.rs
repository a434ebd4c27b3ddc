//! Transfers of Gnutella and FastTrack: HTTP, asked by either side.
//!
//! Where the uploader cannot be called it calls itself, announces itself in a line, and is asked on
//! that connection.

use super::held::{Held, Reason};
use super::http::{Dialect, Exchange};
use super::names::{file_name, percent_decoded, text};
use super::reading::{Emit, Reading};
use super::{FileHead, Seen};
use crate::flow::Direction;
use crate::limits::MAX_CHAT_LINE;

/// A connection whose first line says who asks.
#[derive(Debug)]
pub(super) struct Transfer {
    dialect: Dialect,
    held: Held,
    state: State,
}

#[derive(Debug)]
enum State {
    FirstLine,
    /// Behind an announcement: an empty line follows.
    Announced(Box<Exchange>),
    Exchange(Box<Exchange>),
}

impl Transfer {
    pub(super) fn gnutella() -> Self {
        Self::new(Dialect::Gnutella)
    }

    pub(super) fn fasttrack() -> Self {
        Self::new(Dialect::FastTrack)
    }

    fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            held: Held::default(),
            state: State::FirstLine,
        }
    }

    fn handle_first_line(&mut self, line: &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        let words = text(line.trim_ascii_end());
        let announced = match self.dialect {
            Dialect::Gnutella if words.starts_with("GNUTELLA") => {
                return Err("messages between nodes, no transfer");
            }
            Dialect::Gnutella => words.starts_with("GIV ") || words.starts_with("PUSH guid:"),
            _ => words.starts_with("GIVE "),
        };
        if announced {
            // `GIV index:GUID/name`
            let name = words.split_once('/').map(|(_, name)| name);
            let name = name.map(|name| text(&percent_decoded(name.as_bytes())));
            let name = name.and_then(|name| file_name(&name));
            if name.is_some() {
                emit(Seen::Offer(FileHead {
                    name: name.clone(),
                    sender: Some(Direction::FromClient),
                    ..FileHead::default()
                }));
            }
            let exchange = Exchange::new(self.dialect, Direction::FromServer, name);
            self.state = State::Announced(Box::new(exchange));
            return Ok(());
        }
        let mut exchange = Exchange::new(self.dialect, Direction::FromClient, None);
        let begun = exchange.read(Direction::FromClient, &mut &*line, emit);
        self.state = State::Exchange(Box::new(exchange));
        begun
    }
}

impl Reading for Transfer {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        loop {
            match &mut self.state {
                State::Exchange(exchange) => return exchange.read(direction, input, emit),
                State::Announced(exchange) if direction == Direction::FromServer => {
                    return exchange.read(direction, input, emit);
                }
                State::FirstLine if direction == Direction::FromServer => {
                    return Err("an answer without its request");
                }
                _ => {}
            }
            let Some(line) = self.held.line(input, MAX_CHAT_LINE)? else {
                return Ok(());
            };
            match std::mem::replace(&mut self.state, State::FirstLine) {
                State::Announced(mut exchange) => {
                    if !line.trim_ascii().is_empty() {
                        exchange.read(direction, &mut line.as_slice(), emit)?;
                    }
                    self.state = State::Exchange(exchange);
                }
                _ => self.handle_first_line(&line, emit)?,
            }
        }
    }

    fn end(&mut self, direction: Direction, emit: Emit<'_>) -> Result<(), Reason> {
        match &mut self.state {
            State::Announced(exchange) | State::Exchange(exchange) => exchange.end(direction, emit),
            State::FirstLine => Ok(()),
        }
    }

    fn held(&self) -> usize {
        let exchange = match &self.state {
            State::Announced(exchange) | State::Exchange(exchange) => exchange.held(),
            State::FirstLine => 0,
        };
        exchange.saturating_add(self.held.len())
    }
}
