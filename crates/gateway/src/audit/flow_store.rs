//! The history of flows: what crossed the border, kept in SQLite.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::database::{self, shrink_to};
use super::store::AuditError;
use crate::accounting::{Asked, Ends, FlowAccount};
use crate::infohash::InfoHash;
use crate::torrent::TorrentName;

/// Version of the table, in SQLite's `user_version`.
const VERSION: i64 = 1;

/// Columns are what is searched by; `body` has all of it. A flow that is reported while it lives
/// has one row, which each report replaces; so has one that outlives its gateway, if the kernel
/// says when it began.
const TABLE: &str = "
    CREATE TABLE flow (
        began INTEGER NOT NULL,
        ends TEXT NOT NULL,
        seen INTEGER NOT NULL,
        app TEXT NOT NULL,
        rule TEXT,
        host TEXT NOT NULL,
        client TEXT NOT NULL,
        server TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (began, ends)
    ) WITHOUT ROWID;
    CREATE INDEX flow_seen ON flow (seen);
    PRAGMA user_version = 1;
";

/// The torrents that flows named, and what torrents are called. Made where an earlier version has
/// left none. A row goes with its flow; one that is replaced keeps its own. A name stays for as
/// long as flows of its torrent do, and those of its time.
const TORRENTS: &str = "
    CREATE TABLE IF NOT EXISTS torrent (
        infohash TEXT NOT NULL,
        began INTEGER NOT NULL,
        ends TEXT NOT NULL,
        PRIMARY KEY (infohash, began, ends)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS torrent_flow ON torrent (began, ends);
    CREATE TRIGGER IF NOT EXISTS flow_gone AFTER DELETE ON flow BEGIN
        DELETE FROM torrent WHERE began = old.began AND ends = old.ends;
    END;
    CREATE TABLE IF NOT EXISTS torrent_name (
        infohash TEXT PRIMARY KEY,
        seen INTEGER NOT NULL,
        name TEXT NOT NULL
    ) WITHOUT ROWID;
";

/// Which flows; what is absent asks nothing.
#[derive(Clone, Debug, Default)]
pub struct FlowSearch {
    /// Flows of this application.
    pub app: Option<String>,
    /// Flows that this rule decided.
    pub rule: Option<String>,
    /// Flows in which this address takes part.
    pub address: Option<IpAddr>,
    /// Flows that ended, or lived, not before this time since the Unix epoch.
    pub since: Option<Duration>,
    /// At most so many, the latest.
    pub most: Option<usize>,
}

/// The history of one gateway's flows.
#[derive(Debug)]
pub struct FlowStore {
    file: PathBuf,
    connection: Connection,
}

impl FlowStore {
    /// Opens the history to write it; makes it where there is none, readable by its owner alone.
    ///
    /// # Errors
    /// The file cannot be opened, or a later version wrote it.
    pub fn open(file: &Path) -> Result<Self, AuditError> {
        let connection = database::open(file, VERSION, TABLE)?;
        connection
            .execute_batch(TORRENTS)
            .map_err(|error| AuditError::Database(file.to_owned(), error))?;
        // A history may lose its last second with the machine's power.
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|error| AuditError::Database(file.to_owned(), error))?;
        Ok(Self {
            file: file.to_owned(),
            connection,
        })
    }

    /// Opens a history to search it, also while a gateway writes it.
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

    /// Writes flows down as they stand now, all or none of them. `now` is the time of those that
    /// live.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn append(&mut self, now: Duration, flows: &[FlowAccount]) -> Result<(), AuditError> {
        let file = self.file.clone();
        let wrong = |error| AuditError::Database(file.clone(), error);
        let transaction = self.connection.transaction().map_err(wrong)?;
        {
            let mut insert = transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO flow
                     (began, ends, seen, app, rule, host, client, server, body)
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .map_err(wrong)?;
            let mut earlier = transaction
                .prepare_cached("SELECT body FROM flow WHERE began = ? AND ends = ?")
                .map_err(wrong)?;
            let mut torrent = transaction
                .prepare_cached(
                    "INSERT OR IGNORE INTO torrent (infohash, began, ends) VALUES (?, ?, ?)",
                )
                .map_err(wrong)?;
            let mut name = transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO torrent_name (infohash, seen, name) VALUES (?, ?, ?)",
                )
                .map_err(wrong)?;
            for flow in flows {
                let key = (micros(flow.began), ends(flow.ends));
                let mut flow = flow.clone();
                if flow.asked == Asked::Before {
                    let known = earlier
                        .query_row(params![key.0, key.1], self::flow)
                        .optional();
                    if let Some(known) = known.map_err(wrong)? {
                        flow = known.outlived(flow);
                    }
                }
                let body = serde_json::to_string(&flow).map_err(AuditError::Event)?;
                insert
                    .execute(params![
                        key.0,
                        key.1,
                        micros(flow.ended.unwrap_or(now)),
                        flow.app,
                        flow.rule,
                        flow.host.to_string(),
                        address(flow.ends.client),
                        address(flow.ends.server),
                        body,
                    ])
                    .map_err(wrong)?;
                for hash in &flow.torrents {
                    torrent
                        .execute(params![hash.to_string(), key.0, key.1])
                        .map_err(wrong)?;
                }
                for named in &flow.torrent_names {
                    let hash = named.infohash.to_string();
                    name.execute(params![hash, micros(now), named.name])
                        .map_err(wrong)?;
                }
            }
        }
        transaction.commit().map_err(wrong)
    }

    /// Forgets flows that ended before a time since the Unix epoch.
    ///
    /// # Errors
    /// The disk fails.
    pub fn forget_before(&mut self, time: Duration) -> Result<(), AuditError> {
        let deleted = self
            .connection
            .execute("DELETE FROM flow WHERE seen < ?", [micros(time)]);
        let deleted = deleted.and_then(|_| forget_names(&self.connection));
        deleted.map_err(|error| self.wrong(error))
    }

    /// Forgets the oldest flows until those that are left take less than so many bytes, with a
    /// tenth to spare. Returns how many were forgotten.
    ///
    /// # Errors
    /// The disk fails.
    pub fn shrink_to(&mut self, bytes: u64) -> Result<u64, AuditError> {
        let shrunk = shrink_to(&self.connection, bytes, |connection| {
            connection.execute(
                "DELETE FROM flow WHERE seen <= (SELECT seen FROM flow ORDER BY seen LIMIT 1
                 OFFSET max(0, (SELECT count(*) FROM flow) / 20 - 1))",
                [],
            )
        });
        let shrunk = shrunk.and_then(|count| forget_names(&self.connection).map(|()| count));
        shrunk.map_err(|error| self.wrong(error))
    }

    /// Hands over the latest flows that match, the oldest first. Stops where `take` fails.
    ///
    /// # Errors
    /// The database fails, or `take` does.
    pub fn search<E: From<AuditError>>(
        &self,
        search: &FlowSearch,
        mut take: impl FnMut(FlowAccount) -> Result<(), E>,
    ) -> Result<(), E> {
        let wrong = |error| self.wrong(error);
        // The limit has to keep the latest ones, and they are wanted the oldest first.
        let mut query = self
            .connection
            .prepare(
                "SELECT body FROM (SELECT seen, began, body FROM flow
                 WHERE (?1 IS NULL OR app = ?1) AND (?2 IS NULL OR rule = ?2)
                   AND (?3 IS NULL OR client = ?3 OR server = ?3) AND seen >= ?4
                 ORDER BY seen DESC, began DESC LIMIT ?5) ORDER BY seen, began",
            )
            .map_err(wrong)?;
        let most = search.most.and_then(|most| i64::try_from(most).ok());
        let mut rows = query
            .query(params![
                search.app,
                search.rule,
                search.address.map(|address| address.to_string()),
                search.since.map_or(0, micros),
                most.unwrap_or(-1),
            ])
            .map_err(wrong)?;
        while let Some(row) = rows.next().map_err(wrong)? {
            take(flow(row).map_err(wrong)?)?;
        }
        Ok(())
    }
}

