//! What a member keeps over restarts: its membership, routers it has known, its transfers.

mod bundles;
mod deadlines;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringway_transport::MemberId;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use crate::certificate::{Certificate, RingId};
use crate::clock::unix_seconds;
use crate::database::{self, DatabaseError, Schema};
use crate::home;
use crate::limits::{KNOWN_ROUTERS, TRANSFER_HISTORY};
use crate::statement::Statement;
use crate::transfer::{Direction, Phase, Record, TransferId};
use crate::versions::STATE_SINCE;

pub(crate) const MIGRATIONS: &[&str] = &["
    CREATE TABLE membership (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        ring BLOB NOT NULL, domain TEXT NOT NULL, certificate BLOB NOT NULL, statement BLOB NOT NULL,
        hello_sequence INTEGER NOT NULL, was_in_ring INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE routers (
        member BLOB PRIMARY KEY, certificate BLOB NOT NULL, seen INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE transfers (
        id BLOB NOT NULL, direction TEXT NOT NULL, peer BLOB NOT NULL, peer_name TEXT NOT NULL,
        path TEXT NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL, priority REAL NOT NULL,
        phase TEXT NOT NULL, reason TEXT, blake3 BLOB, created INTEGER NOT NULL,
        PRIMARY KEY (id, direction)
    ) STRICT;
", "
    ALTER TABLE transfers ADD COLUMN active_us INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE transfers ADD COLUMN moved INTEGER NOT NULL DEFAULT 0;
", "
    ALTER TABLE membership ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0;
", "
    CREATE TABLE records (
        name BLOB PRIMARY KEY, value BLOB NOT NULL, number INTEGER NOT NULL, expires INTEGER NOT NULL
    ) STRICT;
", "
    ALTER TABLE transfers ADD COLUMN peer_serial INTEGER NOT NULL DEFAULT 0;
", "
    CREATE TABLE forgotten (number INTEGER PRIMARY KEY, statement BLOB NOT NULL) STRICT;
", "
    ALTER TABLE transfers ADD COLUMN offered INTEGER NOT NULL DEFAULT 0;
", "
    ALTER TABLE transfers ADD COLUMN path_bytes BLOB;
", "
    ALTER TABLE transfers ADD COLUMN handed INTEGER NOT NULL DEFAULT 0;
", "
    CREATE TABLE deadlines (
        id BLOB PRIMARY KEY, by INTEGER NOT NULL, since INTEGER NOT NULL, most REAL NOT NULL,
        steers INTEGER NOT NULL, arrived INTEGER
    ) STRICT;
", "
    ALTER TABLE transfers ADD COLUMN ended INTEGER;
    ALTER TABLE transfers ADD COLUMN arrival TEXT;
", bundles::MIGRATION];

const SCHEMA: Schema = Schema {
    what: "state",
    migrations: MIGRATIONS,
    since: STATE_SINCE,
};

/// Why the state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// This member has left as many records as it may.
    #[error(
        "this member has {0} records already, as many as it may: remove one (`ringway put NAME --remove`), or wait until one expires"
    )]
    TooManyRecords(usize),
    /// What it holds is not what this member stored.
    #[error(
        "the membership in {0} is damaged: restore the folder from a backup or join again with another --home"
    )]
    Damaged(String),
}

type Result<T> = std::result::Result<T, StateError>;

/// Which ring this member belongs to, as what.
#[derive(Clone, Debug)]
pub struct Membership {
    /// The ring owner's key.
    pub ring: RingId,
    /// The ring's domain.
    pub domain: String,
    /// This member's certificate.
    pub certificate: Certificate,
    /// The newest statement seen.
    pub statement: Statement,
}

/// A record that this member has put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnRecord {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) number: u64,
    /// Seconds since 1970.
    pub(crate) expires: u64,
}

