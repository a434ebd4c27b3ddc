//! The program at this end of a stream: a socket of this machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};
use tokio::net::{TcpStream, UdpSocket, UnixStream};
use tokio::time::timeout;

use crate::config::ServiceTarget;
use crate::limits::{SERVICE_CONNECT, STREAM_BUFFER};

/// A socket, both ways of it.
pub(super) struct Local {
    pub(super) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// By which its program learns that the stream broke, and did not end.
    socket: Option<OwnedFd>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}

impl Local {
    /// Connects to a service of this machine.
    pub(super) async fn connect(target: &ServiceTarget) -> io::Result<Local> {
        let connecting = async {
            match target {
                ServiceTarget::Tcp(address) => Local::tcp(TcpStream::connect(address).await?),
                ServiceTarget::Unix(path) => Ok(Local::unix(UnixStream::connect(path).await?)),
                ServiceTarget::Udp(address) => Local::udp(*address).await,
            }
        };
        let connected = timeout(SERVICE_CONNECT, connecting).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn tcp(stream: TcpStream) -> io::Result<Local> {
        stream.set_nodelay(true)?;
        let socket = stream.as_fd().try_clone_to_owned()?;
        let (reader, writer) = stream.into_split();
        Ok(Local {
            reader: Box::new(reader),
            writer: Box::new(writer),
            socket: Some(socket),
        })
    }

    pub(super) fn unix(stream: UnixStream) -> Local {
        let (reader, writer) = stream.into_split();
        Local {
            reader: Box::new(reader),
            writer: Box::new(writer),
            socket: None,
        }
    }

    /// Datagrams, each with two bytes of length before it.
    async fn udp(address: SocketAddr) -> io::Result<Local> {
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = Arc::new(UdpSocket::bind(any).await?);
        socket.connect(address).await?;
        let (near, far) = duplex(STREAM_BUFFER);
        let (mut from_stream, mut to_stream) = tokio::io::split(far);
        let sender = Arc::clone(&socket);
        let receiving = tokio::spawn(async move {
            let mut datagram = vec![0; usize::from(u16::MAX)];
            loop {
                // A service that is not there yet may come: UDP says so by an error at times.
                let Ok(length) = socket.recv(&mut datagram).await else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let framed = framed(datagram.get(..length).unwrap_or_default());
                if to_stream.write_all(&framed).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Ok(length) = from_stream.read_u16().await {
                let mut datagram = vec![0; usize::from(length)];
                if from_stream.read_exact(&mut datagram).await.is_err() {
                    break;
                }
                // What the system does not take is lost, as datagrams may be.
                sender.send(&datagram).await.ok();
            }
            receiving.abort();
        });
        let (reader, writer) = tokio::io::split(near);
        Ok(Local {
            reader: Box::new(reader),
            writer: Box::new(writer),
            socket: None,
        })
    }

    /// Ends it so that its program learns that the stream broke.
    pub(super) fn abort(self) {
        if let Some(socket) = self.socket {
            let at_once = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&socket, at_once).unwrap_or_default();
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
