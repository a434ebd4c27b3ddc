//! What decoders have in common: they give up once, and many carry a single file.

use super::held::{Held, Reason, count, up_to};
use super::{Decoder, FileHead, Seen};
use crate::flow::{Both, Direction};

/// Tells what was seen.
pub(super) type Emit<'a> = &'a mut dyn FnMut(Seen<'_>);

/// A decoder that may give up.
pub(super) trait Reading: std::fmt::Debug + Send {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason>;

    fn end(&mut self, _direction: Direction, _emit: Emit<'_>) -> Result<(), Reason> {
        Ok(())
    }

    fn certain_data(&self, _direction: Direction) -> u64 {
        0
    }

    fn pass_over(
        &mut self,
        _direction: Direction,
        _bytes: u64,
        _emit: Emit<'_>,
    ) -> Result<(), Reason> {
        Ok(())
    }

    fn begins_head(&self, _direction: Direction) -> bool {
        false
    }

    fn held(&self) -> usize;
}

/// Reads until it must give up; then it emits the reason, and holds nothing any more.
#[derive(Debug)]
pub(super) struct UntilLost<T>(Option<T>);

impl<T: Reading + 'static> UntilLost<T> {
    pub(super) fn decoder(reading: T) -> Box<dyn Decoder> {
        Box::new(Self(Some(reading)))
    }
}

impl<T: Reading> Decoder for UntilLost<T> {
    fn handle_data(
        &mut self,
        direction: Direction,
        mut bytes: &[u8],
        emit: &mut dyn FnMut(Seen<'_>),
    ) {
        if let Some(reading) = &mut self.0
            && let Err(reason) = reading.read(direction, &mut bytes, emit)
        {
            self.0 = None;
            emit(Seen::Lost(reason));
        }
    }

    fn handle_end(&mut self, direction: Direction, emit: &mut dyn FnMut(Seen<'_>)) {
        if let Some(reading) = &mut self.0
            && let Err(reason) = reading.end(direction, emit)
        {
            self.0 = None;
            emit(Seen::Lost(reason));
        }
    }

    fn certain_data(&self, direction: Direction) -> u64 {
        let reading = self.0.as_ref();
        reading.map_or(0, |reading| reading.certain_data(direction))
    }

    fn begins_head(&self, direction: Direction) -> bool {
        let reading = self.0.as_ref();
        reading.is_some_and(|reading| reading.begins_head(direction))
    }

    fn handle_unseen(&mut self, direction: Direction, bytes: u64, emit: &mut dyn FnMut(Seen<'_>)) {
        if let Some(reading) = &mut self.0
            && let Err(reason) = reading.pass_over(direction, bytes, emit)
        {
            self.0 = None;
            emit(Seen::Lost(reason));
        }
    }

    fn held(&self) -> usize {
        self.0.as_ref().map_or(0, Reading::held)
    }
}

/// The other direction.
pub(super) fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::FromClient => Direction::FromServer,
        Direction::FromServer => Direction::FromClient,
    }
}

impl Both<Held> {
    pub(super) fn held(&self) -> usize {
        self.sum(Held::len)
    }
}

/// The bytes of one file, all that a direction sends.
#[derive(Debug)]
pub(super) struct Carried {
    head: FileHead,
    begun: bool,
    got: u64,
}

impl Carried {
    /// A size of zero stands for an unknown one.
    pub(super) fn new(head: FileHead) -> Self {
        Self {
            head: FileHead {
                size: head.size.filter(|&size| size > 0),
                ..head
            },
            begun: false,
            got: 0,
        }
    }

    /// Who sends it: the first who sent any of it.
    pub(super) fn sender(&self) -> Option<Direction> {
        self.head.sender.filter(|_| self.begun)
    }

    /// The most bytes that its receiver can have got.
    pub(super) fn reach(&self) -> u64 {
        self.got.max(self.head.size.unwrap_or_default())
    }

    /// Whether all came that was announced.
    pub(super) fn is_whole(&self) -> bool {
        self.head.size == Some(self.got)
    }

    pub(super) fn data(
        &mut self,
        sender: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        if input.is_empty() {
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            self.head.sender = Some(sender);
            emit(Seen::Begin(self.head.clone()));
        }
        let left = self.head.size.unwrap_or(u64::MAX).saturating_sub(self.got);
        let data = up_to(input, left);
        if !data.is_empty() {
            self.got = self.got.saturating_add(count(data));
            emit(Seen::Data(data));
            if self.is_whole() {
                emit(Seen::End);
            }
        }
        // What follows the announced end would reach the receiver unread.
        if input.is_empty() {
            Ok(())
        } else {
            Err("more bytes than announced")
        }
    }

    /// The sender's direction has ended: what has no size is whole.
    pub(super) fn end(&mut self, direction: Direction, emit: Emit<'_>) {
        if self.sender() == Some(direction) && self.head.size.is_none() {
            self.begun = false;
            emit(Seen::End);
        }
    }

    pub(super) fn held(&self) -> usize {
        head_size(&self.head)
    }
}

/// Bytes that the texts of a head hold.
pub(super) fn head_size(head: &FileHead) -> usize {
    let name = head.name.as_ref().map_or(0, String::capacity);
    name.saturating_add(head.kind.as_ref().map_or(0, String::capacity))
}
