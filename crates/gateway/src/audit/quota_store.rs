//! What was used of quotas: SQLite.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Row, params};

use super::database;
use super::store::AuditError;
use crate::accounting::Ends;
use crate::limits::{MAX_ACCOUNTS, MAX_QUOTA_COUNTERS};
use crate::policy::Per;
use crate::quota::{Above, Kept, SavedCounter, SavedFlow, Subject};

/// The form of the tables below.
const VERSION: i64 = 1;
const TABLES: &str = "BEGIN;
CREATE TABLE counter (
    rule TEXT NOT NULL, per TEXT NOT NULL, subject TEXT NOT NULL,
    since INTEGER NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (rule, per, subject)
) WITHOUT ROWID;
CREATE TABLE flow (
    kernel INTEGER NOT NULL, protocol INTEGER NOT NULL,
    client TEXT NOT NULL, server TEXT NOT NULL,
    rule TEXT NOT NULL, per TEXT NOT NULL, subject TEXT NOT NULL,
    charged INTEGER NOT NULL, above INTEGER NOT NULL,
    PRIMARY KEY (kernel, protocol, client, server)
) WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;";

/// What hosts and members have used of quotas, and which flows were charged how much.
#[derive(Debug)]
pub struct QuotaStore {
    file: PathBuf,
    connection: Connection,
}

impl QuotaStore {
    /// Opens or makes the file, readable by its owner alone.
    ///
    /// # Errors
    /// It cannot be opened, or another version wrote it.
    pub fn open(file: &Path) -> Result<Self, AuditError> {
        let connection = database::open(file, VERSION, TABLES)?;
        // The last seconds may be lost with the machine's power.
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|error| AuditError::Database(file.to_owned(), error))?;
        Ok(Self {
            file: file.to_owned(),
            connection,
        })
    }

    fn wrong(&self, error: rusqlite::Error) -> AuditError {
        AuditError::Database(self.file.clone(), error)
    }

    /// What is written down. Rows that no gateway has written are left out.
    ///
    /// # Errors
    /// The database fails.
    pub fn load(&self) -> Result<(Vec<SavedCounter>, Vec<SavedFlow>), AuditError> {
        let counters = self.rows(
            "SELECT rule, per, subject, since, used FROM counter LIMIT ?",
            MAX_QUOTA_COUNTERS,
            counter,
        );
        let flows = self.rows(
            "SELECT kernel, protocol, client, server, rule, per, subject, charged, above
             FROM flow LIMIT ?",
            MAX_ACCOUNTS,
            flow,
        );
        Ok((
            counters.map_err(|error| self.wrong(error))?,
            flows.map_err(|error| self.wrong(error))?,
        ))
    }

    fn rows<T>(
        &self,
        query: &str,
        most: usize,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut query = self.connection.prepare(query)?;
        let mut rows = query.query([signed(most)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.extend(read(row)?);
        }
        Ok(found)
    }

    /// Writes down what has changed, all or none of it.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn save(
        &mut self,
        counters: &[SavedCounter],
        flows: &[SavedFlow],
    ) -> Result<(), AuditError> {
        let saved = save(&mut self.connection, counters, flows);
        saved.map_err(|error| AuditError::Database(self.file.clone(), error))
    }
}

fn save(
    connection: &mut Connection,
    counters: &[SavedCounter],
    flows: &[SavedFlow],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut put =
            transaction.prepare_cached("INSERT OR REPLACE INTO counter VALUES (?, ?, ?, ?, ?)")?;
        let mut delete = transaction
            .prepare_cached("DELETE FROM counter WHERE rule = ? AND per = ? AND subject = ?")?;
        for one in counters {
            let (per, subject) = (one.subject.per().name(), one.subject.to_string());
            if one.used == 0 {
                delete.execute(params![one.rule, per, subject])?;
            } else {
                let since = signed(one.since.as_secs());
                put.execute(params![one.rule, per, subject, since, signed(one.used)])?;
            }
        }
        let mut put = transaction
            .prepare_cached("INSERT OR REPLACE INTO flow VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
        let mut delete = transaction.prepare_cached(
            "DELETE FROM flow WHERE kernel = ? AND protocol = ? AND client = ? AND server = ?",
        )?;
        for SavedFlow { kernel, ends, kept } in flows {
            let (client, server) = (ends.client.to_string(), ends.server.to_string());
            match kept {
                None => delete.execute(params![kernel, ends.protocol, client, server])?,
                Some(kept) => put.execute(params![
                    kernel,
                    ends.protocol,
                    client,
                    server,
                    kept.rule,
                    kept.subject.per().name(),
                    kept.subject.to_string(),
                    signed(kept.charged),
                    number(kept.above),
                ])?,
            };
        }
    }
    transaction.commit()
}