/// The member's database.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl State {
    /// Opens or makes the state in `home`.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub fn open(home: &Path) -> Result<State> {
        let path = home::state_path(home);
        let connection = Mutex::new(database::open(&path, &SCHEMA)?);
        Ok(State { path, connection })
    }

    /// The membership in `home` as it is on disk, of which nothing is changed: neither a table of
    /// an earlier build, nor anything where there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn examine(home: &Path) -> Result<Option<Membership>> {
        let path = home::state_path(home);
        if !path.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        let failed = |source| DatabaseError::new(&path, source);
        let opened = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let connection = opened.map_err(failed)?;
        connection
            .busy_timeout(Duration::from_secs(2))
            .map_err(failed)?;
        let connection = Mutex::new(connection);
        State { path, connection }.membership()
    }

    /// The folder that the state is in.
    pub(crate) fn home(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self) -> impl Fn(rusqlite::Error) -> StateError + '_ {
        |source| DatabaseError::new(&self.path, source).into()
    }

    /// The membership, or none before the first join.
    ///
    /// # Errors
    /// When it is damaged or the database fails.
    pub fn membership(&self) -> Result<Option<Membership>> {
        let query = "SELECT ring, domain, certificate, statement FROM membership";
        type Stored = ([u8; 32], String, Vec<u8>, Vec<u8>);
        let found: Option<Stored> = self
            .connection()
            .query_row(query, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()
            .map_err(self.fail())?;
        let Some((ring, domain, certificate, statement)) = found else {
            return Ok(None);
        };
        let ring = MemberId::new(ring);
        let damaged = || StateError::Damaged(self.path.display().to_string());
        Ok(Some(Membership {
            certificate: Certificate::decode(&certificate, &ring).map_err(|_| damaged())?,
            statement: Statement::decode(&statement, &ring).map_err(|_| damaged())?,
            ring,
            domain,
        }))
    }

    /// A number that is another one once another program has changed something here. It costs next
    /// to nothing, where a membership is two signatures to check.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn changes_of_others(&self) -> Result<i64> {
        self.connection()
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(self.fail())
    }

    /// Stores a new membership; what the one before has counted is not counted again.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_membership(&self, membership: &Membership) -> Result<()> {
        self.connection()
            .execute(
                "INSERT INTO membership VALUES (1, ?1, ?2, ?3, ?4, 0, 0, 0)
                 ON CONFLICT DO UPDATE SET ring = ?1, domain = ?2, certificate = ?3, statement = ?4",
                params![
                    &membership.ring.as_bytes()[..],
                    membership.domain,
                    membership.certificate.as_bytes(),
                    membership.statement.as_bytes(),
                ],
            )
            .map_err(self.fail())?;
        Ok(())
    }

    /// Stores the certificate for this member's next key, and what the owner has stated. All else
    /// goes on: what was counted is not counted again.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn set_certificate(
        &self,
        certificate: &Certificate,
        statement: &Statement,
    ) -> Result<()> {
        self.connection()
            .execute(
                "UPDATE membership SET certificate = ?1, statement = ?2",
                params![certificate.as_bytes(), statement.as_bytes()],
            )
            .map_err(self.fail())?;
        Ok(())
    }

    /// Stores a newer certificate for the key that this member has. Nothing changes if it has
    /// another key by now: `ringway rotate --with` may have been faster.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn renew_certificate(&self, newer: &Certificate) -> Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction().map_err(self.fail())?;
        let query = "SELECT ring, certificate FROM membership";
        let stored: Option<(Vec<u8>, Vec<u8>)> = transaction
            .query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(self.fail())?;
        let of_same_key = stored.is_some_and(|(ring, stored)| {
            let ring = <[u8; 32]>::try_from(ring).map(RingId::new);
            let stored = ring.ok().map(|ring| Certificate::decode(&stored, &ring));
            stored.is_some_and(|stored| stored.is_ok_and(|it| it.member() == newer.member()))
        });
        if of_same_key {
            let change = "UPDATE membership SET certificate = ?1";
            let arguments = params![newer.as_bytes()];
            transaction
                .execute(change, arguments)
                .map_err(self.fail())?;
        }
        transaction.commit().map_err(self.fail())
    }

    /// Stores a newer statement, and those that count beside it: both or neither.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn set_statement(
        &self,
        statement: &Statement,
        forgotten: &[Arc<Statement>],
    ) -> Result<()> {
        let fail = self.fail();
        let mut connection = self.connection();
        let transaction = connection.transaction().map_err(&fail)?;
        let newest = "UPDATE membership SET statement = ?1";
        transaction
            .execute(newest, params![statement.as_bytes()])
            .map_err(&fail)?;
        transaction
            .execute("DELETE FROM forgotten", [])
            .map_err(&fail)?;
        for statement in forgotten {
            let insert = "INSERT OR REPLACE INTO forgotten VALUES (?1, ?2)";
            transaction
                .execute(insert, params![statement.number(), statement.as_bytes()])
                .map_err(&fail)?;
        }
        transaction.commit().map_err(fail)
    }

    /// The statements that count beside the newest one.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn forgotten(&self, ring: &RingId) -> Result<Vec<Statement>> {
        let connection = self.connection();
        let query = "SELECT statement FROM forgotten ORDER BY number";
        let mut statement = connection.prepare(query).map_err(self.fail())?;
        let rows = statement
            .query_map([], |row| row.get::<_, Vec<u8>>(0))
            .map_err(self.fail())?;
        let mut forgotten = Vec::new();
        for bytes in rows {
            let bytes = bytes.map_err(self.fail())?;
            forgotten.extend(Statement::decode(&bytes, ring).ok());
        }
        Ok(forgotten)
    }

    /// The next sequence number for this member's HELLO; never the same twice, and at least the
    /// time in seconds: others would take one from a folder that was restored from a backup for an
    /// old one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn next_hello_sequence(&self) -> Result<u64> {
        let query = "UPDATE membership SET hello_sequence = max(hello_sequence + 1, ?1)
            RETURNING hello_sequence";
        self.connection()
            .query_row(query, [unix_seconds()], |row| row.get(0))
            .map_err(self.fail())
    }

    /// Counts this member's starts, and never goes back: at least to the time in seconds, so that a
    /// folder that is restored from a backup does not count from there again.
    ///
    /// # Errors
    /// When the database fails.
    pub fn next_incarnation(&self) -> Result<u32> {
        let now = u32::try_from(unix_seconds()).unwrap_or(u32::MAX);
        let query =
            "UPDATE membership SET incarnation = max(incarnation + 1, ?1) RETURNING incarnation";
        self.connection()
            .query_row(query, [now], |row| row.get(0))
            .map_err(self.fail())
    }

    /// The count of starts is at least `count` already.
    ///
    /// # Errors
    /// When the database fails.
    pub fn raise_incarnation(&self, count: u32) -> Result<()> {
        let query = "UPDATE membership SET incarnation = max(incarnation, ?1)";
        let raised = self.connection().execute(query, [count]);
        raised.map(|_| ()).map_err(self.fail())
    }

    /// True if this router was part of the ring before.
    ///
    /// # Errors
    /// When the database fails.
    pub fn was_in_ring(&self) -> Result<bool> {
        self.connection()
            .query_row("SELECT was_in_ring FROM membership", [], |row| row.get(0))
            .map_err(self.fail())
    }

    /// Remembers that this router is part of the ring.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_was_in_ring(&self) -> Result<()> {
        self.connection()
            .execute("UPDATE membership SET was_in_ring = 1", [])
            .map_err(self.fail())?;
        Ok(())
    }

    /// Remembers a router for the next start. The one not seen for longest gives way.
    ///
    /// # Errors
    /// When the database fails.
    pub fn remember_router(&self, certificate: &Certificate) -> Result<()> {
        let connection = self.connection();
        let member = certificate.member();
        connection
            .execute(
                "INSERT OR REPLACE INTO routers VALUES (?1, ?2, ?3)",
                params![
                    &member.as_bytes()[..],
                    certificate.as_bytes(),
                    unix_seconds()
                ],
            )
            .map_err(self.fail())?;
        connection
            .execute(
                "DELETE FROM routers WHERE member NOT IN (SELECT member FROM routers ORDER BY seen DESC LIMIT ?1)",
                params![KNOWN_ROUTERS],
            )
            .map_err(self.fail())?;
        Ok(())
    }

    /// Remembers a router by its new key instead of its old one.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn follow_router(&self, old: &Certificate, new: &Certificate) -> Result<()> {
        let follow =
            "UPDATE OR REPLACE routers SET member = ?2, certificate = ?3 WHERE member = ?1";
        let (old, key) = (old.member(), new.member());
        self.connection()
            .execute(
                follow,
                params![&old.as_bytes()[..], &key.as_bytes()[..], new.as_bytes()],
            )
            .map_err(self.fail())?;
        Ok(())
    }

    /// Routers known from before, the last seen first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn routers(&self, ring: &RingId) -> Result<Vec<Certificate>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare("SELECT certificate FROM routers ORDER BY seen DESC")
            .map_err(self.fail())?;
        let rows = statement
            .query_map([], |row| row.get::<_, Vec<u8>>(0))
            .map_err(self.fail())?;
        let mut routers = Vec::new();
        for bytes in rows {
            routers.extend(Certificate::decode(&bytes.map_err(self.fail())?, ring).ok());
        }
        Ok(routers)
    }

    /// Stores a transfer, new or changed.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn put_transfer(&self, record: &Record) -> Result<()> {
        let connection = self.connection();
        let hash = record.hash.map(|hash| hash.as_bytes().to_vec());
        // Of a path that is no UTF-8 the text is only what it looks like.
        let path_bytes = match record.path.to_str() {
            Some(_) => None,
            None => Some(record.path.as_os_str().as_bytes()),
        };
        bundles::put(&connection, record).map_err(self.fail())?;
        connection
            .execute(
                "INSERT INTO transfers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
                 ON CONFLICT DO UPDATE SET peer = ?3, peer_serial = ?15, path = ?5, size = ?7, priority = ?8, phase = ?9, reason = ?10, blake3 = ?11,
                 active_us = ?13, moved = ?14, offered = ?16, path_bytes = ?17, ended = ?19, arrival = ?20",
                params![
                    &record.id.0[..],
                    record.direction.as_str(),
                    &record.peer.as_bytes()[..],
                    record.peer_name,
                    record.path.to_string_lossy(),
                    record.file,
                    record.size,
                    record.priority.get(),
                    record.phase.as_str(),
                    record.reason,
                    hash,
                    record.created,
                    u64::try_from(record.active.as_micros()).unwrap_or(u64::MAX),
                    record.moved,
                    record.peer_serial,
                    record.offered,
                    path_bytes,
                    record.handed,
                    record.ended,
                    arrival_text(record),
                ],
            )
            .map_err(self.fail())?;
        connection
            .execute(
                "DELETE FROM transfers WHERE phase IN ('done', 'failed', 'cancelled') AND rowid NOT IN
                 (SELECT rowid FROM transfers ORDER BY created DESC, rowid DESC LIMIT ?1)",
                params![TRANSFER_HISTORY],
            )
            .map_err(self.fail())?;
        Ok(())
    }

    /// Keeps a record of this member, and gives the number that it goes by: higher than that of any
    /// earlier record of this name.
    ///
    /// # Errors
    /// When there are too many, or the database fails.
    pub(crate) fn keep_record(&self, name: &[u8], value: &[u8], expires: u64) -> Result<u64> {
        let now = unix_seconds();
        let connection = self.connection();
        connection
            .execute("DELETE FROM records WHERE expires < ?1", params![now])
            .map_err(self.fail())?;
        let others: usize = connection
            .query_row(
                "SELECT count(*) FROM records WHERE name <> ?1",
                params![name],
                |row| row.get(0),
            )
            .map_err(self.fail())?;
        if others >= ringway_overlay::limits::MAX_RECORDS_OF_MEMBER {
            return Err(StateError::TooManyRecords(others));
        }
        // Whatever was forgotten here, the clock goes on; and if it goes back, what is remembered
        // does.
        let insert = "INSERT INTO records VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE SET
            value = excluded.value, number = max(excluded.number, number + 1), expires = excluded.expires
            RETURNING number";
        let millis = now.saturating_mul(1000);
        connection
            .query_row(insert, params![name, value, millis, expires], |row| {
                row.get(0)
            })
            .map_err(self.fail())
    }

    /// This member's records that have not expired.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn records(&self) -> Result<Vec<OwnRecord>> {
        let connection = self.connection();
        let query = "SELECT name, value, number, expires FROM records WHERE expires > ?1";
        let mut statement = connection.prepare(query).map_err(self.fail())?;
        let rows = statement
            .query_map(params![unix_seconds()], |row| {
                Ok(OwnRecord {
                    name: row.get(0)?,
                    value: row.get(1)?,
                    number: row.get(2)?,
                    expires: row.get(3)?,
                })
            })
            .map_err(self.fail())?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
            .map_err(self.fail())
    }

    /// All transfers, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn transfers(&self) -> Result<Vec<Record>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare(
                "SELECT id, direction, peer, peer_name, path, file, size, priority, phase, reason, blake3, created, active_us, moved, peer_serial,
                 offered, path_bytes, handed, ended, arrival FROM transfers ORDER BY created, rowid",
            )
            .map_err(self.fail())?;
        let rows = statement
            .query_map([], transfer_record)
            .map_err(self.fail())?;
        let mut records = rows
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(self.fail())?;
        bundles::complete(&connection, &mut records).map_err(self.fail())?;
        Ok(records)
    }
}

