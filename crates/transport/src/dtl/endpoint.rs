//! One UDP port, from which connections are made and at which they are accepted.

use std::net::SocketAddr;
use std::sync::Arc;

use ringway_dtl::{Algorithm, Config, Priority};

use super::connection::Connection;
use super::error::Error;
use super::key::Key;
use super::trust::Trust;
use crate::limits::QUIC_CONNECTIONS;
use crate::quic::{CongestionControl, QuicEndpoint, QuicOptions};

/// What an [`Endpoint`] may be told beside its address and keys.
#[derive(Debug, Clone)]
pub struct Options {
    /// Priority of what is sent on accepted connections until it is set.
    pub priority: Priority,
    /// Connections in both directions, at most [`QUIC_CONNECTIONS`].
    pub connections: usize,
    /// The congestion control: ours, or the paper's (LEDBAT and MulTCP2) to compare with.
    pub algorithm: Algorithm,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            priority: Priority::NORMAL,
            connections: QUIC_CONNECTIONS,
            algorithm: Config::default().algorithm,
        }
    }
}

/// One UDP port, from which connections are made and at which they are accepted. Clones are the
/// same; dropping the last one closes all connections at once ([`wait_idle`](Self::wait_idle)
/// first, so that peers are told).
///
/// Getter: [`local_address`](Self::local_address). Commands: [`connect`](Self::connect),
/// [`accept`](Self::accept), [`rebind`](Self::rebind), [`close`](Self::close),
/// [`wait_idle`](Self::wait_idle).
#[derive(Debug, Clone)]
pub struct Endpoint(Arc<QuicEndpoint>);

impl Endpoint {
    /// Binds a UDP port (0 lets the system choose) for the program with this key, and accepts
    /// connections from the peers that `accepts` names. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Bind`] if the address is taken or not of this host.
    pub fn bind(address: SocketAddr, key: &Key, accepts: Trust) -> Result<Endpoint, Error> {
        Endpoint::bind_with(address, key, accepts, Options::default())
    }

    /// As [`bind`](Self::bind), with options.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_with(
        address: SocketAddr,
        key: &Key,
        accepts: Trust,
        options: Options,
    ) -> Result<Endpoint, Error> {
        let config = Config {
            algorithm: options.algorithm,
            ..Config::default()
        };
        let options = QuicOptions {
            accept: !accepts.is_none(),
            priority: options.priority,
            congestion: CongestionControl::Priority(config),
            connections: options.connections,
            dtl: true,
            ..QuicOptions::default()
        };
        let endpoint = QuicEndpoint::bind(address, key.signing(), accepts.allow(), options)?;
        Ok(Endpoint(Arc::new(endpoint)))
    }

    /// The address of the socket, with the port that the system chose.
    ///
    /// # Errors
    /// [`Error::Closed`] if the endpoint has ended.
    pub fn local_address(&self) -> Result<SocketAddr, Error> {
        Ok(self.0.local_address()?)
    }

    /// Connects to `address`, where one of the keys in `peer` must answer, and sends with
    /// `priority`. When it returns, both sides have proved their keys and accepted each other's. It
    /// takes at most [`QUIC_HANDSHAKE_TIME`](crate::limits::QUIC_HANDSHAKE_TIME).
    ///
    /// Connections to one expected key at one address share one congestion control, in which their
    /// priorities are exact. With several keys, or any, each has its own.
    ///
    /// # Errors
    /// [`Error`]: `WrongPeer` and `NotTrusted` if another key answers, `Refused` if the peer does
    /// not trust ours, `TimedOut`, `Busy`, `Dial`.
    pub async fn connect(
        &self,
        address: SocketAddr,
        peer: impl Into<Trust>,
        priority: Priority,
    ) -> Result<Connection, Error> {
        let expected = peer.into().expected();
        let connected = self.0.connect_dtl(address, expected, priority).await;
        Ok(Connection::new(connected?))
    }

    /// The next connection that a trusted peer makes; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Connection> {
        self.0.accept().await.map(Connection::new)
    }

    /// Goes on at another address of this host, as after a change of networks: connections that
    /// this endpoint made move there with all their streams. Peers that connect to the former
    /// address no longer get here.
    ///
    /// # Errors
    /// [`Error::Bind`] if the address cannot be had; nothing has changed then.
    pub fn rebind(&self, address: SocketAddr) -> Result<(), Error> {
        self.0.rebind(address).map_err(|error| Error::Bind {
            address,
            reason: error.to_string(),
        })
    }

    /// Closes the endpoint and all its connections now; what is unsent or unread is lost.
    pub fn close(&self, code: u32, reason: &str) {
        self.0.close(code, reason);
    }

    /// Waits until all connections have ended and their peers were told: call it before exit.
    pub async fn wait_idle(&self) {
        self.0.wait_idle().await;
    }
}
