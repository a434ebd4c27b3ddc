//! What the authority keeps: members, invites and counters, in SQLite.

mod invites;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::invites::InviteEntry;
pub use self::invites::{Invites, OpenInvite};
pub(super) use self::invites::{spend, withdraw};
use super::heard::{Heard, Hearing};
use super::recover::News;
use super::sign_in::{self, Persons, SsoEntry};
use super::standby::Standby;
use super::term::TERM_SHIFT;
use super::{AuthorityError, InitOptions, Site};
use crate::certificate::{Certificate, RingId, Role};
use crate::clock::{unix_micros, unix_seconds};
use crate::database::{self, DatabaseError, Schema};
use crate::limits::BOOTSTRAP_ROUTERS;
use crate::renewal::warned_from;
use crate::versions::AUTHORITY_SINCE;
use ringway_transport::MemberId;
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(crate) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE ring (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        domain TEXT NOT NULL, dns TEXT NOT NULL, enrol TEXT NOT NULL,
        successors INTEGER NOT NULL, serial INTEGER NOT NULL, generation INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE invites (
        id BLOB PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, psk BLOB NOT NULL,
        expires INTEGER NOT NULL, used_by BLOB
    ) STRICT;
    CREATE TABLE members (
        serial INTEGER PRIMARY KEY, name TEXT NOT NULL, member BLOB NOT NULL UNIQUE,
        address TEXT, certificate BLOB NOT NULL, issued INTEGER NOT NULL,
        expires INTEGER NOT NULL, revoked INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX one_member_a_name ON members (name) WHERE revoked IS NULL;
",
    "
    CREATE TABLE servers (
        server TEXT PRIMARY KEY, key_file BLOB NOT NULL, generation INTEGER
    ) STRICT;
",
    // `words` are the secret bits of the spoken form, `wrong` the tries that it has cost;
    // `ring.invites` counts numbers, none of which comes twice.
    "
    ALTER TABLE ring ADD COLUMN invites INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE invites ADD COLUMN number INTEGER;
    ALTER TABLE invites ADD COLUMN words BLOB;
    ALTER TABLE invites ADD COLUMN wrong INTEGER NOT NULL DEFAULT 0;
    CREATE UNIQUE INDEX one_invite_a_number ON invites (number);
",
    // `replaced_by` is the serial of the certificate for the member's next key, `asked` until when
    // it may change its key by itself.
    "
    ALTER TABLE members ADD COLUMN replaced_by INTEGER;
    ALTER TABLE members ADD COLUMN asked INTEGER;
",
    "
    ALTER TABLE ring ADD COLUMN group_size INTEGER NOT NULL DEFAULT 9;
",
    // `zone` is the serial number of the zone's SOA. `found` and `found_certificates` hold what
    // members have brought that this folder knows nothing of, `ended` the certificates that ended
    // while it knew nothing of them.
    "
    ALTER TABLE ring ADD COLUMN zone INTEGER NOT NULL DEFAULT 0;
    UPDATE ring SET zone = generation;
    CREATE TABLE found (number INTEGER PRIMARY KEY, statement BLOB NOT NULL) STRICT;
    CREATE TABLE found_certificates (serial INTEGER PRIMARY KEY, certificate BLOB NOT NULL) STRICT;
    CREATE TABLE ended (
        serial INTEGER PRIMARY KEY, replaced_by INTEGER, expires INTEGER NOT NULL
    ) STRICT;
",
    // `renewed` holds older certificates of members, each with the serial of the newest one.
    "
    ALTER TABLE ring ADD COLUMN lifetime INTEGER NOT NULL DEFAULT 31536000;
    CREATE TABLE renewed (
        serial INTEGER PRIMARY KEY, newest INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT;
",
    super::address::COLUMNS,
    // `listing` says who may see who is in the ring.
    "
    ALTER TABLE ring ADD COLUMN listing TEXT NOT NULL DEFAULT 'owner';
",
    sign_in::MIGRATION,
    // `standby` is there in a folder that was restored and is not promoted yet: when its backup was
    // made, and where it is to be reached then. `former` are authorities that have not been told
    // yet that another is the ring's. `heard` is when a member has last shown itself, `departed`
    // when it has left, `since` when it has joined, with whatever key.
    "
    CREATE TABLE standby (
        only INTEGER PRIMARY KEY CHECK (only = 1), backup INTEGER NOT NULL, dns TEXT, enrol TEXT
    ) STRICT;
    CREATE TABLE former (enrol TEXT PRIMARY KEY) STRICT;
    CREATE TABLE heard (
        member BLOB PRIMARY KEY, at INTEGER NOT NULL, version TEXT
    ) STRICT;
    ALTER TABLE members ADD COLUMN departed INTEGER;
    ALTER TABLE members ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
    UPDATE members SET since = issued;
",
];

const SCHEMA: Schema = Schema {
    what: "authority's state",
    migrations: MIGRATIONS,
    since: AUTHORITY_SINCE,
};

/// What a member is to its owner now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// In good standing.
    Active,
    /// Its certificate has run out.
    Expired,
    /// The owner has ended its membership.
    Revoked,
    /// The member has another key and another certificate.
    Replaced,
    /// The member has ended its membership by itself.
    Left,
}

/// A member as the owner sees it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MemberEntry {
    /// Its name.
    pub name: String,
    /// Its id in base32.
    pub member: String,
    /// Router or leaf.
    pub role: Role,
    /// Where a router listens.
    pub address: Option<SocketAddr>,
    /// A router's position, 64 hex digits.
    pub ring_key: Option<String>,
    /// The certificate's number.
    pub serial: u64,
    /// Since when it is a member, whatever its key and its certificates were, Unix seconds.
    pub since: u64,
    /// When the certificate was issued, Unix seconds.
    pub issued: u64,
    /// When it runs out, Unix seconds.
    pub expires: u64,
    /// True if that is before long: the member should have renewed it by now.
    pub expires_soon: bool,
    /// When it was revoked or replaced, Unix seconds.
    pub revoked: Option<u64>,
    /// Number of the certificate that has replaced it.
    pub replaced_by: Option<u64>,
    /// Until when its holder is asked to change its key, Unix seconds.
    pub rotate_until: Option<u64>,
    /// Where a router goes on as soon as it learns it.
    pub moves_to: Option<SocketAddr>,
    /// When it last showed itself to this authority by its key, Unix seconds: by enrolment,
    /// renewal, another key, or a report, which a member makes each day. None if it never did.
    pub heard: Option<u64>,
    /// Version of its program, as it has last said.
    pub version: Option<String>,
    /// What it is now.
    pub state: MemberState,
    /// Who has signed in for it; none if it was invited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sso: Option<SsoEntry>,
}

