//! The authority's part in sign-ins: who may begin one, and what has come of it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use ringway_transport::MemberId;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::issuer::{Issuer, Shown};
use super::person::{Person, label};
use super::refused::Refused;
pub(crate) use super::sessions::Wanted;
use super::sessions::{Session, SessionId, Sessions};
use super::settings::{Settings, SettingsError};
use crate::certificate::{Name, RingId};
use crate::enrol::Tries;
use crate::limits::{NAME_BYTES, SIGN_IN_RATE, SIGN_IN_SILENCE, SIGN_IN_SOURCE_RATE};

/// What has come of a sign-in; none while the person has not signed in.
type Outcome = Option<Result<Person, Refused>>;

/// The task that waits for the issuer. It ends with its sign-in.
#[derive(Debug)]
struct Waiting {
    outcome: watch::Receiver<Outcome>,
    task: JoinHandle<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A sign-in as its member is answered.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) id: SessionId,
    pub(crate) shown: Shown,
}

/// A person that has signed in, and for what. By the settings that were in force then.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) person: Person,
    /// The key that is to be a member's.
    pub(crate) member: MemberId,
    /// Where a router is reached; none for a leaf.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) name: Name,
    /// Machines that the person may have.
    pub(crate) machines: u32,
    /// After how long it has to sign in again; none: never.
    pub(crate) again: Option<Duration>,
}

/// All sign-ins of an authority. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct SignIns(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    issuer: Option<Arc<Issuer>>,
    sessions: Sessions<Waiting>,
    tries: Tries,
}

impl Default for SignIns {
    /// Without an issuer: no one can sign in.
    fn default() -> SignIns {
        let tries = Tries::new(Instant::now(), SIGN_IN_RATE, SIGN_IN_SOURCE_RATE);
        SignIns(Arc::new(Mutex::new(Open {
            issuer: None,
            sessions: Sessions::default(),
            tries,
        })))
    }
}

impl SignIns {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these count, or no one can sign in. Sign-ins that have begun by other rules are
    /// closed. Wrong settings change nothing.
    pub(crate) fn set(&self, settings: Option<Settings>) -> Result<(), SettingsError> {
        let issuer = settings.map(Issuer::new).transpose()?.map(Arc::new);
        let mut open = self.open();
        let rules =
            |issuer: &Option<Arc<Issuer>>| issuer.as_ref().map(|one| one.settings().clone());
        if rules(&open.issuer) != rules(&issuer) {
            open.sessions = Sessions::default();
        }
        open.issuer = issuer;
        Ok(())
    }

    /// Whether the issuer can be asked now; nothing to ask is fine.
    pub(crate) async fn check(&self) -> Result<(), Refused> {
        let issuer = self.open().issuer.clone();
        match issuer {
            Some(issuer) => issuer.check().await,
            None => Ok(()),
        }
    }

    /// Begins a sign-in for the one that wants to be a member.
    pub(crate) async fn begin(
        &self,
        ring: &RingId,
        mut wanted: Wanted,
        from: IpAddr,
    ) -> Result<Opened, Refused> {
        let issuer = self.open().issuer.clone().ok_or(Refused::Off)?;
        let settings = issuer.settings();
        // What cannot end well costs the person no sign-in.
        wanted.machine = label(&wanted.machine);
        if wanted.machine.is_empty() || wanted.machine.len() > NAME_BYTES {
            return Err(Refused::Name(wanted.machine));
        }
        if wanted.address.is_some() && !settings.routers {
            return Err(Refused::NoRouters);
        }
        {
            let mut open = self.open();
            let now = Instant::now();
            if !open.tries.take(from, now) {
                return Err(Refused::TooFast);
            }
            if !open.sessions.make_room(&wanted.member, now) {
                return Err(Refused::Full);
            }
        }
        let random = random()?;
        let (shown, begun) = issuer.begin(nonce(ring, &wanted.member, &random)).await?;
        let (sender, outcome) = watch::channel(None);
        let asked = Arc::clone(&issuer);
        let task = tokio::spawn(async move {
            let person = asked.wait(begun).await;
            // The sign-in may have been closed.
            sender.send(Some(person)).ok();
        });
        let now = Instant::now();
        let session = Session {
            wanted,
            // Some longer than the code, so that its member learns that it has run out.
            ends: now + shown.time + SIGN_IN_SILENCE,
            heard: now,
            work: Waiting { outcome, task },
        };
        let id: [u8; 32] = blake3::derive_key("ringway 2026 sign-in", &random);
        let id = id.first_chunk().copied().unwrap_or_default();
        let mut open = self.open();
        // Others may count by now.
        let same = open
            .issuer
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &issuer));
        if same && open.sessions.open(id, session) {
            Ok(Opened { id, shown })
        } else {
            Err(Refused::Full)
        }
    }

    /// What has come of a sign-in of this key; none while its person has not signed in.
    pub(crate) fn look(
        &self,
        id: &SessionId,
        member: &MemberId,
    ) -> Result<Option<SignedIn>, Refused> {
        let mut open = self.open();
        let issuer = open.issuer.clone().ok_or(Refused::Off)?;
        let session = open.sessions.look(id, member, Instant::now());
        let session = session.ok_or(Refused::Unknown)?;
        let wanted = session.wanted.clone();
        let outcome = session.work.outcome.borrow().clone();
        let ended = session.work.task.is_finished();
        match outcome {
            Some(Ok(person)) => {
                let settings = issuer.settings();
                Ok(Some(SignedIn {
                    name: person.name(settings, &wanted.machine)?,
                    person,
                    member: wanted.member,
                    address: wanted.address,
                    machines: settings.machines,
                    again: settings.again,
                }))
            }
            Some(Err(refused)) => {
                open.sessions.close(id);
                Err(refused)
            }
            // Its task has failed by a fault of ours.
            None if ended => {
                open.sessions.close(id);
                Err(Refused::Unknown)
            }
            None => Ok(None),
        }
    }
}

/// Binds what the issuer signs to this ring and to the key that joins.
fn nonce(ring: &RingId, member: &MemberId, random: &[u8; 32]) -> String {
    let bound = [ring.as_bytes(), member.as_bytes(), &random[..]].concat();
    let hash = blake3::derive_key("ringway 2026 sign-in nonce", &bound);
    BASE64URL_NOPAD.encode(&hash)
}

fn random() -> Result<[u8; 32], Refused> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the operating system gave no random bytes");
        Refused::Full
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_bound_to_ring_and_key() {
        let [one, other] = [1, 2].map(|key| MemberId::new([key; 32]));
        let base = nonce(&one, &one, &[0; 32]);
        assert_eq!(base, nonce(&one, &one, &[0; 32]));
        for another in [
            nonce(&other, &one, &[0; 32]),
            nonce(&one, &other, &[0; 32]),
            nonce(&one, &one, &[1; 32]),
        ] {
            assert_ne!(base, another);
        }
    }

    #[tokio::test]
    async fn sign_in_without_an_issuer_is_refused() {
        let sign_ins = SignIns::default();
        let wanted = Wanted {
            member: MemberId::new([1; 32]),
            address: None,
            machine: "laptop".to_owned(),
        };
        let from = "192.0.2.1".parse().unwrap();
        let ring = MemberId::new([9; 32]);
        let refused = sign_ins.begin(&ring, wanted, from).await.unwrap_err();
        assert_eq!(refused, Refused::Off);
        let looked = sign_ins.look(&[0; 16], &ring).unwrap_err();
        assert_eq!(looked, Refused::Off);
        assert_eq!(sign_ins.check().await, Ok(()));
    }
}
