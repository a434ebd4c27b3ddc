//! The member's side of a change of its key.
//!
//! The new key is made here, kept beside the old one (`identity.next`), and never leaves. The
//! membership changes in two steps, each whole or not at all: the certificate in the database, then
//! the key's file. A start that finds only the first done does the second.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ringway_transport::Signer as _;

use super::known::{AskError, Asking, Exchange};
use super::locate::Locator;
use crate::certificate::{Certificate, CertificateError};
use crate::clock::unix_seconds;
use crate::config::{Config, ConfigError};
use crate::home::{self, HomeError};
use crate::identity::{Identity, IdentityError};
use crate::rotation::{RotationError, RotationReply, RotationRequest};
use crate::state::{Membership, State, StateError};

/// What a member with another key is.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Rotated {
    /// The member's name, as before.
    pub name: String,
    /// Its new id in base32.
    pub member: String,
    /// Its old id.
    pub was: String,
    /// `router` or `leaf`, as before.
    pub role: String,
    /// A router's address, which may be another than before.
    pub address: Option<SocketAddr>,
    /// The ring's domain.
    pub ring: String,
    /// A router's new position, 64 hex digits.
    pub ring_key: Option<String>,
    /// Number of the new certificate.
    pub serial: u64,
    /// Number of the old one.
    pub replaces: u64,
}

/// Why a member has no other key yet.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// No member has joined with this home.
    #[error("{0} is not a member's home: join a ring first with `ringway join`")]
    NotAMember(String),
    /// Nothing was asked for.
    #[error(
        "{0} holds no key to be changed to: make a request there with `ringway rotate --offline`"
    )]
    NoRequest(String),
    /// The text is neither a request nor a reply.
    #[error(transparent)]
    Rotation(#[from] RotationError),
    /// What the owner has signed is not for this member, or not for the key that it has made.
    #[error("the new certificate does not fit this member ({0}): ask the ring's owner for another")]
    Unfit(&'static str),
    /// It is not valid now.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The authority has granted none.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A key could not be made or read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The home folder could not be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The state could not be stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The configuration could not be written.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl RotateError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            RotateError::NotAMember(_)
                | RotateError::NoRequest(_)
                | RotateError::Rotation(_)
                | RotateError::Unfit(_)
        )
    }
}

/// The key that the membership's certificate names. If the certificate has been replaced and the
/// key's file has not, that is done now.
pub(crate) fn load_identity(
    home: &Path,
    own: &Certificate,
) -> Result<Option<Identity>, IdentityError> {
    let (path, next) = (home::identity_path(home), home::next_identity_path(home));
    let is_own = |identity: &Identity| identity.member() == own.member();
    let identity = Identity::load(&path)?;
    if is_own(&identity) {
        return Ok(Some(identity));
    }
    if !next.exists() {
        return Ok(None);
    }
    let identity = Identity::load(&next)?;
    if !is_own(&identity) {
        return Ok(None);
    }
    home::replace(&next, &path)?;
    Ok(Some(identity))
}

/// A member that is to have another key.
#[derive(Debug)]
pub(crate) struct Rotation {
    home: PathBuf,
    membership: Membership,
    old: Identity,
    new: Identity,
}

impl Rotation {
    /// Makes the next key, unless one has been made before.
    pub(crate) fn begin(home: &Path, membership: Membership) -> Result<Rotation, RotateError> {
        let shown = || home.display().to_string();
        let old = load_identity(home, &membership.certificate)?;
        let old = old.ok_or_else(|| RotateError::NotAMember(shown()))?;
        let new = Identity::load_or_create(&home::next_identity_path(home))?;
        Ok(Rotation {
            home: home.to_owned(),
            membership,
            old,
            new,
        })
    }

    fn request(&self) -> RotationRequest {
        let Membership {
            ring, certificate, ..
        } = &self.membership;
        RotationRequest::new(&self.old, &self.new, ring, certificate, unix_seconds())
    }

    /// True if this certificate is for the next key of this member.
    pub(crate) fn is_for_next(&self, certificate: &Certificate) -> bool {
        certificate.member() == self.new.member()
    }

