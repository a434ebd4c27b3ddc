//! Moves messages between members over whatever gets through, and proves addresses before use.
//!
//! [`Transport`] is the plug-in interface: unreliable, unordered messages of at most its MTU. A
//! member says where it can be reached in a signed [`Hello`]; a [`Validator`] believes an address
//! once the member has answered a PING there. [`quic`] adds authenticated connections with reliable
//! streams, each with a priority that may change while data flows.
//!
//! # Module map, in the order in which data flows
//! | module | does |
//! |---|---|
//! | `member` | ids (public keys), signatures bound to a context |
//! | `address` | addresses of each protocol, and what a member says of its own |
//! | `hello` | the signed advertisement |
//! | `receipt` | a signed word that a member answered at an address; another's HELLO passed on with such |
//! | `validation` | PING and PONG, budgets, which addresses are usable. Sans-IO |
//! | `path` | which of a peer's addresses to send to now, and why. Sans-IO |
//! | `places` | places for connections, which silent peers have to leave |
//! | `transport` | the trait, sessions, incoming messages: read it first |
//! | `udp`, `tcp` | the trait over sockets |
//! | `ws` | over WebSocket, with TLS (`web_tls`) or without |
//! | `exec` | over a child program of any language |
//! | `smtp` | over mail: batches, budgets, a relay to send by; LMTP, Maildir, pipe, IMAP and POP3 to receive by |
//! | [`quic`] | connections between member keys; the priority controller plugged into QUIC; the trait over datagrams |
//! | [`dtl`] | the same connections as a library for programs that have no ring: start here for one |
//! | `counters` | messages moved, and dropped by reason |
//! | [`limits`] | every bound, with its source |
//!
//! # From the paper to this crate
//! The paper's `TransportAPI` and `CoreAPIForTransport` are function tables; here they are:
//!
//! | paper | here |
//! |---|---|
//! | `inittransport_XXX`, `startTransportServer` | the constructor, for example [`UdpTransport::start`] |
//! | `stopTransportServer` | dropping the transport |
//! | `protocolNumber` | [`Transport::protocol`], [`Protocol::number`] |
//! | `mtu` | [`Transport::mtu`], [`Session::mtu`] |
//! | `cost` | [`Transport::cost`], told to others in [`AddressDescriptor::cost`] |
//! | `createHELO` | [`Transport::addresses`], signed by [`Hello::sign`]; no address where it returned an error |
//! | `verifyHELO` | [`Transport::accepts`] for the address, [`Hello::decode`] for the rest |
//! | `connect` | [`Transport::connect`] |
//! | `TSession` | [`Session`] |
//! | `send` | [`Session::send`]; without `isEncrypted` and `crc`, as all messages are sealed by the core |
//! | `associate` | keeping (cloning) the [`Session`] of an [`Incoming`] message |
//! | `disconnect` | dropping the last clone |
//! | `receive`, `MessagePack` | [`Incoming`] on the channel given at start; the sender is proved by the core's seal |
//! | the core's `version`, `myIdentity` | the version in HELLO, PING and PONG; [`Validator::new`] |
//!
//! # Writing a transport
//! In another language, or for others to install: a child program, see [`ExecTransport`] and
//! `examples/exec-folder`.
//!
//! Here: a module with options, and a type that implements [`Transport`]; `tcp` is the model. It
//! must
//! - start by its constructor, which takes a bounded channel, wraps it in an [`Inbox`], and fails
//!   with a [`StartError`] that names the mend; and stop by being dropped, tasks and all;
//! - send now or not at all: [`Link::offer`] puts a message into a bounded queue, or says why not
//!   and counts it;
//! - do the same in [`Link::offer_all`], but leave uncounted what it does not take, if it can tell;
//! - keep nothing of a stranger's that has no bound in [`limits`], and wait for nothing without a
//!   time limit;
//! - end sessions without a holder once they are idle, if they cost anything while open;
//! - accept only addresses that one host may be sent to ([`Transport::accepts`]), also once a name
//!   is resolved;
//! - advertise only addresses at which it listens ([`Transport::addresses`]), with its true
//!   [`LatencyClass`];
//! - trust nothing: who sent a message is proved above.
//!
//! Its [`Protocol`] and [`Address`] come first, as they are on the wire.
//!
//! # Run loop
//! The validator reads no clock and sends nothing. After any `handle_*` drain `poll_transmit`, ask
//! for the HELLOs that `poll_hello_wanted` names, then wait for input or for `poll_timeout`:
//!
//! ```
//! use std::time::Instant;
//! use ringway_transport::{
//!     Hello, Incoming, Ping, Pong, Signer, Transport, UdpOptions, UdpTransport, Validator,
//! };
//!
//! /// Handles one message. A real core opens its seal first and knows what kind it is.
//! fn handle(validator: &mut Validator, me: &dyn Signer, incoming: &Incoming) {
//!     let (now, message) = (Instant::now(), &incoming.message);
//!     if let Ok(hello) = Hello::decode(message) {
//!         validator.handle_hello(now, &hello);
//!     } else if let Ok(ping) = Ping::decode(message) {
//!         if let Some(pong) = validator.handle_ping(now, &ping, me) {
//!             // Unreliable by contract: a PONG that is lost is asked for again.
//!             incoming.session.send(&pong.encode()).ok();
//!         }
//!     } else if let Ok(pong) = Pong::decode(message) {
//!         if let Some(proved) = validator.handle_pong(now, &pong) {
//!             println!("{} is at {}, {:?} away", proved.member, proved.address, proved.rtt);
//!         }
//!     }
//! }
//!
//! /// Sends the PINGs that are due and says when to come back.
//! async fn drive(validator: &mut Validator, transport: &dyn Transport) -> Option<Instant> {
//!     validator.handle_timeout(Instant::now());
//!     while let Some((address, ping)) = validator.poll_transmit() {
//!         if let Ok(session) = transport.connect(&address).await {
//!             session.send(&ping.encode()).ok();
//!         }
//!     }
//!     validator.poll_timeout()
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let key = |n| ed25519_dalek::SigningKey::from_bytes(&[n; 32]);
//! # let listen = || UdpOptions { listen: Some("127.0.0.1:0".parse().unwrap()), ..UdpOptions::default() };
//! let (a, b) = (key(1), key(2));
//! let (queue, mut at_a) = tokio::sync::mpsc::channel(64);
//! let udp_a = UdpTransport::start(listen(), queue).unwrap();
//! let (queue, mut at_b) = tokio::sync::mpsc::channel(64);
//! let udp_b = UdpTransport::start(listen(), queue).unwrap();
//! let mut of_a = Validator::new(a.member(), [1; 32]); // in earnest: a random seed
//! let mut of_b = Validator::new(b.member(), [2; 32]);
//!
//! // B's HELLO reaches A by some way; A asks B at the address it names; B answers.
//! let hello = Hello::sign(&b, 1, udp_b.addresses()).unwrap();
//! of_a.handle_hello(Instant::now(), &hello);
//! drive(&mut of_a, &udp_a).await;
//! handle(&mut of_b, &b, &at_b.recv().await.unwrap());
//! handle(&mut of_a, &a, &at_a.recv().await.unwrap());
//! assert_eq!(of_a.usable(Instant::now(), &b.member()).len(), 1);
//! # });
//! ```

