//! Streams to services of other members, and services that a program offers to them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::UnixStream;

use crate::client::Client;
use crate::connection::{ClientError, Connection};
use crate::message::{AskedPriority, Reply, Request};
use crate::streams::{ServiceStatus, StreamStatus};

/// A stream of bytes between this member and a peer, over whatever way there is. It survives a
/// change of the way. Shutting it down ends what is sent; the peer may go on.
#[derive(Debug)]
pub struct Stream {
    client: Client,
    opened: StreamStatus,
    bytes: BufReader<UnixStream>,
}

impl Stream {
    async fn opened(client: &Client, mut connection: Connection) -> Result<Stream, ClientError> {
        let Some(Reply::Opened(opened)) = connection.next().await? else {
            return Err(ClientError::Unexpected);
        };
        Ok(Stream {
            client: client.clone(),
            opened: *opened,
            bytes: connection.into_bytes(),
        })
    }

    /// 32 hex digits; the same on both sides.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.opened.id
    }

    /// Name of the other member, as its certificate has it.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.opened.peer
    }

    /// Name of the service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.opened.service
    }

    /// The stream as it was when it was opened; [`Client::streams`] has its figures.
    #[must_use]
    pub fn status(&self) -> &StreamStatus {
        &self.opened
    }

    /// Changes the priority of what this side sends, while it flows.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn set_priority(
        &self,
        priority: impl Into<AskedPriority>,
    ) -> Result<StreamStatus, ClientError> {
        let request = Request::Priority {
            transfer: self.opened.id.clone(),
            priority: priority.into(),
        };
        let connection = self.client.request(&request).await?;
        connection.only(as_stream).await
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(context, into)
    }
}

impl AsyncBufRead for Stream {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Pin::new(&mut self.get_mut().bytes).poll_fill_buf(context)
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        Pin::new(&mut self.bytes).consume(amount);
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(context)
    }
}

/// A service that this program offers; it ends when this is dropped.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    serving: ServiceStatus,
    connection: Connection,
}

impl Listener {
    /// The service as the daemon offers it.
    #[must_use]
    pub fn status(&self) -> &ServiceStatus {
        &self.serving
    }

    /// The next stream that a member opens, and the name of that member.
    ///
    /// A call that is given up may lose the stream that it was taking; its opener sees it end.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when the daemon ends, and as [`Client::status`].
    pub async fn accept(&mut self) -> Result<(Stream, String), ClientError> {
        loop {
            let Some(Reply::Incoming { id, .. }) = self.connection.next().await? else {
                return Err(ClientError::Unexpected);
            };
            let connection = self.client.request(&Request::Take { id }).await?;
            match Stream::opened(&self.client, connection).await {
                Ok(stream) => {
                    let peer = stream.peer().to_owned();
                    return Ok((stream, peer));
                }
                // Its opener has gone, or did not wait for so long.
                Err(ClientError::Refused(_) | ClientError::Closed) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Streams and services.
impl Client {
    /// Opens a stream to a service of a member, with the service's priority.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where the peer does not answer or does not offer it to this member,
    /// and as [`status`](Client::status).
    pub async fn open(&self, peer: &str, service: &str) -> Result<Stream, ClientError> {
        self.open_with(peer, service, None).await
    }

    /// The same with a priority of what this side sends: a number, or the name of a class.
    ///
    /// # Errors
    /// As [`open`](Client::open).
    pub async fn open_at(
        &self,
        peer: &str,
        service: &str,
        priority: impl Into<AskedPriority>,
    ) -> Result<Stream, ClientError> {
        self.open_with(peer, service, Some(priority.into())).await
    }

    async fn open_with(
        &self,
        peer: &str,
        service: &str,
        priority: Option<AskedPriority>,
    ) -> Result<Stream, ClientError> {
        let request = Request::Open {
            peer: peer.to_owned(),
            service: service.to_owned(),
            priority,
        };
        Stream::opened(self, self.request(&request).await?).await
    }

    /// Offers a service to the members whose names fit one of `from`, in which `*` stands for any
    /// characters, for as long as the listener lives.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where there is a service of this name, and as
    /// [`status`](Client::status).
    pub async fn serve(
        &self,
        name: &str,
        from: &[impl AsRef<str>],
    ) -> Result<Listener, ClientError> {
        let request = Request::Serve {
            name: name.to_owned(),
            from: from.iter().map(|from| from.as_ref().to_owned()).collect(),
            priority: None,
        };
        let mut connection = self.request(&request).await?;
        let Some(Reply::Serving(serving)) = connection.next().await? else {
            return Err(ClientError::Unexpected);
        };
        Ok(Listener {
            client: self.clone(),
            serving: *serving,
            connection,
        })
    }

    /// The services that a member offers to this one, or this member's own without `peer`.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn services(&self, peer: Option<&str>) -> Result<Vec<ServiceStatus>, ClientError> {
        let peer = peer.map(str::to_owned);
        let service = |reply| match reply {
            Reply::Service(service) => Some(*service),
            _ => None,
        };
        let connection = self.request(&Request::Services { peer }).await?;
        connection.each(service).await
    }

    /// The open streams, oldest first.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn streams(&self) -> Result<Vec<StreamStatus>, ClientError> {
        self.request(&Request::Streams).await?.each(as_stream).await
    }
}

fn as_stream(reply: Reply) -> Option<StreamStatus> {
    match reply {
        Reply::Stream(stream) => Some(*stream),
        _ => None,
    }
}
