//! The new member's side of an enrolment.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use ringway_transport::Signer;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::channel::{self, ChannelError};
use super::{Reply, Request};
use crate::admission::{AdmissionError, Granted};
use crate::certificate::{
    Certificate, CertificateError, InvalidName, RingId, address_bytes, address_from_bytes,
};
use crate::clock::unix_seconds;
use crate::config::{Config, ConfigError};
use crate::home::{self, HomeError};
use crate::identity::{Identity, IdentityError};
use crate::invite::{InvalidInvite, Invite};
use crate::limits::ENROL_TIME;
use crate::state::{Membership, State, StateError};
use crate::statement::{Statement, StatementError};

/// What a successful enrolment has brought.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Joined {
    /// The member's name.
    pub name: String,
    /// Its id in base32.
    pub member: String,
    /// `router` or `leaf`.
    pub role: String,
    /// The ring's domain.
    pub ring: String,
    /// A router's position, 64 hex digits.
    pub ring_key: Option<String>,
    /// Where a router listens.
    pub address: Option<SocketAddr>,
}

/// Why an enrolment failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The text is no invite.
    #[error(transparent)]
    Invite(#[from] InvalidInvite),
    /// The home folder belongs to a member already.
    #[error("{home} is the home of `{name}` of {ring} already: give another folder with --home")]
    AlreadyMember {
        /// The home folder.
        home: String,
        /// The member there.
        name: String,
        /// Its ring.
        ring: String,
    },
    /// Others could not reach it.
    #[error(
        "--listen {0} is no address that others can reach: give the machine's own address and a port; `listen` in ringway.toml may differ"
    )]
    Listen(SocketAddr),
    /// Nobody listens where the invite points.
    #[error(
        "the ring's authority at {address} cannot be reached ({source}): is `ringway ring serve` running there?"
    )]
    Unreachable {
        /// From the invite.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The other side did not prove to be the authority, or does not know the invite.
    #[error(
        "the authority at {address} ended the enrolment: the invite is unknown to it, or it is not this ring's authority"
    )]
    Rejected {
        /// From the invite.
        address: SocketAddr,
    },
    /// It took too long.
    #[error("the authority at {address} did not answer within {} s", ENROL_TIME.as_secs())]
    TimedOut {
        /// From the invite.
        address: SocketAddr,
    },
    /// The authority said no.
    #[error("the ring's authority refused: {0}")]
    Refused(String),
    /// What the authority sent does not verify.
    #[error("the authority sent a certificate that does not fit: {0}")]
    Certificate(#[from] CertificateError),
    /// As above, for the statement.
    #[error("the authority sent a statement that does not fit: {0}")]
    Statement(#[from] StatementError),
    /// The text is no reply, or the request that was kept is damaged.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The reply is from somebody else.
    #[error(
        "the reply is from ring {reply}, which is not the one expected: take nothing from it, and ask the owner"
    )]
    OtherRing {
        /// Whose owner has signed it.
        reply: String,
    },
    /// Nothing was asked for.
    #[error(
        "{home} has no request that is not answered: make one there with `ringway join --offline --name NAME`"
    )]
    NoRequest {
        /// The home folder.
        home: String,
    },
    /// It answers another request.
    #[error(
        "the reply answers another request than the last one of this home: have that one admitted, by `ringway ring admit`"
    )]
    OtherRequest,
    /// The key could not be made or read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The home folder could not be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The state could not be stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The configuration could not be stored.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl JoinError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            JoinError::Invite(_)
                | JoinError::AlreadyMember { .. }
                | JoinError::Listen(_)
                | JoinError::Admission(_)
                | JoinError::Name(_)
                | JoinError::OtherRing { .. }
                | JoinError::NoRequest { .. }
                | JoinError::OtherRequest
        )
    }
}

