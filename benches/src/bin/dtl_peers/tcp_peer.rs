//! The kernel's TCP, not encrypted.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Failure;
use crate::ends;

/// Bytes read at once.
const READ: usize = 256 * 1024;

pub(crate) fn receive(at: SocketAddr) -> Result<(), Failure> {
    ends::receive(async |meter| {
        let listener = TcpListener::bind(at).await;
        let listener = listener.map_err(|error| format!("cannot bind {at}: {error}"))?;
        ends::line("ready")?;
        let (mut stream, _) = listener.accept().await?;
        let mut buffer = vec![0; READ];
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                count => meter.add(count),
            }
        }
    })
}

pub(crate) fn send(to: SocketAddr, time: Duration) -> Result<(), Failure> {
    ends::send(async || {
        let mut stream = TcpStream::connect(to).await?;
        let payload = ends::payload();
        ends::for_so_long(time, async {
            loop {
                stream.write_all(&payload).await?;
            }
        })
        .await
    })
}
