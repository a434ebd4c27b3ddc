//! DNS servers of the owner's own that are kept current: `ringway ring serve` and `ringway ring
//! revoke` update them without being asked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rusqlite::params;

use super::publish::{self, Turn};
use super::store::{Tables, parsed};
use super::{
    Authority, AuthorityError, DnsServer, Publication, PublishError, SharedAuthority, TsigKey,
};
use crate::limits::{KEPT_RETRY, KEPT_REVIEW, KEPT_SERVERS};

/// How often it is looked whether the ring has changed.
const LOOK: Duration = Duration::from_millis(500);

/// Pause after the first failure in a row.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// A DNS server that is kept current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptServer {
    /// The server.
    pub server: DnsServer,
    /// The file with the key that it takes.
    pub key_file: PathBuf,
    /// Number of the statement that it has got; none if it has not been updated yet.
    pub generation: Option<u64>,
}

/// The DNS servers that are kept current.
#[derive(Clone, Copy, Debug)]
pub struct KeptServers<'a>(Tables<'a>);

impl KeptServers<'_> {
    /// From now on `server` is kept current, with the key in `key_file`.
    ///
    /// # Errors
    /// When there are too many such servers, or the database fails.
    pub fn keep(&self, server: &DnsServer, key_file: &Path) -> Result<(), AuthorityError> {
        let query = "INSERT INTO servers SELECT ?1, ?2, NULL
            WHERE (SELECT count(*) FROM servers WHERE server <> ?1) < ?3
            ON CONFLICT DO UPDATE SET key_file = ?2";
        let key_file = key_file.as_os_str().as_bytes();
        let arguments = params![server.to_string(), key_file, KEPT_SERVERS];
        let kept = self.0.connection.execute(query, arguments);
        if kept.map_err(self.0.fail())? > 0 {
            Ok(())
        } else {
            Err(AuthorityError::TooManyServers)
        }
    }

    /// `server` is not kept current any more; false if it was not. Its records stay as they are.
    ///
    /// # Errors
    /// When the database fails.
    pub fn forget(&self, server: &DnsServer) -> Result<bool, AuthorityError> {
        let query = "DELETE FROM servers WHERE server = ?1";
        let arguments = params![server.to_string()];
        let forgotten = self.0.connection.execute(query, arguments);
        Ok(forgotten.map_err(self.0.fail())? > 0)
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn all(&self) -> Result<Vec<KeptServer>, AuthorityError> {
        let fail = self.0.fail();
        let query = "SELECT server, key_file, generation FROM servers ORDER BY server";
        let mut statement = self.0.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map([], |row| {
                let key_file: Vec<u8> = row.get(1)?;
                Ok(KeptServer {
                    server: parsed(row, 0)?,
                    key_file: PathBuf::from(OsString::from_vec(key_file)),
                    generation: row.get(2)?,
                })
            })
            .map_err(&fail)?;
        Ok(rows.collect::<Result<_, _>>().map_err(fail)?)
    }

    /// `server` has got this statement. An older number does not replace a newer one.
    fn note_published(&self, server: &DnsServer, statement: u64) -> Result<(), AuthorityError> {
        let query =
            "UPDATE servers SET generation = max(ifnull(generation, 0), ?2) WHERE server = ?1";
        let arguments = params![server.to_string(), statement];
        let set = self.0.connection.execute(query, arguments);
        set.map_err(self.0.fail())?;
        Ok(())
    }
}

impl Authority {
    /// The DNS servers that are kept current.
    #[must_use]
    pub fn kept(&self) -> KeptServers<'_> {
        KeptServers(self.store.tables())
    }

    /// Updates one of them, with the key in its file.
    ///
    /// # Errors
    /// As [`Authority::publish_to`], and when the key cannot be read.
    pub async fn update_kept(&self, kept: &KeptServer) -> Result<Publication, PublishError> {
        let key = TsigKey::read(&kept.key_file)?;
        let publication = self.publish_to(&kept.server, &key).await?;
        self.kept()
            .note_published(&kept.server, publication.statement)?;
        Ok(publication)
    }
}