impl MemberEntry {
    /// True for one in good standing.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == MemberState::Active
    }
}

/// The authority's database.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    pub(super) connection: Connection,
    options: InitOptions,
}

type Result<T> = std::result::Result<T, DatabaseError>;

/// The tables, lent to a part that has some of them for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables<'a> {
    pub(super) connection: &'a Connection,
    /// What errors name.
    path: &'a Path,
}

impl Tables<'_> {
    pub(super) fn fail(self) -> impl Fn(rusqlite::Error) -> DatabaseError + use<> {
        let path = self.path.to_owned();
        move |source| DatabaseError::new(&path, source)
    }
}

impl Store {
    pub(super) fn create(path: &Path, options: &InitOptions) -> Result<Store> {
        let connection = database::open(path, &SCHEMA)?;
        let domain = options.domain.trim_end_matches('.').to_ascii_lowercase();
        // Numbers begin at the clock: in a folder that is made again they are no lower than
        // before.
        connection
            .execute(
                "INSERT INTO ring (only, domain, dns, enrol, successors, group_size, serial, generation, zone, lifetime, dns_listen, enrol_listen)
                 VALUES (1, ?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT DO UPDATE SET domain = ?1, dns = ?2, enrol = ?3, successors = ?4, group_size = ?5, lifetime = ?8, dns_listen = ?9, enrol_listen = ?10",
                params![
                    domain,
                    options.dns.advertised.to_string(),
                    options.enrol.advertised.to_string(),
                    options.successors,
                    options.group,
                    unix_micros(),
                    unix_seconds(),
                    options.lifetime.as_secs(),
                    options.dns.listen.map(|at| at.to_string()),
                    options.enrol.listen.map(|at| at.to_string()),
                ],
            )
            .map_err(|source| DatabaseError::new(path, source))?;
        Store::open(path)
    }

    pub(super) fn open(path: &Path) -> Result<Store> {
        Store::read(path, database::open(path, &SCHEMA)?)
    }

    /// A database that is open already; `path` is what errors name.
    pub(super) fn of_connection(path: &Path, mut connection: Connection) -> Result<Store> {
        database::migrate(&mut connection, path, &SCHEMA)?;
        Store::read(path, connection)
    }

    fn read(path: &Path, connection: Connection) -> Result<Store> {
        let options = stored_options(&connection);
        let options = options.map_err(|source| DatabaseError::new(path, source))?;
        let path = path.to_owned();
        Ok(Store {
            path,
            connection,
            options,
        })
    }

    /// A database as it was made before there were spoken invites.
    #[cfg(test)]
    pub(super) fn before_spoken(path: &Path) -> Connection {
        let schema = Schema {
            migrations: &MIGRATIONS[..2],
            ..SCHEMA
        };
        database::open(path, &schema).unwrap()
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    pub(super) fn options(&self) -> &InitOptions {
        &self.options
    }

    /// Takes over what another process has changed of the options.
    pub(super) fn read_options(&mut self) -> Result<()> {
        self.options = stored_options(&self.connection).map_err(self.fail())?;
        Ok(())
    }

    pub(super) fn fail(&self) -> impl Fn(rusqlite::Error) -> DatabaseError + use<> {
        self.tables().fail()
    }

    pub(super) fn tables(&self) -> Tables<'_> {
        Tables {
            connection: &self.connection,
            path: &self.path,
        }
    }

    pub(super) fn invites(&self) -> Invites<'_> {
        Invites::of(self.tables())
    }