// Most of this crate reads what others wrote.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]

mod address;
mod cbor;
mod counters;
pub mod dtl;
mod exec;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hello;
pub mod limits;
pub mod link_packet;
mod listening;
mod member;
mod path;
mod places;
pub mod quic;
mod receipt;
mod smtp;
mod stream;
mod transport;
mod udp;
mod validation;
mod web_tls;

pub use address::{
    Address, AddressDescriptor, Direction, ExecAddress, InvalidAddress, LatencyClass, MailAddress,
    Protocol, RelayAddress, WebAddress,
};
pub use counters::{Counter, CounterSnapshot, Counters, StreamCounters};
pub use exec::{ExecOptions, ExecTransport};
pub use hello::{Hello, HelloError};
pub use listening::CannotListen;
pub use member::{BadSignature, InvalidMemberId, MemberId, Signature, Signer, signed_bytes};
pub use path::{
    InvalidRule, PathProbe, PathReport, PathRule, PathRules, PathState, Paths, Proved, Quotas,
};
pub use places::{Place, Places};
pub use quic::{QuicTransport, QuicTransportOptions};
pub use receipt::{Receipt, ReceiptError, Referral};
pub use smtp::{
    ImapSource, MailBudget, MailLogin, MailRelay, MailServer, MailSource, MailTls, Pop3Source,
    SmtpOptions, SmtpTransport,
};
pub use stream::StreamTransport;
pub use stream::tcp::{TcpFraming, TcpOptions, TcpTransport};
pub use stream::ws::{WsFraming, WsOptions, WsTransport};
pub use transport::{
    BoxFuture, ConnectError, Inbox, Incoming, Link, SendError, Session, StartError, Transport,
};
pub use udp::{UdpOptions, UdpTransport};
pub use validation::{Advertised, HelloOutcome, Ping, Pong, ProbeError, Validated, Validator};
pub use web_tls::WebTls;
