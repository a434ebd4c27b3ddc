//! DTL, the dynamic transport library: reliable streams over UDP with a priority that may change
//! while data flows, for programs of any kind.
//!
//! A program binds an [`Endpoint`] (one UDP port, for both directions), makes or accepts a
//! [`Connection`] to another program, and opens [`Stream`]s on it. Each side has a [`Key`] that it
//! made itself; there are no certificates, no authority and no server in between.
//!
//! ```
//! use ringway_transport::dtl::{Endpoint, Key, Priority, Trust};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let key = Key::generate()?;
//! let server = Endpoint::bind("127.0.0.1:0".parse()?, &key, Trust::Anyone)?;
//! let (address, server_key) = (server.local_address()?, key.peer_key());
//! tokio::spawn(async move {
//!     while let Some(connection) = server.accept().await {
//!         let mut stream = connection.accept().await?;
//!         let mut text = String::new();
//!         stream.read_to_string(&mut text).await?;
//!         stream.write_all(text.to_uppercase().as_bytes()).await?;
//!         stream.finish().await?;
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let client = Endpoint::bind("127.0.0.1:0".parse()?, &Key::generate()?, Trust::none())?;
//! let connection = client.connect(address, server_key, Priority::SCAVENGER).await?;
//! let mut stream = connection.open(Priority::NORMAL).await?;
//! stream.write_all(b"hello").await?;
//! connection.set_priority(Priority::new(4.0)?); // it has become urgent
//! stream.shutdown().await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "HELLO");
//! println!("{} over {:?}", connection.statistics().sent_bytes, connection.statistics().rtt);
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Priorities
//! A [`Priority`] is a number. 0 takes what others leave; N > 0 takes what N TCP flows would take,
//! fractions included. There are two levels:
//! - that of a **connection** says what it is worth beside everything else on the path: other
//!   connections, other programs, TCP ([`Connection::set_priority`]);
//! - that of a **stream** says which part of the connection's rate it gets beside the other streams
//!   of the connection ([`Stream::set_priority`]).
//!
//! Each side sets the priority of what it sends. Connections that one endpoint makes to one
//! [`PeerKey`] at one address share a congestion control, and get exact parts of it; so what must
//! not wait goes on a connection (or stream) of its own.
//!
//! # Keys and trust
//! Both sides prove their keys in the TLS 1.3 handshake, as raw public keys (RFC 7250). [`Trust`]
//! says which keys are accepted: a list, any, or what a function says. For trust on first use,
//! connect with [`Trust::Anyone`], keep [`Connection::peer_key`], and expect that key from then on:
//!
//! ```
//! # use ringway_transport::dtl::{Endpoint, Error, PeerKey, Priority, Trust};
//! # use std::net::SocketAddr;
//! async fn first_use(endpoint: &Endpoint, at: SocketAddr, known: &mut Option<PeerKey>)
//! -> Result<(), Error> {
//!     let trust = known.map_or(Trust::Anyone, Trust::from);
//!     let connection = endpoint.connect(at, trust, Priority::NORMAL).await?;
//!     *known = Some(connection.peer_key());
//!     Ok(())
//! }
//! ```
//!
//! # NAT
//! Everything runs over one UDP port. A connection goes on when the address of either side changes:
//! a NAT that gives another port, or another network ([`Endpoint::rebind`]). A peer tells which
//! address it sees ([`Connection::observed_address`]). Two programs behind NATs that keep one port
//! for all destinations meet without a relay: each learns its address from a third that both reach,
//! they exchange the addresses through it, and both call [`Endpoint::connect`] within the same
//! seconds. Each has two connections then, the one that it made and one that it accepts; either
//! will do. NATs with another port for each destination need a relay, which is not here.
//!
//! # Platforms
//! Linux. The other side may be any QUIC stack that has raw public keys: the application protocol
//! (ALPN) is `dtl/1`, streams are bidirectional, and datagrams that begin with the bytes 1 and 2
//! are questions and readings of clocks, which may be ignored.

mod connection;
mod endpoint;
mod error;
mod key;
mod stream;
mod trust;

pub use connection::{Connection, Statistics};
pub use endpoint::{Endpoint, Options};
pub use error::Error;
pub use key::{InvalidPeerKey, Key, PeerKey};
pub use ringway_dtl::{Algorithm, InvalidPriority, LimitedBy, Mode, Priority};
pub use stream::{PriorityHandle, Stream, StreamReader, StreamWriter};
pub use trust::Trust;
