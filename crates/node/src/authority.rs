//! The ring owner's side: keys, invites, certificates, revocations, and the servers for them.
//!
//! Everything stands in one folder: `root.key` (0600) and `authority.db`. Commands and the running
//! server share them; SQLite keeps them apart, and the server notices what a command has changed.

mod address;
mod admit;
mod again;
mod backup;
mod depart;
mod dns;
mod dns_tcp;
mod former;
mod heard;
mod kept;
mod listing;
mod moving;
mod publish;
mod recover;
mod renew;
mod restore;
mod rotate;
mod server;
mod serving;
mod sign_in;
mod site;
mod spoken;
mod standby;
mod store;
mod term;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_overlay::is_group_size;
use ringway_overlay::limits::{MAX_GROUP, MIN_GROUP};
use ringway_transport::{MemberId, Signer};
use zeroize::Zeroizing;

pub use self::address::{AddressChange, ListenChange, RingAddress};
pub use self::admit::Admitted;
pub use self::backup::{Backup, BackupContents, BackupError, BackupKey, Lock, Opener, Sealed};
pub use self::kept::{KeptServer, KeptServers};
pub use self::listing::{Listing, MemberDirectory};
pub use self::moving::{InvalidNewAddress, NewAddress};
pub use self::publish::{
    DnsServer, Fault, InvalidDnsServer, Publication, PublishError, TsigKey, TsigKeyError,
};
pub(crate) use self::recover::Brought;
pub use self::recover::Recovered;
pub use self::renew::Renewed;
pub use self::restore::{RestoreOptions, Restored};
pub use self::rotate::Rotated;
pub(crate) use self::server::SharedAuthority;
pub use self::server::{Server, ServerHandle};
pub use self::serving::ServerError;
pub use self::sign_in::SsoEntry;
pub use self::site::Site;
pub use self::standby::{Promoted, Standing};
pub(crate) use self::store::MIGRATIONS;
use self::store::Store;
pub use self::store::{Invites, MemberEntry, MemberState, OpenInvite};
#[cfg(feature = "fuzzing")]
pub(crate) use self::{
    dns_tcp::decode_anything as decode_query, publish::decode_anything as decode_update,
};
use crate::certificate::{Certificate, CertificateFields, InvalidName, Name, RingId, Role};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::enrol;
use crate::home;
use crate::identity::{Identity, IdentityError};
use crate::invite::{Invite, SpokenInvite, WORDS};
use crate::limits::{CERTIFICATE_LIFETIMES, CLOCK_SKEW, KEPT_SERVERS, REVOCATIONS, SUCCESSORS};
use crate::sso::Refused;
use crate::statement::{Parameters, Statement};
use crate::zone::{self, RecordName};

