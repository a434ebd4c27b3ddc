//! What goes wrong with QUIC connections, and whose fault it is.

use std::net::SocketAddr;

use noq::{ConnectError, ConnectionError};
use thiserror::Error;

use crate::member::MemberId;

/// Why there is no connection, or no more.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum QuicError {
    /// The endpoint could not start.
    #[error("cannot use {address} for QUIC: {reason}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: String,
    },
    /// TLS could not be set up: a defect of this program.
    #[error("cannot set up TLS: {reason}; please report it")]
    Setup {
        /// What TLS said.
        reason: String,
    },
    /// We were misused: we do not accept this member ourselves.
    #[error("member {member} is not admitted, or is revoked; it is not dialled")]
    NotAllowed {
        /// The member.
        member: MemberId,
    },
    /// The peer is another: the address moved, or somebody is in between.
    #[error("expected member {expected}, but {found} answered; look for a newer address")]
    WrongPeer {
        /// Who should be there.
        expected: MemberId,
        /// Who is.
        found: MemberId,
    },
    /// The peer ended the handshake: it does not accept our key, or has no room.
    #[error("the peer refused the connection ({reason}); check that it admits this member")]
    Refused {
        /// What the peer said.
        reason: String,
    },
    /// Too many connections on our side.
    #[error("{limit} connections are open, no more are made; close some or raise the limit")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// Nothing to dial: a malformed or unsupported address, or an endpoint that stops.
    #[error("cannot dial {address}: {reason}")]
    Dial {
        /// The address.
        address: SocketAddr,
        /// What QUIC said.
        reason: String,
    },
    /// The network failed: nothing was heard for too long.
    #[error("the peer does not answer; check that it runs and that UDP gets through")]
    TimedOut,
    /// The peer closed the connection.
    #[error("the peer closed the connection with code {code}: {reason}")]
    ClosedByPeer {
        /// The application's code.
        code: u64,
        /// The peer's words, for a log.
        reason: String,
    },
    /// We closed the connection, or the endpoint.
    #[error("the connection is closed; connect again")]
    Closed,
    /// The peer broke the protocol, or lost its state.
    #[error("the connection failed: {reason}; connect again")]
    Failed {
        /// What QUIC said.
        reason: String,
    },
}

impl From<ConnectionError> for QuicError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::LocallyClosed => Self::Closed,
            ConnectionError::ApplicationClosed(close) => Self::ClosedByPeer {
                code: close.error_code.into_inner(),
                reason: String::from_utf8_lossy(&close.reason).into_owned(),
            },
            other => Self::Failed {
                reason: other.to_string(),
            },
        }
    }
}

impl QuicError {
    /// The error of a handshake: there a close by the peer's QUIC stack is a refusal.
    pub(super) fn of_handshake(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ConnectionClosed(close) => Self::Refused {
                reason: close.to_string(),
            },
            other => other.into(),
        }
    }

    pub(super) fn dial(address: SocketAddr, error: &ConnectError) -> Self {
        Self::Dial {
            address,
            reason: error.to_string(),
        }
    }
}
