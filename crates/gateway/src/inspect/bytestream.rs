//! A file over a SOCKS5 bytestream (XEP-0065): the exchange of RFC 1928, then the file from either
//! side.

use super::FileHead;
use super::held::{Held, Reason};
use super::reading::{Carried, Emit, Reading};
use crate::flow::{Both, Direction};

/// One bytestream.
#[derive(Debug)]
pub(super) struct Bytestream {
    file: Carried,
    sides: Both<Side>,
}

#[derive(Debug, Default)]
struct Side {
    held: Held,
    state: State,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Version, and number of methods or the chosen one.
    #[default]
    Greeting,
    Methods(usize),
    /// Version, command or answer, a zero, kind of address.
    Head,
    NameLength,
    /// The rest of the address, and the port.
    Address(usize),
    Data,
}

impl Bytestream {
    pub(super) fn new(head: FileHead) -> Self {
        Self {
            file: Carried::new(head),
            sides: Both::default(),
        }
    }
}

impl State {
    /// Bytes that it needs.
    fn needs(self) -> usize {
        match self {
            Self::Greeting => 2,
            Self::Methods(count) | Self::Address(count) => count,
            Self::Head => 4,
            Self::NameLength => 1,
            Self::Data => 0,
        }
    }

    fn after(self, direction: Direction, bytes: &[u8]) -> Result<Self, Reason> {
        let from_client = direction == Direction::FromClient;
        match (self, bytes) {
            (Self::Greeting, [5, count]) if from_client => Ok(Self::Methods(usize::from(*count))),
            (Self::Greeting, [5, 0]) => Ok(Self::Head),
            (Self::Greeting, [5, _]) => Err("another authentication"),
            (Self::Methods(_), _) => Ok(Self::Head),
            (Self::Head, [5, 1, 0, kind]) if from_client => Self::address(*kind),
            (Self::Head, [5, 0, 0, kind]) if !from_client => Self::address(*kind),
            (Self::Head, [5, _, 0, _]) => Err("a refused connection"),
            (Self::NameLength, [length]) => {
                Ok(Self::Address(usize::from(*length).saturating_add(2)))
            }
            (Self::Address(_), _) => Ok(Self::Data),
            _ => Err("no SOCKS5"),
        }
    }

    fn address(kind: u8) -> Result<Self, Reason> {
        match kind {
            1 => Ok(Self::Address(6)),
            3 => Ok(Self::NameLength),
            4 => Ok(Self::Address(18)),
            _ => Err("no SOCKS5"),
        }
    }
}

impl Reading for Bytestream {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        let side = self.sides.of(direction);
        while !matches!(side.state, State::Data) {
            let Some(bytes) = side.held.exactly(input, side.state.needs()) else {
                return Ok(());
            };
            side.state = side.state.after(direction, &bytes)?;
        }
        let other = self.file.sender().is_some_and(|sender| sender != direction);
        if other && !input.is_empty() {
            return Err("data both ways");
        }
        self.file.data(direction, input, emit)
    }

    fn end(&mut self, direction: Direction, emit: Emit<'_>) -> Result<(), Reason> {
        self.file.end(direction, emit);
        Ok(())
    }

    fn held(&self) -> usize {
        let sides = self.sides.sum(|side| side.held.len());
        sides.saturating_add(self.file.held())
    }
}