    pub(super) fn persons(&self) -> Persons<'_> {
        Persons::of(self.tables())
    }

    pub(super) fn hearing(&self) -> Hearing<'_> {
        Hearing::of(self.tables())
    }

    pub(super) fn news(&self) -> News<'_> {
        News::of(self.tables())
    }

    pub(super) fn standby(&self) -> Standby<'_> {
        Standby::of(self.tables())
    }

    /// Grows with every change that members must learn: the number of the statement.
    pub(super) fn generation(&self) -> Result<u64> {
        self.connection
            .query_row("SELECT generation FROM ring", [], |row| row.get(0))
            .map_err(self.fail())
    }

    /// Grows as [`Store::generation`] does, in 32 bits as RFC 1982 counts: Unix time in seconds, at
    /// least.
    pub(super) fn zone_serial(&self) -> Result<u32> {
        let serial: u64 = self
            .connection
            .query_row("SELECT zone FROM ring", [], |row| row.get(0))
            .map_err(self.fail())?;
        Ok(u32::try_from(serial & u64::from(u32::MAX)).unwrap_or(0))
    }

    /// A serial that no certificate of this ring has, whatever this folder has forgotten.
    pub(super) fn next_serial(&self) -> Result<u64> {
        self.connection
            .query_row(
                "UPDATE ring SET serial = max(serial + 1, ?1) RETURNING serial",
                params![unix_micros()],
                |row| row.get(0),
            )
            .map_err(self.fail())
    }

    /// Records a new member that has no invite; an unused one for its name is good no more.
    pub(super) fn admit(
        &mut self,
        certificate: &Certificate,
        now: u64,
    ) -> std::result::Result<(), AuthorityError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let name = certificate.name();
        if is_taken(&transaction, name.as_str(), now).map_err(&fail)? {
            return Err(AuthorityError::NameTaken(name.clone()));
        }
        withdraw(&transaction, name.as_str()).map_err(&fail)?;
        record(&transaction, certificate, now).map_err(&fail)?;
        Ok(transaction.commit().map_err(&fail)?)
    }

    pub(super) fn knows_member(&self, member: &MemberId) -> Result<bool> {
        let query = "SELECT EXISTS (SELECT 1 FROM members WHERE member = ?1)";
        self.connection
            .query_row(query, params![&member.as_bytes()[..]], |row| row.get(0))
            .map_err(self.fail())
    }

    pub(super) fn address_taken(&self, address: SocketAddr) -> Result<bool> {
        let query = "SELECT EXISTS (SELECT 1 FROM members WHERE address = ?1 AND revoked IS NULL AND expires > ?2)";
        self.connection
            .query_row(query, params![address.to_string(), unix_seconds()], |row| {
                row.get(0)
            })
            .map_err(self.fail())
    }

    pub(super) fn certificate_of(
        &self,
        member: &MemberId,
        ring: &RingId,
    ) -> Result<Option<Certificate>> {
        let query = "SELECT certificate FROM members WHERE member = ?1 AND revoked IS NULL";
        let found: Option<Vec<u8>> = self
            .connection
            .query_row(query, params![&member.as_bytes()[..]], |row| row.get(0))
            .optional()
            .map_err(self.fail())?;
        Ok(found.and_then(|bytes| Certificate::decode(&bytes, ring).ok()))
    }

    /// Some routers for a new member to begin with, drawn at random; never the new member itself.
    pub(super) fn routers(&self, ring: &RingId, except: &MemberId) -> Result<Vec<Certificate>> {
        let query = "SELECT certificate FROM members
            WHERE revoked IS NULL AND address IS NOT NULL AND member <> ?1 ORDER BY random() LIMIT ?2";
        let except = except.as_bytes();
        self.certificates(query, params![&except[..], BOOTSTRAP_ROUTERS], ring)
    }

    pub(super) fn valid_certificates(&self, ring: &RingId, now: u64) -> Result<Vec<Certificate>> {
        let query = "SELECT certificate FROM members WHERE revoked IS NULL AND expires > ?1 ORDER BY serial";
        self.certificates(query, params![now], ring)
    }

    /// Of everybody who ever was a member.
    pub(super) fn all_certificates(&self, ring: &RingId) -> Result<Vec<Certificate>> {
        let query = "SELECT certificate FROM members ORDER BY serial";
        self.certificates(query, [], ring)
    }

    fn certificates(
        &self,
        query: &str,
        arguments: impl rusqlite::Params,
        ring: &RingId,
    ) -> Result<Vec<Certificate>> {
        let fail = self.fail();
        let mut statement = self.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map(arguments, |row| row.get::<_, Vec<u8>>(0))
            .map_err(&fail)?;
        let mut found = Vec::new();
        for bytes in rows {
            found.extend(Certificate::decode(&bytes.map_err(&fail)?, ring).ok());
        }
        Ok(found)
    }

    pub(super) fn revoked_serials(&self, now: u64) -> Result<BTreeSet<u64>> {
        let fail = self.fail();
        let query = "SELECT serial FROM members WHERE revoked IS NOT NULL AND replaced_by IS NULL AND expires > ?1
            UNION SELECT renewed.serial FROM renewed JOIN members ON members.serial = newest
            WHERE revoked IS NOT NULL AND replaced_by IS NULL AND renewed.expires > ?1
            UNION SELECT serial FROM ended WHERE replaced_by IS NULL AND expires > ?1";
        let mut statement = self.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map(params![now], |row| row.get(0))
            .map_err(&fail)?;
        rows.collect::<std::result::Result<_, _>>().map_err(fail)
    }

    pub(super) fn revoke(
        &mut self,
        name: &str,
        now: u64,
    ) -> std::result::Result<u64, AuthorityError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let query =
            "UPDATE members SET revoked = ?2 WHERE name = ?1 AND revoked IS NULL RETURNING serial";
        let serial: Option<u64> = transaction
            .query_row(query, params![name, now], |row| row.get(0))
            .optional()
            .map_err(&fail)?;
        let Some(serial) = serial else {
            let query = "SELECT EXISTS (SELECT 1 FROM members WHERE name = ?1)";
            let was_there: bool = transaction
                .query_row(query, params![name], |row| row.get(0))
                .map_err(&fail)?;
            let name = name.to_owned();
            return Err(if was_there {
                AuthorityError::AlreadyRevoked(name)
            } else {
                AuthorityError::UnknownMember(name)
            });
        };
        count_change(&transaction).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        Ok(serial)
    }

    pub(super) fn members(
        &self,
        ring: &RingId,
        now: u64,
    ) -> std::result::Result<Vec<MemberEntry>, AuthorityError> {
        let fail = self.fail();
        let query =
            "SELECT certificate, issued, revoked, replaced_by, asked, moves_to, departed, since
            FROM members ORDER BY serial";
        let heard = self.hearing().all()?;
        let mut statement = self.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map([], |row| {
                let standing = Standing {
                    issued: row.get(1)?,
                    revoked: row.get(2)?,
                    replaced_by: row.get(3)?,
                    asked: row.get(4)?,
                    moves_to: parsed_option(row, 5)?,
                    departed: row.get(6)?,
                    since: row.get(7)?,
                };
                Ok((row.get::<_, Vec<u8>>(0)?, standing))
            })
            .map_err(&fail)?;
        let mut members = Vec::new();
        for row in rows {
            let (bytes, standing) = row.map_err(&fail)?;
            if let Ok(certificate) = Certificate::decode(&bytes, ring) {
                let heard = heard.get(certificate.member().as_bytes());
                let mut entry = member_entry(&certificate, &standing, heard, now);
                entry.sso = self.persons().signed_in(certificate.member().as_bytes())?;
                members.push(entry);
            }
        }
        Ok(members)
    }
}