/// What is known of one server.
#[derive(Debug)]
struct Standing {
    /// Number of the statement that it got last.
    statement: Option<u64>,
    /// When it is looked at although nothing has changed, or tried again.
    next: Instant,
    /// Failures in a row.
    failures: u32,
}

/// Keeps them all current, for ever. Each is compared once at the start: somebody may have changed
/// its zone.
pub(super) async fn keep_current(authority: SharedAuthority) {
    let mut standings: BTreeMap<DnsServer, Standing> = BTreeMap::new();
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tick.tick().await;
        let read = authority
            .with(|authority| {
                // A standby leaves them to the authority until it is promoted.
                let servers = match authority.store.standby().check_none() {
                    Ok(()) => authority.kept().all()?,
                    Err(AuthorityError::Standby { .. }) => Vec::new(),
                    Err(error) => return Err(error),
                };
                Ok((servers, authority.generation()?))
            })
            .await;
        let (servers, generation) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "the list of DNS servers could not be read");
                continue;
            }
        };
        standings.retain(|server, _| servers.iter().any(|kept| kept.server == *server));
        let now = Instant::now();
        let due = servers.iter().filter(|kept| {
            let standing = standings.get(&kept.server);
            standing.is_none_or(|standing| standing.is_due(generation, now))
        });
        let updated = join_all(due.map(|kept| update(&authority, kept))).await;
        for (server, result) in updated {
            let failures = standings.get(&server).map_or(0, |known| known.failures);
            let standing = Standing::after(&server, result, failures);
            standings.insert(server, standing);
        }
    }
}

impl Standing {
    fn is_due(&self, generation: u64, now: Instant) -> bool {
        let changed = self.failures == 0 && self.statement != Some(generation);
        changed || now >= self.next
    }

    fn after(
        server: &DnsServer,
        result: Result<Publication, PublishError>,
        failures: u32,
    ) -> Standing {
        match result {
            Ok(done) => {
                let (written, removed) = (done.written, done.removed);
                if written + removed > 0 {
                    tracing::info!(%server, written, removed, "the DNS server is current");
                }
                Standing {
                    statement: Some(done.statement),
                    next: Instant::now() + KEPT_REVIEW,
                    failures: 0,
                }
            }
            Err(error) => {
                let pause = retry_after(failures);
                tracing::warn!(%server, %error, ?pause, "the DNS server is not current");
                Standing {
                    statement: None,
                    next: Instant::now() + pause,
                    failures: failures.saturating_add(1),
                }
            }
        }
    }
}

fn retry_after(failures: u32) -> Duration {
    let doubled = 2u32.saturating_pow(failures.min(16));
    FIRST_RETRY.saturating_mul(doubled).min(KEPT_RETRY)
}

async fn update(
    authority: &SharedAuthority,
    kept: &KeptServer,
) -> (DnsServer, Result<Publication, PublishError>) {
    let server = kept.server.clone();
    let work = async {
        let key = TsigKey::read(&kept.key_file)?;
        let folder = authority
            .with(|authority| Ok(authority.folder().to_owned()))
            .await?;
        let turn = Turn::wait(&folder, &kept.server).await?;
        let snapshot = authority.with(|authority| authority.snapshot()).await?;
        let publication = match publish::push(&turn, &snapshot, &kept.server, &key).await {
            Ok(publication) => publication,
            Err(error) => {
                let noted = move |authority: &mut Authority| {
                    authority.note_refused(&error)?;
                    Ok(error)
                };
                return Err(authority.with(noted).await?);
            }
        };
        let (server, statement) = (kept.server.clone(), publication.statement);
        authority
            .with(move |authority| authority.kept().note_published(&server, statement))
            .await?;
        Ok(publication)
    };
    (server, work.await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        assert_eq!(retry_after(0), FIRST_RETRY);
        assert_eq!(retry_after(1), 2 * FIRST_RETRY);
        assert_eq!(retry_after(100), KEPT_RETRY);
    }
}
