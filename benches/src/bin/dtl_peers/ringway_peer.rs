//! Ours, as transfers use it: our endpoint, the adaptive controller, one stream.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::{QuicEndpoint, QuicOptions};

use crate::ends;
use crate::noq_peer::{read, write};
use crate::{Failure, sockets};

/// Keys of the two ends: no secrets, as each must know the other's.
const RECEIVER: [u8; 32] = [2; 32];
const SENDER: [u8; 32] = [1; 32];

pub(crate) fn receive(at: SocketAddr) -> Result<(), Failure> {
    ends::receive(async |meter| {
        let endpoint = endpoint(at, RECEIVER)?;
        ends::line("ready")?;
        let connection = endpoint.accept().await.ok_or("the endpoint is closed")?;
        let (_answers, stream) = connection.accept_bi().await?;
        read(stream, meter).await
    })
}

pub(crate) fn send(to: SocketAddr, time: Duration, priority: f64) -> Result<(), Failure> {
    ends::send(async || {
        let endpoint = endpoint(sockets::any(to), SENDER)?;
        let member = MemberId::from(&SigningKey::from_bytes(&RECEIVER));
        let priority = Priority::new(priority)?;
        let connection = endpoint.connect(to, member, priority).await?;
        let (stream, _answers) = connection.open_bi().await?;
        ends::for_so_long(time, write(stream)).await?;
        connection.close(0, "");
        ends::farewell(endpoint.wait_idle()).await;
        Ok(())
    })
}

fn endpoint(at: SocketAddr, key: [u8; 32]) -> Result<QuicEndpoint, Failure> {
    let key = SigningKey::from_bytes(&key);
    let anybody = Arc::new(|_: &MemberId| true);
    Ok(QuicEndpoint::bind(
        at,
        &key,
        anybody,
        QuicOptions::default(),
    )?)
}
