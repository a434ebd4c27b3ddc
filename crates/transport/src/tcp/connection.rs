//! One TCP connection: a task that reads frames, a task that flushes, and the link to send on.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::address::Address;
use crate::counters::Counters;
use crate::limits::{TCP_FRAME_TIME, TCP_MTU};
use crate::places::Place;
use crate::transport::{Inbox, Link, SendError, Session};

/// What every connection of a transport shares.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) inbox: Inbox,
    pub(super) counters: Arc<Counters>,
    pub(super) stopped: watch::Receiver<()>,
    pub(super) idle: Duration,
}

/// Starts the tasks of a connected stream and returns a session on it.
pub(super) fn start(
    stream: TcpStream,
    remote: SocketAddr,
    context: Context,
    place: Place,
) -> Session {
    let (reader, writer) = stream.into_split();
    let shared = Arc::new(Shared {
        writer,
        remote,
        rest: Mutex::new(BytesMut::new()),
        more: Notify::new(),
        closed: AtomicBool::new(false),
        counters: context.counters.clone(),
        place,
    });
    let link = TcpLink::new(shared.clone());
    let held = Arc::downgrade(&link);
    let mut stopped = context.stopped.clone();
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = read(reader, &shared, held, &context) => ended,
            ended = flush(&shared) => ended,
            _ = stopped.changed() => End::Stopped,
            () = shared.place.must_go() => End::Crowded,
        };
        shared.closed.store(true, Ordering::Release);
        count(&shared, &ended);
    });
    Session::new(link)
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The peer closed it, between two frames.
    Peer,
    /// We stopped.
    Stopped,
    /// Nobody used it.
    Idle,
    /// Nobody used it, and somebody else wanted its place.
    Crowded,
    /// A frame or a rest of one took too long.
    Slow,
    /// A frame longer than the MTU.
    Malformed,
    /// The network failed.
    Failed(io::Error),
}

fn count(shared: &Shared, ended: &End) {
    tracing::trace!(remote = %shared.remote, ?ended, "tcp connection ended");
    match ended {
        End::Peer | End::Stopped => {}
        End::Crowded => shared.counters.refused.add(),
        End::Idle | End::Slow => shared.counters.timed_out.add(),
        End::Malformed => shared.counters.malformed.add(),
        End::Failed(error) => {
            tracing::debug!(remote = %shared.remote, %error, "tcp connection failed");
            shared.counters.failed.add();
        }
    }
}

#[derive(Debug)]
struct Shared {
    writer: OwnedWriteHalf,
    remote: SocketAddr,
    /// What of the last frame the system has not taken yet.
    rest: Mutex<BytesMut>,
    more: Notify,
    closed: AtomicBool,
    counters: Arc<Counters>,
    place: Place,
}

impl Shared {
    fn rest(&self) -> MutexGuard<'_, BytesMut> {
        // A panic elsewhere cannot leave the bytes half changed.
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the frame if the system takes at least its beginning now.
    fn write(&self, head: [u8; 2], message: &[u8]) -> Result<(), SendError> {
        let mut rest = self.rest();
        if !rest.is_empty() {
            return Err(SendError::WouldBlock);
        }
        let parts = [IoSlice::new(&head), IoSlice::new(message)];
        let written = match self.writer.try_write_vectored(&parts) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(SendError::WouldBlock);
            }
            Err(_) => return Err(SendError::Closed),
        };
        let of_message = written.saturating_sub(head.len());
        if written < head.len() {
            rest.extend_from_slice(head.get(written..).unwrap_or_default());
        }
        rest.extend_from_slice(message.get(of_message..).unwrap_or_default());
        if !rest.is_empty() {
            self.more.notify_one();
        }
        Ok(())
    }
}

/// What the sessions hold; gone when the last is dropped.
#[derive(Debug)]
struct TcpLink(Arc<Shared>);

impl TcpLink {
    /// While there is one, somebody holds a session.
    fn new(shared: Arc<Shared>) -> Arc<Self> {
        shared.place.keep();
        Arc::new(Self(shared))
    }
}

impl Drop for TcpLink {
    fn drop(&mut self) {
        self.0.place.release();
    }
}

impl Link for TcpLink {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let shared = &self.0;
        let too_large = SendError::TooLarge {
            size: message.len(),
            mtu: TCP_MTU,
        };
        let length = u16::try_from(message.len()).ok();
        let Some(length) = length.filter(|_| message.len() <= TCP_MTU) else {
            shared.counters.too_large.add();
            return Err(too_large);
        };
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let sent = shared.write(length.to_be_bytes(), message);
        match sent {
            Ok(()) => shared.counters.sent(message.len()),
            Err(SendError::WouldBlock) => {}
            Err(_) => shared.closed.store(true, Ordering::Release),
        }
        sent
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn remote(&self) -> Address {
        Address::Tcp(self.0.remote)
    }

    fn mtu(&self) -> usize {
        TCP_MTU
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
}

/// Sends the rests of frames. Ends only when the connection does.
async fn flush(shared: &Shared) -> End {
    loop {
        shared.more.notified().await;
        match timeout(TCP_FRAME_TIME, flush_rest(shared)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return End::Failed(error),
            Err(_) => return End::Slow,
        }
    }
}

async fn flush_rest(shared: &Shared) -> io::Result<()> {
    while !shared.rest().is_empty() {
        shared.writer.writable().await?;
        let mut rest = shared.rest();
        match shared.writer.try_write(&rest) {
            Ok(written) => rest.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads frames until the connection ends.
async fn read(
    mut reader: OwnedReadHalf,
    shared: &Arc<Shared>,
    mut held: Weak<TcpLink>,
    context: &Context,
) -> End {
    let mut frames = Frames::default();
    loop {
        match timeout(context.idle, frames.begin(&mut reader)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return End::Peer,
            Ok(Err(error)) => return End::Failed(error),
            Err(_) if held.strong_count() > 0 => continue,
            Err(_) => return End::Idle,
        }
        let message = match timeout(TCP_FRAME_TIME, frames.finish(&mut reader)).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return End::Malformed,
            Ok(Err(error)) => return End::Failed(error),
            Err(_) => return End::Slow,
        };
        let link = held.upgrade().unwrap_or_else(|| {
            let link = TcpLink::new(shared.clone());
            held = Arc::downgrade(&link);
            link
        });
        if !context.inbox.deliver(Session::new(link), message) {
            return End::Stopped;
        }
    }
}

/// Bytes from which a message shares the read's buffer instead of being copied.
const SHARED_FROM: usize = TCP_MTU / 4;

/// Cuts a byte stream into messages. Keeps what was read past the end of a frame.
#[derive(Debug, Default)]
struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Waits for the first byte of a frame; false at the end of the stream.
    async fn begin(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        if !self.buffer.is_empty() {
            return Ok(true);
        }
        Ok(self.fill(reader).await? > 0)
    }

    /// Reads the frame that has begun; `None` if it is longer than the MTU.
    async fn finish(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Bytes>> {
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
