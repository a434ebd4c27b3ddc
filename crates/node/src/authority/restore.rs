//! A backup becomes a folder again: a standby's, which signs nothing before it is promoted.
//!
//! A folder that waits already is fed: a newer backup takes the place of what it has, in one
//! transaction, while its servers run.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup as PageCopy;
use zeroize::Zeroizing;

use super::backup::{Backup, BackupContents, BackupError};
use super::store::Store;
use super::{Authority, AuthorityError, Standing};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::home::{self, HomeError};
use crate::limits::CLOCK_SKEW;

/// Pages that are copied between two looks at whether others wait.
const PAGES: i32 = 1_024;

/// Bytes 18 and 19 of a database: 1 where it keeps no log in a file beside it (SQLite's file
/// format, §1.3.3). A copy in memory can have none.
const LOG_BYTES: std::ops::Range<usize> = 18..20;

/// How a backup is restored.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// True if the folder may hold an earlier backup of the same ring.
    pub standby: bool,
    /// Where this machine's DNS server is; none: as the standby has it, or as the backup says.
    pub dns: Option<Endpoint>,
    /// Where members enrol at this machine; none: as above.
    pub enrol: Option<Endpoint>,
}

/// What was restored.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Restored {
    /// What the backup has.
    #[serde(flatten)]
    pub contents: BackupContents,
    /// True if it took the place of an earlier backup.
    pub fed: bool,
}

impl Authority {
    /// Restores `backup` into `dir`, as a standby.
    ///
    /// # Errors
    /// When the folder has something else, an address is none that members can reach, the backup
    /// is damaged, older than what is there, or from the future.
    pub fn restore(
        dir: &Path,
        backup: &Backup,
        options: &RestoreOptions,
    ) -> Result<Restored, BackupError> {
        for (what, address) in [("--dns", &options.dns), ("--enrol", &options.enrol)] {
            if let Some(address) = address
                && !address.is_dialable()
            {
                let address = address.clone();
                return Err(AuthorityError::Unreachable { what, address }.into());
            }
        }
        let ahead = backup.made().saturating_sub(unix_seconds());
        if ahead > CLOCK_SKEW.as_secs() {
            return Err(BackupError::FromTheFuture(ahead));
        }
        // All is read and checked before anything is written.
        let contents = backup.contents()?;
        let mut restored = backup.in_memory()?;
        let fed = !is_empty(dir)?;
        if fed {
            let own = check_feedable(dir, backup, options.standby)?;
            let dns = options.dns.clone().or(own.dns);
            let enrol = options.enrol.clone().or(own.enrol);
            restored
                .store
                .stand_by(backup.made(), &Own { dns, enrol })?;
            restored.store.copy_into(&dir.join("authority.db"))?;
        } else {
            let (dns, enrol) = (options.dns.clone(), options.enrol.clone());
            restored
                .store
                .stand_by(backup.made(), &Own { dns, enrol })?;
            home::create_own_folder(dir)?;
            let database = restored.store.snapshot_bytes()?;
            home::write_private(&dir.join("authority.db"), &database)?;
            // The key comes last: a ring exists from the moment it has one.
            let secret = Zeroizing::new(backup.root().signing_key().to_bytes());
            home::write_private(&dir.join("root.key"), secret.as_ref())?;
        }
        Ok(Restored { contents, fed })
    }
}

/// True if there is nothing in the folder, or no folder.
fn is_empty(dir: &Path) -> Result<bool, HomeError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(HomeError::new("reading the folder", dir, error)),
    }
}

/// Where a standby is to be reached once it is promoted; none: where the authority is.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) dns: Option<Endpoint>,
    pub(super) enrol: Option<Endpoint>,
}

/// Whether `backup` may take the place of what is in the folder.
fn check_feedable(dir: &Path, backup: &Backup, standby: bool) -> Result<Own, BackupError> {
    if !dir.join("root.key").exists() {
        return Err(BackupError::NotEmpty(dir.to_owned()));
    }
    let there = Authority::open(dir)?;
    let ring = there.ring();
    match there.standing()? {
        // A fenced folder knows who is the authority now, and that is whom the backup is of.
        Standing::Standby { .. } | Standing::Fenced { .. } if !standby => {
            return Err(BackupError::NotEmpty(dir.to_owned()));
        }
        Standing::Standby { backup: has } if has > backup.made() => {
            return Err(BackupError::Older);
        }
        Standing::Standby { .. } => {}
        Standing::Fenced { now, .. } => {
            let statement = backup.contents()?.statement;
            if super::term::term_of(statement) < now {
                return Err(BackupError::Older);
            }
        }
        Standing::Authority | Standing::Old => return Err(BackupError::Signs(dir.to_owned())),
    }
    if there.ring_id() != ringway_transport::Signer::member(backup.root()) {
        let (folder, domain) = (dir.to_owned(), ring.domain);
        return Err(BackupError::OtherRing { folder, domain });
    }
    // A fenced one goes on where it was.
    Ok(there.store.standby().own_place()?.unwrap_or(Own {
        dns: Some(ring.dns),
        enrol: Some(ring.enrol),
    }))
}

impl Store {
    /// The whole database at one moment, in the form in which it can be read from memory.
    pub(super) fn snapshot_bytes(&mut self) -> Result<Zeroizing<Vec<u8>>, DatabaseError> {
        let fail = self.fail();
        // SQLite reads all pages within one statement, so what others write meanwhile is not in it.
        let pages = self.connection.serialize("main").map_err(&fail)?;
        let mut bytes = Zeroizing::new(pages.to_vec());
        if let Some(log) = bytes.get_mut(LOG_BYTES) {
            log.fill(1);
        }
        Ok(bytes)
    }

    /// Copies this database over the one at `path`: who has that open sees all of it or nothing.
    fn copy_into(&self, path: &Path) -> Result<(), DatabaseError> {
        let failed = |source| DatabaseError::new(path, source);
        let mut there = Connection::open(path).map_err(failed)?;
        there
            .busy_timeout(Duration::from_secs(10))
            .map_err(failed)?;
        let copy = PageCopy::new(&self.connection, &mut there).map_err(failed)?;
        copy.run_to_completion(PAGES, Duration::from_millis(10), None)
            .map_err(failed)
    }
}
