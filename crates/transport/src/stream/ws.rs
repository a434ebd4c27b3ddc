//! Messages over WebSocket (RFC 6455): one binary frame each. It passes where only the web does.

mod handshake;
mod pump;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;

#[cfg(feature = "fuzzing")]
pub(crate) use self::handshake::decode_anything;
use self::pump::{QueueWriter, pump};
use super::connection::Opened;
use super::{Framing, StreamOptions, StreamTransport};
use crate::address::{Address, Protocol, WebAddress, canonical};
use crate::limits::{
    WS_CONNECTIONS, WS_HANDSHAKE_TIME, WS_IDLE, WS_MTU, WS_NAME_ADDRESSES, WS_NAME_TIME, WS_QUEUE,
};
use crate::transport::{Incoming, StartError};
use crate::web_tls::WebTls;

/// How to start a [`WsTransport`].
#[derive(Debug, Clone)]
pub struct WsOptions {
    /// Where to listen for plain WebSocket; port 0 lets the system choose. `None` for a leaf: it
    /// only dials out.
    pub listen: Option<SocketAddr>,
    /// The one path that the server answers at: begins with `/`, has letters, digits and `/._-`.
    pub path: String,
    /// Addresses to advertise instead of the one listened on: those of the web server in front of
    /// us.
    pub advertise: Vec<WebAddress>,
    /// A PEM file of authorities that are believed besides the system's, for `wss`.
    pub extra_roots: Option<PathBuf>,
    /// Cost in HELLOs; less is better, no unit.
    pub cost: u32,
    /// Connections in both directions, at most [`WS_CONNECTIONS`].
    pub connections: usize,
    /// Silence after which a connection without a held session is closed.
    pub idle: Duration,
}

impl Default for WsOptions {
    fn default() -> Self {
        Self {
            listen: None,
            path: "/".to_owned(),
            advertise: Vec::new(),
            extra_roots: None,
            cost: Protocol::Ws.usual_cost(),
            connections: WS_CONNECTIONS,
            idle: WS_IDLE,
        }
    }
}

/// The `ws` transport. Dropping it closes its listener and all its connections.
///
/// The server speaks plain WebSocket and answers one path; everything else gets 404. TLS is the
/// work of a web server in front of it, such as nginx, which passes that one path on:
///
/// ```text
/// location /ringway {
///     proxy_pass http://127.0.0.1:7080;
///     proxy_http_version 1.1;
///     proxy_set_header Upgrade $http_upgrade;
///     proxy_set_header Connection upgrade;
/// }
/// ```
///
/// Both sides name the subprotocol `ringway`. Text frames and longer messages end the connection. A
/// ping every [`WS_KEEP_ALIVE`](crate::limits::WS_KEEP_ALIVE) keeps proxies from closing it, and
/// finds out who is gone.
pub type WsTransport = StreamTransport<WsFraming>;

impl WsTransport {
    /// Starts listening, if so configured. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if the address cannot be bound, the path is none, or the file of authorities
    /// cannot be used.
    pub fn start(options: WsOptions, incoming: mpsc::Sender<Incoming>) -> Result<Self, StartError> {
        let path = checked_path(&options.path)?;
        let tls =
            WebTls::load(options.extra_roots.as_deref()).map_err(|source| StartError::File {
                protocol: Protocol::Ws,
                path: options.extra_roots.clone().unwrap_or_default(),
                source,
            })?;
        let common = StreamOptions {
            listen: options.listen,
            cost: options.cost,
            connections: options.connections.min(WS_CONNECTIONS),
            idle: options.idle,
        };
        let framing = WsFraming {
            path,
            advertise: options.advertise,
            tls,
        };
        Self::begin(framing, common, incoming)
    }
}

/// A binary frame of WebSocket for each message.
#[derive(Debug)]
pub struct WsFraming {
    path: String,
    advertise: Vec<WebAddress>,
    tls: WebTls,
}

impl Framing for WsFraming {
    const PROTOCOL: Protocol = Protocol::Ws;
    const MTU: usize = WS_MTU;
    const OPEN_TIME: Duration = WS_HANDSHAKE_TIME;

    type Writer = QueueWriter;

    fn takes(address: &Address) -> bool {
        matches!(address, Address::Ws(_))
    }

    fn advertised(&self, local: SocketAddr) -> Vec<Address> {
        let own = self.advertise.is_empty().then(|| {
            let text = format!("ws://{local}{}", self.path);
            text.parse::<WebAddress>().ok()
        });
        let given = self.advertise.iter().cloned();
        given.chain(own.flatten()).map(Address::Ws).collect()
    }

    async fn open(&self, address: &Address) -> io::Result<Opened<QueueWriter>> {
        let Address::Ws(web) = address else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let stream = open_tcp(web).await?;
        let remote = web.clone();
        if web.is_secure() {
            let stream = self.tls.connect(&web.server_name(), stream).await?;
            Ok(opened(handshake::ask(stream, web).await?, remote))
        } else {
            Ok(opened(handshake::ask(stream, web).await?, remote))
        }
    }

    async fn answer(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
    ) -> io::Result<Option<Opened<QueueWriter>>> {
        let remote = format!("ws://{remote}/").parse::<WebAddress>();
        let remote = remote.map_err(io::Error::other)?;
        let socket = handshake::answer(stream, &self.path).await?;
        Ok(socket.map(|socket| opened(socket, remote)))
    }
}

fn opened<S>(socket: WebSocketStream<S>, remote: WebAddress) -> Opened<QueueWriter>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (queue, waiting) = mpsc::channel(WS_QUEUE);
    Opened {
        remote: Address::Ws(remote),
        writer: QueueWriter(queue),
        pump: Box::new(move |receiver| Box::pin(pump(socket, waiting, receiver))),
    }
}

/// The path as addresses spell it.
fn checked_path(path: &str) -> Result<String, StartError> {
    let wrong = || StartError::Option {
        protocol: Protocol::Ws,
        reason: format!(
            "`{}` is no path: it begins with `/` and has letters, digits and `/._-`",
            path.escape_debug()
        ),
    };
    let address = format!("ws://localhost{path}").parse::<WebAddress>();
    let spelled = address.map_err(|_| wrong())?.path();
    if spelled == path {
        Ok(spelled)
    } else {
        Err(wrong())
    }
}

/// Connects to the first address of the name that takes the connection.
async fn open_tcp(web: &WebAddress) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "the name has no address that one may send to",
    );
    let found = lookup_host(web.host_and_port()).await?;
    // A name may lead to what no address may be, such as multicast.
    let mut usable = found
        .map(canonical)
        .filter(|socket| Address::Tcp(*socket).is_dialable())
        .take(WS_NAME_ADDRESSES)
        .peekable();
    while let Some(socket) = usable.next() {
        let connecting = TcpStream::connect(socket);
        let connected = if usable.peek().is_some() {
            let limited = timeout(WS_NAME_TIME, connecting).await;
            limited.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        } else {
            connecting.await
        };
        match connected {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
