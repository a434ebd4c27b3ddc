//! A backup of the authority: the ring's key and all that the folder knows, in one encrypted file.
//!
//! The file is one of `age` (<https://age-encryption.org/v1>), so that it can be opened without
//! Ringway. Inside is one CBOR map: the key, and the database as SQLite writes it. That is a
//! snapshot of one moment, whatever the servers do meanwhile. Keys of DNS servers are in files of
//! their own elsewhere, and are not in it.

mod sealed;

use std::fmt;
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use ringway_transport::Signer as _;
use rusqlite::Connection;
use zeroize::Zeroizing;

pub use self::sealed::{BackupKey, Lock, Opener, Sealed};
use super::store::Store;
use super::{Authority, AuthorityError};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::home::HomeError;
use crate::identity::Identity;

/// What the file is called in errors.
const NAME: &str = "the backup";

/// Version of what is inside.
const VERSION: u8 = 1;

/// Why a backup could not be made, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The text is no key to encrypt to.
    #[error(
        "`{0}` is no key that a backup can be encrypted to: use one that begins with `age1`, as `age-keygen` writes it"
    )]
    Recipient(String),
    /// The file holds no key to decrypt with.
    #[error("{} holds no key that begins with `AGE-SECRET-KEY-1`, as `age-keygen` writes it", .0.display())]
    KeyFile(PathBuf),
    /// It would be guessed.
    #[error(
        "the passphrase has {found} characters: use {} or more",
        crate::limits::PASSPHRASE_LEAST
    )]
    ShortPassphrase {
        /// How many it has.
        found: usize,
    },
    /// It is not one of `age`, or damaged at its beginning.
    #[error("this is no backup of an authority, or it is damaged")]
    NotABackup,
    /// The passphrase is wrong.
    #[error("the passphrase does not open this backup")]
    WrongPassphrase,
    /// None of the keys fits.
    #[error("the key does not open this backup: it was made to another one")]
    WrongKey,
    /// It was made to a key.
    #[error("this backup was made to a key: name the file with the secret key by `--identity`")]
    NeedsKey,
    /// It was made with a passphrase.
    #[error("this backup was made with a passphrase: leave `--identity` out")]
    NeedsPassphrase,
    /// Opening it takes more memory than this program allows.
    #[error(
        "this backup asks for 2^{0} KiB of memory to be opened, which is more than Ringway allows: open it by `age`, and encrypt it again"
    )]
    TooCostly(u8),
    /// It was cut off or changed.
    #[error("the backup is cut off or damaged: use another one")]
    Damaged,
    /// It is longer than any authority.
    #[error("the backup is longer than {} MiB", crate::limits::BACKUP_BYTES >> 20)]
    TooLong,
    /// Made by a later version.
    #[error("the backup has the form {0}, of a newer version of ringway: use that version")]
    Newer(u8),
    /// A clock is wrong.
    #[error(
        "the backup is from {0} s in the future: one of the clocks is wrong, and numbers would come twice. Set this machine's clock"
    )]
    FromTheFuture(u64),
    /// The folder is in use.
    #[error("{} is not empty: restore into a folder that is not there yet, or an empty one, with --dir", .0.display())]
    NotEmpty(PathBuf),
    /// The folder holds a ring's authority.
    #[error("{} holds an authority that signs: it is not overwritten. Restore into another folder with --dir", .0.display())]
    Signs(PathBuf),
    /// The folder holds another ring.
    #[error("{} holds another ring, {domain}: nothing was changed", folder.display())]
    OtherRing {
        /// The folder.
        folder: PathBuf,
        /// The ring's domain.
        domain: String,
    },
    /// What the folder has is newer.
    #[error("the folder holds a newer backup than this one: nothing was changed")]
    Older,
    /// The authority refused or failed.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// A file could not be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A stream could not be read or written.
    #[error("{0}")]
    Stream(std::io::Error),
}

impl BackupError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            BackupError::Recipient(_)
            | BackupError::KeyFile(_)
            | BackupError::ShortPassphrase { .. }
            | BackupError::NeedsKey
            | BackupError::NeedsPassphrase
            | BackupError::NotEmpty(_)
            | BackupError::Signs(_)
            | BackupError::OtherRing { .. } => true,
            BackupError::Authority(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// Everything an authority is, at one moment. It holds the ring's key.
pub struct Backup {
    /// Version of the program that made it.
    program: String,
    /// When it was made, Unix seconds.
    made: u64,
    root: Identity,
    /// As SQLite writes it to a file that keeps no log beside it.
    database: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ring = self.root.member();
        let mut shown = f.debug_struct("Backup");
        shown.field("ring", &ring).field("made", &self.made);
        shown.finish_non_exhaustive()
    }
}

