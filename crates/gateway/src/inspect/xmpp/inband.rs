//! A file inside the stream (XEP-0047): blocks in base64, numbered.

use data_encoding::BASE64_MIME_PERMISSIVE;

use crate::flow::Direction;
use crate::inspect::FileHead;
use crate::inspect::held::Reason;
use crate::inspect::reading::{Carried, Emit};

/// What one direction sends on one in-band stream.
#[derive(Debug)]
pub(super) struct InBand {
    stream: String,
    file: Carried,
    /// The number of the next block.
    next: u16,
    closed: bool,
}

impl InBand {
    pub(super) fn new(stream: &str, head: FileHead) -> Self {
        Self {
            stream: stream.to_owned(),
            file: Carried::new(head),
            next: 0,
            closed: false,
        }
    }

    pub(super) fn is(&self, stream: &str) -> bool {
        self.stream == stream
    }

    /// Whether all came that was announced.
    pub(super) fn is_whole(&self) -> bool {
        self.file.is_whole()
    }

    pub(super) fn handle_data(
        &mut self,
        sender: Direction,
        number: Option<&str>,
        text: &str,
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        if number.and_then(|number| number.trim().parse().ok()) != Some(self.next) {
            return Err("in-band data out of order");
        }
        self.next = self.next.wrapping_add(1);
        let packed: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        let data = BASE64_MIME_PERMISSIVE.decode(&packed);
        let data = data.or(Err("malformed base64"))?;
        self.file.data(sender, &mut data.as_slice(), emit)
    }

    /// Its receiver has closed the stream.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The stream is closed.
    pub(super) fn end(&mut self, sender: Direction, emit: Emit<'_>) {
        self.file.end(sender, emit);
    }

    pub(super) fn held(&self) -> usize {
        self.stream.capacity().saturating_add(self.file.held())
    }
}
