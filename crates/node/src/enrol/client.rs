//! The new member's side of an enrolment.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use ringway_transport::Signer;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::again::{Before, JoiningKey};
use super::channel::{self, Channel, ChannelError};
use super::known::AskError;
use super::locate::{LocateError, Locator};
use super::pake::Refusal;
use super::place::RouterPlace;
use super::store::{Told, store};
use super::{Reply, Request};
use crate::admission::{AdmissionError, Granted, dns_of};
use crate::certificate::{Certificate, CertificateError, InvalidName, RingId, address_bytes};
use crate::config::ConfigError;
use crate::endpoint::{Addresses, Endpoint};
use crate::home::{self, HomeError};
use crate::identity::{Identity, IdentityError};
use crate::invite::{AnyInvite, NoInvite, SpokenInvite};
use crate::limits::ENROL_TIME;
use crate::sso::InvalidLink;
use crate::state::{State, StateError};
use crate::statement::{Statement, StatementError};
use crate::text::printable;

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
    /// True if the home was a member's before.
    pub again: bool,
}

impl Joined {
    pub(super) fn of(certificate: &Certificate, domain: &str, again: bool) -> Joined {
        Joined {
            name: certificate.name().to_string(),
            member: certificate.member().to_string(),
            role: certificate.role().as_str().to_owned(),
            ring: domain.to_owned(),
            ring_key: certificate.ring_key().map(|key| key.to_string()),
            address: certificate.address(),
            again,
        }
    }
}

/// Why an enrolment failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The text is no invite.
    #[error(transparent)]
    Invite(#[from] NoInvite),
    /// The text is no join link.
    #[error(transparent)]
    Link(#[from] InvalidLink),
    /// The authority has granted no sign-in.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A spoken invite without a domain.
    #[error(
        "the invite does not say where to join: add `@` and the ring's domain, as in 7-crackdown-adviser-ragtime@ring.example.org, or give --at ADDR:PORT"
    )]
    NoPlace,
    /// The ring's DNS does not say where to enrol.
    #[error(
        "DNS does not say where {domain} enrols ({reason}): check the domain, or ask the ring's owner for the address and give it with --at"
    )]
    NotLocated {
        /// The domain that the user has given.
        domain: String,
        /// What came instead.
        reason: LocateError,
    },
    /// The authority there is another ring's.
    #[error(
        "the authority at {address} is that of {found}, not of {expected}: ask the ring's owner"
    )]
    OtherDomain {
        /// Where.
        address: SocketAddr,
        /// The domain that the user has given.
        expected: String,
        /// The authority's.
        found: String,
    },
    /// The authority says why a spoken invite is not taken.
    #[error("{}", in_words(.number, .refusal))]
    Spoken {
        /// The invite's number.
        number: u32,
        /// Why.
        refusal: Refusal,
    },
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
    /// What the home folder holds is another ring's.
    #[error(
        "{home} was the home of a member of {ring}: join that ring again, or give another folder with --home"
    )]
    OtherRingsHome {
        /// The home folder.
        home: String,
        /// Its ring.
        ring: String,
    },
    /// The address cannot be given to others.
    #[error(
        "--listen {0} is none that others can reach: name this machine's address and a port; behind a port forward or a 1:1 NAT add `--advertise ADDR:PORT`, with the outer address"
    )]
    Listen(SocketAddr),
    /// As above, of the outer address.
    #[error("--advertise {0} is none that others can reach: name an address and a port")]
    Advertise(SocketAddr),
    /// The machine does not have it. The invite is not used up.
    #[error(
        "--listen {0} is no address of this machine: name one that is, with its port; behind a port forward or a 1:1 NAT name the outer address by `--advertise`. The invite is still good"
    )]
    NotHere(SocketAddr),
    /// The other side has not shown that it knows the words.
    #[error(
        "the peer at {address} did not prove that it knows the invite's words: it is not the ring's authority, or somebody is in between; if it happens again, ask for a new invite"
    )]
    NotShown {
        /// Where.
        address: SocketAddr,
    },
    /// No server listens where the invite points.
    #[error(
        "the ring's authority at {address} cannot be reached ({source}): is `ringway ring serve` running there?"
    )]
    Unreachable {
        /// From the invite.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The other side did not prove to be the authority.
    #[error(
        "the peer at {address} did not prove that it is this ring's authority: check the address with the ring's owner"
    )]
    Rejected {
        /// From the invite.
        address: SocketAddr,
    },
    /// The host name is not known here.
    #[error(
        "the authority's host name in {place} is not found ({source}): check this machine's DNS, or name an address by `--at ADDR:PORT`"
    )]
    Unknown {
        /// From the invite, or `--at`.
        place: Endpoint,
        /// The system's reason.
        source: io::Error,
    },
    /// The reply names no DNS server that this build understands.
    #[error("the authority sent a DNS server that this build does not understand: use a newer one")]
    NoDns,
    /// The connection ended before there was an answer. That says nothing of the invite.
    #[error(
        "the connection to the authority at {address} was closed before an answer: it may be busy, or starting again. Try again in a minute; if that does not help, the log of `ringway ring serve` says more"
    )]
    Closed {
        /// From the invite.
        address: SocketAddr,
    },
    /// The authority says why it does not take the invite.
    #[error("the authority at {address} does not take the invite: it {}", why(.refusal))]
    NotTaken {
        /// From the invite.
        address: SocketAddr,
        /// Why.
        refusal: Refusal,
    },
    /// It took too long.
    #[error("the authority at {address} did not answer within {} s", ENROL_TIME.as_secs())]
    TimedOut {
        /// From the invite.
        address: SocketAddr,
    },
    /// The authority said no.
    #[error("the ring's authority refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
        /// True if it may take another key.
        other_key: bool,
    },
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
                | JoinError::Link(_)
                | JoinError::AlreadyMember { .. }
                | JoinError::OtherRingsHome { .. }
                | JoinError::Listen(_)
                | JoinError::Advertise(_)
                | JoinError::NotHere(_)
                | JoinError::Admission(_)
                | JoinError::Name(_)
                | JoinError::OtherRing { .. }
                | JoinError::NoRequest { .. }
                | JoinError::OtherRequest
                | JoinError::NoPlace
                | JoinError::OtherDomain { .. }
        )
    }
}

