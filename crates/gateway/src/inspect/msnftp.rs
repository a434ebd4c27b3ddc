//! MSN's file transfer: a few lines, then the file in blocks from the side that named its size.

use super::held::{Held, Reason, count, up_to};
use super::reading::{Emit, Reading, head_size};
use super::{FileHead, Seen};
use crate::flow::{Both, Direction};
use crate::limits::MAX_CHAT_LINE;

/// Kind of block, and length in two bytes.
const BLOCK_HEADER: usize = 3;

/// One transfer.
#[derive(Debug)]
pub(super) struct Msnftp {
    head: FileHead,
    sides: Both<Side>,
}

#[derive(Debug, Default)]
struct Side {
    held: Held,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Lines,
    /// Before a block; bytes of the file that are missing.
    Header(u64),
    /// Bytes of the file that are missing, bytes of the block.
    Block(u64, u64),
}

impl Msnftp {
    pub(super) fn new(head: FileHead) -> Self {
        Self {
            head,
            sides: Both::default(),
        }
    }

    fn handle_line(
        &mut self,
        direction: Direction,
        line: &str,
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        let Some(size) = line.trim_end().strip_prefix("FIL ") else {
            return Ok(());
        };
        let size: u64 = size.trim().parse().or(Err("a malformed size"))?;
        emit(Seen::Begin(FileHead {
            size: Some(size),
            sender: Some(direction),
            ..self.head.clone()
        }));
        if size == 0 {
            emit(Seen::End);
        }
        self.sides.of(direction).state = State::Header(size);
        Ok(())
    }
}

impl Reading for Msnftp {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        loop {
            let side = self.sides.of(direction);
            match side.state {
                State::Lines => match side.held.line(input, MAX_CHAT_LINE)? {
                    None => return Ok(()),
                    Some(line) => {
                        self.handle_line(direction, &String::from_utf8_lossy(&line), emit)?;
                    }
                },
                State::Header(left) => {
                    let Some(header) = side.held.exactly(input, BLOCK_HEADER) else {
                        return Ok(());
                    };
                    side.state = match header.as_slice() {
                        [0, low, high] => {
                            let length = u64::from(u16::from_le_bytes([*low, *high]));
                            if length > left {
                                return Err("more bytes than announced");
                            }
                            State::Block(left, length)
                        }
                        // The end, or the sender gave up.
                        [1, _, _] => State::Lines,
                        _ => return Err("a malformed block"),
                    };
                }
                State::Block(left, 0) => side.state = State::Header(left),
                State::Block(left, length) => {
                    let data = up_to(input, length);
                    if data.is_empty() {
                        return Ok(());
                    }
                    let left = left.saturating_sub(count(data));
                    side.state = State::Block(left, length.saturating_sub(count(data)));
                    emit(Seen::Data(data));
                    if left == 0 {
                        emit(Seen::End);
                    }
                }
            }
        }
    }

    fn held(&self) -> usize {
        let sides = self.sides.sum(|side| side.held.len());
        sides.saturating_add(head_size(&self.head))
    }
}