impl FlowStore {
    /// Hands over the flows about a torrent, or about any, in the order of torrents and then of
    /// time: those that lived at some moment of a span of time since the Unix epoch. Stops where
    /// `take` fails.
    ///
    /// # Errors
    /// The database fails, or `take` does.
    pub fn torrents<E: From<AuditError>>(
        &self,
        infohash: Option<InfoHash>,
        span: RangeInclusive<Duration>,
        mut take: impl FnMut(InfoHash, FlowAccount) -> Result<(), E>,
    ) -> Result<(), E> {
        let wrong = |error| self.wrong(error);
        if !self.has_table("torrent").map_err(wrong)? {
            return Ok(());
        }
        let mut query = self
            .connection
            .prepare(
                "SELECT flow.body, torrent.infohash FROM torrent
                 JOIN flow ON flow.began = torrent.began AND flow.ends = torrent.ends
                 WHERE (?1 IS NULL OR torrent.infohash = ?1)
                   AND flow.began <= ?3 AND flow.seen >= ?2
                 ORDER BY torrent.infohash, flow.began",
            )
            .map_err(wrong)?;
        let hash = infohash.map(|hash| hash.to_string());
        let mut rows = query
            .query(params![hash, micros(*span.start()), micros(*span.end())])
            .map_err(wrong)?;
        while let Some(row) = rows.next().map_err(wrong)? {
            let hash: String = row.get(1).map_err(wrong)?;
            // Another program may have written there.
            if let Ok(hash) = InfoHash::parse(&hash) {
                take(hash, flow(row).map_err(wrong)?)?;
            }
        }
        Ok(())
    }