fn stored_options(connection: &Connection) -> rusqlite::Result<InitOptions> {
    let query =
        "SELECT domain, dns, enrol, successors, group_size, lifetime, dns_listen, enrol_listen
        FROM ring";
    connection.query_row(query, [], |row| {
        Ok(InitOptions {
            domain: row.get(0)?,
            dns: Site {
                advertised: parsed(row, 1)?,
                listen: parsed_option(row, 6)?,
            },
            enrol: Site {
                advertised: parsed(row, 2)?,
                listen: parsed_option(row, 7)?,
            },
            successors: row.get(3)?,
            group: row.get(4)?,
            lifetime: Duration::from_secs(row.get(5)?),
        })
    })
}

/// Takes the write lock at once: a transaction that reads first could not wait for another that
/// writes.
pub(super) fn immediate(
    connection: &mut Connection,
) -> rusqlite::Result<rusqlite::Transaction<'_>> {
    connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
}

/// True if somebody in good standing has the name.
fn is_taken(connection: &Connection, name: &str, now: u64) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM members WHERE name = ?1 AND revoked IS NULL AND expires > ?2)",
        params![name, now],
        |row| row.get(0),
    )
}

/// Adds a new member, and counts the change.
pub(super) fn record(
    connection: &Connection,
    certificate: &Certificate,
    now: u64,
) -> rusqlite::Result<()> {
    let address = certificate.address().map(|address| address.to_string());
    // The holder of the name or the address before has let the certificate run out.
    connection.execute(
        "UPDATE members SET revoked = expires WHERE revoked IS NULL AND expires <= ?1 AND (name = ?2 OR address = ?3)",
        params![now, certificate.name().as_str(), address],
    )?;
    connection.execute(
        // Another key makes no other member.
        "INSERT INTO members (serial, name, member, address, certificate, issued, expires, since)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
            ifnull((SELECT since FROM members WHERE replaced_by = ?1), ?6))",
        params![
            certificate.serial(),
            certificate.name().as_str(),
            &certificate.member().as_bytes()[..],
            address,
            certificate.as_bytes(),
            now,
            certificate.not_after(),
        ],
    )?;
    count_change(connection)
}

