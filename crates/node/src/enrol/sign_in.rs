//! A new member without an invite: its person signs in at the organisation's issuer.
//!
//! Both exchanges are those of a known member (`known`): a channel that the joining key opens, one
//! request and one answer. `Begin` is answered with an address and a code for the person, and each
//! `Look` with nothing yet, the certificate, or why there is none. The ring's key comes by a join
//! link, so that no other authority can take its place.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_transport::{MemberId, Signer as _};

use super::again::{Before, JoiningKey};
use super::client::{self, JoinError, Joined, Ring};
use super::known::{AskError, Asking, Exchange};
use super::locate::Locator;
use super::place::RouterPlace;
use super::store::{Told, store};
use super::{Reply, load_identity};
use crate::certificate::{CertificateError, address_bytes, address_from_bytes};
use crate::endpoint::{Addresses, Endpoint};
use crate::home;
use crate::identity::Identity;
use crate::limits::{ENROL_TIME, PERSON_CHARS, SIGN_IN_LOOK, SIGN_IN_TIME, SIGN_IN_URL};
use crate::sso::{JoinLink, Opened, Refused, Wanted};
use crate::state::State;
use crate::text::printable;

/// What a joining member sends.
#[derive(Debug, Encode, Decode)]
pub(super) enum Asked {
    #[n(0)]
    Begin {
        /// Its Ed25519 key; the handshake proves its X25519 form.
        #[n(0)]
        member: ByteArray<32>,
        /// A router's address.
        #[n(1)]
        address: Option<ByteArray<18>>,
        /// What its person calls the machine.
        #[n(2)]
        machine: String,
    },
    #[n(1)]
    Look {
        #[n(0)]
        member: ByteArray<32>,
        /// The number that `Opened` had.
        #[n(1)]
        session: ByteArray<16>,
    },
}

/// What it is answered.
#[derive(Debug, Encode, Decode)]
pub(super) enum Answered {
    #[n(0)]
    Opened {
        #[n(0)]
        session: ByteArray<16>,
        #[n(1)]
        url: String,
        /// An address that has the code in it.
        #[n(2)]
        complete: Option<String>,
        #[n(3)]
        code: String,
        /// For how long, in seconds.
        #[n(4)]
        seconds: u32,
    },
    #[n(1)]
    Waiting,
    #[n(2)]
    Ended {
        #[n(0)]
        reply: Reply,
        /// Who has signed in.
        #[n(1)]
        person: Option<String>,
        /// From when on that person has to sign in again, Unix seconds.
        #[n(2)]
        until: Option<u64>,
    },
}

impl Asked {
    /// Whose key it is for.
    pub(super) fn member(&self) -> MemberId {
        match self {
            Asked::Begin { member, .. } | Asked::Look { member, .. } => MemberId::new(**member),
        }
    }
}

impl From<Opened> for Answered {
    fn from(opened: Opened) -> Answered {
        let Opened { id, shown } = opened;
        Answered::Opened {
            session: id.into(),
            url: shown.url,
            complete: shown.complete,
            code: shown.code,
            seconds: u32::try_from(shown.time.as_secs()).unwrap_or(u32::MAX),
        }
    }
}

/// What was asked for, of a `Begin`.
pub(super) fn wanted(member: MemberId, address: Option<ByteArray<18>>, machine: String) -> Wanted {
    Wanted {
        member,
        address: address.map(|bytes| address_from_bytes(&bytes)),
        machine,
    }
}

/// What the fuzzer tries.
#[cfg(feature = "fuzzing")]
pub(super) fn decode_anything(data: &[u8]) {
    minicbor::decode::<Asked>(data).ok();
    minicbor::decode::<Answered>(data).ok();
}

/// What a new member adds to the ring's join link.
#[derive(Clone, Debug)]
pub struct SignInOptions {
    /// What its person calls the machine: a part of the member's name, by the owner's pattern.
    pub machine: String,
    /// Where a router listens. Without it and `advertise` it is a leaf.
    pub listen: Option<SocketAddr>,
    /// Where others reach a router, if not there.
    pub advertise: Option<SocketAddr>,
    /// Where the authority is, if not where the link or the ring's DNS says.
    pub at: Option<Endpoint>,
    /// The DNS server to ask; none is the system's.
    pub resolver: Option<Endpoint>,
}

