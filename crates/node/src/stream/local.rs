//! The program at this end of a stream: a socket of this machine.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UdpSocket, UnixStream};
use tokio::time::timeout;

use super::StreamError;
use super::datagrams::{self, Beside};
use crate::config::ServiceTarget;
use crate::limits::SERVICE_CONNECT;

/// A socket, both ways of it.
pub(super) struct Local {
    pub(super) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Of a UDP service.
    pub(super) beside: Option<Beside>,
    /// By which its program learns that the stream broke, and did not end.
    socket: Option<OwnedFd>,
}

/// A connected socket of streams that a program has handed over.
#[derive(Debug)]
pub(crate) struct Handed(OwnedFd, AddressFamily);

impl Handed {
    /// # Errors
    /// [`StreamError::Usage`] for anything else.
    pub(crate) fn new(file: File) -> Result<Handed, StreamError> {
        let socket = OwnedFd::from(file);
        let kind = sockopt::socket_type(&socket);
        let family = sockopt::socket_domain(&socket);
        let connected = rustix::net::getpeername(&socket);
        match (kind, family, connected) {
            (Ok(SocketType::STREAM), Ok(family), Ok(_))
                if [
                    AddressFamily::INET,
                    AddressFamily::INET6,
                    AddressFamily::UNIX,
                ]
                .contains(&family) =>
            {
                Ok(Handed(socket, family))
            }
            _ => Err(StreamError::Usage(
                "what was handed over is no connected socket of TCP or Unix streams".to_owned(),
            )),
        }
    }
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
            beside: None,
            socket: Some(socket),
        })
    }

    pub(super) fn unix(stream: UnixStream) -> Local {
        let (reader, writer) = stream.into_split();
        Local {
            reader: Box::new(reader),
            writer: Box::new(writer),
            beside: None,
            socket: None,
        }
    }

    /// A program whose socket was handed over.
    pub(super) fn handed(Handed(socket, family): Handed) -> io::Result<Local> {
        if family == AddressFamily::UNIX {
            let stream = std::os::unix::net::UnixStream::from(socket);
            stream.set_nonblocking(true)?;
            return Ok(Local::unix(UnixStream::from_std(stream)?));
        }
        let stream = std::net::TcpStream::from(socket);
        stream.set_nonblocking(true)?;
        Local::tcp(TcpStream::from_std(stream)?)
    }

    /// A program at this end of a UDP service: each datagram is behind two bytes of length.
    pub(super) fn unix_datagrams(stream: UnixStream) -> Local {
        let (near, beside) = datagrams::of_program(stream);
        Local::carried(near, beside)
    }

    async fn udp(address: SocketAddr) -> io::Result<Local> {
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        let (near, beside) = datagrams::of_socket(socket);
        Ok(Local::carried(near, beside))
    }

    fn carried(near: DuplexStream, beside: Beside) -> Local {
        let (reader, writer) = tokio::io::split(near);
        Local {
            reader: Box::new(reader),
            writer: Box::new(writer),
            beside: Some(beside),
            socket: None,
        }
    }

    /// Ends it so that its program learns that the stream broke.
    pub(super) fn abort(self) {
        if let Some(socket) = self.socket {
            // A reset, and at once: to drop the halves would first send an end. One that its
            // program has reset already needs none.
            rustix::net::connect_unspec(&socket).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn broken_stream_is_no_ended_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = ServiceTarget::Tcp(listener.local_addr().unwrap());
        let local = Local::connect(&target).await.unwrap();
        let (mut program, _) = listener.accept().unwrap();
        local.abort();
        let end = std::io::Read::read(&mut program, &mut [0]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn only_connected_streams_are_taken() {
        let (near, far) = UnixStream::pair().unwrap();
        assert!(Handed::new(OwnedFd::from(near).into()).is_ok());
        drop(far);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(Handed::new(OwnedFd::from(connected).into()).is_ok());
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect("127.0.0.1:9").unwrap();
        let wrong = [
            OwnedFd::from(listener),
            OwnedFd::from(datagrams),
            OwnedFd::from(tempfile::tempfile().unwrap()),
        ];
        for wrong in wrong {
            let refused = Handed::new(wrong.into());
            assert!(matches!(refused, Err(StreamError::Usage(_))), "{refused:?}");
        }
    }
}
