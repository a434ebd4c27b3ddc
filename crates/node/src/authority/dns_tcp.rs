//! DNS over TCP (RFC 7766), with bounds: the library's own listener takes as many connections as
//! come, and spins when no more files can be opened.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use hickory_server::net::BufDnsStreamHandle;
use hickory_server::net::runtime::TokioTime;
use hickory_server::net::xfer::Protocol;
use hickory_server::server::{Request, RequestHandler as _, ResponseHandle};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::dns::LiveZone;
use crate::limits::{DNS_CONNECTIONS, DNS_PER_SOURCE, DNS_QUERY_BYTES, DNS_TIME};
use crate::shares::{SharedPlace, Shares};

/// Pause after a connection could not be accepted, most likely because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, zone: LiveZone) {
    let places = Shares::new(DNS_CONNECTIONS, DNS_PER_SOURCE);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "accepting a DNS connection failed");
                // Without descriptors `accept` fails at once, and the loop would spin.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.take(from.ip()).await else {
            continue;
        };
        let zone = zone.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = answer_all(stream, from, &zone, &place) => ended,
                () = place.must_go() => Ok(()),
            };
            if let Err(error) = ended {
                tracing::trace!(%from, %error, "a DNS connection ended");
            }
        });
    }
}

async fn answer_all(
    mut stream: TcpStream,
    from: SocketAddr,
    zone: &LiveZone,
    place: &SharedPlace,
) -> io::Result<()> {
    loop {
        let query = timeout(DNS_TIME, read(&mut stream)).await??;
        let answer = answer(query, from, zone).await?;
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), answer.as_slice()].concat();
        timeout(DNS_TIME, stream.write_all(&framed)).await??;
        place.touch();
    }
}

/// One query, behind its length.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > DNS_QUERY_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut query = vec![0; length];
    stream.read_exact(&mut query).await?;
    Ok(query)
}

/// All queries of a connection that has sent `data` and ended.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(mut data: &[u8]) {
    use futures_util::FutureExt;

    let from = SocketAddr::from(([192, 0, 2, 1], 53));
    // What is in memory never has to be waited for.
    while let Some(Ok(query)) = read(&mut data).now_or_never() {
        assert!(query.len() <= DNS_QUERY_BYTES);
        // It may be refused; it may not panic.
        Request::from_bytes(query, from, Protocol::Tcp).ok();
    }
}

async fn answer(query: Vec<u8>, from: SocketAddr, zone: &LiveZone) -> io::Result<Vec<u8>> {
    let request = Request::from_bytes(query, from, Protocol::Tcp).map_err(io::Error::other)?;
    let (handle, mut answers) = BufDnsStreamHandle::new(from);
    let handle = ResponseHandle::new(from, handle, Protocol::Tcp);
    zone.handle_request::<_, TokioTime>(&request, handle).await;
    // The handle is gone by now: either there is an answer, or there will be none.
    let answer = answers.next().await;
    answer
        .map(|answer| answer.into_parts().0)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
