//! librqbit-utp: uTP's packets with CUBIC, not encrypted.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use librqbit_utp::{SocketOpts, UtpSocketUdp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ends;
use crate::{Failure, sockets};

/// Bytes that may be on their way or wait for the reader.
const WINDOW: Option<NonZeroUsize> = NonZeroUsize::new(4 * 1024 * 1024);

/// How often a packet may be lost before the connection is given up. With the default of 5 about
/// every third run on loopback ended so.
const PERSISTENCE: Option<NonZeroUsize> = NonZeroUsize::new(100);

/// Bytes read at once.
const READ: usize = 256 * 1024;

pub(crate) fn receive(at: SocketAddr) -> Result<(), Failure> {
    ends::receive(async |meter| {
        let socket = socket(at).await?;
        ends::line("ready")?;
        let mut stream = socket.accept().await?;
        let mut buffer = vec![0; READ];
        let mut arrived = false;
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    arrived = true;
                    meter.add(count);
                }
                // It has no way to end that says why.
                Err(_) if arrived => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    })
}

pub(crate) fn send(to: SocketAddr, time: Duration) -> Result<(), Failure> {
    ends::send(async || {
        let socket = socket(sockets::any(to)).await?;
        let mut stream = socket.connect(to).await?;
        let payload = ends::payload();
        ends::for_so_long(time, async {
            loop {
                stream.write_all(&payload).await?;
            }
        })
        .await?;
        ends::farewell(stream.shutdown()).await;
        Ok(())
    })
}

async fn socket(at: SocketAddr) -> Result<Arc<UtpSocketUdp>, Failure> {
    let options = SocketOpts {
        vsock_rx_bufsize_bytes: WINDOW,
        vsock_tx_bufsize_bytes_max: WINDOW,
        max_retransmissions: PERSISTENCE,
        ..SocketOpts::default()
    };
    Ok(UtpSocketUdp::new_udp_with_opts(at, options, Default::default()).await?)
}
