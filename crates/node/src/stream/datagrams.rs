//! The datagrams of a UDP service: beside its stream, where the connection carries them, so that
//! none waits for one that was lost; otherwise on the stream, each behind two bytes of length.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ringway_transport::quic::StreamDatagrams;
use tokio::io::{
    AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UdpSocket, UnixStream};
use tokio::sync::{Notify, mpsc};

use crate::limits::{SERVICE_DATAGRAMS, STREAM_BUFFER};

/// What both sides of the stream's task share.
#[derive(Debug, Default)]
struct Shared {
    /// What carries datagrams now, if anything does.
    over: Mutex<Option<StreamDatagrams>>,
    /// Bytes that were carried.
    sent: AtomicU64,
    received: AtomicU64,
    moved: Notify,
}

impl Shared {
    /// False if there is nothing that carries it.
    fn send(&self, datagram: &[u8]) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = over.as_ref().is_some_and(|over| over.send(datagram));
        if sent {
            self.count(&self.sent, datagram);
        }
        sent
    }

    fn count(&self, meter: &AtomicU64, datagram: &[u8]) {
        let length = u64::try_from(datagram.len()).unwrap_or(u64::MAX);
        meter.fetch_add(length, Ordering::Relaxed);
        self.moved.notify_one();
    }
}

/// What the task of a stream knows of the datagrams beside it.
#[derive(Debug)]
pub(super) struct Beside {
    taker: mpsc::Sender<Bytes>,
    shared: Arc<Shared>,
}

impl Beside {
    /// Those of the peer are to come here.
    pub(super) fn taker(&self) -> mpsc::Sender<Bytes> {
        self.taker.clone()
    }

    /// They go over this from now on.
    pub(super) fn set(&self, over: Option<StreamDatagrams>) {
        let current = self.shared.over.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = over;
    }

    /// Bytes sent and received beside the stream.
    pub(super) fn counts(&self) -> (u64, u64) {
        let read = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        (read(&self.shared.sent), read(&self.shared.received))
    }

    /// Until some have come or gone.
    pub(super) async fn moved(&self) {
        self.shared.moved.notified().await;
    }
}

/// Where the service's datagrams come from.
enum Source {
    Socket(Arc<UdpSocket>),
    /// A program that writes each behind its length.
    Program(OwnedReadHalf),
}

impl Source {
    /// The next one, in `space`; `None` once no more come.
    async fn next<'a>(&mut self, space: &'a mut [u8]) -> Option<&'a [u8]> {
        match self {
            Source::Socket(socket) => loop {
                // A service that is not there yet may come: UDP says so by an error at times.
                match socket.recv(space).await {
                    Ok(length) => return space.get(..length),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            },
            Source::Program(reader) => {
                let length = reader.read_u16().await.ok()?;
                let datagram = space.get_mut(..usize::from(length))?;
                reader.read_exact(datagram).await.ok()?;
                Some(datagram)
            }
        }
    }
}

/// Where they go.
enum Target {
    Socket(Arc<UdpSocket>),
    Program(OwnedWriteHalf),
}

impl Target {
    async fn give(&mut self, datagram: &[u8]) -> io::Result<()> {
        match self {
            // What the system does not take is lost, as datagrams may be.
            Target::Socket(socket) => {
                socket.send(datagram).await.ok();
                Ok(())
            }
            Target::Program(writer) => writer.write_all(&framed(datagram)).await,
        }
    }

    async fn end(&mut self) {
        if let Target::Program(writer) = self {
            writer.shutdown().await.ok();
        }
    }
}

/// A datagram behind its length.
fn framed(datagram: &[u8]) -> Vec<u8> {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(datagram.get(..usize::from(length)).unwrap_or_default());
    framed
}

/// Carries the datagrams of a service's socket, which is connected.
pub(super) fn of_socket(socket: UdpSocket) -> (DuplexStream, Beside) {
    let socket = Arc::new(socket);
    carry(Source::Socket(Arc::clone(&socket)), Target::Socket(socket))
}