/// What a backup has, for its owner to compare.
#[derive(Clone, Debug, serde::Serialize)]
pub struct BackupContents {
    /// The ring's DNS domain.
    pub domain: String,
    /// The owner's key in base32.
    pub ring: String,
    /// When the backup was made, Unix seconds.
    pub made: u64,
    /// Version of the program that made it.
    pub program: String,
    /// Number of the owner's statement.
    pub statement: u64,
    /// Members in good standing.
    pub members: usize,
    /// Members that were revoked, have left, or whose certificates have run out.
    pub former: usize,
    /// Invites that are not used yet.
    pub invites: usize,
    /// When the newest certificate was issued, Unix seconds; none if there is none.
    pub newest: Option<u64>,
    /// Where the authority's DNS server is.
    pub dns: Endpoint,
    /// Where members enrol.
    pub enrol: Endpoint,
    /// Files with keys for DNS servers of the owner's own, which are not in the backup.
    pub key_files: Vec<PathBuf>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Envelope<'a> {
    #[n(0)]
    version: u8,
    #[b(1)]
    program: &'a str,
    #[n(2)]
    made: u64,
    #[b(3)]
    root: &'a ByteSlice,
    #[b(4)]
    database: &'a ByteSlice,
}

/// The version, which comes first, whatever follows.
#[derive(Decode)]
#[cbor(map)]
struct VersionOnly {
    #[n(0)]
    version: u8,
}

impl Authority {
    /// All that this authority is now, also while its servers run.
    ///
    /// # Errors
    /// When this folder is a standby's, or the database fails.
    pub fn back_up(&mut self) -> Result<Backup, AuthorityError> {
        self.store.standby().check_none()?;
        Ok(Backup {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            made: unix_seconds(),
            root: self.root.clone(),
            database: self.store.snapshot_bytes()?,
        })
    }
}

impl Backup {
    /// What is encrypted.
    fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let secret = Zeroizing::new(self.root.signing_key().to_bytes());
        let envelope = Envelope {
            version: VERSION,
            program: &self.program,
            made: self.made,
            root: secret[..].into(),
            database: self.database[..].into(),
        };
        // Room for all of it, so that no copy is left behind where the bytes have grown.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.database.len() + 512));
        // Writing to memory does not fail.
        minicbor::encode(&envelope, &mut *bytes).ok();
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Backup, BackupError> {
        match minicbor::decode::<VersionOnly>(bytes) {
            Ok(VersionOnly { version }) if version > VERSION => {
                return Err(BackupError::Newer(version));
            }
            Ok(_) => {}
            Err(_) => return Err(BackupError::NotABackup),
        }
        let envelope: Envelope<'_> =
            minicbor::decode(bytes).map_err(|_| BackupError::NotABackup)?;
        let secret: &[u8] = envelope.root;
        let secret = <&[u8; 32]>::try_from(secret).map_err(|_| BackupError::NotABackup)?;
        Ok(Backup {
            program: crate::text::printable(envelope.program, 40),
            made: envelope.made,
            root: Identity::from_secret(secret),
            database: Zeroizing::new(envelope.database.to_vec()),
        })
    }

    /// When it was made, Unix seconds.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made
    }

    pub(super) fn root(&self) -> &Identity {
        &self.root
    }

    /// What it has; its database is looked through for damage first.
    ///
    /// # Errors
    /// When it is damaged, or a newer version of the program wrote it.
    pub fn contents(&self) -> Result<BackupContents, BackupError> {
        let authority = self.in_memory()?;
        let now = unix_seconds();
        let ring = authority.ring();
        let members = authority.members()?;
        let open = members.iter().filter(|member| member.is_active()).count();
        let invites = authority.invites().open()?;
        let servers = authority.kept().all()?;
        Ok(BackupContents {
            domain: ring.domain,
            ring: ring.ring,
            made: self.made,
            program: self.program.clone(),
            statement: authority.generation()?,
            members: open,
            former: members.len() - open,
            invites: invites.iter().filter(|open| open.expires > now).count(),
            newest: members.iter().map(|member| member.issued).max(),
            dns: ring.dns,
            enrol: ring.enrol,
            key_files: servers.into_iter().map(|server| server.key_file).collect(),
        })
    }

    /// Its authority, of which nothing reaches a disk.
    pub(super) fn in_memory(&self) -> Result<Authority, BackupError> {
        let path = Path::new(NAME);
        let failed = |source| DatabaseError::new(path, source);
        let mut connection = Connection::open_in_memory().map_err(failed)?;
        let bytes: &[u8] = &self.database;
        let read = connection.deserialize_read_exact("main", bytes, bytes.len(), false);
        read.map_err(|_| BackupError::Damaged)?;
        // It came whole; but it may have been damaged before it was made.
        let check = "PRAGMA integrity_check(1)";
        let sound = connection.query_row(check, [], |row| row.get::<_, String>(0));
        match sound.as_deref() {
            Ok("ok") => {}
            _ => return Err(BackupError::Damaged),
        }
        let store = Store::of_connection(path, connection)?;
        Ok(Authority {
            root: self.root.clone(),
            store,
        })
    }
}

#[cfg(test)]
mod tests;
