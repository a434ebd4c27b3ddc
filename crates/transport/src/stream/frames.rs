//! Frames of a stream: two bytes of length, then the message.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::limits::TCP_MTU;

/// Bytes from which a message shares the read's buffer instead of being copied.
const SHARED_FROM: usize = TCP_MTU / 4;

/// Cuts a byte stream into messages. Keeps what was read past the end of a frame.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Waits for the first byte of a frame; false at the end of the stream.
    pub(super) async fn begin(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<bool> {
        if !self.buffer.is_empty() {
            return Ok(true);
        }
        Ok(self.fill(reader).await? > 0)
    }

    /// Reads the frame that has begun; `None` if it is longer than the MTU.
    pub(super) async fn finish(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<Bytes>> {
        loop {
            match self.split() {
                Split::Message(message) => return Ok(Some(message)),
                Split::TooLong => return Ok(None),
                Split::Incomplete => {}
            }
            if self.fill(reader).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads what is there, at most to two full frames in the buffer.
    async fn fill(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.buffer.reserve(TCP_MTU.saturating_add(2));
        reader.read_buf(&mut self.buffer).await
    }

    fn split(&mut self) -> Split {
        let Some((head, after)) = self.buffer.split_first_chunk::<2>() else {
            return Split::Incomplete;
        };
        let length = usize::from(u16::from_be_bytes(*head));
        if length > TCP_MTU {
            return Split::TooLong;
        }
        if after.len() < length {
            return Split::Incomplete;
        }
        self.buffer.advance(head.len());
        let message = self.buffer.split_to(length);
        if length >= SHARED_FROM {
            return Split::Message(message.freeze());
        }
        // A short message that is kept must not keep the whole read alive.
        Split::Message(Bytes::copy_from_slice(&message))
    }
}

enum Split {
    Message(Bytes),
    TooLong,
    Incomplete,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds the bytes in chunks and collects the messages until the stream ends or is refused.
    fn cut(bytes: &[u8], chunk: usize) -> (Vec<Bytes>, bool) {
        let (mut frames, mut messages) = (Frames::default(), Vec::new());
        for part in bytes.chunks(chunk.max(1)) {
            frames.buffer.extend_from_slice(part);
            loop {
                match frames.split() {
                    Split::Message(message) => messages.push(message),
                    Split::TooLong => return (messages, true),
                    Split::Incomplete => break,
                }
            }
        }
        (messages, false)
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            chunk in 1_usize..700,
        ) {
            let mut bytes = Vec::new();
            for message in &messages {
                bytes.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
                bytes.extend_from_slice(message);
            }
            let (read, refused) = cut(&bytes, chunk);
            prop_assert!(!refused);
            prop_assert_eq!(read, messages);
        }

        #[test]
        fn random_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..5000),
            chunk in 1_usize..700,
        ) {
            let (read, _) = cut(&bytes, chunk);
            prop_assert!(read.iter().all(|m| m.len() <= TCP_MTU));
        }
    }
}
