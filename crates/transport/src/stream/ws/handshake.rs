//! How an HTTP connection becomes a WebSocket, seen from both sides.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::client::{self, generate_key};
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;
use tokio_tungstenite::tungstenite::handshake::server::{Request, create_response, write_response};
use tokio_tungstenite::tungstenite::http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::address::WebAddress;
use crate::limits::{WS_HEAD_BYTES, WS_MTU};
use crate::link_packet::SUBPROTOCOL;

/// What everybody else gets, whatever is wrong: it shows nothing of us.
const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What the library keeps at most for one connection: a message each way, and a frame's head.
fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(WS_MTU / 4)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * WS_MTU)
        .max_message_size(Some(WS_MTU))
        .max_frame_size(Some(WS_MTU))
}

/// The library's error as one of the system, which is what callers report.
fn to_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::Http(response) => {
            let status = response.status();
            io::Error::other(format!("the web server there answers {status}"))
        }
        other => io::Error::other(other),
    }
}

/// Asks the server to speak WebSocket. The caller limits the time.
pub(super) async fn ask<S>(stream: S, web: &WebAddress) -> io::Result<WebSocketStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let scheme = if web.is_secure() { "wss" } else { "ws" };
    let host = host(web);
    let request = client::Request::builder()
        .uri(format!("{scheme}://{host}{}", web.path()))
        .header("Host", host)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .header(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
        .body(())
        .map_err(io::Error::other)?;
    let upgraded = tokio_tungstenite::client_async_with_config(request, stream, Some(config()));
    let (socket, _) = upgraded.await.map_err(to_io)?;
    Ok(socket)
}

/// The `Host` field: the server's name, with the port if it is the one that we dial and no usual
/// one.
fn host(web: &WebAddress) -> String {
    let (host, port) = web.host_and_port();
    let name = web.server_name();
    let usual = if web.is_secure() { 443 } else { 80 };
    if name != host || port == usual {
        bracketed(&name)
    } else {
        format!("{}:{port}", bracketed(&name))
    }
}

fn bracketed(name: &str) -> String {
    if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    }
}

/// Answers a stranger; `None` if it wants anything but our WebSocket. The caller limits the time.
pub(super) async fn answer(
    mut stream: TcpStream,
    path: &str,
) -> io::Result<Option<WebSocketStream<TcpStream>>> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::new();
    let Some(head_bytes) = read_head(&mut stream, &mut buffer).await? else {
        return refuse(stream).await;
    };
    let tail = buffer.split_off(head_bytes);
    let Some(response) = upgrade(&buffer, path) else {
        return refuse(stream).await;
    };
    stream.write_all(&response).await?;
    let config = Some(config());
    let socket =
        WebSocketStream::from_partially_read(stream, tail.to_vec(), Role::Server, config).await;
    Ok(Some(socket))
}

async fn refuse(mut stream: TcpStream) -> io::Result<Option<WebSocketStream<TcpStream>>> {
    stream.write_all(NOT_FOUND).await?;
    stream.shutdown().await?;
    Ok(None)
}

/// Reads up to the empty line after the request; `None` if there is none within the limit.
async fn read_head(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<usize>> {
    const END: &[u8] = b"\r\n\r\n";
    let mut searched: usize = 0;
    loop {
        let unsearched = buffer.get(searched..).unwrap_or_default();
        let end = unsearched.windows(END.len()).position(|w| w == END);
        if let Some(end) = end {
            return Ok(Some(searched.saturating_add(end).saturating_add(END.len())));
        }
        if buffer.len() >= WS_HEAD_BYTES {
            return Ok(None);
        }
        searched = buffer.len().saturating_sub(END.len());
        buffer.reserve(1024);
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The answer to a request for our WebSocket; `None` for any other.
fn upgrade(head: &[u8], path: &str) -> Option<Vec<u8>> {
    let (_, request) = Request::try_parse(head).ok()??;
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    let ours = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|name| name.trim() == SUBPROTOCOL);
    if request.uri().path() != path || !ours {
        return None;
    }
    let mut response = create_response(&request).ok()?;
    let name = HeaderValue::from_static(SUBPROTOCOL);
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, name);
    let mut bytes = Vec::new();
    write_response(&mut bytes, &response).ok()?;
    Some(bytes)
}

/// A request, up to its empty line, and whatever follows.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    if let Some(response) = upgrade(data, "/") {
        assert!(response.starts_with(b"HTTP/1.1 101"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ASKED: &str = "GET /ring HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat, ringway\r\n\r\n";

    #[test]
    fn only_our_path_and_subprotocol_are_upgraded() {
        let response = upgrade(ASKED.as_bytes(), "/ring").unwrap();
        let response = String::from_utf8(response).unwrap().to_lowercase();
        assert!(response.starts_with("http/1.1 101"));
        assert!(response.contains("sec-websocket-protocol: ringway\r\n"));
        assert!(upgrade(ASKED.as_bytes(), "/other").is_none());
        let without = ASKED.replace("ringway", "superchat");
        assert!(upgrade(without.as_bytes(), "/ring").is_none());
        assert!(upgrade(b"GET /ring HTTP/1.1\r\nHost: a\r\n\r\n", "/ring").is_none());
    }

    #[test]
    fn the_host_field_names_the_server() {
        for (address, expected) in [
            ("wss://example.org/r", "example.org"),
            ("ws://example.org:8080/r", "example.org:8080"),
            ("wss://192.0.2.1:8443/r#example.org", "example.org"),
            ("ws://[2001:db8::1]:7/", "[2001:db8::1]:7"),
        ] {
            assert_eq!(host(&address.parse().unwrap()), expected);
        }
    }

    proptest! {
        #[test]
        fn random_requests_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(upgrade(&bytes, "/").is_none());
        }
    }
}
