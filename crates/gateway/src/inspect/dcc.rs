//! A file sent from client to client (DCC): its bytes one way, counts of those received the other
//! way.

use super::FileHead;
use super::held::{Held, Reason};
use super::reading::{Carried, Emit, Reading};
use crate::flow::Direction;

/// A transfer. The end that sends first sends the file: there is nothing to acknowledge before.
#[derive(Debug)]
pub(super) struct Dcc {
    file: Carried,
    acknowledged: Held,
}

impl Dcc {
    pub(super) fn new(head: FileHead) -> Self {
        Self {
            file: Carried::new(head),
            acknowledged: Held::default(),
        }
    }
}

impl Reading for Dcc {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        if self.file.sender().is_none_or(|sender| sender == direction) {
            return self.file.data(direction, input, emit);
        }
        // Each is the number of bytes received so far: anything else is no acknowledgement but
        // data.
        while let Some(number) = self.acknowledged.exactly(input, 4) {
            let number = <[u8; 4]>::try_from(number).map_or(u32::MAX, u32::from_be_bytes);
            if u64::from(number) > self.file.reach() {
                return Err("data both ways");
            }
        }
        Ok(())
    }

    fn end(&mut self, direction: Direction, emit: Emit<'_>) -> Result<(), Reason> {
        self.file.end(direction, emit);
        Ok(())
    }

    fn held(&self) -> usize {
        self.file.held().saturating_add(self.acknowledged.len())
    }
}
