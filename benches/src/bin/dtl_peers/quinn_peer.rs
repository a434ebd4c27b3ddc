//! quinn with its CUBIC.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, MtuDiscoveryConfig, ReadError,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use ringway_transport::limits::QUIC_STREAM_WINDOW;

use crate::ends;
use crate::sockets::{self, Packets};
use crate::{Failure, tls};

/// Pieces taken from a stream at once.
const PIECES: usize = 64;

pub(crate) fn receive(at: SocketAddr, packets: Packets) -> Result<(), Failure> {
    ends::receive(async |meter| {
        let tls = QuicServerConfig::try_from(tls::server()?)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(settings(packets));
        let endpoint = endpoint(at, Some(config), packets)?;
        ends::line("ready")?;
        let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
        let connection = incoming.await?;
        let mut stream = connection.accept_uni().await?;
        let mut pieces = vec![Bytes::new(); PIECES];
        loop {
            match stream.read_chunks(&mut pieces).await {
                Ok(Some(count)) => {
                    let taken = pieces.iter_mut().take(count).map(std::mem::take);
                    meter.add(taken.map(|piece| piece.len()).sum());
                }
                // A farewell may be lost: then silence is the end.
                Ok(None)
                | Err(ReadError::ConnectionLost(
                    ConnectionError::ApplicationClosed(_) | ConnectionError::TimedOut,
                )) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    })
}

pub(crate) fn send(to: SocketAddr, time: Duration, packets: Packets) -> Result<(), Failure> {
    ends::send(async || {
        let tls = QuicClientConfig::try_from(tls::client()?)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(settings(packets));
        let endpoint = endpoint(sockets::any(to), None, packets)?;
        let connection = endpoint.connect_with(config, to, tls::NAME)?.await?;
        let mut stream = connection.open_uni().await?;
        let payload = ends::payload();
        ends::for_so_long(time, async {
            loop {
                stream.write_chunk(payload.clone()).await?;
            }
        })
        .await?;
        connection.close(VarInt::from_u32(0), b"");
        ends::farewell(endpoint.wait_idle()).await;
        Ok(())
    })
}

fn endpoint(
    at: SocketAddr,
    server: Option<ServerConfig>,
    packets: Packets,
) -> Result<Endpoint, Failure> {
    let mut config = EndpointConfig::default();
    if packets == Packets::AsOurs {
        config.max_udp_payload_size(sockets::PAYLOAD)?;
    }
    let socket = sockets::udp(at)?;
    Ok(Endpoint::new(
        config,
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

fn settings(packets: Packets) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(VarInt::from_u32(QUIC_STREAM_WINDOW));
    if packets == Packets::AsOurs {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(sockets::PAYLOAD);
        config.mtu_discovery_config(Some(discovery));
    }
    Arc::new(config)
}
