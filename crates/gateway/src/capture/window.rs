//! A bounded buffer over a reader that knows its position in the file.

use std::io::{ErrorKind, Read};

use super::CaptureError;
use crate::limits::READ_CHUNK;

/// The part of the input that is in memory.
#[derive(Debug)]
pub(super) struct Window<R> {
    name: String,
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(name: &str, input: R) -> Self {
        Self {
            name: name.to_owned(),
            input,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Bytes in memory, from the current position on.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// The current position, in bytes from the beginning.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Passes over bytes that are in memory.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.bytes().len());
        self.start = self.start.saturating_add(count);
        self.offset = self
            .offset
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Reads until `need` bytes are in memory or the input ends; returns how many there are.
    /// The caller has bounded `need`.
    pub(super) fn fill(&mut self, need: usize) -> Result<usize, CaptureError> {
        while self.bytes().len() < need {
            self.make_room(need);
            let space = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.input.read(space) {
                Ok(0) => break,
                Ok(count) => self.end = self.end.saturating_add(count).min(self.buffer.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self
                        .offset
                        .saturating_add(u64::try_from(self.bytes().len()).unwrap_or(0));
                    return Err(CaptureError::Read {
                        name: self.name.clone(),
                        offset,
                        source,
                    });
                }
            }
        }
        Ok(self.bytes().len())
    }

    /// Passes over `count` bytes, in memory or not; returns how many there were.
    pub(super) fn skip(&mut self, count: usize) -> Result<usize, CaptureError> {
        let mut left = count;
        while left > 0 {
            if self.fill(1)? == 0 {
                break;
            }
            let step = left.min(self.bytes().len());
            self.consume(step);
            left = left.saturating_sub(step);
        }
        Ok(count.saturating_sub(left))
    }

    fn make_room(&mut self, need: usize) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end = self.end.saturating_sub(self.start);
            self.start = 0;
        }
        let size = need.max(READ_CHUNK);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
    }
}