/// SQLite has no larger ones.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn number(above: Above) -> u8 {
    match above {
        Above::No => 0,
        Above::Shaped => 1,
        Above::Blocked => 2,
    }
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    Ok(u64::try_from(value).unwrap_or(0))
}

fn counter(row: &Row<'_>) -> rusqlite::Result<Option<SavedCounter>> {
    let Some(subject) = subject(row, 1)? else {
        return Ok(None);
    };
    Ok(Some(SavedCounter {
        rule: row.get(0)?,
        subject,
        since: Duration::from_secs(unsigned(row, 3)?),
        used: unsigned(row, 4)?,
    }))
}

fn flow(row: &Row<'_>) -> rusqlite::Result<Option<SavedFlow>> {
    let end = |column: usize| -> rusqlite::Result<Option<SocketAddr>> {
        Ok(row.get::<_, String>(column)?.parse().ok())
    };
    let (Some(client), Some(server), Some(subject)) = (end(2)?, end(3)?, subject(row, 5)?) else {
        return Ok(None);
    };
    Ok(Some(SavedFlow {
        kernel: row.get(0)?,
        ends: Ends {
            protocol: row.get(1)?,
            client,
            server,
        },
        kept: Some(Kept {
            rule: row.get(4)?,
            subject,
            charged: unsigned(row, 7)?,
            above: match row.get::<_, i64>(8)? {
                1 => Above::Shaped,
                2 => Above::Blocked,
                _ => Above::No,
            },
        }),
    }))
}

/// The kind in one column, and what it is in the next.
fn subject(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Subject>> {
    let (per, text): (String, String) = (row.get(column)?, row.get(column.saturating_add(1))?);
    if per == Per::Member.name() {
        return Ok(Some(Subject::Member(text)));
    }
    Ok(text.parse().ok().map(Subject::Host))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::QuotaStore;
    use crate::accounting::Ends;
    use crate::quota::{Above, Kept, SavedCounter, SavedFlow, Subject};

    fn counter(subject: Subject, used: u64) -> SavedCounter {
        SavedCounter {
            rule: "downloads".to_owned(),
            subject,
            since: Duration::from_secs(1_795_000_000),
            used,
        }
    }

    #[test]
    fn quotas_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quotas.db");
        let host = Subject::Host("2001:db8::7".parse().unwrap());
        let member = Subject::Member("oslo".to_owned());
        let counters = [counter(host.clone(), 5 << 40), counter(member.clone(), 7)];
        let flow = SavedFlow {
            kernel: u32::MAX,
            ends: Ends {
                protocol: 17,
                client: SocketAddr::from(([10, 0, 0, 2], 50_000)),
                server: "[2001:db8::1]:443".parse().unwrap(),
            },
            kept: Some(Kept {
                rule: "downloads".to_owned(),
                subject: member.clone(),
                charged: 99,
                above: Above::Blocked,
            }),
        };
        let mut store = QuotaStore::open(&path).unwrap();
        store.save(&counters, std::slice::from_ref(&flow)).unwrap();
        drop(store);
        let mut store = QuotaStore::open(&path).unwrap();
        let (mut found, flows) = store.load().unwrap();
        found.sort_by_key(|one| std::cmp::Reverse(one.used));
        assert_eq!(
            (found.as_slice(), flows.as_slice()),
            (counters.as_slice(), [flow.clone()].as_slice())
        );
        let over = SavedFlow { kept: None, ..flow };
        store.save(&[counter(host, 0)], &[over]).unwrap();
        assert_eq!(
            store.load().unwrap(),
            (vec![counter(member, 7)], Vec::new())
        );
    }
}
