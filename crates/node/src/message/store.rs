//! `messages.db`: conversations and their messages, written by one transaction for each round.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringway_transport::MemberId;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::incoming::Reached;
use super::outgoing::Settled;
use super::record::{Epoch, Holder, Message, MessageId, Standing, Stored};
use crate::certificate::RingId;
use crate::database::{self, DatabaseError, Schema};
use crate::limits::MESSAGE_HISTORY;
use crate::state::StateError;
use crate::versions::STATE_SINCE;

const MIGRATIONS: &[&str] = &["
    CREATE TABLE peers (
        peer INTEGER PRIMARY KEY, ring BLOB NOT NULL, member BLOB NOT NULL, serial INTEGER NOT NULL,
        name TEXT NOT NULL, epoch BLOB, settled INTEGER NOT NULL DEFAULT 0, chain BLOB,
        read INTEGER NOT NULL DEFAULT 0, receipt BLOB
    ) STRICT;
    CREATE TABLE runs (
        peer INTEGER NOT NULL, epoch BLOB NOT NULL, upto INTEGER NOT NULL, chain BLOB NOT NULL,
        read INTEGER NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (peer, epoch)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE messages (
        position INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, outgoing INTEGER NOT NULL,
        id BLOB NOT NULL, number INTEGER NOT NULL, epoch BLOB, created INTEGER NOT NULL,
        signed INTEGER, read INTEGER, standing TEXT NOT NULL, reason TEXT, priority REAL NOT NULL,
        attached BLOB NOT NULL, body BLOB NOT NULL, UNIQUE (id, peer, outgoing)
    ) STRICT;
    CREATE INDEX by_number ON messages (peer, outgoing, number);
    CREATE INDEX unread ON messages (peer, position) WHERE standing = 'received';
", "
    ALTER TABLE runs ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
"];

const SCHEMA: Schema = Schema {
    what: "messages",
    migrations: MIGRATIONS,
    since: STATE_SINCE,
};

const COLUMNS: &str = "position, outgoing, name, number, id, created, attached, body, standing, \
     signed, messages.read, reason, priority";

type Result<T> = std::result::Result<T, StateError>;

/// Numbers of messages, from the first to the last.
pub(super) type Numbers = RangeInclusive<u64>;

/// Names a conversation within the database.
pub(super) type PeerKey = u64;

/// A conversation as it was left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) key: PeerKey,
    pub(super) holder: Holder,
    pub(super) settled: Option<Settled>,
    /// Those that wait, in order, with their priorities.
    pub(super) pending: Vec<(Arc<Message>, f64)>,
    /// The one used last stands last.
    pub(super) reached: Vec<Reached>,
    /// Received and not read: how many, and their bytes.
    pub(super) unread: (usize, usize),
    /// How many are kept of the two directions that wait for nothing.
    pub(super) history: [usize; 2],
}

/// Which messages are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) peer: Option<PeerKey>,
    /// Only those behind this position.
    pub(super) after: u64,
    /// Only received ones that were not read.
    pub(super) unread: bool,
    pub(super) most: usize,
}

/// Messages that a change has concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Concerned {
    pub(super) messages: usize,
    /// Bytes.
    pub(super) bytes: usize,
}

/// The database of conversations.
#[derive(Debug)]
pub(super) struct MessageStore {
    path: PathBuf,
    connection: Connection,
    ring: RingId,
}

impl MessageStore {
    pub(super) fn open(path: &Path, ring: RingId) -> Result<MessageStore> {
        let connection = database::open(path, &SCHEMA)?;
        Ok(MessageStore {
            path: path.to_owned(),
            connection,
            ring,
        })
    }