fn in_words(number: &u32, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unknown => format!("invite {number} {}: check the number", why(refusal)),
        Refusal::Wrong { left: 1.. } => format!(
            "invite {number} has other words: have them read again; {}",
            why(refusal)
        ),
        _ => format!("invite {number} {}", why(refusal)),
    }
}

fn why(refusal: &Refusal) -> String {
    let why = match refusal {
        Refusal::Unknown => "is not known to this ring, or a newer one has replaced it",
        Refusal::Expired => "has expired: ask the ring's owner for a new one",
        Refusal::Burnt => {
            "was tried too often with wrong words and is good no more: ask the ring's owner for a new one"
        }
        Refusal::Used => "is used already: ask the ring's owner for a new one",
        Refusal::Busy => {
            "was not looked at, because too many wrong ones were received lately: try again in a minute; this cost no try"
        }
        Refusal::Wrong { left: 0 } => {
            "has other words, and that was the last try: ask the ring's owner for a new one"
        }
        Refusal::Wrong { left } => {
            return match left {
                1 => "one try is left".to_owned(),
                left => format!("{left} tries are left"),
            };
        }
    };
    why.to_owned()
}

/// What is shown of an authority's reason.
const REASON_CHARS: usize = 500;

/// What a new member may add to its invite.
#[derive(Clone, Debug, Default)]
pub struct JoinOptions {
    /// Where a router listens, an address of this machine. Without it and `advertise` it is a leaf.
    pub listen: Option<SocketAddr>,
    /// Where others reach a router, if not there: it stands in the certificate.
    pub advertise: Option<SocketAddr>,
    /// Where the authority is, if not where the invite or the ring's DNS says.
    pub at: Option<Endpoint>,
    /// The DNS server to ask where a spoken invite's ring enrols; none is the system's.
    pub resolver: Option<Endpoint>,
}