/// What was decided about a transfer, as it is stored: JSON, of which nothing is searched for.
fn arrival_text(record: &Record) -> Option<String> {
    let arrival = record.arrival.as_ref()?;
    serde_json::to_string(arrival).ok()
}

fn transfer_record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let direction: String = row.get(1)?;
    let phase: String = row.get(8)?;
    let path: String = row.get(4)?;
    // Rows of earlier versions have the path as text only.
    let path = match row.get::<_, Option<Vec<u8>>>(16)? {
        Some(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        None => PathBuf::from(path),
    };
    let hash: Option<[u8; 32]> = row.get(10)?;
    let invalid = |column, name: &str| {
        rusqlite::Error::InvalidColumnType(column, name.to_owned(), rusqlite::types::Type::Text)
    };
    let arrival = row.get::<_, Option<String>>(19)?;
    let arrival = arrival.map(|text| serde_json::from_str(&text));
    Ok(Record {
        id: TransferId(row.get(0)?),
        direction: Direction::parse(&direction).ok_or_else(|| invalid(1, "direction"))?,
        peer: MemberId::new(row.get(2)?),
        peer_name: row.get(3)?,
        path,
        file: row.get(5)?,
        size: row.get(6)?,
        priority: ringway_dtl::Priority::new(row.get(7)?).map_err(|_| invalid(7, "priority"))?,
        phase: Phase::parse(&phase).ok_or_else(|| invalid(8, "phase"))?,
        reason: row.get(9)?,
        hash: hash.map(blake3::Hash::from_bytes),
        created: row.get(11)?,
        active: Duration::from_micros(row.get(12)?),
        moved: row.get(13)?,
        peer_serial: row.get(14)?,
        offered: row.get(15)?,
        handed: row.get(17)?,
        ended: row.get(18)?,
        arrival: arrival.transpose().map_err(|_| invalid(19, "arrival"))?,
        bundle: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::CertificateFields;
    use crate::identity::Identity;

    #[test]
    fn only_foreign_changes_show() {
        let folder = tempfile::tempdir().unwrap();
        let [here, there] = [(); 2].map(|()| State::open(folder.path()).unwrap());
        let change = |state: &State, table: &str| {
            let create = format!("CREATE TABLE {table} (only INTEGER)");
            state.connection().execute(&create, []).unwrap();
        };
        let before = here.changes_of_others().unwrap();
        change(&here, "one");
        assert_eq!(here.changes_of_others().unwrap(), before);
        change(&there, "two");
        assert_ne!(here.changes_of_others().unwrap(), before);
    }

    #[test]
    fn another_certificate_leaves_what_was_counted() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let owner = Identity::generate().unwrap();
        let certificate = |member, serial| {
            let fields = CertificateFields {
                member: MemberId::new(member),
                name: "oslo".parse().unwrap(),
                address: None,
                nonce: [0; 16],
                not_before: 0,
                not_after: 10,
                serial,
            };
            Certificate::issue(&owner, &fields)
        };
        let statement = |number| Statement::issue(&owner, number, 3, [].into());
        let membership = Membership {
            ring: ringway_transport::Signer::member(&owner),
            domain: "ring.test".to_owned(),
            certificate: certificate([1; 32], 1),
            statement: statement(1),
        };
        state.set_membership(&membership).unwrap();
        let (sequence, incarnation) = (
            state.next_hello_sequence().unwrap(),
            state.next_incarnation().unwrap(),
        );
        let next = certificate([2; 32], 2);
        state.set_certificate(&next, &statement(2)).unwrap();
        let stored = state.membership().unwrap().unwrap();
        assert_eq!((stored.certificate, stored.statement), (next, statement(2)));
        assert_eq!(stored.domain, membership.domain);
        assert!(state.next_hello_sequence().unwrap() > sequence);
        assert!(
            sequence >= unix_seconds() - 1,
            "a restored folder counts on"
        );
        assert!(state.next_incarnation().unwrap() > incarnation);
        state.raise_incarnation(u32::MAX - 9).unwrap();
        state.raise_incarnation(7).unwrap();
        assert_eq!(state.next_incarnation().unwrap(), u32::MAX - 8);

        // A renewal of the key that is gone comes too late.
        let membership = || state.membership().unwrap().unwrap();
        state.renew_certificate(&certificate([1; 32], 3)).unwrap();
        assert_eq!(membership().certificate.serial(), 2);
        state.renew_certificate(&certificate([2; 32], 4)).unwrap();
        assert_eq!(membership().certificate.serial(), 4);
        assert_eq!(membership().statement, statement(2));
    }

    #[test]
    fn record_numbers_grow_and_expired_ones_leave() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let later = unix_seconds() + 1000;
        let first = state.keep_record(b"name", b"one", later).unwrap();
        let second = state.keep_record(b"name", b"two", later).unwrap();
        assert!(second > first);
        let kept = state.records().unwrap();
        let expected = OwnRecord {
            name: b"name".to_vec(),
            value: b"two".to_vec(),
            number: second,
            expires: later,
        };
        assert_eq!(kept, [expected]);
        let most = ringway_overlay::limits::MAX_RECORDS_OF_MEMBER;
        for n in 1..most {
            state
                .keep_record(n.to_string().as_bytes(), b"", later)
                .unwrap();
        }
        let full = state.keep_record(b"one more", b"", later).unwrap_err();
        assert!(full.to_string().contains("--remove"), "{full}");
        // One that is there may change, and one that runs out makes room.
        state.keep_record(b"name", b"three", 1).unwrap();
        assert_eq!(state.records().unwrap().len(), most - 1);
        state.keep_record(b"one more", b"", later).unwrap();
    }
}