    fn fail(path: &Path) -> impl Fn(rusqlite::Error) -> StateError + '_ {
        |source| DatabaseError::new(path, source).into()
    }

    /// All conversations of the ring as they were left.
    pub(super) fn left(&self) -> Result<Vec<Left>> {
        self.read_left().map_err(MessageStore::fail(&self.path))
    }

    fn read_left(&self) -> rusqlite::Result<Vec<Left>> {
        let query = "SELECT peer, member, serial, name, epoch, settled, chain, read FROM peers
             WHERE ring = ?1 ORDER BY peer";
        let mut statement = self.connection.prepare(query)?;
        let peers = statement.query_map([&self.ring.as_bytes()[..]], |row| {
            let holder = Holder {
                member: MemberId::new(row.get(1)?),
                serial: row.get(2)?,
                name: row.get(3)?,
            };
            let epoch: Option<Epoch> = row.get(4)?;
            let settled = match epoch {
                Some(epoch) => Some(Settled {
                    epoch,
                    upto: row.get(5)?,
                    chain: row.get(6)?,
                    read: row.get(7)?,
                }),
                None => None,
            };
            Ok((row.get::<_, PeerKey>(0)?, holder, settled))
        })?;
        // Each conversation as the run before has left it.
        let mut left = Vec::new();
        for peer in peers {
            let (key, holder, settled) = peer?;
            left.push(Left {
                pending: self.pending_of(key)?,
                reached: self.reached_of(key)?,
                unread: self.unread_of(key)?,
                history: [self.history_of(key, false)?, self.history_of(key, true)?],
                key,
                holder,
                settled,
            });
        }
        Ok(left)
    }

    fn pending_of(&self, peer: PeerKey) -> rusqlite::Result<Vec<(Arc<Message>, f64)>> {
        let query = "SELECT id, created, attached, body, priority FROM messages
             WHERE peer = ?1 AND outgoing = 1 AND standing = 'pending' ORDER BY number";
        let mut statement = self.connection.prepare_cached(query)?;
        let rows = statement.query_map([peer], |row| {
            let message = Message {
                id: MessageId(row.get(0)?),
                created: row.get(1)?,
                attached: attached(row.get(2)?),
                body: row.get(3)?,
            };
            Ok((Arc::new(message), row.get(4)?))
        })?;
        rows.collect()
    }

    fn reached_of(&self, peer: PeerKey) -> rusqlite::Result<Vec<Reached>> {
        let query =
            "SELECT epoch, upto, chain, read, noted FROM runs WHERE peer = ?1 ORDER BY used";
        let mut statement = self.connection.prepare_cached(query)?;
        let rows = statement.query_map([peer], |row| {
            Ok(Reached {
                epoch: row.get(0)?,
                upto: row.get(1)?,
                chain: row.get(2)?,
                read: row.get(3)?,
                noted: row.get(4)?,
            })
        })?;
        rows.collect()
    }

    fn unread_of(&self, peer: PeerKey) -> rusqlite::Result<(usize, usize)> {
        let query = "SELECT count(*), coalesce(sum(length(body) + 64), 0) FROM messages
             WHERE peer = ?1 AND standing = 'received'";
        let mut statement = self.connection.prepare_cached(query)?;
        statement.query_row([peer], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn history_of(&self, peer: PeerKey, outgoing: bool) -> rusqlite::Result<usize> {
        let query = "SELECT count(*) FROM messages WHERE peer = ?1 AND outgoing = ?2
             AND standing NOT IN ('pending', 'received')";
        let mut statement = self.connection.prepare_cached(query)?;
        statement.query_row(params![peer, outgoing], |row| row.get(0))
    }

    /// Begins a round's writing: nothing of it counts before [`Writing::commit`].
    pub(super) fn write(&mut self) -> Result<Writing<'_>> {
        let path = self.path.as_path();
        let changed = self.connection.total_changes();
        let begun = self.connection.unchecked_transaction();
        Ok(Writing {
            transaction: begun.map_err(MessageStore::fail(path))?,
            changed,
            ring: self.ring,
            path,
        })
    }

    /// Messages in the order in which they came to be here. Without `after`, the newest of them.
    pub(super) fn list(&self, wanted: &Wanted) -> Result<Vec<Stored>> {
        let newest = wanted.after == 0 && !wanted.unread;
        let order = if newest { "DESC" } else { "ASC" };
        let unread = if wanted.unread {
            "AND standing = 'received'"
        } else {
            ""
        };
        let query = format!(
            "SELECT {COLUMNS} FROM messages JOIN peers USING (peer)
             WHERE ring = ?1 AND position > ?2 AND (?3 IS NULL OR peer = ?3) {unread}
             ORDER BY position {order} LIMIT ?4"
        );
        let read = || -> rusqlite::Result<Vec<Stored>> {
            let mut statement = self.connection.prepare_cached(&query)?;
            let ring = &self.ring.as_bytes()[..];
            let arguments = params![ring, wanted.after, wanted.peer, wanted.most];
            let mut rows: Vec<Stored> = statement
                .query_map(arguments, stored)?
                .collect::<rusqlite::Result<_>>()?;
            if newest {
                rows.reverse();
            }
            Ok(rows)
        };
        read().map_err(MessageStore::fail(&self.path))
    }

    /// Messages whose id begins with these hexadecimal digits; two at most.
    pub(super) fn find(&self, digits: &str) -> Result<Vec<Stored>> {
        let query = format!(
            "SELECT {COLUMNS} FROM messages JOIN peers USING (peer)
             WHERE ring = ?1 AND lower(hex(id)) GLOB ?2 || '*' LIMIT 2"
        );
        let read = || -> rusqlite::Result<Vec<Stored>> {
            let mut statement = self.connection.prepare_cached(&query)?;
            let ring = &self.ring.as_bytes()[..];
            statement
                .query_map(params![ring, digits], stored)?
                .collect()
        };
        read().map_err(MessageStore::fail(&self.path))
    }

    /// The conversation with the member of this name or id, the newest one first.
    pub(super) fn peer(&self, name_or_id: &str) -> Result<Option<PeerKey>> {
        let member = name_or_id.parse::<MemberId>().ok();
        let member = member.as_ref().map(|member| &member.as_bytes()[..]);
        let query = "SELECT peer FROM peers WHERE ring = ?1 AND (name = ?2 OR member = ?3)
             ORDER BY serial DESC LIMIT 1";
        let arguments = params![&self.ring.as_bytes()[..], name_or_id, member];
        let found = self
            .connection
            .query_row(query, arguments, |row| row.get(0));
        found.optional().map_err(MessageStore::fail(&self.path))
    }
}

