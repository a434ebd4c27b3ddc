//! s2n-quic with its CUBIC.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::io::tokio::{Builder, Provider};
use s2n_quic::provider::tls::rustls as s2n_tls;
use s2n_quic::stream::Error as StreamError;
use s2n_quic::{Client, Server, connection};

use crate::ends;
use crate::sockets::{self, Packets};
use crate::{Failure, tls};

/// Pieces taken from a stream at once.
const PIECES: usize = 64;

pub(crate) fn receive(at: SocketAddr, packets: Packets) -> Result<(), Failure> {
    ends::receive(async |meter| {
        let server = Server::builder()
            .with_tls(s2n_tls::Server::from(tls::server()?))?
            .with_io(io(at, packets)?)?;
        let mut server = server.start()?;
        ends::line("ready")?;
        let mut connection = server.accept().await.ok_or("the endpoint is closed")?;
        let stream = connection.accept_receive_stream().await?;
        let mut stream = stream.ok_or("the peer has closed")?;
        let mut pieces = vec![Bytes::new(); PIECES];
        loop {
            match stream.receive_vectored(&mut pieces).await {
                Ok((count, open)) => {
                    let taken = pieces.iter_mut().take(count).map(std::mem::take);
                    meter.add(taken.map(|piece| piece.len()).sum());
                    if !open {
                        return Ok(());
                    }
                }
                Err(error) if closed(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    })
}

/// Whether the peer has ended it, or is silent: its farewell may be lost.
fn closed(error: &StreamError) -> bool {
    use connection::Error;
    matches!(
        error,
        StreamError::ConnectionError {
            error: Error::Closed { .. }
                | Error::Application { .. }
                | Error::IdleTimerExpired { .. },
            ..
        }
    )
}

pub(crate) fn send(to: SocketAddr, time: Duration, packets: Packets) -> Result<(), Failure> {
    ends::send(async || {
        let client = Client::builder()
            .with_tls(s2n_tls::Client::from(tls::client()?))?
            .with_io(io(sockets::any(to), packets)?)?;
        let mut client = client.start()?;
        let mut connection = client
            .connect(Connect::new(to).with_server_name(tls::NAME))
            .await?;
        let mut stream = connection.open_send_stream().await?;
        let payload = ends::payload();
        ends::for_so_long(time, async {
            loop {
                stream.send(payload.clone()).await?;
            }
        })
        .await?;
        connection.close(0_u32.into());
        drop((stream, connection));
        ends::farewell(client.wait_idle()).await;
        Ok(())
    })
}

fn io(at: SocketAddr, packets: Packets) -> Result<Provider, Failure> {
    let mut io = Builder::default()
        .with_receive_address(at)?
        .with_recv_buffer_size(sockets::BUFFER)?
        .with_send_buffer_size(sockets::BUFFER)?;
    if packets == Packets::AsOurs {
        // It counts the headers of IP and UDP, too.
        io = io.with_max_mtu(sockets::PAYLOAD + 28)?;
    }
    Ok(io.build()?)
}
