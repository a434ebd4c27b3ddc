//! The audit's database.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};

use super::database::{self, shrink_to};
use crate::limits::MAX_AUDIT_ROWS;
use crate::verdict::Event;

/// Version of the tables, in SQLite's `user_version`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        time INTEGER NOT NULL,
        flow INTEGER NOT NULL,
        client TEXT NOT NULL,
        server TEXT NOT NULL,
        app TEXT NOT NULL,
        rule TEXT NOT NULL,
        action TEXT NOT NULL,
        body TEXT NOT NULL
    );
    CREATE INDEX event_time ON event (time);
    CREATE INDEX event_client ON event (client, time);
    CREATE INDEX event_server ON event (server, time);
    CREATE INDEX event_app ON event (app, time);
    CREATE INDEX event_rule ON event (rule, time);
    PRAGMA user_version = 1;
";

/// Why the audit cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The database fails: its disk is full, or it is damaged.
    #[error("the database {0}: {1}")]
    Database(PathBuf, rusqlite::Error),
    /// Its file cannot be made.
    #[error("the database {0}: {1}")]
    File(PathBuf, std::io::Error),
    /// It was written by a later release.
    #[error("the database {} is of {} (version {found}), this is ringway {} (version {known}): install {}; nothing was changed", file.display(), database::by(release.as_deref()), database::RELEASE, database::needed(release.as_deref()))]
    Newer {
        /// Its file.
        file: PathBuf,
        /// The version of its tables.
        found: i64,
        /// The version that this program reads.
        known: i64,
        /// The first release that has that version.
        release: Option<String>,
    },
    /// An event cannot be written as text.
    #[error("an event cannot be written: {0}")]
    Event(serde_json::Error),
}

/// What to look for; what is absent asks nothing.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Events of this application.
    pub app: Option<String>,
    /// Events of this rule.
    pub rule: Option<String>,
    /// Events in which this address takes part.
    pub address: Option<String>,
    /// Events of the flow of this number.
    pub flow: Option<u64>,
    /// Events not before this time since the Unix epoch.
    pub since: Option<Duration>,
    /// At most so many, the latest.
    pub most: usize,
}

/// The audit of one gateway.
#[derive(Debug)]
pub struct AuditStore {
    file: PathBuf,
    connection: Connection,
}

impl AuditStore {
    /// Opens the audit to write it; makes it where there is none, readable by its owner alone.
    ///
    /// # Errors
    /// The file cannot be opened, or a later version wrote it.
    pub fn open(file: &Path) -> Result<Self, AuditError> {
        Ok(Self {
            file: file.to_owned(),
            connection: database::open(file, VERSION, TABLES)?,
        })
    }

    /// Opens an audit to search it, also while a gateway writes it.
    ///
    /// # Errors
    /// There is none, or a later version wrote it.
    pub fn read(file: &Path) -> Result<Self, AuditError> {
        Ok(Self {
            file: file.to_owned(),
            connection: database::read(file, VERSION)?,
        })
    }

    fn wrong(&self, error: rusqlite::Error) -> AuditError {
        AuditError::Database(self.file.clone(), error)
    }

    /// Writes events down, all or none of them.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn append(&mut self, events: &[Event]) -> Result<(), AuditError> {
        let file = self.file.clone();
        let wrong = |error| AuditError::Database(file.clone(), error);
        let transaction = self.connection.transaction().map_err(wrong)?;
        {
            let mut insert = transaction
                .prepare_cached(
                    "INSERT INTO event (time, flow, client, server, app, rule, action, body)
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .map_err(wrong)?;
            // The columns repeat what a search filters by. The body is what it returns.
            for event in events {
                let body = serde_json::to_string(event).map_err(AuditError::Event)?;
                insert
                    .execute(params![
                        micros(event.at),
                        i64::try_from(event.flow_id).unwrap_or(i64::MAX),
                        event.src_ip.to_string(),
                        event.dest_ip.to_string(),
                        event.app,
                        event.alert.signature,
                        event.alert.action,
                        body,
                    ])
                    .map_err(wrong)?;
            }
        }
        transaction.commit().map_err(wrong)
    }

    /// Forgets events before a time since the Unix epoch, and the oldest where there are more than
    /// [`MAX_AUDIT_ROWS`]. Returns how many those were: they were forgotten before their time.
    ///
    /// # Errors
    /// The disk fails.
    pub fn forget_before(&mut self, time: Duration) -> Result<u64, AuditError> {
        let most = i64::try_from(MAX_AUDIT_ROWS).unwrap_or(i64::MAX);
        self.connection
            .execute("DELETE FROM event WHERE time < ?", [micros(time)])
            .map_err(|error| self.wrong(error))?;
        let many = self
            .connection
            .execute(
                "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?",
                [most],
            )
            .map_err(|error| self.wrong(error))?;
        Ok(u64::try_from(many).unwrap_or(u64::MAX))
    }

    /// Forgets the oldest events until those that are left take less than so many bytes, with a
    /// tenth to spare. Returns how many were forgotten. The file keeps its size: what is free in it
    /// is used again.
    ///
    /// # Errors
    /// The disk fails.
    pub fn shrink_to(&mut self, bytes: u64) -> Result<u64, AuditError> {
        let shrunk = shrink_to(&self.connection, bytes, |connection| {
            connection.execute(
                "DELETE FROM event WHERE id IN (SELECT id FROM event ORDER BY id LIMIT
                 max(1, (SELECT count(*) FROM event) / 20))",
                [],
            )
        });
        shrunk.map_err(|error| self.wrong(error))
    }

    /// The latest events that match, oldest first, each as its EVE object.
    ///
    /// # Errors
    /// The database fails.
    pub fn search(&self, search: &Search) -> Result<Vec<String>, AuditError> {
        let wrong = |error| self.wrong(error);
        let mut query = self
            .connection
            .prepare(
                "SELECT body FROM event
                 WHERE (?1 IS NULL OR app = ?1) AND (?2 IS NULL OR rule = ?2)
                   AND (?3 IS NULL OR client = ?3 OR server = ?3) AND time >= ?4
                   AND (?6 IS NULL OR flow = ?6)
                 ORDER BY id DESC LIMIT ?5",
            )
            .map_err(wrong)?;
        let rows = query
            .query_map(
                params![
                    search.app,
                    search.rule,
                    search.address,
                    search.since.map_or(0, micros),
                    i64::try_from(search.most).unwrap_or(i64::MAX),
                    search
                        .flow
                        .map(|flow| i64::try_from(flow).unwrap_or(i64::MAX)),
                ],
                |row| row.get::<_, String>(0),
            )
            .map_err(wrong)?;
        let mut found: Vec<String> = rows.collect::<Result<_, _>>().map_err(wrong)?;
        // The limit has to keep the latest ones, so the query sorts them backwards.
        found.reverse();
        Ok(found)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
