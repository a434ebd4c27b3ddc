//! Who is who: certificates by name, id and ring key, from memory, from disk, from handshakes, from
//! DNS.
//!
//! A certificate counts because the ring owner signed it, not because of where it came from. DNS is
//! asked only for what is not known here; when it does not answer, everybody known stays known.

mod published;
mod resolving;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{RData, RecordType};
use ringway_overlay::RingKey;
use ringway_transport::{Address, MemberId};
use tokio::sync::Notify;

pub use self::published::published;
#[cfg(test)]
pub(crate) use self::resolving::resolver;
pub(crate) use self::resolving::resolver_at;

use self::resolving::Resolving;
use crate::certificate::{Certificate, CertificateError, Name, RingId};
use crate::clock::unix_seconds;
use crate::endpoint::Endpoint;
use crate::enrol::Locator;
use crate::limits::{
    ABSENT_ENTRIES, ABSENT_FOR, DIRECTORY_ENTRIES, FORGOTTEN_STATEMENTS, RENEWED_LOOKED_UP,
};
use crate::renewal::{self, by_dns};
use crate::statement::Statement;
use crate::zone::{self, RecordName};

/// Why no member was found.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// DNS says that there is no such record: what was looked for, the ring, and what may help.
    #[error("no member `{0}` is in the ring {1}: {2}")]
    Absent(String, String, String),
    /// DNS did not answer.
    #[error("the ring's DNS did not answer for `{0}`: {1}")]
    Unavailable(String, String),
    /// The certificate found is not good.
    #[error("the certificate of `{0}` is refused: {1}")]
    Invalid(String, CertificateError),
    /// The owner has revoked it.
    #[error("`{0}` is revoked")]
    Revoked(String),
    /// The resolver could not be made.
    #[error("the DNS resolver cannot be used: {0}")]
    Resolver(String),
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<MemberId, Entry>,
    id_by_name: HashMap<Name, MemberId>,
    id_by_key: HashMap<RingKey, MemberId>,
    absent: HashMap<RecordName, Instant>,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    certificate: Certificate,
    last_use: u64,
    /// When DNS was last asked for a newer one.
    looked_up: Option<Instant>,
}

/// What the owner has stated.
#[derive(Debug)]
struct Statements {
    newest: Arc<Statement>,
    /// Older ones that end certificates which the newest does not: its author had forgotten them,
    /// or they have expired. They count as well.
    forgotten: Vec<Forgotten>,
    /// Since when the ring's DNS gives an older statement than the newest, and which.
    behind: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Forgotten {
    statement: Arc<Statement>,
    /// How many certificates it ends and the newest does not.
    lost: usize,
    /// The authority has answered that it knows what it says.
    acknowledged: bool,
}

impl Statements {
    fn all(&self) -> impl Iterator<Item = &Arc<Statement>> {
        let forgotten = self.forgotten.iter().map(|older| &older.statement);
        std::iter::once(&self.newest).chain(forgotten)
    }

    /// Takes in a newer one.
    fn replace(&mut self, statement: Statement) {
        let before = std::mem::replace(&mut self.newest, Arc::new(statement));
        self.keep([before]);
    }

    /// Keeps older ones as far as they say what the newest and the others do not, oldest first.
    fn keep(&mut self, older: impl IntoIterator<Item = Arc<Statement>>) {
        let older = older.into_iter().map(|statement| Forgotten {
            statement,
            lost: 0,
            acknowledged: false,
        });
        let (newest, now) = (Arc::clone(&self.newest), unix_seconds());
        let before = std::mem::take(&mut self.forgotten);
        for mut older in before.into_iter().chain(older) {
            let lost: Vec<u64> = older.statement.lost_in(&newest, now).collect();
            let said = |serial: &u64| {
                let mut kept = self.forgotten.iter();
                kept.any(|kept| kept.statement.revokes(*serial))
            };
            if !lost.iter().all(said) {
                // What the authority knew it may have forgotten since.
                older.acknowledged &= lost.len() <= older.lost;
                older.lost = lost.len();
                self.forgotten.push(older);
            }
        }
        while self.forgotten.len() > FORGOTTEN_STATEMENTS {
            let known = self.forgotten.iter().position(|older| older.acknowledged);
            self.forgotten.remove(known.unwrap_or(FORGOTTEN_STATEMENTS));
        }
    }
}

/// What an authority seems not to know that was restored from a backup.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    /// The owner's statements that it is to be brought.
    pub(crate) statements: Vec<Arc<Statement>>,
    /// Number of the older one that it gives; none if its newest one says less than they do.
    pub(crate) in_dns: Option<u64>,
}

