//! The authority's side of an enrolment.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use minicbor::bytes::ByteVec;
use ringway_transport::MemberId;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::admit_signed_in::Step;
use super::channel::{self, Accepting, Asking, Channel, ChannelError, First};
use super::departure::Report;
use super::known::{Exchange, KnownAnswer, ListRequest};
use super::pake::{self, Hello, Refusal};
use super::tries::Tries;
use super::{Bring, BringAnswer, Reply, Request};
use crate::admission::host_of;
use crate::authority::{Authority, AuthorityError, Brought, Enrolled, Renewed, SharedAuthority};
use crate::certificate::{Certificate, address_bytes, address_from_bytes};
use crate::endpoint::Endpoint;
use crate::identity::noise_public;
use crate::limits::{
    ENROL_CONNECTIONS, ENROL_PER_SOURCE, ENROL_TIME, SPOKEN_RATE, SPOKEN_SOURCE_RATE,
    VERSION_CHARACTERS,
};
use crate::rotation::{RotationError, RotationRequest};
use crate::shares::{SharedPlace, Shares};
use crate::sso::SignIns;
use crate::text::printable;

/// Serves enrolments for ever. One that fails is logged and closed; no other is touched.
pub(crate) async fn serve(listener: TcpListener, authority: SharedAuthority, sign_ins: SignIns) {
    let places = Arc::new(Shares::new(ENROL_CONNECTIONS, ENROL_PER_SOURCE));
    let tries = Arc::new(Mutex::new(Tries::new(
        Instant::now(),
        SPOKEN_RATE,
        SPOKEN_SOURCE_RATE,
    )));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting an enrolment failed");
                // Out of file descriptors, most likely: give others time to close.
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let enrolling = Enrolling {
            authority: authority.clone(),
            sign_ins: sign_ins.clone(),
            tries: Arc::clone(&tries),
            from: from.ip(),
        };
        let Some(place) = places.take(from.ip()).await else {
            tracing::debug!(%from, "a source of enrolments has used up its share");
            continue;
        };
        tokio::spawn(async move {
            let enrolled = tokio::select! {
                enrolled = timeout(ENROL_TIME, enrolling.run(stream, &place)) => enrolled,
                () = place.must_go() => {
                    return tracing::debug!(%from, "others wanted the place of one that said nothing");
                }
            };
            match enrolled {
                Ok(Ok(Done::Enrolled(name))) => tracing::info!(%from, name, "enrolled"),
                Ok(Ok(Done::Rotated(name))) => {
                    tracing::info!(%from, name, "a member has another key");
                }
                Ok(Ok(Done::Departed(name))) => {
                    tracing::info!(%from, name, "a member has left the ring for good");
                }
                Ok(Ok(Done::Reported)) => tracing::debug!(%from, "a member is there"),
                Ok(Ok(Done::Renewed {
                    name,
                    serial,
                    again,
                })) => {
                    tracing::info!(%from, name, serial, again, "a member's certificate is renewed");
                }
                Ok(Ok(Done::Listed(name))) => {
                    tracing::debug!(%from, name, "a member has asked for the list of members");
                }
                Ok(Ok(Done::SignIn(step))) => step.log(from),
                Ok(Ok(Done::Brought(Brought::Known))) => {
                    tracing::debug!(%from, "a member has brought a statement that is known");
                }
                Ok(Ok(Done::Brought(Brought::News))) => {
                    tracing::error!(%from, "a member has brought a statement that this authority does not know: its folder is an old copy. Nothing is signed until `ringway ring recover`, or `ringway ring promote` where it was restored, has taken over what members know");
                }
                Ok(Ok(Done::Brought(Brought::Superseded))) => {
                    tracing::error!(%from, "another authority of this ring was promoted: this one is fenced, and signs nothing any more");
                }
                Ok(Err(reason)) => tracing::warn!(%from, %reason, "an enrolment was refused"),
                Err(_) => tracing::warn!(%from, "an enrolment took too long"),
            }
        });
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EnrolError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Rotation(#[from] RotationError),
    #[error("the invite is refused: {refusal}")]
    Long { refusal: Refusal },
    #[error("spoken invite {number}: {refusal}")]
    Spoken { number: u32, refusal: Refusal },
}

/// What a connection was good for, and the member's name.
pub(super) enum Done {
    Enrolled(String),
    Rotated(String),
    Renewed {
        name: String,
        serial: u64,
        again: bool,
    },
    Listed(String),
    Brought(Brought),
    SignIn(Step),
    Departed(String),
    Reported,
}

/// One that holds an invite, as its first request proves.
struct Proven {
    channel: Channel,
    /// The X25519 key of the handshake.
    remote: [u8; 32],
    invite: [u8; 8],
}

pub(super) struct Enrolling {
    pub(super) authority: SharedAuthority,
    pub(super) sign_ins: SignIns,
    tries: Arc<Mutex<Tries>>,
    pub(super) from: IpAddr,
}

impl Enrolling {
    async fn run(self, mut stream: TcpStream, place: &SharedPlace) -> Result<Done, EnrolError> {
        let proven = match channel::first(&mut stream).await? {
            First::Known(exchange, first) => {
                return self.known(stream, exchange, &first, place).await;
            }
            First::Brought(brought) => return self.brought(stream, brought).await,
            First::Hello(hello) => self.spoken(stream, &hello).await?,
            First::Other(first) => self.long(stream, &first).await?,
        };
        Ok(Done::Enrolled(self.grant(proven, place).await?))
    }

    async fn brought(&self, mut stream: TcpStream, brought: Bring) -> Result<Done, EnrolError> {
        let Bring {
            statement,
            certificate,
        } = brought;
        let take =
            move |authority: &mut Authority| authority.take_brought(&statement, &certificate);
        let brought = self.authority.with(take).await?;
        let answer = match brought {
            Brought::Known => BringAnswer::Known,
            Brought::News | Brought::Superseded => BringAnswer::News,
        };
        channel::answer_brought(&mut stream, &answer).await?;
        Ok(Done::Brought(brought))
    }

    /// A member that the authority knows asks for another key or for a newer certificate.
    async fn known(
        &self,
        stream: TcpStream,
        exchange: Exchange,
        first: &[u8],
        place: &SharedPlace,
    ) -> Result<Done, EnrolError> {
        let secret = self.secret().await?;
        let (remote, mut channel) = channel::accept_known(stream, secret, first, exchange).await?;
        let request: ByteVec = channel.receive().await?;
        let granted = match exchange {
            Exchange::Rotation => self.rotation(&request, remote, place).await?,
            Exchange::Renewal => self.renewal(request, remote, place).await?,
            Exchange::List => self.list(&request, remote, place).await?,
            Exchange::SignIn => Ok(self.sign_in(&request, remote).await?),
            Exchange::Departure => self.departure(request, remote, place).await?,
            Exchange::Report => self.report(&request, remote, place).await?,
        };
        match granted {
            Ok(Granted { grant, done }) => {
                let grant = grant.into();
                channel.send(&KnownAnswer::Granted { grant }).await?;
                Ok(done)
            }
            Err(error) => {
                let reason = in_words(&error);
                channel.send(&KnownAnswer::Refused { reason }).await?;
                Err(error.into())
            }
        }
    }

    async fn rotation(
        &self,
        request: &[u8],
        remote: [u8; 32],
        place: &SharedPlace,
    ) -> Result<Result<Granted, AuthorityError>, EnrolError> {
        let request = RotationRequest::decode(request)?;
        // Its signature says that the member wants this, the handshake that it wants it now: a
        // request that was copied is of no use here.
        holds(remote, &request.member())?;
        place.keep();
        let rotate = move |authority: &mut Authority| {
            let rotated = authority.rotate_asked(&request)?;
            authority.hearing().note(&request.next(), None);
            Ok(rotated)
        };
        let rotated = self.authority.with(rotate).await;
        Ok(rotated.map(|rotated| Granted {
            grant: rotated.reply.to_bytes(),
            done: Done::Rotated(rotated.certificate.name().to_string()),
        }))
    }

    async fn renewal(
        &self,
        shown: ByteVec,
        remote: [u8; 32],
        place: &SharedPlace,
    ) -> Result<Result<Granted, AuthorityError>, EnrolError> {
        let named = self.named(&shown, remote).await?;
        place.keep();
        let renew = move |authority: &mut Authority| {
            authority.hearing().note(&named.member(), None);
            authority.renew_asked(&shown)
        };
        let renewed = self.authority.with(renew).await;
        Ok(renewed.map(|Renewed { certificate, again }| Granted {
            grant: certificate.as_bytes().to_vec(),
            done: Done::Renewed {
                name: certificate.name().to_string(),
                serial: certificate.serial(),
                again,
            },
        }))
    }

    /// Names go to members only: the handshake has proved the key of the certificate that is shown.
    async fn list(
        &self,
        request: &[u8],
        remote: [u8; 32],
        place: &SharedPlace,
    ) -> Result<Result<Granted, AuthorityError>, EnrolError> {
        let request: ListRequest =
            minicbor::decode(request).map_err(|_| ChannelError::Malformed)?;
        let shown = self.named(&request.certificate, remote).await?;
        place.keep();
        let name = shown.name().to_string();
        let page =
            move |authority: &mut Authority| authority.directory().page(&shown, request.page);
        let page = self.authority.with(page).await;
        Ok(page.map(|grant| Granted {
            grant,
            done: Done::Listed(name),
        }))
    }

    async fn departure(
        &self,
        shown: ByteVec,
        remote: [u8; 32],
        place: &SharedPlace,
    ) -> Result<Result<Granted, AuthorityError>, EnrolError> {
        let named = self.named(&shown, remote).await?;
        place.keep();
        let depart = move |authority: &mut Authority| {
            authority.hearing().note(&named.member(), None);
            authority.depart(&shown)
        };
        let departed = self.authority.with(depart).await;
        Ok(departed.map(|certificate| Granted {
            grant: Vec::new(),
            done: Done::Departed(certificate.name().to_string()),
        }))
    }

    async fn report(
        &self,
        report: &[u8],
        remote: [u8; 32],
        place: &SharedPlace,
    ) -> Result<Result<Granted, AuthorityError>, EnrolError> {
        let report: Report = minicbor::decode(report).map_err(|_| ChannelError::Malformed)?;
        let named = self.named(&report.certificate, remote).await?;
        place.keep();
        let take = move |authority: &mut Authority| {
            authority.take_report(&named.member(), &report.version)
        };
        let taken = self.authority.with(take).await;
        Ok(taken.map(|()| Granted {
            grant: Vec::new(),
            done: Done::Reported,
        }))
    }

    /// The certificate that is shown, if the handshake was made with its key.
    async fn named(&self, shown: &[u8], remote: [u8; 32]) -> Result<Certificate, EnrolError> {
        let ring = self.authority.with(|authority| Ok(authority.ring_id()));
        let ring = ring.await?;
        let named = Certificate::decode(shown, &ring).map_err(|_| ChannelError::Malformed)?;
        // Certificates are public; the handshake proves whose this one is.
        holds(remote, &named.member())?;
        Ok(named)
    }

    async fn long(&self, stream: TcpStream, first: &[u8]) -> Result<Proven, EnrolError> {
        let accepting = Accepting::begin(stream, self.secret().await?, first)?;
        let id = accepting.invite;
        let remote = accepting.remote_key().ok_or(ChannelError::BadKey)?;
        let asked = move |authority: &mut Authority| authority.invites().usable(&id, &remote);
        let invite = match self.authority.with(asked).await? {
            Ok(invite) => invite,
            Err(refusal) => {
                accepting.refuse(refusal).await?;
                return Err(EnrolError::Long { refusal });
            }
        };
        // The first message may be a copy of somebody's: what proves the secret, and that it is
        // known now, is the request.
        let channel = accepting.finish(&invite.pre_shared_key).await?;
        Ok(Proven {
            channel,
            remote,
            invite: id,
        })
    }

    async fn secret(&self) -> Result<Zeroizing<[u8; 32]>, EnrolError> {
        let root = |authority: &mut Authority| Ok(authority.root().noise_secret());
        Ok(self.authority.with(root).await?)
    }

    /// See `pake` for why in this order.
    async fn spoken(&self, mut stream: TcpStream, hello: &Hello) -> Result<Proven, EnrolError> {
        let number = hello.number;
        let asked = move |authority: &mut Authority| {
            let ring = (authority.ring_id(), authority.ring().domain);
            Ok((authority.invites().spoken(number)?, ring))
        };
        let (invite, (ring, domain)) = self.authority.with(asked).await?;
        let invite = match invite {
            Ok(invite) => invite,
            Err(refusal) => {
                channel::refuse(&mut stream, refusal).await?;
                return Err(EnrolError::Spoken { number, refusal });
            }
        };
        let (answer, agreed) =
            pake::answer(hello, &invite.secret, ring, domain).ok_or(ChannelError::Malformed)?;
        let secret = self.secret().await?;
        let mut asking = Asking::begin(stream, secret, &answer, &agreed).await?;
        // Counted before the words are looked at: connections at the same time get no more tries.
        let refusal = match self.charge(number).await? {
            Err(refusal) => refusal,
            Ok(left) => match asking.look() {
                Some(remote) => {
                    self.refund(number).await?;
                    return Ok(Proven {
                        channel: asking.accept().await?,
                        remote,
                        invite: invite.id,
                    });
                }
                None => Refusal::Wrong { left },
            },
        };
        asking.refuse(refusal).await?;
        Err(EnrolError::Spoken { number, refusal })
    }

    /// Counts a try: how many the invite has left if it is wrong.
    async fn charge(&self, number: u32) -> Result<Result<u8, Refusal>, EnrolError> {
        if !self.tries().take(self.from, Instant::now()) {
            return Ok(Err(Refusal::Busy));
        }
        let charge = move |authority: &mut Authority| authority.invites().charge_try(number);
        let left = self.authority.with(charge).await?;
        Ok(left.ok_or(Refusal::Burnt))
    }

    async fn refund(&self, number: u32) -> Result<(), EnrolError> {
        self.tries().give_back(self.from);
        let refund = move |authority: &mut Authority| authority.invites().refund_try(number);
        Ok(self.authority.with(refund).await?)
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn grant(&self, proven: Proven, place: &SharedPlace) -> Result<String, EnrolError> {
        let Proven {
            mut channel,
            remote,
            invite,
        } = proven;
        let request: Request = channel.receive().await?;
        // A peer without an invite does not come this far.
        place.keep();
        let member = MemberId::new(*request.member);
        // The request names the Ed25519 key; the handshake has proven its X25519 form.
        if noise_public(&member) != Some(remote) {
            return Err(ChannelError::BadKey.into());
        }
        let address = request.address.map(|bytes| address_from_bytes(&bytes));
        let version = request
            .version
            .map(|version| printable(&version, VERSION_CHARACTERS));
        let enrolled = self
            .authority
            .with(move |authority| {
                let dns = authority.ring().dns.clone();
                let enrolled = authority.enrol(&invite, member, address)?;
                authority.hearing().note(&member, version.as_deref());
                Ok((enrolled, dns))
            })
            .await;
        let (enrolled, dns) = match enrolled {
            Ok(enrolled) => enrolled,
            Err(error) => return refuse(channel, error).await,
        };
        channel.send(&reply(&enrolled, &dns)).await?;
        Ok(enrolled.certificate.name().to_string())
    }
}

/// What a new member gets.
pub(super) fn reply(enrolled: &Enrolled, dns: &Endpoint) -> Reply {
    let encoded = |router: &Certificate| router.as_bytes().to_vec().into();
    Reply::Granted {
        certificate: enrolled.certificate.as_bytes().to_vec().into(),
        statement: enrolled.statement.as_bytes().to_vec().into(),
        routers: enrolled.routers.iter().map(encoded).collect(),
        dns: dns.address().map_or([0; 18], address_bytes).into(),
        dns_host: host_of(dns),
    }
}

/// What a known member gets, and what that was.
pub(super) struct Granted {
    pub(super) grant: Vec<u8>,
    pub(super) done: Done,
}

/// The handshake was made with this member's key.
pub(super) fn holds(remote: [u8; 32], member: &MemberId) -> Result<(), ChannelError> {
    if noise_public(member) == Some(remote) {
        Ok(())
    } else {
        Err(ChannelError::BadKey)
    }
}

async fn refuse(mut channel: Channel, error: AuthorityError) -> Result<String, EnrolError> {
    channel.send(&refusal(&error)).await?;
    Err(error.into())
}

pub(super) fn refusal(error: &AuthorityError) -> Reply {
    Reply::Refused {
        reason: in_words(error),
        other_key: matches!(error, AuthorityError::KeyIsOver(_)).then_some(true),
    }
}

/// What the other side may know of it.
fn in_words(error: &AuthorityError) -> String {
    match error {
        AuthorityError::EnrolmentRefused(reason) | AuthorityError::KeyIsOver(reason) => {
            (*reason).to_owned()
        }
        AuthorityError::SignIn(refused) => refused.to_string(),
        AuthorityError::Restored { .. } => {
            "the authority's folder is an old copy: ask the ring's owner to run `ringway ring recover`, and try again".to_owned()
        }
        AuthorityError::Standby { .. } | AuthorityError::Fenced { .. } => {
            "this authority is a standby: ask the ring's owner to run `ringway ring promote`, and try again".to_owned()
        }
        AuthorityError::TooManyRevocations => {
            "the ring's statement has no more room: ask the ring's owner".to_owned()
        }
        _ => "the authority failed: ask the ring owner to look into its log".to_owned(),
    }
}
