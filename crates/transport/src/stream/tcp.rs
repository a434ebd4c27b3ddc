//! Messages framed in a TCP connection: two bytes of length (big endian), then the message.
//!
//! As in the paper a message is dropped when the write would block: TCP is used for where it gets
//! through, not for its reliability. At most the unsent rest of one frame is kept per connection.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::connection::{End, Opened, Receiver, Writer};
use super::frames::Frames;
use super::{Framing, StreamOptions, StreamTransport};
use crate::address::{Address, Protocol};
use crate::limits::{CONNECT_TIME, TCP_CONNECTIONS, TCP_FRAME_TIME, TCP_IDLE, TCP_MTU};
use crate::transport::{Incoming, SendError, StartError};
use crate::udp::advertised;

/// How to start a [`TcpTransport`].
#[derive(Debug, Clone)]
pub struct TcpOptions {
    /// Where to listen; port 0 lets the system choose. `None` for a leaf: it only dials out.
    pub listen: Option<SocketAddr>,
    /// Addresses to advertise instead of the one listened on, for example outside a NAT.
    pub advertise: Vec<SocketAddr>,
    /// Cost in HELLOs; less is better, no unit.
    pub cost: u32,
    /// Connections in both directions, at most [`TCP_CONNECTIONS`].
    pub connections: usize,
    /// Silence after which a connection without a held session is closed.
    pub idle: std::time::Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            listen: None,
            advertise: Vec::new(),
            cost: Protocol::Tcp.usual_cost(),
            connections: TCP_CONNECTIONS,
            idle: TCP_IDLE,
        }
    }
}

/// The `tcp` transport. Dropping it closes its listener and all its connections.
pub type TcpTransport = StreamTransport<TcpFraming>;

impl TcpTransport {
    /// Starts listening, if so configured. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if the address cannot be bound.
    pub fn start(
        options: TcpOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        let common = StreamOptions {
            listen: options.listen,
            cost: options.cost,
            connections: options.connections.min(TCP_CONNECTIONS),
            idle: options.idle,
        };
        let framing = TcpFraming {
            listen: options.listen,
            advertise: options.advertise,
        };
        Self::begin(framing, common, incoming)
    }
}

/// A length before each message.
#[derive(Debug)]
pub struct TcpFraming {
    listen: Option<SocketAddr>,
    advertise: Vec<SocketAddr>,
}

impl Framing for TcpFraming {
    const PROTOCOL: Protocol = Protocol::Tcp;
    const MTU: usize = TCP_MTU;
    const OPEN_TIME: Duration = CONNECT_TIME;

    type Writer = FrameWriter;

    fn takes(address: &Address) -> bool {
        matches!(address, Address::Tcp(_))
    }

    fn advertised(&self, local: SocketAddr) -> Vec<Address> {
        advertised(self.listen, &self.advertise, local)
            .map(Address::Tcp)
            .collect()
    }

    async fn open(&self, address: &Address) -> io::Result<Opened<FrameWriter>> {
        let Address::Tcp(socket) = address else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        opened(TcpStream::connect(socket).await?, *socket).await
    }

    async fn answer(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
    ) -> io::Result<Option<Opened<FrameWriter>>> {
        opened(stream, remote).await.map(Some)
    }
}

/// Prepares a stream so that the first `try_write` already knows that the socket takes bytes.
async fn opened(stream: TcpStream, remote: SocketAddr) -> io::Result<Opened<FrameWriter>> {
    stream.set_nodelay(true)?;
    stream.writable().await?;
    let (reader, writer) = stream.into_split();
    Ok(Opened {
        remote: Address::Tcp(remote),
        writer: FrameWriter {
            writer,
            rest: Mutex::new(BytesMut::new()),
            more: Notify::new(),
        },
        pump: Box::new(move |receiver| Box::pin(pump(reader, receiver))),
    })
}

/// Writes frames as far as the system takes them.
#[derive(Debug)]
pub struct FrameWriter {
    writer: OwnedWriteHalf,
    /// What of the last frame the system has not taken yet.
    rest: Mutex<BytesMut>,
    more: Notify,
}

impl Writer for FrameWriter {
    /// Writes the frame if the system takes at least its beginning now.
    fn try_write(&self, message: &[u8]) -> Result<(), SendError> {
        // The MTU is shorter than what two bytes can say.
        let head = u16::try_from(message.len())
            .unwrap_or(u16::MAX)
            .to_be_bytes();
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

impl FrameWriter {
    fn rest(&self) -> MutexGuard<'_, BytesMut> {
        // A panic elsewhere cannot leave the bytes half changed.
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the rests of frames. Ends only when the connection does.
    async fn flush(&self) -> End {
        loop {
            self.more.notified().await;
            match timeout(TCP_FRAME_TIME, self.flush_rest()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return End::Failed(error),
                Err(_) => return End::Slow,
            }
        }
    }

    async fn flush_rest(&self) -> io::Result<()> {
        while !self.rest().is_empty() {
            self.writer.writable().await?;
            let mut rest = self.rest();
            match self.writer.try_write(&rest) {
                Ok(written) => rest.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

async fn pump(reader: OwnedReadHalf, receiver: Receiver<FrameWriter>) -> End {
    let shared = receiver.shared.clone();
    tokio::select! {
        ended = read(reader, receiver) => ended,
        ended = shared.writer.flush() => ended,
    }
}

/// Reads frames until the connection ends.
async fn read(mut reader: OwnedReadHalf, mut receiver: Receiver<FrameWriter>) -> End {
    let mut frames = Frames::default();
    loop {
        match timeout(receiver.idle, frames.begin(&mut reader)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return End::Peer,
            Ok(Err(error)) => return End::Failed(error),
            Err(_) if receiver.is_held() => continue,
            Err(_) => return End::Idle,
        }
        let message = match timeout(TCP_FRAME_TIME, frames.finish(&mut reader)).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return End::Malformed,
            Ok(Err(error)) => return End::Failed(error),
            Err(_) => return End::Slow,
        };
        if !receiver.deliver(message) {
            return End::Stopped;
        }
    }
}