/// Numbers the ring's next statement, and its next zone.
pub(super) fn count_change(connection: &Connection) -> rusqlite::Result<()> {
    // The term of the authority stays: see `term`.
    let count = "UPDATE ring SET zone = max(zone + 1, ?2),
        generation = max(generation + 1, ((generation >> ?3) << ?3) + ?1)";
    connection.execute(count, params![unix_micros(), unix_seconds(), TERM_SHIFT])?;
    Ok(())
}

fn role_named(name: &str) -> Role {
    if name == Role::Router.as_str() {
        Role::Router
    } else {
        Role::Leaf
    }
}

/// What has become of a certificate.
struct Standing {
    issued: u64,
    revoked: Option<u64>,
    replaced_by: Option<u64>,
    asked: Option<u64>,
    moves_to: Option<SocketAddr>,
    departed: Option<u64>,
    since: u64,
}

fn member_entry(
    certificate: &Certificate,
    standing: &Standing,
    heard: Option<&Heard>,
    now: u64,
) -> MemberEntry {
    let Standing {
        issued,
        revoked,
        replaced_by,
        asked,
        moves_to,
        departed,
        since,
    } = *standing;
    // What is replaced is revoked, too, so that comes first.
    let state = match (replaced_by, revoked) {
        (Some(_), _) => MemberState::Replaced,
        (None, Some(_)) if departed.is_some() => MemberState::Left,
        (None, Some(_)) => MemberState::Revoked,
        (None, None) if certificate.not_after() <= now => MemberState::Expired,
        (None, None) => MemberState::Active,
    };
    let rotate_until = asked.filter(|until| state == MemberState::Active && *until > now);
    MemberEntry {
        name: certificate.name().to_string(),
        member: certificate.member().to_string(),
        role: certificate.role(),
        address: certificate.address(),
        ring_key: certificate.ring_key().map(|key| key.to_string()),
        serial: certificate.serial(),
        since,
        issued,
        expires: certificate.not_after(),
        expires_soon: state == MemberState::Active && now >= warned_from(certificate),
        revoked,
        replaced_by,
        rotate_until,
        moves_to: moves_to.filter(|_| rotate_until.is_some()),
        heard: heard.map(|heard| heard.at),
        version: heard.and_then(|heard| heard.version.clone()),
        state,
        sso: None,
    }
}

/// As [`parsed`], where nothing may stand.
pub(super) fn parsed_option<T: std::str::FromStr>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: Option<String> = row.get(column)?;
    text.map(|_| parsed(row, column)).transpose()
}

/// A text column in the type that it stands for.
pub(super) fn parsed<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|error| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
    })
}