/// Carries those of a program that puts two bytes of length before each.
pub(super) fn of_program(socket: UnixStream) -> (DuplexStream, Beside) {
    let (reader, writer) = socket.into_split();
    carry(Source::Program(reader), Target::Program(writer))
}

/// Gives the end on which the stream's task reads and writes what travels on the stream.
fn carry(source: Source, target: Target) -> (DuplexStream, Beside) {
    let (near, far) = duplex(STREAM_BUFFER);
    let (from_stream, to_stream) = split(far);
    let (taker, taken) = mpsc::channel(SERVICE_DATAGRAMS);
    let shared = Arc::<Shared>::default();
    let leaving = tokio::spawn(leave(source, to_stream, Arc::clone(&shared)));
    let (framed, frames) = mpsc::channel(1);
    tokio::spawn(unpack(from_stream, framed));
    let arriving = arrive(target, frames, taken, Arc::clone(&shared));
    tokio::spawn(async move {
        arriving.await;
        // A socket never says that no more will come.
        leaving.abort();
    });
    (near, Beside { taker, shared })
}

/// From the service to the peer.
async fn leave(mut source: Source, mut to_stream: WriteHalf<DuplexStream>, shared: Arc<Shared>) {
    let mut space = vec![0; usize::from(u16::MAX)];
    while let Some(datagram) = source.next(&mut space).await {
        if !shared.send(datagram) && to_stream.write_all(&framed(datagram)).await.is_err() {
            return;
        }
    }
    to_stream.shutdown().await.ok();
}

/// Cuts what comes on the stream into datagrams.
async fn unpack(mut from_stream: ReadHalf<DuplexStream>, framed: mpsc::Sender<Vec<u8>>) {
    while let Ok(length) = from_stream.read_u16().await {
        let mut datagram = vec![0; usize::from(length)];
        if from_stream.read_exact(&mut datagram).await.is_err()
            || framed.send(datagram).await.is_err()
        {
            return;
        }
    }
}

/// From the peer to the service, until the stream ends.
async fn arrive(
    mut target: Target,
    mut frames: mpsc::Receiver<Vec<u8>>,
    mut taken: mpsc::Receiver<Bytes>,
    shared: Arc<Shared>,
) {
    loop {
        let given = tokio::select! {
            Some(datagram) = taken.recv() => {
                shared.count(&shared.received, &datagram);
                target.give(&datagram).await
            }
            frame = frames.recv() => match frame {
                Some(datagram) => target.give(&datagram).await,
                None => break,
            },
        };
        if given.is_err() {
            return;
        }
    }
    target.end().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_connection_they_travel_on_the_stream() {
        let (program, socket) = UnixStream::pair().unwrap();
        let (near, beside) = of_program(socket);
        let (mut from_program, mut to_program) = split(near);
        let (mut read, mut write) = program.into_split();
        write.write_all(&framed(b"there")).await.unwrap();
        let mut on_stream = [0; 7];
        from_program.read_exact(&mut on_stream).await.unwrap();
        assert_eq!(&on_stream, b"\0\x05there");
        to_program.write_all(b"\0\x04ba").await.unwrap();
        // One that comes beside it never lands within another.
        beside
            .taker()
            .send(Bytes::from_static(b"beside"))
            .await
            .unwrap();
        let mut first = [0; 8];
        read.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"\0\x06beside");
        to_program.write_all(b"ck").await.unwrap();
        let mut second = [0; 6];
        read.read_exact(&mut second).await.unwrap();
        assert_eq!(&second, b"\0\x04back");
        assert_eq!(beside.counts(), (0, 6));
    }

    #[tokio::test]
    async fn an_end_of_either_side_reaches_the_other() {
        let (program, socket) = UnixStream::pair().unwrap();
        let (near, _beside) = of_program(socket);
        let (mut from_program, mut to_program) = split(near);
        let (mut read, write) = program.into_split();
        drop(write);
        assert_eq!(from_program.read(&mut [0]).await.unwrap(), 0);
        to_program.shutdown().await.unwrap();
        assert_eq!(read.read(&mut [0]).await.unwrap(), 0);
    }
}
