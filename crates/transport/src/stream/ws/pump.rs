//! One WebSocket: what reads, what writes and pings, and the queue between.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::limits::{WS_KEEP_ALIVE, WS_MTU, WS_SEND_TIME, WS_SILENCE};
use crate::stream::connection::{End, Receiver, Writer};
use crate::transport::SendError;

impl From<Error> for End {
    fn from(error: Error) -> Self {
        match error {
            // A peer that is gone without a word is gone all the same.
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(
                ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing,
            ) => Self::Peer,
            Error::Io(error) => Self::Failed(error),
            _ => Self::Malformed,
        }
    }
}

/// Messages that wait to be sent.
#[derive(Debug)]
pub struct QueueWriter(pub(super) mpsc::Sender<Bytes>);

impl Writer for QueueWriter {
    fn try_write(&self, message: &[u8]) -> Result<(), SendError> {
        let Ok(permit) = self.0.try_reserve() else {
            if self.0.is_closed() {
                return Err(SendError::Closed);
            }
            return Err(SendError::WouldBlock);
        };
        permit.send(Bytes::copy_from_slice(message));
        Ok(())
    }
}

/// Reads and writes until either ends.
pub(super) async fn pump<S>(
    socket: WebSocketStream<S>,
    waiting: mpsc::Receiver<Bytes>,
    receiver: Receiver<QueueWriter>,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sink, stream) = socket.split();
    tokio::select! {
        ended = read(stream, receiver) => ended,
        ended = write(sink, waiting) => ended,
    }
}

/// Sends what waits, and a ping from time to time. Ends only when the connection does.
async fn write(
    mut sink: impl Sink<Message, Error = Error> + Unpin,
    mut waiting: mpsc::Receiver<Bytes>,
) -> End {
    let mut pings = interval(WS_KEEP_ALIVE);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once.
    pings.tick().await;
    loop {
        let message = tokio::select! {
            message = waiting.recv() => match message {
                Some(message) => Message::Binary(message),
                None => return End::Stopped,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        match timeout(WS_SEND_TIME, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.into(),
            Err(_) => return End::Slow,
        }
    }
}

/// Reads messages until the connection ends.
async fn read(
    mut stream: impl Stream<Item = Result<Message, Error>> + Unpin,
    mut receiver: Receiver<QueueWriter>,
) -> End {
    let mut heard = Instant::now();
    let mut used = heard;
    loop {
        let silent = after(heard, WS_SILENCE);
        let idle = after(used, receiver.idle);
        let Ok(next) = timeout_at(silent.min(idle), stream.next()).await else {
            let now = Instant::now();
            if now >= silent {
                return End::Slow;
            }
            if !receiver.is_held() {
                return End::Idle;
            }
            used = now;
            continue;
        };
        let message = match next {
            None => return End::Peer,
            Some(Err(error)) => return error.into(),
            Some(Ok(Message::Close(_))) => {
                // The next read answers it and then ends.
                receiver.close();
                continue;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                heard = Instant::now();
                continue;
            }
            Some(Ok(Message::Binary(message))) if message.len() <= WS_MTU => message,
            Some(Ok(_)) => return End::Malformed,
        };
        heard = Instant::now();
        used = heard;
        // What arrives shares the library's read buffer: a short message that is kept must not keep
        // it alive.
        let message = Bytes::copy_from_slice(&message);
        if !receiver.deliver(message) {
            return End::Stopped;
        }
    }
}

/// The time `wait` later, or as late as can be said.
fn after(start: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(1 << 30);
    start.checked_add(wait.min(FAR)).unwrap_or(start)
}
