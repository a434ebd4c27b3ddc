//! What goes wrong, and what mends it.

use std::net::SocketAddr;

use thiserror::Error as ThisError;

use super::key::PeerKey;
use crate::limits::DTL_REASON;
use crate::quic::{QuicError, WriteError};

/// Why there is no endpoint, connection or stream, or no more.
#[derive(Debug, Clone, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The socket could not be bound.
    #[error("cannot use the UDP address {address}: {reason}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: String,
    },
    /// Keys or TLS could not be set up.
    #[error("cannot set up keys: {reason}")]
    Setup {
        /// What is wrong.
        reason: String,
    },
    /// Another key answered than the one that was expected.
    #[error("expected the key {expected}, but {found} answered; check address and key")]
    WrongPeer {
        /// Which key should be there.
        expected: PeerKey,
        /// Which is.
        found: PeerKey,
    },
    /// A key answered that is not among those trusted.
    #[error("the key {found} answered, which is not trusted; check address and keys")]
    NotTrusted {
        /// Which key answered.
        found: PeerKey,
    },
    /// The peer ended the handshake: it does not trust our key, has no room, or is something else.
    #[error("the peer refused the connection ({reason}); check that it trusts this key")]
    Refused {
        /// What the peer said.
        reason: String,
    },
    /// Too many connections on our side.
    #[error("{limit} connections are open, no more are made; close some")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// Nothing to dial: an address that cannot be reached, or an endpoint that is closed.
    #[error("cannot dial {address}: {reason}")]
    Dial {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Nothing was heard for too long.
    #[error("the peer does not answer; check that it runs and that UDP gets through")]
    TimedOut,
    /// The peer closed the connection.
    #[error("the peer closed the connection with code {code}: {reason}")]
    ClosedByPeer {
        /// The peer's code.
        code: u64,
        /// The peer's words, without control characters.
        reason: String,
    },
    /// The peer stopped reading the stream.
    #[error("the peer stopped reading the stream with code {code}")]
    Stopped {
        /// The peer's code.
        code: u64,
    },
    /// This side has closed the stream, the connection or the endpoint.
    #[error("it is closed; open another")]
    Closed,
    /// The peer broke the protocol, or lost its state.
    #[error("the connection failed: {reason}; connect again")]
    Failed {
        /// What happened.
        reason: String,
    },
}

/// Words of the peer as they may be shown: short, without control characters.
fn shown(words: &str) -> String {
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    words.chars().take(DTL_REASON).map(visible).collect()
}

impl From<QuicError> for Error {
    fn from(error: QuicError) -> Error {
        match error {
            QuicError::Bind { address, reason } => Error::Bind { address, reason },
            QuicError::Setup { reason } => Error::Setup { reason },
            QuicError::NotAllowed { member } => Error::NotTrusted {
                found: member.into(),
            },
            QuicError::WrongPeer { expected, found } => Error::WrongPeer {
                expected: expected.into(),
                found: found.into(),
            },
            QuicError::Refused { reason } => Error::Refused {
                reason: shown(&reason),
            },
            QuicError::Busy { limit } => Error::Busy { limit },
            QuicError::Dial { address, reason } => Error::Dial { address, reason },
            QuicError::TimedOut => Error::TimedOut,
            QuicError::ClosedByPeer { code, reason } => Error::ClosedByPeer {
                code,
                reason: shown(&reason),
            },
            QuicError::Closed => Error::Closed,
            QuicError::Failed { reason } => Error::Failed {
                reason: shown(&reason),
            },
        }
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Error {
        match error {
            WriteError::Stopped(code) => Error::Stopped {
                code: code.into_inner(),
            },
            WriteError::ConnectionLost(error) => QuicError::from(error).into(),
            WriteError::ClosedStream => Error::Closed,
            other => Error::Failed {
                reason: shown(&other.to_string()),
            },
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match &error {
            Error::Bind { .. } => ErrorKind::AddrNotAvailable,
            Error::WrongPeer { .. } | Error::NotTrusted { .. } => ErrorKind::PermissionDenied,
            Error::Refused { .. } => ErrorKind::ConnectionRefused,
            Error::TimedOut => ErrorKind::TimedOut,
            Error::ClosedByPeer { .. } | Error::Failed { .. } => ErrorKind::ConnectionReset,
            Error::Stopped { .. } | Error::Closed => ErrorKind::BrokenPipe,
            Error::Setup { .. } | Error::Busy { .. } | Error::Dial { .. } => ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_peer_are_short_and_harmless() {
        let reason = format!("\x1b[31m{}", "a".repeat(5 * DTL_REASON));
        let error = Error::from(QuicError::ClosedByPeer { code: 7, reason });
        let text = error.to_string();
        assert!(text.starts_with("the peer closed the connection with code 7: \u{fffd}[31maa"));
        assert!(text.len() < 2 * DTL_REASON && !text.contains('\x1b'));
    }
}
