//! Bounded pipes between blocking threads, which read and write files, and tasks, which send and
//! receive.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::mpsc;

use crate::limits::PIPE_BLOCKS;

/// Bytes that travel as one piece.
pub(super) const BLOCK: usize = 64 * 1024;

/// The end that a blocking thread writes to.
pub(super) struct PipeWriter {
    sender: mpsc::Sender<Bytes>,
    block: BytesMut,
}

/// The end that a blocking thread reads from.
pub(super) struct PipeReader {
    receiver: mpsc::Receiver<Bytes>,
    block: Bytes,
}

/// A pipe from a blocking thread to a task.
pub(super) fn to_task() -> (PipeWriter, mpsc::Receiver<Bytes>) {
    let (sender, receiver) = mpsc::channel(PIPE_BLOCKS);
    let block = BytesMut::with_capacity(BLOCK);
    (PipeWriter { sender, block }, receiver)
}

/// A pipe from a task to a blocking thread.
pub(super) fn to_thread() -> (mpsc::Sender<Bytes>, PipeReader) {
    let (sender, receiver) = mpsc::channel(PIPE_BLOCKS);
    let block = Bytes::new();
    (sender, PipeReader { receiver, block })
}

impl PipeWriter {
    fn send_block(&mut self) -> io::Result<()> {
        let block = std::mem::replace(&mut self.block, BytesMut::with_capacity(BLOCK)).freeze();
        self.sender
            .blocking_send(block)
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the transfer has ended"))
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK.saturating_sub(self.block.len()).min(bytes.len());
        let (taken, _) = bytes.split_at(room);
        self.block.extend_from_slice(taken);
        if self.block.len() >= BLOCK {
            self.send_block()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.send_block()
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.block.is_empty() {
            match self.receiver.blocking_recv() {
                Some(block) => self.block = block,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.block.len());
        self.block.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_written_is_read_in_order() {
        let (mut writer, mut from_thread) = to_task();
        let (to_reader, mut reader) = to_thread();
        let data: Vec<u8> = (0..1_000_000u32).flat_map(|i| i.to_be_bytes()).collect();
        let expected = data.clone();
        let writing = tokio::task::spawn_blocking(move || {
            writer.write_all(&data).unwrap();
            writer.flush().unwrap();
        });
        let reading = tokio::task::spawn_blocking(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            read
        });
        while let Some(block) = from_thread.recv().await {
            to_reader.send(block).await.unwrap();
        }
        drop(to_reader);
        writing.await.unwrap();
        assert!(reading.await.unwrap() == expected);
    }
}
