//! Streams: bytes both ways, in order, each with a priority among those of its connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use noq::{RecvStream, VarInt};
use ringway_dtl::Priority;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::Error;
use crate::limits::DTL_WRITE;
use crate::quic::{self, PriorityStream, QuicConnection, QuicError, Written};

/// Bytes both ways, reliable and in order. It keeps its connection.
///
/// Reading ends when the peer finishes or drops the stream; it fails when the peer resets it, or
/// the connection ends before. Writes wait while the peer does not read, and for the stream's turn.
/// What was written last may still be on its way when a write or flush returns: wait for
/// [`finish`](Self::finish), or for an answer. Dropping the stream finishes it without waiting.
///
/// Write a kilobyte or more at a time where the peer may not read at once: 2 048 small pieces that
/// wait for their reader end the connection.
///
/// Getter: [`priority`](Self::priority). Commands: those of [`AsyncRead`] and [`AsyncWrite`],
/// [`set_priority`](Self::set_priority), [`finish`](Self::finish), [`reset`](Self::reset),
/// [`stop`](Self::stop), [`handle`](Self::handle), [`into_split`](Self::into_split).
#[derive(Debug)]
pub struct Stream {
    writer: StreamWriter,
    reader: StreamReader,
}

/// The half of a [`Stream`] that is written to.
#[derive(Debug)]
pub struct StreamWriter {
    sink: PriorityStream,
    /// The last piece, until it is written.
    waiting: Option<Written>,
    // After the sink, which is so dropped before it.
    connection: QuicConnection,
}

/// The half of a [`Stream`] that is read. Dropping it before the end has the peer stop.
#[derive(Debug)]
pub struct StreamReader {
    source: RecvStream,
    /// It is read as long as its connection is there.
    _connection: QuicConnection,
}

/// Changes the priority of a stream from elsewhere, while something else writes to it. It does not
/// keep the stream.
#[derive(Debug, Clone)]
pub struct PriorityHandle(quic::PriorityHandle);

impl PriorityHandle {
    /// As [`Stream::set_priority`]; nothing once the stream has ended.
    pub fn set_priority(&self, priority: Priority) {
        self.0.set_priority(priority);
    }
}

impl Stream {
    pub(super) fn new(
        connection: &QuicConnection,
        sink: PriorityStream,
        source: RecvStream,
    ) -> Stream {
        Stream {
            writer: StreamWriter {
                sink,
                waiting: None,
                connection: connection.clone(),
            },
            reader: StreamReader {
                source,
                _connection: connection.clone(),
            },
        }
    }

    /// What the stream is worth among those of its connection.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.writer.priority()
    }

    /// Changes what the stream is worth among those of its connection, from the next piece on: N
    /// gets N times what 1 gets, 0 what the others leave. What the connection as a whole is worth
    /// is [`Connection::set_priority`](super::Connection::set_priority).
    pub fn set_priority(&self, priority: Priority) {
        self.writer.set_priority(priority);
    }

    /// Changes the priority from elsewhere.
    #[must_use]
    pub fn handle(&self) -> PriorityHandle {
        self.writer.handle()
    }

    /// Says that nothing more comes, and waits until the peer has acknowledged everything.
    ///
    /// # Errors
    /// [`Error`] when the peer has stopped reading or the connection has ended before.
    pub async fn finish(&mut self) -> Result<(), Error> {
        self.writer.finish().await
    }

    /// Ends the writing side at once: the peer's reading fails. `false` if it has ended already.
    pub fn reset(&mut self, code: u32) -> bool {
        self.writer.reset(code)
    }

    /// Ends the reading side at once: the peer's writing fails. `false` if it has ended already.
    pub fn stop(&mut self, code: u32) -> bool {
        self.reader.stop(code)
    }

    /// The two halves, for different tasks.
    #[must_use]
    pub fn into_split(self) -> (StreamReader, StreamWriter) {
        (self.reader, self.writer)
    }
}

impl StreamWriter {
    /// See [`Stream::priority`].
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.sink.priority()
    }

    /// See [`Stream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        self.sink.set_priority(priority);
    }

    /// See [`Stream::handle`].
    #[must_use]
    pub fn handle(&self) -> PriorityHandle {
        PriorityHandle(self.sink.handle())
    }

    /// See [`Stream::finish`].
    ///
    /// # Errors
    /// See [`Stream::finish`].
    pub async fn finish(&mut self) -> Result<(), Error> {
        std::future::poll_fn(|cx| self.poll_written(cx)).await?;
        self.sink.finish();
        let delivered = self.sink.delivered().ok_or(Error::Closed)?;
        match delivered.await {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(Error::Stopped {
                code: code.into_inner(),
            }),
            Err(noq::StoppedError::ConnectionLost(error)) => Err(QuicError::from(error).into()),
            Err(other) => Err(Error::Failed {
                reason: other.to_string(),
            }),
        }
    }

    /// See [`Stream::reset`].
    pub fn reset(&mut self, code: u32) -> bool {
        self.sink.reset(code)
    }

    /// Waits for the last piece to be written.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        let written = ready!(Pin::new(waiting).poll(cx));
        self.waiting = None;
        Poll::Ready(match written {
            Ok(result) => result.map_err(Error::from),
            // The task that writes has ended, with the stream or with its connection.
            Err(_) => Err(self.ended()),
        })
    }

    fn ended(&self) -> Error {
        self.connection
            .close_reason()
            .map_or(Error::Closed, Error::from)
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let writer = self.get_mut();
        ready!(writer.poll_written(cx))?;
        let piece = bytes.get(..DTL_WRITE).unwrap_or(bytes);
        if piece.is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Nothing of ours waits before it, so it is taken.
        let offered = writer.sink.offer(&Bytes::copy_from_slice(piece));
        let (_taken, written) = offered.map_err(Error::from)?;
        writer.waiting = Some(written);
        Poll::Ready(Ok(piece.len()))
    }

    /// Waits until QUIC has taken everything, not until it has arrived.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_written(cx).map_err(io::Error::from)
    }

    /// Says that nothing more comes; it may still be on its way ([`Stream::finish`] waits).
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let writer = self.get_mut();
        ready!(writer.poll_written(cx))?;
        writer.sink.finish();
        Poll::Ready(Ok(()))
    }
}

impl StreamReader {
    /// See [`Stream::stop`].
    pub fn stop(&mut self, code: u32) -> bool {
        self.source.stop(VarInt::from_u32(code)).is_ok()
    }
}

impl AsyncRead for StreamReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.get_mut().source), cx, buffer)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().reader).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_shutdown(cx)
    }
}