    /// Asks the authority, where it is found. Asked again, it gives the same
    /// answer again.
    pub(crate) async fn ask(&self, locator: &Locator) -> Result<RotationReply, RotateError> {
        let ring = &self.membership.ring;
        let asking = Asking {
            locator,
            ring,
            identity: &self.old,
        };
        let request = self.request();
        let grant = asking.ask(Exchange::Rotation, request.as_bytes()).await?;
        Ok(RotationReply::decode(&grant, ring)?)
    }

    /// Makes the new key this member's. From the next start on it is.
    pub(crate) fn adopt(
        &self,
        state: &State,
        reply: &RotationReply,
    ) -> Result<Rotated, RotateError> {
        let RotationReply {
            certificate,
            statement,
        } = reply;
        let old = &self.membership.certificate;
        if !self.is_for_next(certificate) {
            return Err(RotateError::Unfit("it is for another key"));
        }
        // The owner may move a router, but makes no leaf of it.
        let same = certificate.name() == old.name() && certificate.role() == old.role();
        if !same || certificate.serial() <= old.serial() {
            return Err(RotateError::Unfit("it says another name or role"));
        }
        if statement.heir(old.serial()) != Some(certificate.serial()) {
            return Err(RotateError::Unfit(
                "the owner does not state that it replaces the one that is here",
            ));
        }
        certificate.check_time(unix_seconds())?;
        let known = &self.membership.statement;
        let newest = if known.number() > statement.number() {
            known
        } else {
            statement
        };
        // Before the certificate: a start that finds only this done listens at the new address with
        // the old certificate, and comes here again.
        let moved = old.address().zip(certificate.address());
        if let Some((from, to)) = moved.filter(|(from, to)| from != to) {
            Config::move_listen(&self.home, from, to)?;
            home::write_private(
                &home::moved_path(&self.home),
                certificate.serial().to_string().as_bytes(),
            )?;
        }
        // With the certificate the change is made: whatever happens from here on, a start finishes
        // it.
        state.set_certificate(certificate, newest)?;
        let (next, path) = (
            home::next_identity_path(&self.home),
            home::identity_path(&self.home),
        );
        home::replace(&next, &path)?;
        Ok(Rotated {
            name: certificate.name().to_string(),
            member: certificate.member().to_string(),
            was: old.member().to_string(),
            role: certificate.role().as_str().to_owned(),
            address: certificate.address(),
            ring: self.membership.domain.clone(),
            ring_key: certificate.ring_key().map(|key| key.to_string()),
            serial: certificate.serial(),
            replaces: old.serial(),
        })
    }
}

fn membership(home: &Path) -> Result<(State, Membership), RotateError> {
    let missing = || RotateError::NotAMember(home.display().to_string());
    if !home::state_path(home).try_exists().unwrap_or(true) {
        return Err(missing());
    }
    let state = State::open(home)?;
    let membership = state.membership()?.ok_or_else(missing)?;
    Ok((state, membership))
}

/// Makes the request of the member whose home is `home`, to be taken to the ring's owner. Its next
/// key is made, and kept for the reply.
///
/// # Errors
/// When the home is no member's, or cannot be written.
pub fn request_rotation(home: &Path) -> Result<RotationRequest, RotateError> {
    let (_, membership) = membership(home)?;
    Ok(Rotation::begin(home, membership)?.request())
}

/// Takes the owner's reply in.
///
/// # Errors
/// See [`RotateError`]; nothing has changed then, unless it was the disk that failed.
pub fn complete_rotation(home: &Path, text: &str) -> Result<Rotated, RotateError> {
    let (state, membership) = membership(home)?;
    let reply = RotationReply::parse(text, &membership.ring)?;
    if !home::next_identity_path(home).exists() {
        return Err(RotateError::NoRequest(home.display().to_string()));
    }
    Rotation::begin(home, membership)?.adopt(&state, &reply)
}