/// Enrols the member whose home is `home` with `invite`; a router is reached at `address`.
///
/// The key is made first and kept, so that a join that was cut off can be repeated with the same
/// invite. A home whose membership has ended joins again: what is in it stays.
///
/// # Errors
/// See [`JoinError`]; nothing but the key has been stored then.
pub async fn join(
    home: &Path,
    invite: &str,
    address: Option<SocketAddr>,
) -> Result<Joined, JoinError> {
    let options = JoinOptions {
        advertise: address,
        ..JoinOptions::default()
    };
    join_with(home, invite, &options).await
}

/// As [`join`], with all options.
///
/// # Errors
/// As there.
pub async fn join_with(
    home: &Path,
    invite: &str,
    options: &JoinOptions,
) -> Result<Joined, JoinError> {
    let invite: AnyInvite = invite.parse()?;
    let place = RouterPlace::of(options.listen, options.advertise)?;
    let target = Target::new(&invite, options.at.clone())?;
    home::create_own_folder(home)?;
    let state = State::open(home)?;
    let before = Before::look(home, &state).await?;
    let before = before.as_ref();
    // A daemon that runs still would go on with the membership that has ended.
    let _lock = before.map(|_| home::lock(home)).transpose()?;
    let addresses = target.find(options.resolver.clone()).await?;
    let address = addresses.first();
    let asking = Asking {
        home,
        invite: &invite,
        addresses: &addresses,
        reached: place
            .map(|place| place.advertised)
            .or(before.and_then(Before::listens)),
        before,
    };
    let asked = timeout(2 * ENROL_TIME, asking.run()).await;
    let (ring, granted) = asked.map_err(|_| JoinError::TimedOut { address })??;
    let listen = place.map(|place| place.listen);
    let told = Told { before, listen };
    store(home, &state, told, &ring, granted)
}

/// A new member at the authority.
struct Asking<'a> {
    home: &'a Path,
    invite: &'a AnyInvite,
    addresses: &'a Addresses,
    /// Where others reach a router.
    reached: Option<SocketAddr>,
    before: Option<&'a Before>,
}

impl Asking<'_> {
    /// With another key, if the authority does not take the one that was here.
    async fn run(&self) -> Result<(RingId, Granted), JoinError> {
        let mut key = JoiningKey::begin(self.home, self.before)?;
        loop {
            let asked = self.ask(&key.identity).await;
            let another = match asked {
                Err(JoinError::Refused { other_key, .. }) if other_key && self.before.is_some() => {
                    key.another()?
                }
                _ => None,
            };
            match another {
                Some(another) => key = another,
                None => return asked,
            }
        }
    }

    async fn ask(&self, identity: &Identity) -> Result<(RingId, Granted), JoinError> {
        let (ring, reply) = ask(identity, self).await?;
        let granted = granted(&ring, reply)?;
        if granted.certificate.member() != identity.member() {
            return Err(CertificateError::OtherRing.into());
        }
        Ok((ring.id, granted))
    }
}

/// Where the authority is, as far as it is known.
enum Target {
    At(Endpoint),
    Of(String),
}

impl Target {
    fn new(invite: &AnyInvite, at: Option<Endpoint>) -> Result<Target, JoinError> {
        match (at, invite) {
            (Some(address), _) => Ok(Target::At(address)),
            (None, AnyInvite::Long(invite)) => Ok(Target::At(invite.enrol.clone())),
            (None, AnyInvite::Spoken(invite)) => {
                let domain = invite.domain.clone();
                domain.map(Target::Of).ok_or(JoinError::NoPlace)
            }
        }
    }

    async fn find(self, resolver: Option<Endpoint>) -> Result<Addresses, JoinError> {
        match self {
            Target::At(place) => {
                let found = place.resolve().await;
                found.map_err(|source| JoinError::Unknown { place, source })
            }
            Target::Of(domain) => Locator::new(&domain, resolver)
                .locate()
                .await
                .map_err(|reason| JoinError::NotLocated { domain, reason }),
        }
    }
}