/// What the person does meanwhile.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SignInPrompt {
    /// The issuer's address, to be opened in any browser.
    pub url: String,
    /// One that has the code in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_url: Option<String>,
    /// The code to be entered there.
    pub code: String,
    /// For how long, in seconds.
    pub seconds: u64,
}

/// What a sign-in has brought.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SignedInAs {
    /// The member.
    #[serde(flatten)]
    pub joined: Joined,
    /// Who has signed in.
    pub person: String,
    /// From when on that person has to sign in again, Unix seconds; none: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// True if the home is that of a member in good standing, whose daemon renews its certificate
    /// by itself: nothing was changed in it.
    pub stays: bool,
}

/// Makes the home a member's of the ring that `link` names. `show` gets what the person has to
/// open; then this waits until that is done, or its time is over.
///
/// # Errors
/// See [`JoinError`]; nothing but the key has been stored then.
pub async fn sign_in(
    home: &Path,
    link: &JoinLink,
    options: &SignInOptions,
    mut show: impl FnMut(&SignInPrompt),
) -> Result<SignedInAs, JoinError> {
    let place = RouterPlace::of(options.listen, options.advertise)?;
    home::create_own_folder(home)?;
    let state = State::open(home)?;
    let before = match Before::look(home, &state).await {
        Err(already @ JoinError::AlreadyMember { .. }) => {
            return stay(home, &state, link, options, already, &mut show).await;
        }
        looked => looked?,
    };
    let before = before.as_ref();
    if let Some(before) = before {
        before.check_ring(home, &link.ring)?;
    }
    // A daemon that runs still would go on with the membership that has ended.
    let _lock = before.map(|_| home::lock(home)).transpose()?;
    let reached = place
        .map(|place| place.advertised)
        .or(before.and_then(Before::listens));
    let told = Told {
        before,
        listen: place.map(|place| place.listen),
    };
    let mut key = JoiningKey::begin(home, before)?;
    loop {
        let signing = Signing {
            link,
            options,
            reached,
            identity: &key.identity,
        };
        let ended = signing.run(&mut show).await;
        let refused = matches!(
            &ended,
            Err(JoinError::Refused {
                other_key: true,
                ..
            })
        );
        if refused
            && before.is_some()
            && let Some(another) = key.another()?
        {
            key = another;
            continue;
        }
        let Ended {
            ring,
            reply,
            person,
            until,
        } = ended?;
        let granted = client::granted(&ring, reply)?;
        if granted.certificate.member() != key.identity.member() {
            return Err(CertificateError::OtherRing.into());
        }
        return Ok(SignedInAs {
            joined: store(home, &state, told, &ring.id, granted)?,
            person,
            until,
            stays: false,
        });
    }
}

/// The person of a member in good standing signs in again. Its daemon may run: nothing is stored.
async fn stay(
    home: &Path,
    state: &State,
    link: &JoinLink,
    options: &SignInOptions,
    already: JoinError,
    show: &mut impl FnMut(&SignInPrompt),
) -> Result<SignedInAs, JoinError> {
    let own = state.membership()?.filter(|own| own.ring == link.ring);
    let Some(own) = own else { return Err(already) };
    // By the key that it has: another would be another member.
    let Some(identity) = load_identity(home, &own.certificate)? else {
        return Err(already);
    };
    let signing = Signing {
        link,
        options,
        reached: own.certificate.address(),
        identity: &identity,
    };
    let Ended {
        ring,
        reply,
        person,
        until,
    } = signing.run(show).await?;
    let granted = client::granted(&ring, reply)?;
    if granted.certificate.member() != identity.member() {
        return Err(CertificateError::OtherRing.into());
    }
    Ok(SignedInAs {
        joined: Joined::of(&granted.certificate, &ring.domain, true),
        person,
        until,
        stays: true,
    })
}

/// A member that joins.
struct Signing<'a> {
    link: &'a JoinLink,
    options: &'a SignInOptions,
    /// Where others reach a router.
    reached: Option<SocketAddr>,
    identity: &'a Identity,
}

/// What has come of it.
struct Ended {
    ring: Ring,
    reply: Reply,
    person: String,
    until: Option<u64>,
}

