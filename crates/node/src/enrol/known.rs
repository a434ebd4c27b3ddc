//! A member asks the authority over a channel that its own key opens: for another key, for a newer
//! certificate, or for the list of members. Or it says that it leaves, or that it is there. Each
//! exchange is one request and one answer.

use std::io;
use std::net::SocketAddr;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use tokio::time::timeout;

use super::channel::{self, ChannelError};
use super::locate::{LocateError, Locator};
use crate::certificate::{Certificate, RingId};
use crate::endpoint::Addresses;
use crate::identity::Identity;
use crate::limits::ENROL_TIME;
use crate::text::printable;

/// What a known member asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Another key, by a `crate::rotation::RotationRequest`; the grant is a
    /// `crate::rotation::RotationReply`.
    Rotation,
    /// A newer certificate, by the one that it has; the grant is a certificate.
    Renewal,
    /// A page of the owner's list of members, by a [`ListRequest`]; the grant is the page.
    List,
    /// To be a member, by signing in: a `super::sign_in::Asked`; the grant is an `Answered`.
    SignIn,
    /// The end of its membership, by its certificate; the grant is empty.
    Departure,
    /// Nothing: it is there, which a `super::departure::Report` says; the grant is empty.
    Report,
}

impl Exchange {
    /// All of them.
    pub(super) const ALL: [Exchange; 6] = [
        Exchange::Rotation,
        Exchange::Renewal,
        Exchange::List,
        Exchange::SignIn,
        Exchange::Departure,
        Exchange::Report,
    ];

    /// What the first message begins with, and the handshake binds.
    pub(super) fn prologue(self) -> &'static [u8] {
        match self {
            Self::Rotation => b"ringway rotation 1",
            Self::Renewal => b"ringway renewal 1",
            Self::List => b"ringway member list 1",
            Self::SignIn => b"ringway sign-in 1",
            Self::Departure => b"ringway departure 1",
            Self::Report => b"ringway report 1",
        }
    }
}

/// What a member asks for that wants to know the others.
#[derive(Debug, Encode, Decode)]
pub(super) struct ListRequest {
    /// Its own certificate.
    #[n(0)]
    pub(super) certificate: ByteVec,
    /// Which page, from 0.
    #[n(1)]
    pub(super) page: u32,
}

/// What a known member is answered.
#[derive(Debug, Encode, Decode)]
pub(super) enum KnownAnswer {
    #[n(0)]
    Granted {
        #[n(0)]
        grant: ByteVec,
    },
    #[n(1)]
    Refused {
        #[n(0)]
        reason: String,
    },
}

/// Why the authority has granted nothing.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The ring's DNS does not say where the authority is.
    #[error("DNS does not say where the authority of {domain} is ({reason})")]
    NotLocated {
        /// The ring's domain.
        domain: String,
        /// What came instead.
        reason: LocateError,
    },
    /// No connection can be opened to it.
    #[error(
        "the ring's authority at {address} cannot be reached ({source}): is `ringway ring serve` running there?"
    )]
    Unreachable {
        /// From the ring's DNS.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The other side did not prove to be the authority, or does not take this member's key.
    #[error(
        "the peer at {address} is not this ring's authority, is of a build that does not know this request, or ended the connection"
    )]
    Rejected {
        /// From the ring's DNS.
        address: SocketAddr,
    },
    /// It took too long.
    #[error("the authority at {address} did not answer within {} s", ENROL_TIME.as_secs())]
    TimedOut {
        /// From the ring's DNS.
        address: SocketAddr,
    },
    /// The authority said no.
    #[error("the ring's authority refused: {0}")]
    Refused(String),
}

impl AskError {
    /// True if the ring's DNS has not answered.
    pub(crate) fn is_silence_of_dns(&self) -> bool {
        let reason = match self {
            Self::NotLocated { reason, .. } => Some(reason),
            _ => None,
        };
        matches!(reason, Some(LocateError::Dns(_)))
    }
}

/// One that asks for pages of the owner's list of members.
pub(crate) fn list_page<'a>(
    locator: &'a Locator,
    identity: &'a Identity,
    ring: &'a RingId,
) -> Asking<'a> {
    Asking {
        locator,
        ring,
        identity,
    }
}

/// The member that asks, and whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    /// Where the authority is.
    pub(super) locator: &'a Locator,
    pub(super) ring: &'a RingId,
    /// The key that the authority knows the member by.
    pub(super) identity: &'a Identity,
}

impl Asking<'_> {
    /// Asks for a page of the owner's list of members; of what is given back nothing was checked.
    pub(crate) async fn page(self, own: &Certificate, page: u32) -> Result<ByteVec, AskError> {
        let request = ListRequest {
            certificate: own.as_bytes().to_vec().into(),
            page,
        };
        let request = crate::cbor::encode(&request);
        self.ask(Exchange::List, &request).await
    }

    /// Sends the request; gives back what is granted, of which nothing has been checked.
    pub(super) async fn ask(self, exchange: Exchange, request: &[u8]) -> Result<ByteVec, AskError> {
        let addresses = self.locator.locate().await;
        let addresses = addresses.map_err(|reason| AskError::NotLocated {
            domain: self.locator.domain().to_owned(),
            reason,
        })?;
        let address = addresses.first();
        timeout(ENROL_TIME, self.ask_at(&addresses, exchange, request))
            .await
            .map_err(|_| AskError::TimedOut { address })?
    }

    /// As [`Asking::ask`], of an authority whose place is known.
    pub(super) async fn ask_at(
        self,
        addresses: &Addresses,
        exchange: Exchange,
        request: &[u8],
    ) -> Result<ByteVec, AskError> {
        let address = addresses.first();
        let stream = addresses.connect().await;
        let stream = stream.map_err(|source| AskError::Unreachable { address, source })?;
        let asked = async {
            let connected = channel::connect_known(stream, self.identity, self.ring, exchange);
            let mut channel = connected.await?;
            channel.send(&ByteVec::from(request.to_vec())).await?;
            channel.receive::<KnownAnswer>().await
        };
        let answer = asked.await.map_err(|error: ChannelError| {
            tracing::debug!(%error, ?exchange, "the authority was asked in vain");
            AskError::Rejected { address }
        })?;
        match answer {
            KnownAnswer::Granted { grant } => Ok(grant),
            KnownAnswer::Refused { reason } => Err(AskError::Refused(printable(&reason, 200))),
        }
    }
}