/// Why the authority refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// There is a ring in the folder already.
    #[error("{} already holds a ring: choose another folder with --dir", .0.display())]
    Exists(PathBuf),
    /// There is none.
    #[error("{} holds no ring: this is for the ring's owner, who founds one with `ringway ring init DOMAIN`, or names its folder with --dir; a member lists whom it knows with `ringway members`", .0.display())]
    Missing(PathBuf),
    /// The domain is not one.
    #[error(
        "`{0}` is not a domain: use labels of letters, digits and hyphens with dots between them, such as ring.example.org"
    )]
    Domain(String),
    /// The domain is for other things than DNS.
    #[error("`{domain}` cannot be a ring's domain: {reason}")]
    Reserved {
        /// What was asked for.
        domain: String,
        /// Why it cannot be, and what can.
        reason: &'static str,
    },
    /// Members could not reach it.
    #[error(
        "{what} {address} cannot be given to members: use an address or a host name that they can reach, with its port; {what}-listen says where the authority listens, if that is another one"
    )]
    Unreachable {
        /// The option.
        what: &'static str,
        /// Its value.
        address: Endpoint,
    },
    /// The authority cannot listen there.
    #[error(
        "{what}-listen {address} is no address of this machine: name one that is, with its port, or 0.0.0.0 or [::] for all of them"
    )]
    NotHere {
        /// The option of the server.
        what: &'static str,
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The successor list's length is out of range.
    #[error("--successors {0} is out of range: use 2 to 16")]
    Successors(usize),
    /// The groups' size is none.
    #[error("--group {0} is no size of groups: use an odd number from {MIN_GROUP} to {MAX_GROUP}")]
    Group(usize),
    /// The name is not one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Somebody has it.
    #[error("the name `{0}` belongs to a member: choose another, or revoke it first")]
    NameTaken(Name),
    /// Both servers need TCP.
    #[error("DNS and enrolment are both to listen at {0}: give them different ports")]
    SameAddress(SocketAddr),
    /// No member has it.
    #[error("no member is named `{0}`: `ringway ring members` lists them")]
    UnknownMember(String),
    /// The member is revoked already.
    #[error("`{0}` is revoked already")]
    AlreadyRevoked(String),
    /// The lifetime of certificates is out of range.
    #[error("--lifetime is out of range: certificates may be valid for 10 seconds to 365 days")]
    Lifetime,
    /// An invite's time is out of range.
    #[error("an invite may be valid for 1 second to 365 days")]
    Validity,
    /// The statement is full.
    #[error(
        "the ring's statement has room for {REVOCATIONS} unexpired certificates that were revoked, and for half as many that were replaced, and it is full: wait until some have expired"
    )]
    TooManyRevocations,
    /// The certificate has expired.
    #[error(
        "the certificate of `{0}` has run out: it can only join again, by another invite (`ringway ring invite`)"
    )]
    RunOut(String),
    /// A time is out of range.
    #[error("a member may be asked for another key for 1 second to 365 days")]
    RotationTime,
    /// A leaf has no address.
    #[error(
        "`{0}` is a leaf, which others reach through routers: it has no address that could be changed"
    )]
    NoRouter(String),
    /// The router is at that address already.
    #[error("`{0}` is at {1} already: nothing was changed")]
    IsThere(String, SocketAddr),
    /// Others could not reach a router there.
    #[error("a router needs an address that others can reach, with its port, and not {0}")]
    NotDialable(SocketAddr),
    /// Another router is there.
    #[error("another router has the address {0}: choose another, or move that one first")]
    AddressTaken(SocketAddr),
    /// A request for another key is not by the member that the owner has named.
    #[error("the request is by `{found}` and not by `{named}`: nothing was changed")]
    OtherMembersRequest {
        /// Whom the owner means.
        named: String,
        /// Whose it is.
        found: String,
    },
    /// The invite is used, expired or unknown, or the request does not fit it.
    #[error("{0}")]
    EnrolmentRefused(&'static str),
    /// The key that would join was a member's, and is not to be one's again.
    #[error("{0}")]
    KeyIsOver(&'static str),
    /// A person that has signed in is not admitted, or its machine not kept.
    #[error(transparent)]
    SignIn(#[from] Refused),
    /// [`KEPT_SERVERS`] are kept current.
    #[error(
        "{KEPT_SERVERS} DNS servers are kept current already: let one go with `ringway ring publish --forget HOST`"
    )]
    TooManyServers,
    /// Members know more of the ring than this folder does.
    #[error(
        "this authority's folder is older than its ring: its newest statement is {known}, and members have brought {found}. It was restored from a backup, or is a copy; nothing was changed. Use the newest copy, or let `ringway ring recover` take over what members know"
    )]
    Restored {
        /// Number of the newest statement here.
        known: u64,
        /// Number of the one that members have.
        found: u64,
    },
    /// The folder was restored from a backup, and is not promoted yet.
    #[error(
        "this is a standby, restored from a backup of {}: it signs nothing before `ringway ring promote`", crate::clock::date_of(*backup)
    )]
    Standby {
        /// When the backup was made, Unix seconds.
        backup: u64,
    },
    /// Another folder is the ring's authority now.
    #[error(
        "another authority of this ring was promoted, in term {now}, and this one is of term {term}: it signs nothing any more, and no member takes its statements. Keep it as a standby by a backup of that one, or take the ring over again with `ringway ring promote`"
    )]
    Fenced {
        /// In which term this one was the authority.
        term: u64,
        /// Which term it is now.
        now: u64,
    },
    /// It is the authority already.
    #[error("this folder is the ring's authority already: there is nothing to promote")]
    NothingToPromote,
    /// Numbers could come twice.
    #[error(
        "this machine's clock is {0} s behind the backup's: set it first, or certificates would be numbered twice"
    )]
    ClockBehind(u64),
    /// Promoted too often.
    #[error(
        "this ring's authority was promoted {} times: there are no more terms",
        crate::limits::TERMS
    )]
    NoMoreTerms,
    /// There is nothing to take over.
    #[error(
        "members have brought nothing that this authority does not know: while `ringway ring serve` runs, they bring it within a minute"
    )]
    NothingFound,
    /// The root key could not be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The folder could not be used.
    #[error(transparent)]
    Home(#[from] home::HomeError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The operating system gave no randomness.
    #[error("the operating system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

impl AuthorityError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            AuthorityError::Exists(_)
            | AuthorityError::Missing(_)
            | AuthorityError::Domain(_)
            | AuthorityError::Reserved { .. }
            | AuthorityError::Unreachable { .. }
            | AuthorityError::NotHere { .. }
            | AuthorityError::SameAddress(_)
            | AuthorityError::Successors(_)
            | AuthorityError::Group(_)
            | AuthorityError::Lifetime
            | AuthorityError::Name(_)
            | AuthorityError::NameTaken(_)
            | AuthorityError::UnknownMember(_)
            | AuthorityError::AlreadyRevoked(_)
            | AuthorityError::RunOut(_)
            | AuthorityError::RotationTime
            | AuthorityError::NoRouter(_)
            | AuthorityError::IsThere(..)
            | AuthorityError::NotDialable(_)
            | AuthorityError::AddressTaken(_)
            | AuthorityError::OtherMembersRequest { .. }
            | AuthorityError::TooManyServers
            | AuthorityError::NothingToPromote
            | AuthorityError::Validity => true,
            AuthorityError::TooManyRevocations
            | AuthorityError::Restored { .. }
            | AuthorityError::Standby { .. }
            | AuthorityError::Fenced { .. }
            | AuthorityError::ClockBehind(_)
            | AuthorityError::NoMoreTerms
            | AuthorityError::NothingFound
            | AuthorityError::EnrolmentRefused(_)
            | AuthorityError::KeyIsOver(_)
            | AuthorityError::SignIn(_)
            | AuthorityError::Identity(_)
            | AuthorityError::Home(_)
            | AuthorityError::Database(_)
            | AuthorityError::Random(_) => false,
        }
    }
}