    /// What a torrent is called, if its name was seen.
    ///
    /// # Errors
    /// The database fails.
    pub fn torrent_name(&self, infohash: InfoHash) -> Result<Option<String>, AuditError> {
        let wrong = |error| self.wrong(error);
        if !self.has_table("torrent_name").map_err(wrong)? {
            return Ok(None);
        }
        let sql = "SELECT name FROM torrent_name WHERE infohash = ?";
        let mut query = self.connection.prepare_cached(sql).map_err(wrong)?;
        let name = query.query_row([infohash.to_string()], |row| row.get(0));
        name.optional().map_err(wrong)
    }

    /// What torrents are called of which names were seen, the latest first, at most so many.
    ///
    /// # Errors
    /// The database fails.
    pub fn torrent_names(&self, most: usize) -> Result<Vec<TorrentName>, AuditError> {
        let wrong = |error| self.wrong(error);
        if !self.has_table("torrent_name").map_err(wrong)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT infohash, name FROM torrent_name ORDER BY seen DESC LIMIT ?";
        let mut query = self.connection.prepare(sql).map_err(wrong)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = query.query([most]).map_err(wrong)?;
        let mut names = Vec::new();
        while let Some(row) = rows.next().map_err(wrong)? {
            let hash: String = row.get(0).map_err(wrong)?;
            // Another program may have written there.
            if let Ok(infohash) = InfoHash::parse(&hash) {
                let name = row.get(1).map_err(wrong)?;
                names.push(TorrentName { infohash, name });
            }
        }
        Ok(names)
    }

    /// An earlier version wrote no torrents, or no names of such.
    fn has_table(&self, table: &str) -> rusqlite::Result<bool> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?";
        self.connection.query_row(sql, [table], |row| row.get(0))
    }
}

/// Forgets names of torrents of which no flow is left, unless they are as young as the flows are.
fn forget_names(connection: &Connection) -> rusqlite::Result<()> {
    let forgotten = connection.execute(
        "DELETE FROM torrent_name WHERE infohash NOT IN (SELECT infohash FROM torrent)
         AND seen < (SELECT coalesce(min(seen), 9223372036854775807) FROM flow)",
        [],
    );
    forgotten.map(drop)
}

