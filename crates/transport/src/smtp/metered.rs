//! A stream from which only so much may be read: the libraries keep an answer of any length.

use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::MAIL_ANSWER_BYTES;

/// A connection to a mail server, with TLS or without.
pub(super) trait Io: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin> Io for T {}

/// What may still be read until the next command.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget(Arc<AtomicU64>);

impl Budget {
    /// A whole answer may be read again.
    pub(super) fn renew(&self) {
        self.0.store(MAIL_ANSWER_BYTES, Ordering::Relaxed);
    }

    pub(super) fn meter<S>(&self, stream: S) -> Metered<S> {
        self.renew();
        Metered {
            stream,
            left: self.clone(),
        }
    }
}

/// Reads fail once the budget is spent.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    left: Budget,
}

impl<S> Metered<S> {
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        let left = self.left.0.load(Ordering::Relaxed);
        match left.checked_sub(read) {
            Some(left) => {
                self.left.0.store(left, Ordering::Relaxed);
                Poll::Ready(Ok(()))
            }
            None => Poll::Ready(Err(io::Error::other("the server's answer is too long"))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn an_endless_answer_ends() {
        let budget = Budget::default();
        let mut stream = budget.meter(tokio::io::join(tokio::io::repeat(7), tokio::io::sink()));
        let mut answer = vec![0; MAIL_ANSWER_BYTES as usize];
        stream.read_exact(&mut answer).await.unwrap();
        assert!(stream.read_u8().await.is_err());
        budget.renew();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
    }
}
