//! Messages over WebSocket (RFC 6455): one binary frame each. It passes where only the web does.

mod connection;
mod handshake;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::connection::Context;
#[cfg(feature = "fuzzing")]
pub(crate) use self::handshake::decode_anything;
use crate::address::{Address, AddressDescriptor, Protocol, WebAddress, canonical};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::{
    ACCEPT_PAUSE, WS_CONNECTIONS, WS_HANDSHAKE_TIME, WS_IDLE, WS_MTU, WS_NAME_ADDRESSES,
    WS_NAME_TIME,
};
use crate::places::{Place, Places};
use crate::transport::{BoxFuture, ConnectError, Inbox, Incoming, Session, StartError, Transport};
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
    /// Silence after which a connection that nobody holds a session of is closed.
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
#[derive(Debug)]
pub struct WsTransport {
    options: WsOptions,
    local: Option<SocketAddr>,
    tls: WebTls,
    context: Context,
    places: Arc<Places>,
    /// Held for its drop: it ends all tasks.
    _stop: watch::Sender<()>,
}

impl WsTransport {
    /// Starts listening, if so configured. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if the address cannot be bound, the path is none, or the file of authorities
    /// cannot be used.
    pub fn start(
        mut options: WsOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        let path: Arc<str> = checked_path(&options.path)?.into();
        options.connections = options.connections.min(WS_CONNECTIONS);
        let tls =
            WebTls::load(options.extra_roots.as_deref()).map_err(|source| StartError::File {
                protocol: Protocol::Ws,
                path: options.extra_roots.clone().unwrap_or_default(),
                source,
            })?;
        let listener = options.listen.map(crate::tcp::bind).transpose();
        let listener = listener.map_err(|source| StartError::Listen {
            protocol: Protocol::Ws,
            listen: options.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into()),
            source,
        })?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(());
        let context = Context {
            inbox: Inbox::new(incoming, counters.clone()),
            counters,
            stopped,
            idle: options.idle,
        };
        let places = Places::new(options.connections);
        let local = listener.as_ref().map(|(_, local)| canonical(*local));
        if let Some((listener, _)) = listener {
            tokio::spawn(listen(listener, path, context.clone(), places.clone()));
        }
        Ok(Self {
            options,
            local,
            tls,
            context,
            places,
            _stop: stop,
        })
    }

    /// The address listened on, with the port that the system chose; `None` without a listener.
    pub const fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    async fn dial(&self, address: &Address) -> Result<Session, ConnectError> {
        let address = address.clone();
        let Address::Ws(web) = &address else {
            return Err(not_accepted(address));
        };
        if !self.accepts(&address) {
            return Err(not_accepted(address));
        }
        let place = self.places.take().ok_or_else(|| ConnectError::Busy {
            address: address.clone(),
            limit: self.options.connections,
        })?;
        match timeout(WS_HANDSHAKE_TIME, self.open(web, place)).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(source)) => {
                self.context.counters.failed.add();
                Err(ConnectError::Network { address, source })
            }
            Err(_) => {
                self.context.counters.timed_out.add();
                Err(ConnectError::TimedOut { address })
            }
        }
    }

    async fn open(&self, web: &WebAddress, place: Place) -> io::Result<Session> {
        let stream = open_tcp(web).await?;
        let remote = web.clone();
        let context = self.context.clone();
        if web.is_secure() {
            let stream = self.tls.connect(&web.server_name(), stream).await?;
            let socket = handshake::ask(stream, web).await?;
            Ok(connection::start(socket, remote, context, place))
        } else {
            let socket = handshake::ask(stream, web).await?;
            Ok(connection::start(socket, remote, context, place))
        }
    }
}

fn not_accepted(address: Address) -> ConnectError {
    ConnectError::NotAccepted {
        address,
        protocol: Protocol::Ws,
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

impl Transport for WsTransport {
    fn protocol(&self) -> Protocol {
        Protocol::Ws
    }

    fn mtu(&self) -> usize {
        WS_MTU
    }

    fn cost(&self) -> u32 {
        self.options.cost
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let Some(local) = self.local else {
            return Vec::new();
        };
        let mtu = u32::try_from(WS_MTU).unwrap_or(u32::MAX);
        let own = self.options.advertise.is_empty().then(|| {
            let text = format!("ws://{local}{}", self.options.path);
            text.parse::<WebAddress>().ok()
        });
        let given = self.options.advertise.iter().cloned();
        given
            .chain(own.flatten())
            .map(Address::Ws)
            .filter(Address::is_dialable)
            .map(|address| AddressDescriptor::new(address, mtu, self.options.cost))
            .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        matches!(address, Address::Ws(_)) && address.is_dialable()
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        Box::pin(self.dial(address))
    }

    fn counters(&self) -> CounterSnapshot {
        self.context.counters.snapshot()
    }
}

async fn listen(listener: TcpListener, path: Arc<str>, mut context: Context, places: Arc<Places>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = context.stopped.changed() => return,
        };
        match accepted {
            Ok((stream, remote)) => match places.take() {
                Some(place) => {
                    let accepted = accept(stream, remote, path.clone(), context.clone(), place);
                    tokio::spawn(accepted);
                }
                // Closed at once: a full backlog would hide from the peer that we are busy.
                None => context.counters.refused.add(),
            },
            Err(error) => {
                tracing::debug!(%error, "ws accept failed");
                context.counters.failed.add();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(
    stream: TcpStream,
    remote: SocketAddr,
    path: Arc<str>,
    mut context: Context,
    place: Place,
) {
    let Ok(remote) = format!("ws://{}/", canonical(remote)).parse::<WebAddress>() else {
        return;
    };
    let answered = tokio::select! {
        answered = timeout(WS_HANDSHAKE_TIME, handshake::answer(stream, &path)) => answered,
        _ = context.stopped.changed() => return,
        () = place.must_go() => return context.counters.refused.add(),
    };
    match answered {
        // The session lives on in the messages that arrive.
        Ok(Ok(Some(socket))) => drop(connection::start(socket, remote, context, place)),
        Ok(Ok(None)) => context.counters.malformed.add(),
        Ok(Err(error)) => {
            tracing::debug!(%remote, %error, "ws handshake failed");
            context.counters.failed.add();
        }
        Err(_) => context.counters.timed_out.add(),
    }
}