fn flow(row: &Row<'_>) -> rusqlite::Result<FlowAccount> {
    let body = row.get_ref(0)?;
    let text = body.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

/// The ends of a flow, in whichever direction the gateway took it.
fn ends(ends: Ends) -> String {
    let (low, high) = if ends.client <= ends.server {
        (ends.client, ends.server)
    } else {
        (ends.server, ends.client)
    };
    format!("{} {low} {high}", ends.protocol)
}

fn address(end: SocketAddr) -> String {
    end.ip().to_string()
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::{FlowSearch, FlowStore};
    use crate::accounting::{Asked, EndReason, Ends, FlowAccount, Named};
    use crate::audit::AuditError;
    use crate::classify::{Confidence, Details};
    use crate::flow::Count;
    use crate::infohash::InfoHash;
    use crate::policy::Action;
    use crate::torrent::TorrentName;

    fn flow(number: u64, app: &str, ended: Option<u64>) -> FlowAccount {
        let client = SocketAddr::from(([10, 0, 0, 2], 50_000));
        let count = Count {
            packets: number,
            bytes: number.saturating_mul(1_000),
        };
        FlowAccount {
            flow_id: number,
            ends: Ends {
                protocol: 6,
                client,
                server: SocketAddr::from(([192, 0, 2, 7], 443)),
            },
            asked: Asked::Yes,
            app: app.to_owned(),
            confidence: Some(Confidence::Certain),
            named: Named::Itself,
            answered: true,
            details: Details {
                sni: Some("files.example".to_owned()),
                ..Details::default()
            },
            torrents: Vec::new(),
            torrent_names: Vec::new(),
            action: Some(Action::Allow),
            rule: Some("web".to_owned()),
            class: None,
            over_quota: false,
            host: client.ip(),
            outside: None,
            to_server: count,
            to_client: count,
            before: [Count::default(); 2],
            exact: true,
            began: Duration::from_secs(number),
            ended: ended.map(Duration::from_secs),
            reason: ended.map(|_| EndReason::Closed),
            kernel: None,
        }
    }

    fn found(store: &FlowStore, search: &FlowSearch) -> Vec<FlowAccount> {
        let mut found = Vec::new();
        let searched = store.search(search, |flow| {
            found.push(flow);
            Ok::<_, AuditError>(())
        });
        searched.unwrap();
        found
    }

    #[test]
    fn flows_are_found_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.db");
        let mut store = FlowStore::open(&path).unwrap();
        let now = Duration::from_secs(60);
        let long = flow(3, "bittorrent", None);
        let flows = [flow(1, "tls", Some(9)), flow(2, "dns", Some(8)), long];
        store.append(now, &flows).unwrap();
        // A flow that lived is one row, as it stands at its end.
        let over = flow(3, "bittorrent", Some(90));
        store.append(now, std::slice::from_ref(&over)).unwrap();
        let store = FlowStore::read(&path).unwrap();
        let all = found(&store, &FlowSearch::default());
        assert_eq!(all, [flows[1].clone(), flows[0].clone(), over.clone()]);
        let since = FlowSearch {
            since: Some(Duration::from_secs(9)),
            app: Some("bittorrent".to_owned()),
            ..FlowSearch::default()
        };
        assert_eq!(found(&store, &since), [over]);
        let latest = FlowSearch {
            most: Some(1),
            ..FlowSearch::default()
        };
        assert_eq!(found(&store, &latest)[0].flow_id, 3);
    }

    /// The next run knows its bytes, and not what it is.
    #[test]
    fn a_flow_that_outlives_its_gateway_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FlowStore::open(&folder.path().join("flows.db")).unwrap();
        let first = FlowAccount {
            reason: Some(EndReason::Shutdown),
            ..flow(7, "bittorrent", Some(50))
        };
        store.append(Duration::ZERO, &[first]).unwrap();
        let more = Count {
            packets: 900,
            bytes: 1_000_000,
        };
        let outlived = FlowAccount {
            flow_id: 99,
            asked: Asked::Before,
            app: String::new(),
            action: None,
            rule: None,
            named: Named::No,
            ends: flow(7, "", None).ends.reversed(),
            to_server: more,
            ..flow(7, "", Some(80))
        };
        store.append(Duration::ZERO, &[outlived]).unwrap();
        let [one] = found(&store, &FlowSearch::default()).try_into().unwrap();
        assert_eq!((one.app.as_str(), one.flow_id), ("bittorrent", 7));
        // Counted from the other end.
        assert_eq!(one.to_client, more);
        assert_eq!(
            (one.ended, one.reason),
            (Some(Duration::from_secs(80)), Some(EndReason::Closed))
        );
    }

    #[test]
    fn torrents_go_with_their_flows() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FlowStore::open(&folder.path().join("flows.db")).unwrap();
        let [one, other] = [1, 2].map(|byte| InfoHash::new([byte; 20]));
        let about = |number, ended, torrents: &[InfoHash]| FlowAccount {
            torrents: torrents.to_vec(),
            ..flow(number, "bittorrent", ended)
        };
        let flows = [
            about(10, Some(20), &[one]),
            about(30, Some(40), &[one, other]),
        ];
        store.append(Duration::ZERO, &flows).unwrap();
        store.append(Duration::ZERO, &flows).unwrap();
        let at = |store: &FlowStore, hash, from, to| {
            let mut found = Vec::new();
            let span = Duration::from_secs(from)..=Duration::from_secs(to);
            let searched = store.torrents(hash, span, |hash, flow| {
                found.push((hash, flow.flow_id));
                Ok::<_, AuditError>(())
            });
            searched.unwrap();
            found
        };
        assert_eq!(at(&store, None, 0, 99), [(one, 10), (one, 30), (other, 30)]);
        assert_eq!(at(&store, Some(one), 15, 15), [(one, 10)]);
        assert!(at(&store, Some(one), 25, 25).is_empty());
        assert_eq!(at(&store, Some(other), 35, 99), [(other, 30)]);
        store.forget_before(Duration::from_secs(30)).unwrap();
        assert_eq!(at(&store, None, 0, 99), [(one, 30), (other, 30)]);
    }

    #[test]
    fn names_stay_with_flows_of_their_torrents() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FlowStore::open(&folder.path().join("flows.db")).unwrap();
        let [one, other] = [1, 2].map(|byte| InfoHash::new([byte; 20]));
        let named = |infohash, name: &str| TorrentName {
            infohash,
            name: name.to_owned(),
        };
        // A peer's flow, and one that has brought a file and is about no torrent.
        let flows = [
            FlowAccount {
                torrents: vec![one],
                torrent_names: vec![named(one, "A film")],
                ..flow(10, "bittorrent", Some(60))
            },
            FlowAccount {
                torrent_names: vec![named(other, "A book")],
                ..flow(20, "http", Some(30))
            },
        ];
        let now = Duration::from_secs(30);
        store.append(now, &flows).unwrap();
        store.append(now, &flows).unwrap();
        assert_eq!(store.torrent_names(9).unwrap().len(), 2);
        assert_eq!(store.torrent_name(other).unwrap().unwrap(), "A book");
        store.forget_before(Duration::from_secs(40)).unwrap();
        assert_eq!(store.torrent_names(9).unwrap(), [named(one, "A film")]);
        store.forget_before(Duration::from_secs(99)).unwrap();
        assert!(store.torrent_names(9).unwrap().is_empty());
    }

    #[test]
    fn the_oldest_flows_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FlowStore::open(&folder.path().join("flows.db")).unwrap();
        let flows: Vec<FlowAccount> = (0..5_000).map(|n| flow(n, "tls", Some(n))).collect();
        store.append(Duration::ZERO, &flows).unwrap();
        assert_eq!(store.shrink_to(u64::MAX).unwrap(), 0);
        let forgotten = store.shrink_to(1_000_000).unwrap();
        assert!(forgotten > 0);
        let left = found(&store, &FlowSearch::default());
        assert!(!left.is_empty());
        assert_eq!(left.last().unwrap().flow_id, 4_999);
        assert_eq!(u64::try_from(left.len()).unwrap(), 5_000 - forgotten);
        store.forget_before(Duration::from_secs(4_999)).unwrap();
        assert_eq!(found(&store, &FlowSearch::default()).len(), 1);
    }
}