fn attached(bytes: Vec<u8>) -> Vec<[u8; 16]> {
    bytes.as_chunks::<16>().0.to_vec()
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let standing: String = row.get(8)?;
    Ok(Stored {
        position: row.get(0)?,
        outgoing: row.get(1)?,
        peer: row.get(2)?,
        number: row.get(3)?,
        message: Message {
            id: MessageId(row.get(4)?),
            created: row.get(5)?,
            attached: attached(row.get(6)?),
            body: row.get(7)?,
        },
        standing: Standing::parse(&standing).unwrap_or(Standing::Failed),
        signed: row.get(9)?,
        read: row.get(10)?,
        reason: row.get(11)?,
        priority: row.get(12)?,
    })
}

/// A round's writing.
pub(super) struct Writing<'a> {
    transaction: Transaction<'a>,
    /// Rows that were changed before.
    changed: u64,
    ring: RingId,
    path: &'a Path,
}

impl Writing<'_> {
    fn fail(&self) -> impl Fn(rusqlite::Error) -> StateError + '_ {
        MessageStore::fail(self.path)
    }

    fn execute(&self, query: &str, arguments: impl rusqlite::Params) -> Result<usize> {
        let prepared = self.transaction.prepare_cached(query);
        let executed = prepared.and_then(|mut statement| statement.execute(arguments));
        executed.map_err(self.fail())
    }

    pub(super) fn add_peer(&self, holder: &Holder) -> Result<PeerKey> {
        self.execute(
            "INSERT INTO peers (ring, member, serial, name) VALUES (?1, ?2, ?3, ?4)",
            params![
                &self.ring.as_bytes()[..],
                &holder.member.as_bytes()[..],
                holder.serial,
                holder.name
            ],
        )?;
        let key = self.transaction.last_insert_rowid();
        Ok(u64::try_from(key).unwrap_or(0))
    }

    pub(super) fn move_peer(&self, peer: PeerKey, holder: &Holder) -> Result<()> {
        let change = "UPDATE peers SET member = ?2, serial = ?3, name = ?4 WHERE peer = ?1";
        let member = &holder.member.as_bytes()[..];
        self.execute(change, params![peer, member, holder.serial, holder.name])?;
        Ok(())
    }

    /// Stores how far the sending half is, and the receipt that says so.
    pub(super) fn settle(
        &self,
        peer: PeerKey,
        settled: &Settled,
        receipt: Option<&[u8]>,
    ) -> Result<()> {
        self.execute(
            "UPDATE peers SET epoch = ?2, settled = ?3, chain = ?4, read = ?5,
                 receipt = coalesce(?6, receipt) WHERE peer = ?1",
            params![
                peer,
                settled.epoch,
                settled.upto,
                settled.chain,
                settled.read,
                receipt
            ],
        )?;
        Ok(())
    }

    /// Stores how far a run of the receiving half is. Of all runs only the newest stay.
    pub(super) fn reach(&self, peer: PeerKey, reached: &Reached) -> Result<()> {
        self.execute(
            "INSERT INTO runs (peer, epoch, upto, chain, read, noted, used)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6,
                 (SELECT coalesce(max(used), 0) + 1 FROM runs WHERE peer = ?1))
             ON CONFLICT DO UPDATE
                 SET upto = ?3, chain = ?4, read = ?5, noted = ?6, used = excluded.used",
            params![
                peer,
                reached.epoch,
                reached.upto,
                reached.chain,
                reached.read,
                reached.noted
            ],
        )?;
        Ok(())
    }

    /// Stores what the sender of a run knows of what was read.
    pub(super) fn note(&self, peer: PeerKey, reached: &Reached) -> Result<()> {
        let change = "UPDATE runs SET noted = ?3 WHERE peer = ?1 AND epoch = ?2";
        self.execute(change, params![peer, reached.epoch, reached.noted])?;
        Ok(())
    }

    /// Forgets all runs but those that were used last.
    pub(super) fn forget_runs(&self, peer: PeerKey, keep: usize) -> Result<()> {
        self.execute(
            "DELETE FROM runs WHERE peer = ?1 AND epoch NOT IN
                 (SELECT epoch FROM runs WHERE peer = ?1 ORDER BY used DESC LIMIT ?2)",
            params![peer, keep],
        )?;
        Ok(())
    }

    /// Stores a message that goes out.
    pub(super) fn put_outgoing(
        &self,
        peer: PeerKey,
        number: u64,
        message: &Message,
        priority: f64,
    ) -> Result<u64> {
        self.put(peer, number, message, None, priority)?;
        let position = self.transaction.last_insert_rowid();
        Ok(u64::try_from(position).unwrap_or(0))
    }

    /// Stores a message that has come; false if it is here already.
    pub(super) fn put_incoming(
        &self,
        peer: PeerKey,
        epoch: &Epoch,
        number: u64,
        message: &Message,
    ) -> Result<bool> {
        self.put(peer, number, message, Some(epoch), 0.0)
    }

    fn put(
        &self,
        peer: PeerKey,
        number: u64,
        message: &Message,
        epoch: Option<&Epoch>,
        priority: f64,
    ) -> Result<bool> {
        let standing = match epoch {
            Some(_) => Standing::Received,
            None => Standing::Pending,
        };
        let attached = message.attached.as_flattened();
        let changed = self.execute(
            "INSERT INTO messages
                 (peer, outgoing, id, number, epoch, created, standing, priority, attached, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
            params![
                peer,
                epoch.is_none(),
                message.id.0,
                number,
                epoch,
                message.created,
                standing.as_str(),
                priority,
                attached,
                message.body
            ],
        )?;
        Ok(changed == 1)
    }

    /// Those that wait, from the first to the last number, are signed for now.
    pub(super) fn sign(&self, peer: PeerKey, numbers: &Numbers, now: u64) -> Result<usize> {
        self.execute(
            "UPDATE messages SET standing = 'signed', signed = ?4, reason = NULL
             WHERE peer = ?1 AND outgoing = 1 AND number BETWEEN ?2 AND ?3 AND standing = 'pending'",
            params![peer, numbers.start(), numbers.end(), now],
        )
    }

    /// Those that were signed for, from the first to the last number, are read now.
    pub(super) fn read_there(&self, peer: PeerKey, numbers: &Numbers, now: u64) -> Result<usize> {
        self.execute(
            "UPDATE messages SET standing = 'read', read = ?4
             WHERE peer = ?1 AND outgoing = 1 AND number BETWEEN ?2 AND ?3 AND standing = 'signed'",
            params![peer, numbers.start(), numbers.end(), now],
        )
    }

    /// Those that wait, from the first to the last number, will never be taken.
    pub(super) fn fail_messages(
        &self,
        peer: PeerKey,
        numbers: &Numbers,
        reason: &str,
    ) -> Result<usize> {
        self.execute(
            "UPDATE messages SET standing = 'failed', reason = ?4
             WHERE peer = ?1 AND outgoing = 1 AND number BETWEEN ?2 AND ?3 AND standing = 'pending'",
            params![peer, numbers.start(), numbers.end(), reason],
        )
    }

    pub(super) fn set_priority(&self, peer: PeerKey, id: &MessageId, priority: f64) -> Result<()> {
        let change = "UPDATE messages SET priority = ?3
             WHERE id = ?2 AND peer = ?1 AND outgoing = 1 AND standing = 'pending'";
        self.execute(change, params![peer, id.0, priority])?;
        Ok(())
    }

    /// Received messages up to a position are read; gives how many, and the highest number of each
    /// run.
    pub(super) fn read_here(
        &self,
        peer: PeerKey,
        upto: u64,
        now: u64,
    ) -> Result<(Concerned, Vec<(Epoch, u64)>)> {
        let query = "SELECT epoch, max(number), count(*), sum(length(body) + 64) FROM messages
             WHERE peer = ?1 AND standing = 'received' AND position <= ?2 GROUP BY epoch";
        let read = || -> rusqlite::Result<(Concerned, Vec<(Epoch, u64)>)> {
            let mut statement = self.transaction.prepare_cached(query)?;
            let mut rows = statement.query(params![peer, upto])?;
            let (mut concerned, mut runs) = (Concerned::default(), Vec::new());
            while let Some(row) = rows.next()? {
                concerned.messages += row.get::<_, usize>(2)?;
                concerned.bytes += row.get::<_, usize>(3)?;
                runs.push((row.get(0)?, row.get(1)?));
            }
            Ok((concerned, runs))
        };
        let found = read().map_err(self.fail())?;
        self.execute(
            "UPDATE messages SET standing = 'read', read = ?3
             WHERE peer = ?1 AND standing = 'received' AND position <= ?2",
            params![peer, upto, now],
        )?;
        Ok(found)
    }

    /// Where a received message stands.
    pub(super) fn position(&self, peer: PeerKey, id: &MessageId) -> Result<Option<u64>> {
        let query = "SELECT position FROM messages WHERE id = ?2 AND peer = ?1 AND outgoing = 0";
        let found = self
            .transaction
            .query_row(query, params![peer, id.0], |row| row.get(0));
        found.optional().map_err(self.fail())
    }

    /// Forgets the oldest that wait for nothing; gives how many are left.
    pub(super) fn trim(&self, peer: PeerKey, outgoing: bool, kept: usize) -> Result<usize> {
        let most = MESSAGE_HISTORY;
        if kept <= most + most / 4 {
            return Ok(kept);
        }
        let forgotten = self.execute(
            "DELETE FROM messages WHERE position IN (
                 SELECT position FROM messages WHERE peer = ?1 AND outgoing = ?2
                 AND standing NOT IN ('pending', 'received') ORDER BY position LIMIT ?3)",
            params![peer, outgoing, kept - most],
        )?;
        Ok(kept.saturating_sub(forgotten))
    }

    /// All of the round counts, and is on the disk; true if there was something to write.
    pub(super) fn commit(self) -> Result<bool> {
        let path = self.path;
        let wrote = self.transaction.total_changes() > self.changed;
        self.transaction
            .commit()
            .map_err(MessageStore::fail(path))?;
        Ok(wrote)
    }
}