#[cfg(test)]
mod online;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::CertificateFields;
    use crate::statement::{Parameters, Serials, Statement};

    struct Home {
        folder: tempfile::TempDir,
        owner: Identity,
        own: Certificate,
    }

    impl Home {
        fn new() -> Home {
            let folder = tempfile::tempdir().unwrap();
            let owner = Identity::generate().unwrap();
            let identity = Identity::load_or_create(&home::identity_path(folder.path())).unwrap();
            let own = issue(&owner, &identity, "oslo", 4);
            let membership = Membership {
                ring: owner.member(),
                domain: "ring.test".to_owned(),
                certificate: own.clone(),
                statement: Statement::issue(&owner, 1, 3, [].into()),
            };
            let state = State::open(folder.path()).unwrap();
            state.set_membership(&membership).unwrap();
            Home { folder, owner, own }
        }

        fn path(&self) -> &Path {
            self.folder.path()
        }

        fn next(&self) -> Identity {
            Identity::load(&home::next_identity_path(self.path())).unwrap()
        }

        fn reply(&self, certificate: Certificate, replaced: &[(u64, u64)]) -> String {
            let replaced = replaced.iter().copied().collect();
            let serials = Serials {
                replaced,
                ..Serials::default()
            };
            let statement = Statement::issue_with(&self.owner, 2, Parameters::default(), serials);
            let reply = RotationReply {
                certificate,
                statement,
            };
            reply.to_text()
        }

        fn stored(&self) -> Certificate {
            let state = State::open(self.path()).unwrap();
            state.membership().unwrap().unwrap().certificate
        }
    }

    fn issue(owner: &Identity, member: &Identity, name: &str, serial: u64) -> Certificate {
        let fields = CertificateFields {
            member: member.member(),
            name: name.parse().unwrap(),
            address: None,
            nonce: [0; 16],
            not_before: 0,
            not_after: u64::MAX,
            serial,
        };
        Certificate::issue(owner, &fields)
    }

    #[test]
    fn a_reply_must_fit_as_a_whole() {
        let home = Home::new();
        let request = request_rotation(home.path()).unwrap();
        // Asked again, the key is the same: a reply to either request will do.
        assert_eq!(
            request_rotation(home.path()).unwrap().next(),
            request.next()
        );
        let (next, other) = (home.next(), Identity::generate().unwrap());
        let good = || issue(&home.owner, &next, "oslo", 5);
        let wrong = [
            home.reply(issue(&home.owner, &other, "oslo", 5), &[(4, 5)]),
            home.reply(issue(&home.owner, &next, "lima", 5), &[(4, 5)]),
            home.reply(issue(&home.owner, &next, "oslo", 3), &[(4, 5)]),
            home.reply(good(), &[]),
            home.reply(good(), &[(3, 5)]),
            home.reply(good(), &[(4, 6)]),
        ];
        for reply in &wrong {
            let refused = complete_rotation(home.path(), reply).unwrap_err();
            assert!(refused.is_usage(), "{refused}");
            assert_eq!(home.stored(), home.own);
        }
        let foreign = Home::new();
        let reply = foreign.reply(issue(&foreign.owner, &next, "oslo", 5), &[(4, 5)]);
        assert!(complete_rotation(home.path(), &reply).is_err());

        let reply = home.reply(good(), &[(4, 5)]);
        let rotated = complete_rotation(home.path(), &reply).unwrap();
        assert_eq!((rotated.serial, rotated.replaces), (5, 4));
        assert_eq!(home.stored(), good());
        let identity = Identity::load(&home::identity_path(home.path())).unwrap();
        assert_eq!(identity.member(), next.member());
        // The secret of the old key is gone, and the reply has done its work.
        assert!(!home::next_identity_path(home.path()).exists());
        let again = complete_rotation(home.path(), &reply).unwrap_err();
        assert!(matches!(again, RotateError::NoRequest(_)), "{again}");
    }

    #[test]
    fn the_next_start_repairs_a_half_rotation() {
        let home = Home::new();
        request_rotation(home.path()).unwrap();
        let next = home.next();
        let certificate = issue(&home.owner, &next, "oslo", 5);
        let state = State::open(home.path()).unwrap();
        let statement = Statement::issue(&home.owner, 2, 3, [].into());
        state.set_certificate(&certificate, &statement).unwrap();
        let identity = load_identity(home.path(), &home.stored()).unwrap().unwrap();
        assert_eq!(identity.member(), next.member());
        assert!(!home::next_identity_path(home.path()).exists());
        // Another's key in either position is refused.
        let stranger = issue(&home.owner, &Identity::generate().unwrap(), "oslo", 6);
        assert!(load_identity(home.path(), &stranger).unwrap().is_none());
    }

    #[test]
    fn the_next_key_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = Home::new();
        request_rotation(home.path()).unwrap();
        let path = home::next_identity_path(home.path());
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