/// What a new ring is made from.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The ring's DNS domain.
    pub domain: String,
    /// Where members ask the embedded DNS server.
    pub dns: Site,
    /// Where members enrol, and invites point.
    pub enrol: Site,
    /// Length of every router's successor list, 2 to 16.
    pub successors: usize,
    /// Members of every group, an odd number from 5 to 15.
    pub group: usize,
    /// How long certificates are valid, [`CERTIFICATE_LIFETIMES`].
    pub lifetime: Duration,
}

impl InitOptions {
    /// Until when a certificate is good that is issued `now`, both in Unix seconds.
    pub(crate) fn ends(&self, now: u64) -> u64 {
        now + self.lifetime.as_secs()
    }
}

/// Who is invited as what.
#[derive(Clone, Debug)]
pub struct InviteOptions {
    /// The new member's name.
    pub name: String,
    /// Router or leaf.
    pub role: Role,
    /// How long the invite can be used.
    pub valid_for: Duration,
    /// True if it is to have a form that can be read aloud as well.
    pub spoken: bool,
}

/// An invite as handed to the owner.
pub struct IssuedInvite {
    invite: Invite,
    spoken: Option<SpokenInvite>,
    /// First second at which it can no longer be used, Unix time.
    pub expires: u64,
    /// True if an earlier, unused invite for the name is good no more.
    pub withdraws: bool,
}

impl IssuedInvite {
    /// The form that can be read aloud, if it was asked for.
    #[must_use]
    pub fn spoken(&self) -> Option<Zeroizing<String>> {
        self.spoken.as_ref().map(SpokenInvite::to_text)
    }
}

impl fmt::Debug for IssuedInvite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.invite.fmt(f)
    }
}

impl fmt::Display for IssuedInvite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.invite.to_text())
    }
}

/// What everybody may know of the ring.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RingInfo {
    /// The ring's DNS domain.
    pub domain: String,
    /// The owner's key in base32.
    pub ring: String,
    /// Where members ask the DNS server.
    pub dns: Endpoint,
    /// Where the DNS server listens.
    pub dns_listen: SocketAddr,
    /// Where members enrol.
    pub enrol: Endpoint,
    /// Where the enrolment server listens.
    pub enrol_listen: SocketAddr,
    /// Length of every router's successor list.
    pub successors: usize,
    /// Members of every group.
    pub group: usize,
    /// Seconds for which certificates are valid.
    pub lifetime_s: u64,
}

/// A DNS record of the ring and its content.
pub(crate) type Published = (RecordName, Vec<u8>);