impl Signing<'_> {
    async fn run(&self, show: &mut impl FnMut(&SignInPrompt)) -> Result<Ended, JoinError> {
        let member = (*self.identity.member().as_bytes()).into();
        let begin = Asked::Begin {
            member,
            address: self.reached.map(|address| address_bytes(address).into()),
            machine: self.options.machine.clone(),
        };
        let (place, answer) = self.first(&begin).await?;
        let (session, prompt) = match answer {
            Answered::Ended { reply, .. } => return Err(self.refused(reply)),
            Answered::Waiting => {
                return Err(JoinError::Rejected {
                    address: place.first(),
                });
            }
            Answered::Opened {
                session,
                url,
                complete,
                code,
                seconds,
            } => {
                let url_of = |text: &str| printable(text, SIGN_IN_URL);
                let prompt = SignInPrompt {
                    url: url_of(&url),
                    complete_url: complete.as_deref().map(url_of),
                    code: printable(&code, 64),
                    seconds: u64::from(seconds).min(SIGN_IN_TIME.as_secs()),
                };
                (session, prompt)
            }
        };
        show(&prompt);
        // The authority ends it first.
        let patience = Duration::from_secs(prompt.seconds) + ENROL_TIME;
        let until = Instant::now() + patience;
        let look = Asked::Look { member, session };
        loop {
            tokio::time::sleep(SIGN_IN_LOOK).await;
            match self.ask(&place, &look).await {
                Ok(Answered::Ended {
                    reply: reply @ Reply::Granted { .. },
                    person,
                    until,
                }) => {
                    return Ok(Ended {
                        ring: self.ring(),
                        reply,
                        person: printable(&person.unwrap_or_default(), PERSON_CHARS),
                        until,
                    });
                }
                Ok(Answered::Ended { reply, .. }) => return Err(self.refused(reply)),
                Ok(Answered::Waiting | Answered::Opened { .. }) => {}
                // It may start again, or the network come back.
                Err(error) if Instant::now() < until => {
                    tracing::debug!(%error, "the authority was asked in vain");
                }
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= until {
                return Err(JoinError::Refused {
                    reason: Refused::Expired.to_string(),
                    other_key: false,
                });
            }
        }
    }

    /// The first request finds out where the authority is.
    async fn first(&self, request: &Asked) -> Result<(Addresses, Answered), JoinError> {
        let at = self.options.at.as_ref();
        let named = at.unwrap_or(&self.link.enrol);
        let gone = match named.resolve().await {
            Ok(place) => match self.ask(&place, request).await {
                Ok(answer) => return Ok((place, answer)),
                Err(error @ AskError::Unreachable { .. }) => error.into(),
                Err(error) => return Err(error.into()),
            },
            Err(source) => JoinError::Unknown {
                place: named.clone(),
                source,
            },
        };
        // It may have moved since the link was made. Whom DNS names has to prove the ring's key.
        match self.locator().locate().await {
            Ok(place) if at.is_none() => {
                let answer = self.ask(&place, request).await?;
                Ok((place, answer))
            }
            _ => Err(gone),
        }
    }

    fn locator(&self) -> Locator {
        Locator::new(&self.link.domain, self.options.resolver.clone())
    }

    async fn ask(&self, place: &Addresses, request: &Asked) -> Result<Answered, AskError> {
        let locator = self.locator();
        let asking = Asking {
            locator: &locator,
            ring: &self.link.ring,
            identity: self.identity,
        };
        let request = crate::cbor::encode(request);
        let address = place.first();
        let asked = asking.ask_at(place, Exchange::SignIn, &request);
        let answer = tokio::time::timeout(ENROL_TIME, asked).await;
        let answer = answer.map_err(|_| AskError::TimedOut { address })??;
        minicbor::decode(&answer).map_err(|_| AskError::Rejected { address })
    }

    fn ring(&self) -> Ring {
        Ring {
            id: self.link.ring,
            domain: self.link.domain.clone(),
        }
    }

    fn refused(&self, reply: Reply) -> JoinError {
        match client::granted(&self.ring(), reply) {
            Err(refused) => refused,
            // A certificate before anybody has signed in.
            Ok(_) => CertificateError::OtherRing.into(),
        }
    }
}
