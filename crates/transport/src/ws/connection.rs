//! One WebSocket: a task that reads, one that writes and pings, and the link to send on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::address::{Address, WebAddress};
use crate::counters::Counters;
use crate::limits::{WS_KEEP_ALIVE, WS_MTU, WS_QUEUE, WS_SEND_TIME, WS_SILENCE};
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

/// Starts the task of an upgraded connection and returns a session on it.
pub(super) fn start<S>(
    socket: WebSocketStream<S>,
    remote: WebAddress,
    context: Context,
    place: Place,
) -> Session
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (queue, waiting) = mpsc::channel(WS_QUEUE);
    let shared = Arc::new(Shared {
        queue,
        remote,
        closed: AtomicBool::new(false),
        counters: context.counters.clone(),
        place,
    });
    let link = WsLink::new(shared.clone());
    let held = Arc::downgrade(&link);
    let mut stopped = context.stopped.clone();
    tokio::spawn(async move {
        let (sink, stream) = socket.split();
        let ended = tokio::select! {
            ended = read(stream, &shared, held, &context) => ended,
            ended = write(sink, waiting) => ended,
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
    /// The peer closed it.
    Peer,
    /// We stopped.
    Stopped,
    /// Nobody used it.
    Idle,
    /// Nobody used it, and somebody else wanted its place.
    Crowded,
    /// Nothing was heard, or a message did not leave.
    Slow,
    /// What arrived is none of our messages.
    Malformed,
    /// The network failed.
    Failed(io::Error),
}

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

fn count(shared: &Shared, ended: &End) {
    tracing::trace!(remote = %shared.remote, ?ended, "ws connection ended");
    match ended {
        End::Peer | End::Stopped => {}
        End::Crowded => shared.counters.refused.add(),
        End::Idle | End::Slow => shared.counters.timed_out.add(),
        End::Malformed => shared.counters.malformed.add(),
        End::Failed(error) => {
            tracing::debug!(remote = %shared.remote, %error, "ws connection failed");
            shared.counters.failed.add();
        }
    }
}

#[derive(Debug)]
struct Shared {
    queue: mpsc::Sender<Bytes>,
    remote: WebAddress,
    closed: AtomicBool,
    counters: Arc<Counters>,
    place: Place,
}

/// What the sessions hold; gone when the last is dropped.
#[derive(Debug)]
struct WsLink(Arc<Shared>);

impl WsLink {
    /// While there is one, somebody holds a session.
    fn new(shared: Arc<Shared>) -> Arc<Self> {
        shared.place.keep();
        Arc::new(Self(shared))
    }
}

impl Drop for WsLink {
    fn drop(&mut self) {
        self.0.place.release();
    }
}

impl Link for WsLink {
    fn offer(&self, message: &[u8]) -> Result<(), SendError> {
        let shared = &self.0;
        if message.len() > WS_MTU {
            shared.counters.too_large.add();
            return Err(SendError::TooLarge {
                size: message.len(),
                mtu: WS_MTU,
            });
        }
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let Ok(place) = shared.queue.try_reserve() else {
            if shared.queue.is_closed() {
                return Err(SendError::Closed);
            }
            return Err(SendError::WouldBlock);
        };
        place.send(Bytes::copy_from_slice(message));
        shared.counters.sent(message.len());
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn remote(&self) -> Address {
        Address::Ws(self.0.remote.clone())
    }

    fn mtu(&self) -> usize {
        WS_MTU
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
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
    shared: &Arc<Shared>,
    mut held: Weak<WsLink>,
    context: &Context,
) -> End {
    let mut heard = Instant::now();
    let mut used = heard;
    loop {
        let silent = after(heard, WS_SILENCE);
        let idle = after(used, context.idle);
        let Ok(next) = timeout_at(silent.min(idle), stream.next()).await else {
            let now = Instant::now();
            if now >= silent {
                return End::Slow;
            }
            if held.strong_count() == 0 {
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
                shared.closed.store(true, Ordering::Release);
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
        let link = held.upgrade().unwrap_or_else(|| {
            let link = WsLink::new(shared.clone());
            held = Arc::downgrade(&link);
            link
        });
        // What arrives shares the library's read buffer: a short message that is kept must not keep
        // it alive.
        let message = Bytes::copy_from_slice(&message);
        if !context.inbox.deliver(Session::new(link), message) {
            return End::Stopped;
        }
    }
}

/// The time `wait` later, or as late as can be said.
fn after(start: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(1 << 30);
    start.checked_add(wait.min(FAR)).unwrap_or(start)
}