/// What the ring publishes.
#[derive(Debug)]
pub(crate) struct Zone {
    /// Number of the statement.
    pub(crate) generation: u64,
    /// Of the SOA record.
    pub(crate) serial: u32,
    pub(crate) records: Vec<Published>,
}

/// What an enrolment hands to the new member.
#[derive(Clone, Debug)]
pub(crate) struct Enrolled {
    pub(crate) certificate: Certificate,
    pub(crate) statement: Statement,
    pub(crate) routers: Vec<Certificate>,
}

/// A ring's owner.
#[derive(Debug)]
pub struct Authority {
    root: Identity,
    store: Store,
}

impl Authority {
    /// Makes a ring in `dir`.
    ///
    /// # Errors
    /// When an option is out of range, `dir` holds a ring, or the folder cannot be written.
    pub fn init(dir: &Path, options: &InitOptions) -> Result<Authority, AuthorityError> {
        check_domain(&options.domain)?;
        let mut options = options.clone();
        address::settle(&mut options.dns, &mut options.enrol)?;
        let options = &options;
        if !SUCCESSORS.contains(&options.successors) {
            return Err(AuthorityError::Successors(options.successors));
        }
        if !is_group_size(options.group) {
            return Err(AuthorityError::Group(options.group));
        }
        if !CERTIFICATE_LIFETIMES.contains(&options.lifetime.as_secs()) {
            return Err(AuthorityError::Lifetime);
        }
        let key = dir.join("root.key");
        if key.exists() {
            return Err(AuthorityError::Exists(dir.to_owned()));
        }
        home::create_own_folder(dir)?;
        let store = Store::create(&dir.join("authority.db"), options)?;
        // The key comes last: a ring exists from the moment it has one.
        let root = Identity::load_or_create(&key)?;
        Ok(Authority { root, store })
    }

    /// Opens the ring in `dir`.
    ///
    /// # Errors
    /// When there is none or it cannot be read.
    pub fn open(dir: &Path) -> Result<Authority, AuthorityError> {
        let key = dir.join("root.key");
        // A folder that may not be looked into is another matter than one without a ring: the key's
        // own error says which.
        if !key.try_exists().unwrap_or(true) {
            return Err(AuthorityError::Missing(dir.to_owned()));
        }
        let root = Identity::load(&key)?;
        let store = Store::open(&dir.join("authority.db"))?;
        Ok(Authority { root, store })
    }

    /// Where everything of the ring stands.
    pub(crate) fn folder(&self) -> &Path {
        self.store.folder()
    }

    /// What everybody may know of the ring.
    #[must_use]
    pub fn ring(&self) -> RingInfo {
        let options = self.store.options();
        RingInfo {
            domain: options.domain.clone(),
            ring: self.ring_id().to_string(),
            dns: options.dns.advertised.clone(),
            dns_listen: options.dns.binds_at(),
            enrol: options.enrol.advertised.clone(),
            enrol_listen: options.enrol.binds_at(),
            successors: options.successors,
            group: options.group,
            lifetime_s: options.lifetime.as_secs(),
        }
    }

    pub(crate) fn ring_id(&self) -> RingId {
        self.root.member()
    }

    pub(crate) fn root(&self) -> &Identity {
        &self.root
    }

    /// Invites one new member.
    ///
    /// # Errors
    /// When the name is taken or no name, or the time is out of range.
    pub fn invite(&mut self, options: &InviteOptions) -> Result<IssuedInvite, AuthorityError> {
        let name: Name = options.name.parse()?;
        let seconds = options.valid_for.as_secs();
        if !(1..=365 * 86_400).contains(&seconds) {
            return Err(AuthorityError::Validity);
        }
        // A folder that is an old copy would issue the same serials again.
        self.check_current()?;
        let ring = self.store.options();
        let (id, secret) = (random()?, random()?);
        let enrol = ring.enrol.advertised.clone();
        let invite = Invite::new(self.ring_id(), ring.domain.clone(), enrol, id, secret);
        let expires = unix_seconds() + seconds;
        let entry = store::InviteEntry {
            id,
            name,
            role: options.role,
            pre_shared_key: invite.pre_shared_key(),
            expires,
            used_by: None,
        };
        let domain = ring.domain.clone();
        let words: Option<[u8; WORDS]> = if options.spoken {
            Some(random()?)
        } else {
            None
        };
        let added = self.store.add_invite(&entry, words.as_ref())?;
        let spoken = added.number.zip(words);
        Ok(IssuedInvite {
            invite,
            spoken: spoken.map(|(number, words)| SpokenInvite::new(number, words, Some(domain))),
            expires,
            withdraws: added.withdraws,
        })
    }