/// All certificates that this member has seen and checked.
#[derive(Debug)]
pub struct Directory {
    ring: RingId,
    domain: String,
    resolving: Resolving,
    known: Mutex<Known>,
    statements: Mutex<Statements>,
    /// Woken when another member has notified this one of a newer statement.
    newer: Notify,
    /// This member's own certificate, once it was renewed while it runs.
    renewed: Mutex<Option<Certificate>>,
    /// Why the last try to renew it has failed.
    not_renewed: Mutex<Option<String>>,
}

impl Directory {
    /// A directory of `ring` that asks `server`, or the system's resolver. The system may have none
    /// yet.
    ///
    /// # Errors
    /// When no resolver can be made for `server`.
    pub fn new(
        ring: RingId,
        domain: &str,
        statement: Statement,
        server: Option<Endpoint>,
    ) -> Result<Directory, DirectoryError> {
        let resolving = Resolving::new(server)?;
        resolving.follow(&statement);
        Ok(Directory {
            ring,
            domain: domain.to_owned(),
            resolving,
            known: Mutex::default(),
            statements: Mutex::new(Statements {
                newest: Arc::new(statement),
                forgotten: Vec::new(),
                behind: None,
            }),
            newer: Notify::new(),
            renewed: Mutex::default(),
            not_renewed: Mutex::default(),
        })
    }

    /// The machine's network is another, and its DNS servers may be.
    pub(crate) fn network_changed(&self) {
        self.resolving.forget();
    }

    /// How the ring's authority is found: as its owner has stated, or else as DNS says.
    pub(crate) fn locator(&self) -> Locator {
        let statement = self.statement();
        let stated = statement.contact().map(|contact| contact.enrol.clone());
        Locator::new(&self.domain, self.resolving.server()).stated(stated)
    }

    /// Takes in what an earlier run has kept of [`Directory::forgotten`].
    pub(crate) fn remember(&self, forgotten: Vec<Statement>) {
        self.statements().keep(forgotten.into_iter().map(Arc::new));
    }

    fn statements(&self) -> MutexGuard<'_, Statements> {
        self.statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The certificate that this member has now, which began with `first`.
    pub(crate) fn own(&self, first: &Certificate) -> Certificate {
        let renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.as_ref().unwrap_or(first).clone()
    }

    /// This member has a newer certificate for the same key.
    pub(crate) fn renew_own(&self, certificate: Certificate) {
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        *renewed = Some(certificate);
    }

    /// A try to renew it has failed, or there is nothing more to say of that.
    pub(crate) fn note_renewal(&self, failed: Option<String>) {
        let reason = self.not_renewed.lock();
        *reason.unwrap_or_else(PoisonError::into_inner) = failed;
    }

