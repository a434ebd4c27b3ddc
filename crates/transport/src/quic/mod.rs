//! QUIC between member keys, with a congestion controller whose priority may change at any moment.
//!
//! Both sides prove their member key in the TLS 1.3 handshake as an RFC 7250 raw public key; there
//! are no certificates, no authorities, no session tickets and no 0-RTT. [`QuicEndpoint`] makes and
//! accepts [`QuicConnection`]s, a connection carries reliable streams. Each connection has its own
//! priority: transfers that need different priorities use different connections. Those made to one
//! member at one address share one congestion control, in which their priorities are exact; every
//! other connection has its own controller. Those to different members are coupled where they wait
//! in one queue ([`SharedCoupling`]). Where no UDP passes, [`QuicEndpoint::over_messages`] does the
//! same over any transport. [`QuicTransport`] carries messages in datagrams, by connections of the
//! same endpoint.

pub(crate) mod clock;
mod connection;
mod controller;
pub(crate) mod datagrams;
mod endpoint;
mod error;
mod group;
mod link;
mod messages;
mod settings;
mod streams;
mod tls;
mod transport;

pub use connection::{ConnectionReport, QuicConnection};
pub use datagrams::StreamDatagrams;
pub use endpoint::{Allow, CongestionControl, QuicEndpoint, QuicOptions};
pub use error::QuicError;
pub use group::SharedCoupling;
pub use messages::{DatagramCarrier, MemberDatagram, member_address};
pub(crate) use streams::Written;
pub use streams::{PriorityHandle, PriorityStream};
pub(crate) use tls::Expected;
pub use transport::{QuicTransport, QuicTransportOptions};

pub use noq::{ReadError, ReadExactError, ReadToEndError, RecvStream, SendStream, WriteError};