    /// Uses an invite: issues the certificate, once. The same member may ask again and gets the
    /// same one.
    pub(crate) fn enrol(
        &mut self,
        id: &[u8; 8],
        member: MemberId,
        address: Option<SocketAddr>,
    ) -> Result<Enrolled, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        let now = unix_seconds();
        let invite = self.store.invites().get(id)?.ok_or(refuse(
            "the invite is not known to this ring, or a newer one has replaced it",
        ))?;
        let certificate = match invite.used_by {
            // The first reply may have been lost, so the same key gets the same certificate.
            Some(user) if user == member => self
                .store
                .certificate_of(&member, &self.ring_id())?
                .ok_or(refuse("the certificate for this invite is revoked"))?,
            Some(_) => {
                return Err(refuse(
                    "the invite is used already: ask the ring owner for a new one",
                ));
            }
            None if invite.expires <= now => {
                return Err(refuse(
                    "the invite has expired: ask the ring owner for a new one",
                ));
            }
            None => self.issue(&invite, member, address, now)?,
        };
        let statement = self.statement()?;
        let routers = self.store.routers(&self.ring_id(), &member)?;
        Ok(Enrolled {
            certificate,
            statement,
            routers,
        })
    }

    fn issue(
        &mut self,
        invite: &store::InviteEntry,
        member: MemberId,
        address: Option<SocketAddr>,
        now: u64,
    ) -> Result<Certificate, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        match (invite.role, address) {
            (Role::Router, None) => {
                return Err(refuse(
                    "the invite is for a router: give its address with --listen",
                ));
            }
            (Role::Leaf, Some(_)) => {
                return Err(refuse("the invite is for a leaf: leave --listen out"));
            }
            (Role::Router, Some(_)) | (Role::Leaf, None) => {}
        }
        let ends = self.store.options().ends(now);
        if let Some(back) = self.recertify(&invite.name, member, address, now, ends)? {
            self.store.use_invite_again(&invite.id, &back, now)?;
            return Ok(back.certificate);
        }
        let certificate = self.certify(invite.name.clone(), member, address, now)?;
        self.store.use_invite(&invite.id, &certificate, now)?;
        Ok(certificate)
    }

    /// A certificate for a new member: a router if it has an address, else a leaf. It counts when
    /// it is stored.
    fn certify(
        &mut self,
        name: Name,
        member: MemberId,
        address: Option<SocketAddr>,
        now: u64,
    ) -> Result<Certificate, AuthorityError> {
        let ends = self.store.options().ends(now);
        self.certify_until(name, member, address, now, ends)
    }

    /// As [`Authority::certify`]; the certificate is good until `ends`, Unix seconds.
    fn certify_until(
        &mut self,
        name: Name,
        member: MemberId,
        address: Option<SocketAddr>,
        now: u64,
        ends: u64,
    ) -> Result<Certificate, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        let nowhere = |address: SocketAddr| address.ip().is_unspecified() || address.port() == 0;
        if address.is_some_and(nowhere) {
            return Err(refuse(
                "a router needs an address that others can reach, not 0.0.0.0 or port 0",
            ));
        }
        self.check_current()?;
        if let Some(address) = address
            && self.store.address_taken(address)?
        {
            return Err(refuse("another router has this address"));
        }
        let fields = CertificateFields {
            member,
            name,
            address,
            nonce: random()?,
            // The clocks of members may be behind.
            not_before: now.saturating_sub(CLOCK_SKEW.as_secs()),
            not_after: ends,
            serial: self.store.next_serial()?,
        };
        Ok(Certificate::issue(&self.root, &fields))
    }

    /// All members that ever were, by serial.
    ///
    /// # Errors
    /// When the database fails.
    pub fn members(&self) -> Result<Vec<MemberEntry>, AuthorityError> {
        self.store.members(&self.ring_id(), unix_seconds())
    }

    /// The invites that there are.
    #[must_use]
    pub fn invites(&self) -> Invites<'_> {
        self.store.invites()
    }

    /// Ends a membership: the certificate leaves DNS and its serial enters the owner's statement.
    ///
    /// # Errors
    /// When no member has the name, or the statement is full.
    pub fn revoke(&mut self, name: &str) -> Result<MemberEntry, AuthorityError> {
        self.check_current()?;
        let now = unix_seconds();
        let needed = match self.active(name, now) {
            Ok(serial) => self.store.certificates_held(serial, now)?,
            Err(_) => 1,
        };
        if self.store.serials(now)?.count() + needed > REVOCATIONS {
            return Err(AuthorityError::TooManyRevocations);
        }
        let serial = self.store.revoke(name, now)?;
        self.entry(serial, name)
    }

    fn entry(&self, serial: u64, name: &str) -> Result<MemberEntry, AuthorityError> {
        let members = self.members()?;
        members
            .into_iter()
            .find(|entry| entry.serial == serial)
            .ok_or_else(|| AuthorityError::UnknownMember(name.to_owned()))
    }

    fn statement(&self) -> Result<Statement, AuthorityError> {
        // The number first: a revocation that comes in between makes the number too low, which the
        // next statement mends; too high a number without it would hide it for good.
        let number = self.store.generation()?;
        let serials = self.store.serials(unix_seconds())?;
        let small = |value| u8::try_from(value).unwrap_or(u8::MAX);
        let options = self.store.options();
        let parameters = Parameters {
            successors: small(options.successors),
            group: small(options.group),
        };
        let (owner, contact) = (&self.root, self.store.contact()?);
        let contact = contact.as_ref();
        Ok(Statement::issue_with_contact(
            owner, number, parameters, serials, contact,
        ))
    }

    /// Every record of the zone, and the numbers that grow with each change.
    pub(crate) fn zone(&self) -> Result<Zone, AuthorityError> {
        // The numbers first, as for the statement.
        let (generation, serial) = (self.store.generation()?, self.store.zone_serial()?);
        let enrol = enrol::place_record(&self.store.options().enrol.advertised);
        let mut records = vec![
            (RecordName::Ring, self.statement()?.as_bytes().to_vec()),
            (RecordName::Enrol, enrol),
        ];
        for certificate in self
            .store
            .valid_certificates(&self.ring_id(), unix_seconds())?
        {
            let content = certificate.as_bytes();
            let names = zone::names_of(&certificate).into_iter();
            records.extend(names.map(|name| (name, content.to_vec())));
        }
        Ok(Zone {
            generation,
            serial,
            records,
        })
    }

    pub(crate) fn generation(&self) -> Result<u64, AuthorityError> {
        Ok(self.store.generation()?)
    }

    /// The zone in the form of RFC 1035 §5, for a DNS server of the owner's choice.
    ///
    /// # Errors
    /// When this folder is older than its ring, or the database fails.
    pub fn zone_file(&self) -> Result<String, AuthorityError> {
        self.check_current()?;
        let Zone {
            serial, records, ..
        } = self.zone()?;
        let domain = self.store.options().domain.trim_end_matches('.').to_owned();
        let dns = &self.store.options().dns.advertised;
        // A host name is the name server's own; an address gets the name `ns` here.
        let glue = dns.address().map_or_else(String::new, |address| {
            let ip = address.ip();
            let of_address = if ip.is_ipv4() { "A" } else { "AAAA" };
            format!("ns IN {of_address} {ip}\n")
        });
        let server = dns
            .name()
            .map_or_else(|| "ns".to_owned(), |name| format!("{name}."));
        let mut text = format!(
            "$ORIGIN {domain}.\n$TTL {ttl}\n@ IN SOA {server} hostmaster {serial} 3600 600 604800 {ttl}\n@ IN NS {server}\n{glue}",
            ttl = dns::TTL_SECONDS,
        );
        for (name, content) in records {
            let strings = zone::to_txt(&content);
            let quoted: Vec<String> = strings.iter().map(|s| format!("\"{s}\"")).collect();
            text.push_str(&format!(
                "{} IN TXT {}\n",
                name.relative(),
                quoted.join(" ")
            ));
        }
        Ok(text)
    }
}

fn random<const N: usize>() -> Result<[u8; N], AuthorityError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(AuthorityError::Random)?;
    Ok(bytes)
}

fn check_domain(domain: &str) -> Result<(), AuthorityError> {
    if !zone::is_domain(domain) {
        return Err(AuthorityError::Domain(domain.to_owned()));
    }
    match zone::reserved(domain) {
        None => Ok(()),
        Some(reason) => Err(AuthorityError::Reserved {
            domain: domain.to_owned(),
            reason,
        }),
    }
}
