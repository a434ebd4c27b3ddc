//! iroh: two endpoints that know each other's address; no relay, no look-up of addresses, no port
//! mapping.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf as _, Bytes, BytesMut};
use iroh::endpoint::{Connection, QuicTransportConfig, RecvStream, SendStream, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode};

use crate::Failure;
use crate::ends::{There, both};
use crate::measure::{Measured, Work};
use crate::pipe::{Pipe, answer, ask};

const ALPN: &[u8] = b"ringway-bench/1";

/// Bytes of a UDP payload that the path carries: what iroh's path MTU discovery looks for at most.
const PAYLOAD: u16 = 1452;

/// Bytes of datagrams that may wait for the application. With the default of 1.25 MB one in a
/// hundred of a burst was dropped there.
const RECEIVED: usize = 8 * 1024 * 1024;

/// Messages taken from the library at once.
const BATCH: usize = 64;

/// Bytes that say how long a message is.
const PREFIX: usize = 4;

/// Messages as QUIC datagrams.
pub(crate) fn datagrams(work: Work) -> Result<Measured, Failure> {
    both(
        async move |mut there: There<EndpointAddr>| {
            let (_endpoint, connection) = accept(&mut there).await?;
            answer(&mut Datagrams::new(connection), &work, &there).await
        },
        async move |mut here| {
            let endpoint = bind().await?;
            let connection = endpoint.connect(here.address.clone(), ALPN).await?;
            ask(&mut Datagrams::new(connection), &work, &mut here).await
        },
    )
}

/// Messages behind their lengths on one stream.
pub(crate) fn stream(work: Work) -> Result<Measured, Failure> {
    both(
        async move |mut there: There<EndpointAddr>| {
            let (_endpoint, connection) = accept(&mut there).await?;
            let (send, receive) = connection.accept_bi().await?;
            answer(&mut Stream::new(send, receive), &work, &there).await
        },
        async move |mut here| {
            let endpoint = bind().await?;
            let connection = endpoint.connect(here.address.clone(), ALPN).await?;
            let (send, receive) = connection.open_bi().await?;
            ask(&mut Stream::new(send, receive), &work, &mut here).await
        },
    )
}

async fn bind() -> Result<Endpoint, Failure> {
    let config = QuicTransportConfig::builder()
        .initial_mtu(PAYLOAD)
        .min_mtu(PAYLOAD)
        .datagram_receive_buffer_size(Some(RECEIVED))
        .build();
    let endpoint = Endpoint::builder(presets::Minimal)
        .alpns(vec![ALPN.to_vec()])
        .relay_mode(RelayMode::Disabled)
        .transport_config(config)
        .clear_ip_transports()
        .bind_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
        .bind()
        .await?;
    Ok(endpoint)
}

/// Listens, says where, and waits for the other end.
async fn accept(there: &mut There<EndpointAddr>) -> Result<(Endpoint, Connection), Failure> {
    let endpoint = bind().await?;
    let sockets = endpoint.bound_sockets();
    let address = sockets
        .into_iter()
        .fold(EndpointAddr::new(endpoint.id()), EndpointAddr::with_ip_addr);
    there.say(address);
    let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
    let connection = incoming.await?;
    Ok((endpoint, connection))
}

/// Datagrams are neither repeated nor put in order.
struct Datagrams {
    connection: Connection,
    batch: Vec<Bytes>,
}

impl Datagrams {
    fn new(connection: Connection) -> Datagrams {
        let batch = vec![Bytes::new(); BATCH];
        Datagrams { connection, batch }
    }
}

impl Pipe for Datagrams {
    const RELIABLE: bool = false;

    async fn send(&mut self, message: Bytes) -> Result<(), Failure> {
        Ok(self.connection.send_datagram_wait(message).await?)
    }

    async fn receive(&mut self, into: &mut Vec<Bytes>) -> Result<(), Failure> {
        let count = self.connection.read_many_datagrams(&mut self.batch).await?;
        into.extend(self.batch.iter_mut().take(count).map(std::mem::take));
        Ok(())
    }
}

/// A stream is cut into messages by their lengths.
struct Stream {
    send: SendStream,
    receive: RecvStream,
    chunks: Vec<Bytes>,
    /// What has come of messages that are not yet whole.
    pending: BytesMut,
}

impl Stream {
    fn new(send: SendStream, receive: RecvStream) -> Stream {
        Stream {
            send,
            receive,
            chunks: vec![Bytes::new(); BATCH],
            pending: BytesMut::with_capacity(128 * 1024),
        }
    }
}

impl Pipe for Stream {
    const RELIABLE: bool = true;

    async fn send(&mut self, message: Bytes) -> Result<(), Failure> {
        let length = u32::try_from(message.len())?.to_be_bytes();
        let mut parts = [Bytes::copy_from_slice(&length), message];
        Ok(self.send.write_all_chunks(&mut parts).await?)
    }

    async fn receive(&mut self, into: &mut Vec<Bytes>) -> Result<(), Failure> {
        let before = into.len();
        while into.len() == before {
            let count = self.receive.read_many_chunks(&mut self.chunks).await?;
            let count = count.ok_or("the stream has ended")?;
            for chunk in self.chunks.iter_mut().take(count) {
                self.pending.extend_from_slice(chunk);
                chunk.clear();
            }
            while let Some(message) = cut(&mut self.pending) {
                into.push(message);
            }
        }
        Ok(())
    }
}

/// The next whole message.
fn cut(pending: &mut BytesMut) -> Option<Bytes> {
    let prefix: [u8; PREFIX] = pending.get(..PREFIX)?.try_into().ok()?;
    let length = usize::try_from(u32::from_be_bytes(prefix)).ok()?;
    if pending.len() < PREFIX + length {
        return None;
    }
    pending.advance(PREFIX);
    Some(pending.split_to(length).freeze())
}