/// Enrols the member whose home is `home` with `invite`; a router listens at `listen`.
///
/// The key is made first and kept, so that a join that was cut off can be repeated with the same invite.
///
/// # Errors
/// See [`JoinError`]; nothing but the key has been stored then.
pub async fn join(
    home: &Path,
    invite: &str,
    listen: Option<SocketAddr>,
) -> Result<Joined, JoinError> {
    let invite: Invite = invite.parse()?;
    check_listen(listen)?;
    home::create_private_folder(home)?;
    let state = State::open(home)?;
    refuse_second(home, &state)?;
    let identity = Identity::load_or_create(&home::identity_path(home))?;
    let address = invite.enrol;
    let reply = timeout(ENROL_TIME, ask(&identity, &invite, listen))
        .await
        .map_err(|_| JoinError::TimedOut { address })??;
    let granted = granted(&invite, reply)?;
    store(home, &state, &identity, &invite.ring, granted)
}

/// A router's address must be one that others can reach.
pub(super) fn check_listen(listen: Option<SocketAddr>) -> Result<(), JoinError> {
    let unreachable = |address: &SocketAddr| address.ip().is_unspecified() || address.port() == 0;
    match listen.filter(unreachable) {
        Some(address) => Err(JoinError::Listen(address)),
        None => Ok(()),
    }
}

/// A home holds one membership.
pub(super) fn refuse_second(home: &Path, state: &State) -> Result<(), JoinError> {
    match state.membership()? {
        None => Ok(()),
        Some(membership) => Err(JoinError::AlreadyMember {
            home: home.display().to_string(),
            name: membership.certificate.name().to_string(),
            ring: membership.domain,
        }),
    }
}

async fn ask(
    identity: &Identity,
    invite: &Invite,
    listen: Option<SocketAddr>,
) -> Result<Reply, JoinError> {
    let address = invite.enrol;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| JoinError::Unreachable { address, source })?;
    let exchange = async {
        let psk = invite.pre_shared_key();
        let mut channel =
            channel::connect(stream, identity, &invite.ring, &invite.id, &psk).await?;
        let request = Request {
            member: (*identity.member().as_bytes()).into(),
            address: listen.map(|address| address_bytes(address).into()),
        };
        channel.send(&request).await?;
        channel.receive().await
    };
    exchange.await.map_err(|error: ChannelError| {
        tracing::debug!(%error, "the enrolment failed");
        JoinError::Rejected { address }
    })
}

/// What the authority's reply grants, if everything in it is signed by the ring's owner.
fn granted(invite: &Invite, reply: Reply) -> Result<Granted, JoinError> {
    let (certificate, statement, routers, dns) = match reply {
        Reply::Refused { reason } => return Err(JoinError::Refused(printable(&reason))),
        Reply::Granted {
            certificate,
            statement,
            routers,
            dns,
        } => (certificate, statement, routers, dns),
    };
    let decode = |bytes: &[u8]| Certificate::decode(bytes, &invite.ring);
    Ok(Granted {
        domain: invite.domain.clone(),
        certificate: decode(&certificate)?,
        statement: Statement::decode(&statement, &invite.ring)?,
        routers: routers
            .iter()
            .map(|router| decode(router))
            .collect::<Result<_, _>>()?,
        dns: address_from_bytes(&dns),
    })
}

/// Makes the home a member's.
pub(super) fn store(
    home: &Path,
    state: &State,
    identity: &Identity,
    ring: &RingId,
    granted: Granted,
) -> Result<Joined, JoinError> {
    let Granted {
        domain,
        certificate,
        statement,
        routers,
        dns,
    } = granted;
    certificate.check_time(unix_seconds())?;
    if certificate.member() != identity.member() {
        return Err(CertificateError::OtherRing.into());
    }
    Config::write_new(home, dns, certificate.address())?;
    for router in &routers {
        state.remember_router(router)?;
    }
    let joined = Joined {
        name: certificate.name().to_string(),
        member: certificate.member().to_string(),
        role: certificate.role().as_str().to_owned(),
        ring: domain.clone(),
        ring_key: certificate.ring_key().map(|key| key.to_string()),
        address: certificate.address(),
    };
    // Last: with a membership on disk the member has joined.
    state.set_membership(&Membership {
        ring: *ring,
        domain,
        certificate,
        statement,
    })?;
    Ok(joined)
}

/// What a stranger's text may do to a terminal is nothing.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