    /// Why this member's certificate is not renewed although it is time.
    pub(crate) fn not_renewed(&self) -> Option<String> {
        let reason = self.not_renewed.lock();
        reason.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest statement of the ring's owner.
    #[must_use]
    pub fn statement(&self) -> Arc<Statement> {
        Arc::clone(&self.statements().newest)
    }

    /// Older statements that say of a certificate that it has ended where the newest does not. They
    /// count as well: an authority that was restored from a backup brings no revoked member back.
    pub(crate) fn forgotten(&self) -> Vec<Arc<Statement>> {
        let statements = self.statements();
        statements.all().skip(1).cloned().collect()
    }

    /// The authority has answered that it knows what the statement with this number says: what the
    /// newest one lacks of it has expired.
    pub(crate) fn acknowledge(&self, number: u64) {
        let mut statements = self.statements();
        let forgotten = statements.forgotten.iter_mut();
        for older in forgotten.filter(|older| older.statement.number() == number) {
            older.acknowledged = true;
        }
    }

    /// True if the certificate with this serial counts no more.
    fn ends(&self, serial: u64) -> bool {
        let statements = self.statements();
        statements.all().any(|statement| statement.revokes(serial))
    }

    /// As [`Statement::heir`], of all statements that count.
    fn heir_serial(&self, serial: u64) -> Option<u64> {
        let statements = self.statements();
        let mut heirs = statements.all().filter_map(|stated| stated.heir(serial));
        let heir = heirs.next()?;
        let revoked = statements.all().any(|stated| stated.revokes(heir));
        Some(heir).filter(|_| !revoked)
    }

    /// What the ring's authority seems to have forgotten, and for how long it has seemed so.
    pub(crate) fn gap(&self) -> Option<(Duration, Gap)> {
        let statements = self.statements();
        let (newest, now) = (&statements.newest, unix_seconds());
        let forgotten = statements.forgotten.iter();
        let forgotten = forgotten.filter(|older| !older.acknowledged);
        let forgotten = forgotten.map(|older| &older.statement);
        let forgotten: Vec<_> = forgotten
            .filter(|older| older.lost_in(newest, now).next().is_some())
            .cloned()
            .collect();
        match statements.behind {
            Some((since, number)) => {
                let all = statements.all().cloned().collect();
                let gap = Gap {
                    statements: all,
                    in_dns: Some(number),
                };
                Some((since.elapsed(), gap))
            }
            None if forgotten.is_empty() => None,
            None => {
                let gap = Gap {
                    statements: forgotten,
                    in_dns: None,
                };
                // No wait: this is no delay of DNS, which would end by itself.
                Some((Duration::MAX, gap))
            }
        }
    }

    /// Takes in what another member says is a statement of the owner; true if it is, and newer than
    /// any before.
    pub(crate) fn take_statement(&self, bytes: &[u8]) -> bool {
        // Most of those that come are known: a look at the number costs no signature.
        let known = || self.statement().number();
        if Statement::number_of(bytes).is_none_or(|number| number <= known()) {
            return false;
        }
        let taken = match Statement::decode(bytes, &self.ring) {
            Ok(statement) => self.replace_statement(statement).is_some(),
            Err(_) => false,
        };
        if taken {
            self.newer.notify_one();
        }
        taken
    }

    /// Waits until a member has notified this one of a newer statement.
    pub(crate) async fn await_newer(&self) {
        self.newer.notified().await;
    }

    fn replace_statement(&self, statement: Statement) -> Option<Statement> {
        let mut current = self.statements();
        if statement.number() <= current.newest.number() {
            return None;
        }
        current.replace(statement.clone());
        self.resolving.follow(&statement);
        Some(statement)
    }

    #[cfg(test)]
    pub(crate) fn set_statement(&self, statement: Statement) {
        self.statements().newest = Arc::new(statement);
    }

    /// Checks a certificate that a peer has shown, and remembers it.
    ///
    /// # Errors
    /// When it is not of this ring, not valid now, or revoked.
    pub fn admit(&self, bytes: &[u8]) -> Result<Certificate, DirectoryError> {
        let certificate = Certificate::decode(bytes, &self.ring)
            .map_err(|error| DirectoryError::Invalid("a peer".to_owned(), error))?;
        self.check(&certificate)?;
        self.known().insert(certificate.clone());
        Ok(certificate)
    }

    fn check(&self, certificate: &Certificate) -> Result<(), DirectoryError> {
        let name = || certificate.name().to_string();
        if self.ends(certificate.serial()) {
            return Err(DirectoryError::Revoked(name()));
        }
        certificate
            .check_time(unix_seconds())
            .map_err(|error| DirectoryError::Invalid(name(), error))
    }

    /// A certificate known here and still good, without asking anybody.
    #[must_use]
    pub fn cached(&self, member: &MemberId) -> Option<Certificate> {
        let certificate = self.known().by_id(member)?;
        self.check(&certificate).ok()?;
        Some(certificate)
    }

    /// The first known certificate whose holder `wanted` says yes to.
    pub(crate) fn first_where(&self, wanted: impl Fn(&MemberId) -> bool) -> Option<Certificate> {
        let known = self.known();
        let found = known.by_id.iter().find(|(member, _)| wanted(member));
        found.map(|(_, entry)| entry.certificate.clone())
    }

    /// As [`Directory::cached`], by ring key.
    #[must_use]
    pub fn cached_router(&self, key: &RingKey) -> Option<Certificate> {
        let certificate = {
            let mut known = self.known();
            let member = *known.id_by_key.get(key)?;
            known.by_id(&member)?
        };
        self.check(&certificate).ok()?;
        Some(certificate)
    }

    /// True if it is known that the router with this key is no longer a member.
    pub(crate) fn has_ended_router(&self, key: &RingKey) -> bool {
        let member = self.known().id_by_key.get(key).copied();
        member.is_some_and(|member| self.has_ended(&member))
    }

    /// The name of the router that a `relay://` address goes by, if it is one and the router's
    /// certificate is known here.
    pub(crate) fn relay_name(&self, address: &Address) -> Option<String> {
        let Address::Relay(relay) = address else {
            return None;
        };
        Some(self.cached(&relay.parent)?.name().to_string())
    }

    /// Finds a member by name, or by id in base32. A member with another key now is found by the
    /// old id as well, where that was known.
    ///
    /// # Errors
    /// When there is none, it is not good, or DNS does not answer.
    pub async fn find(&self, name_or_id: &str) -> Result<Certificate, DirectoryError> {
        if let Ok(member) = name_or_id.parse::<MemberId>() {
            if let Some(certificate) = self.cached(&member) {
                return Ok(certificate);
            }
            if let Some(old) = self.is_replaced(&member) {
                // Boxed: it may come back here, with a name.
                return Box::pin(self.heir(old.serial(), old.name())).await;
            }
            self.not_revoked(&member)?;
            return self.ask(RecordName::Id(member)).await;
        }
        let absent = || self.absent(name_or_id);
        let name: Name = name_or_id.parse().map_err(|_| absent())?;
        let cached = self.known().id_by_name.get(&name).copied();
        if let Some(certificate) = cached.and_then(|member| self.cached(&member)) {
            return Ok(certificate);
        }
        self.ask(RecordName::Member(name)).await
    }

    fn absent(&self, name: &str) -> DirectoryError {
        let help = "`ringway members` lists those that are known here".to_owned();
        DirectoryError::Absent(name.to_owned(), self.domain.clone(), help)
    }

    /// The certificates that are known here and still good.
    pub(crate) fn known_certificates(&self) -> Vec<Certificate> {
        let all: Vec<Certificate> = {
            let known = self.known();
            let entries = known.by_id.values();
            entries.map(|entry| entry.certificate.clone()).collect()
        };
        let good = |certificate: &Certificate| self.check(certificate).is_ok();
        all.into_iter().filter(good).collect()
    }

    /// True if it is known that this member is no longer one: revoked, or past its certificate's
    /// time.
    pub(crate) fn has_ended(&self, member: &MemberId) -> bool {
        let certificate = self.known().by_id(member);
        certificate.is_some_and(|certificate| {
            let over = certificate.check_time(unix_seconds()).is_err();
            over || self.ends(certificate.serial())
        })
    }

    /// The certificate of the member that had the one with this serial: the same, or the one for
    /// its next key. The owner's statement says whether there is one; the member's name leads to
    /// it.
    ///
    /// # Errors
    /// As [`Directory::find`].
    pub(crate) async fn heir(
        &self,
        serial: u64,
        name: &Name,
    ) -> Result<Certificate, DirectoryError> {
        let revoked = || DirectoryError::Revoked(name.to_string());
        if self.heir_serial(serial).is_none() {
            return Err(revoked());
        }
        let mut found = self.find(name.as_str()).await?;
        if !self.succeeds(serial, &found)
            && let Ok(newest) = self.newest(found.member()).await
        {
            // It has been renewed since.
            found = newest;
        }
        if self.succeeds(serial, &found) {
            Ok(found)
        } else if self.heir_serial(serial).is_none() {
            // Another member has the name: the one that had it was revoked meanwhile. Or the
            // statement here is older than DNS.
            Err(revoked())
        } else {
            Err(DirectoryError::Unavailable(
                name.to_string(),
                "its new certificate is not there yet".to_owned(),
            ))
        }
    }

    /// True if the owner has stated that this certificate takes the place of the one with the
    /// serial `old`, straight or by others.
    pub(crate) fn succeeds(&self, old: u64, certificate: &Certificate) -> bool {
        self.heir_serial(old) == Some(certificate.serial())
    }

    /// True if this member, whose certificate had this serial (0 if that was never noted), has
    /// another key now.
    pub(crate) fn has_heir(&self, member: &MemberId, serial: u64) -> bool {
        self.heir_serial(serial).is_some() || (serial == 0 && self.is_replaced(member).is_some())
    }

    /// The certificate that this member had, if it is known here and was replaced.
    fn is_replaced(&self, member: &MemberId) -> Option<Certificate> {
        let certificate = self.known().by_id(member)?;
        let heir = self.heir_serial(certificate.serial());
        heir.map(|_| certificate)
    }

    /// True if the owner has ended the membership of this member, whose certificate had this serial
    /// (0 if that was never noted), and it has no other key. One whose certificate has only run out
    /// may come back with the next.
    pub(crate) fn has_lost(&self, member: &MemberId, serial: u64) -> bool {
        let known = self.known().serial_of(member);
        let ended = known.is_some_and(|serial| self.ends(serial)) || self.ends(serial);
        ended && !self.has_heir(member, serial)
    }

    /// A revoked member's record has gone from DNS, which would only say that there is none.
    fn not_revoked(&self, member: &MemberId) -> Result<(), DirectoryError> {
        match self.known().by_id(member) {
            Some(certificate) if self.ends(certificate.serial()) => {
                Err(DirectoryError::Revoked(certificate.name().to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Finds a router by its ring key.
    ///
    /// # Errors
    /// As [`Directory::find`].
    pub async fn router(&self, key: RingKey) -> Result<Certificate, DirectoryError> {
        if let Some(certificate) = self.cached_router(&key) {
            return Ok(certificate);
        }
        self.ask(RecordName::Key(key)).await
    }

    async fn ask(&self, record: RecordName) -> Result<Certificate, DirectoryError> {
        let shown = match &record {
            RecordName::Ring | RecordName::Enrol => record.relative(),
            RecordName::Member(name) => name.to_string(),
            RecordName::Id(id) => id.to_string(),
            RecordName::Key(key) => format!("router {key}"),
        };
        let bytes = self.fetch(&record, &shown).await?;
        let certificate = Certificate::decode(&bytes, &self.ring)
            .map_err(|error| DirectoryError::Invalid(shown.clone(), error))?;
        // DNS is not trusted: another member's certificate would send traffic to the wrong one.
        let fits = match &record {
            RecordName::Ring | RecordName::Enrol => false,
            RecordName::Member(name) => certificate.name() == name,
            RecordName::Id(id) => certificate.member() == *id,
            RecordName::Key(key) => certificate.ring_key() == Some(*key),
        };
        if !fits {
            return Err(DirectoryError::Invalid(shown, CertificateError::Malformed));
        }
        self.check(&certificate)?;
        self.known().insert(certificate.clone());
        Ok(certificate)
    }

    async fn fetch(&self, record: &RecordName, shown: &str) -> Result<Vec<u8>, DirectoryError> {
        let absent = || self.absent(shown);
        if self.known().is_absent(record) {
            return Err(absent());
        }
        let name = record.qualified(&self.domain);
        let resolver =
            self.resolving.resolver().await.map_err(|error| {
                DirectoryError::Unavailable(shown.to_owned(), error.to_string())
            })?;
        let lookup = match resolver.lookup(name, RecordType::TXT).await {
            Ok(lookup) => lookup,
            Err(error) if self.is_denial(&error) => {
                self.known().remember_absent(record.clone());
                return Err(absent());
            }
            Err(error) => {
                return Err(DirectoryError::Unavailable(
                    shown.to_owned(),
                    error.to_string(),
                ));
            }
        };
        // Somebody else's text there, such as a wildcard's, denies nothing.
        record_of(&lookup).ok_or_else(|| {
            let reason = "what stands there is no record of a ring".to_owned();
            DirectoryError::Unavailable(shown.to_owned(), reason)
        })
    }

    /// Only the zone itself can say that it has no such name: a denial carries its SOA (RFC 2308
    /// §2). An empty answer without it, from a lame server, a captive portal or a broken
    /// middlebox, says nothing.
    fn is_denial(&self, error: &NetError) -> bool {
        let NetError::Dns(DnsError::NoRecordsFound(denial)) = error else {
            return false;
        };
        let domain = hickory_proto::rr::Name::from_ascii(format!("{}.", self.domain));
        match (&denial.soa, domain) {
            (Some(soa), Ok(domain)) => soa.name.zone_of(&domain) && !soa.name.is_root(),
            _ => false,
        }
    }

    /// True if the ring's DNS says that it has no record of the member with this certificate, or an
    /// older one, although the owner has not ended it.
    pub(crate) async fn lacks(&self, certificate: &Certificate) -> bool {
        let record = RecordName::Id(certificate.member());
        let lacks = match self.fetch(&record, "this member").await {
            Ok(bytes) => Certificate::decode(&bytes, &self.ring)
                .is_ok_and(|found| found.serial() < certificate.serial()),
            Err(error) => matches!(error, DirectoryError::Absent(..)),
        };
        lacks && !self.ends(certificate.serial())
    }

    /// The certificate that DNS has of this member, whatever is known here.
    ///
    /// # Errors
    /// As [`Directory::find`].
    pub(crate) async fn newest(&self, member: MemberId) -> Result<Certificate, DirectoryError> {
        self.ask(RecordName::Id(member)).await
    }

    /// Asks for a newer certificate by a name of DNS, which says that nothing stands there.
    ///
    /// # Errors
    /// When DNS does not answer, or the ring's domain is too long for that.
    pub(crate) async fn ask_renewal(
        &self,
        request: &by_dns::Request,
    ) -> Result<(), DirectoryError> {
        let unavailable =
            |reason: String| DirectoryError::Unavailable(by_dns::LABEL.to_owned(), reason);
        let name = request.name(&self.domain);
        let resolver = self.resolving.resolver().await?;
        match resolver.lookup(name, RecordType::TXT).await {
            Ok(_) => Ok(()),
            Err(error) if self.is_denial(&error) => Ok(()),
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    /// Some members whose certificates end before long, and for which DNS has not been asked for a
    /// while: they have renewed theirs by now, unless they are gone.
    pub(crate) fn ageing(&self, now: Instant, unix: u64) -> Vec<MemberId> {
        let mut known = self.known();
        let ageing = known.by_id.iter_mut().filter(|(_, entry)| {
            let certificate = &entry.certificate;
            let pause = renewal::longest_pause(certificate, unix);
            let is_new = |at: Instant| now.saturating_duration_since(at) < pause;
            renewal::renewed_by(certificate) <= unix
                && unix < certificate.not_after()
                && !entry.looked_up.is_some_and(is_new)
        });
        let ageing = ageing.take(RENEWED_LOOKED_UP).map(|(member, entry)| {
            entry.looked_up = Some(now);
            *member
        });
        ageing.collect()
    }

    /// Asks DNS for the owner's statement; gives it if it is newer than the one known.
    ///
    /// # Errors
    /// When DNS does not answer or what it gives is not signed by the owner.
    pub async fn refresh_statement(&self) -> Result<Option<Statement>, DirectoryError> {
        let bytes = self.fetch(&RecordName::Ring, "_ring").await?;
        let statement = Statement::decode(&bytes, &self.ring)
            .map_err(|error| DirectoryError::Unavailable("_ring".to_owned(), error.to_string()))?;
        let number = statement.number();
        let newer = self.replace_statement(statement);
        let mut statements = self.statements();
        let since = statements
            .behind
            .map_or_else(Instant::now, |(since, _)| since);
        let is_older = number < statements.newest.number();
        statements.behind = is_older.then_some((since, number));
        Ok(newer)
    }
}

impl Known {
    /// The serial of the certificate that is known of this member.
    fn serial_of(&self, member: &MemberId) -> Option<u64> {
        let entry = self.by_id.get(member)?;
        Some(entry.certificate.serial())
    }

    /// Takes a certificate in. An older one takes nothing from a newer one: not its member's entry,
    /// and not its name.
    fn insert(&mut self, certificate: Certificate) {
        let member = certificate.member();
        let serial = certificate.serial();
        let known = self.serial_of(&member);
        if known > Some(serial) {
            return;
        }
        self.uses += 1;
        self.absent.remove(&RecordName::Id(member));
        self.absent
            .remove(&RecordName::Member(certificate.name().clone()));
        let named = self.id_by_name.get(certificate.name());
        if named.and_then(|named| self.serial_of(named)) <= Some(serial) {
            self.id_by_name.insert(certificate.name().clone(), member);
        }
        if let Some(key) = certificate.ring_key() {
            self.absent.remove(&RecordName::Key(key));
            self.id_by_key.insert(key, member);
        }
        let last_use = self.uses;
        // The same one again is what DNS has, too: it need not be asked for at once.
        let same = self.by_id.get(&member).filter(|_| known == Some(serial));
        let looked_up = same.and_then(|entry| entry.looked_up);
        self.by_id.insert(
            member,
            Entry {
                certificate,
                last_use,
                looked_up,
            },
        );
        if self.by_id.len() > DIRECTORY_ENTRIES {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self
            .by_id
            .iter()
            .min_by_key(|(_, entry)| entry.last_use)
            .map(|(id, _)| *id);
        let Some(entry) = oldest.and_then(|id| self.by_id.remove(&id)) else {
            return;
        };
        let member = entry.certificate.member();
        // Somebody with another key may have the name now.
        if self.id_by_name.get(entry.certificate.name()) == Some(&member) {
            self.id_by_name.remove(entry.certificate.name());
        }
        if let Some(key) = entry.certificate.ring_key()
            && self.id_by_key.get(&key) == Some(&member)
        {
            self.id_by_key.remove(&key);
        }
    }

    fn by_id(&mut self, member: &MemberId) -> Option<Certificate> {
        self.uses += 1;
        let uses = self.uses;
        let entry = self.by_id.get_mut(member)?;
        entry.last_use = uses;
        Some(entry.certificate.clone())
    }

    fn is_absent(&self, record: &RecordName) -> bool {
        self.absent
            .get(record)
            .is_some_and(|since| since.elapsed() < ABSENT_FOR)
    }

    fn remember_absent(&mut self, record: RecordName) {
        if self.absent.len() >= ABSENT_ENTRIES {
            self.absent.clear();
        }
        self.absent.insert(record, Instant::now());
    }
}

/// The first record of ours in an answer.
fn record_of(lookup: &Lookup) -> Option<Vec<u8>> {
    let mut answers = lookup.answers().iter();
    answers.find_map(|record| match &record.data {
        RData::TXT(txt) => zone::from_txt(txt.txt_data.iter().map(AsRef::as_ref)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