/// The ring that is joined: proven, once the channel stands.
pub(super) struct Ring {
    pub(super) id: RingId,
    pub(super) domain: String,
}

async fn ask(identity: &Identity, asking: &Asking<'_>) -> Result<(Ring, Reply), JoinError> {
    let Asking {
        invite,
        addresses,
        reached,
        ..
    } = *asking;
    let address = addresses.first();
    let stream = addresses
        .connect()
        .await
        .map_err(|source| JoinError::Unreachable { address, source })?;
    let failed = |error: ChannelError| {
        tracing::debug!(%error, "the enrolment failed");
        match error {
            ChannelError::Io(_) => JoinError::Closed { address },
            ChannelError::Refused(refusal) => JoinError::NotTaken { address, refusal },
            ChannelError::Noise(_) | ChannelError::Malformed | ChannelError::BadKey => {
                JoinError::Rejected { address }
            }
        }
    };
    let (ring, mut channel) = match invite {
        AnyInvite::Long(invite) => {
            let psk = invite.pre_shared_key();
            let channel = channel::connect(stream, identity, &invite.ring, &invite.id, &psk);
            let ring = Ring {
                id: invite.ring,
                domain: invite.domain.clone(),
            };
            (ring, channel.await.map_err(failed)?)
        }
        AnyInvite::Spoken(invite) => ask_spoken(stream, identity, invite, address).await?,
    };
    // Before the request, which uses up the invite.
    if let Some(before) = asking.before {
        before.check_ring(asking.home, &ring.id)?;
    }
    let exchange = async {
        let request = Request {
            member: (*identity.member().as_bytes()).into(),
            address: reached.map(|address| address_bytes(address).into()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        };
        channel.send(&request).await?;
        channel.receive().await
    };
    Ok((ring, exchange.await.map_err(failed)?))
}

async fn ask_spoken(
    stream: TcpStream,
    identity: &Identity,
    invite: &SpokenInvite,
    address: SocketAddr,
) -> Result<(Ring, Channel), JoinError> {
    let number = invite.number;
    let connected = channel::connect_spoken(stream, identity, invite).await;
    let (offer, channel) = connected.map_err(|error| match error {
        ChannelError::Refused(refusal) => JoinError::Spoken { number, refusal },
        ChannelError::Noise(_) | ChannelError::Malformed | ChannelError::BadKey => {
            JoinError::NotShown { address }
        }
        ChannelError::Io(error) => {
            tracing::debug!(%error, "the enrolment failed");
            JoinError::Closed { address }
        }
    })?;
    // The user has named the ring's domain, so its words alone are not enough.
    if let Some(expected) = &invite.domain
        && *expected != offer.domain
    {
        return Err(JoinError::OtherDomain {
            address,
            expected: expected.clone(),
            found: offer.domain,
        });
    }
    let ring = Ring {
        id: offer.ring,
        domain: offer.domain,
    };
    Ok((ring, channel))
}

/// What the authority's reply grants, if everything in it is signed by the ring's owner.
pub(super) fn granted(ring: &Ring, reply: Reply) -> Result<Granted, JoinError> {
    let (certificate, statement, routers, dns) = match reply {
        Reply::Refused { reason, other_key } => {
            return Err(JoinError::Refused {
                reason: printable(&reason, REASON_CHARS),
                other_key: other_key == Some(true),
            });
        }
        Reply::Granted {
            certificate,
            statement,
            routers,
            dns,
            dns_host,
        } => {
            let dns = dns_of(&dns, dns_host.as_deref()).ok_or(JoinError::NoDns)?;
            (certificate, statement, routers, dns)
        }
    };
    let decode = |bytes: &[u8]| Certificate::decode(bytes, &ring.id);
    Ok(Granted {
        domain: ring.domain.clone(),
        certificate: decode(&certificate)?,
        statement: Statement::decode(&statement, &ring.id)?,
        routers: routers
            .iter()
            .map(|router| decode(router))
            .collect::<Result<_, _>>()?,
        dns,
    })
}
