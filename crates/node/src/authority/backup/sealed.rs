//! How a backup is encrypted: by a passphrase or to keys, in the format of `age`.

use std::fmt;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::str::FromStr;

use age::secrecy::{ExposeSecret as _, SecretString};
use age::{DecryptError, Decryptor, Encryptor, IdentityFile, scrypt, x25519};
use zeroize::Zeroizing;

use super::{Backup, BackupError};
use crate::home;
use crate::limits::{BACKUP_BYTES, PASSPHRASE_LEAST, SCRYPT_MOST, SCRYPT_WORK};

/// A key that backups are encrypted to: public, it opens none.
#[derive(Clone)]
pub struct BackupKey(x25519::Recipient);

impl fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for BackupKey {
    type Err = BackupError;

    fn from_str(text: &str) -> Result<BackupKey, BackupError> {
        let key = text.parse().map(BackupKey);
        key.map_err(|_| BackupError::Recipient(text.to_owned()))
    }
}

/// What encrypts a backup.
pub enum Lock {
    /// A passphrase of a person.
    Passphrase(SecretString),
    /// Each of the keys opens it.
    Keys(Vec<BackupKey>),
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lock::Passphrase(_) => f.write_str("Passphrase"),
            Lock::Keys(keys) => f.debug_tuple("Keys").field(keys).finish(),
        }
    }
}

impl Lock {
    /// By a passphrase.
    ///
    /// # Errors
    /// When it has fewer than [`PASSPHRASE_LEAST`] characters.
    pub fn passphrase(passphrase: Zeroizing<String>) -> Result<Lock, BackupError> {
        let found = passphrase.chars().count();
        if found < PASSPHRASE_LEAST {
            return Err(BackupError::ShortPassphrase { found });
        }
        Ok(Lock::Passphrase(secret(&passphrase)))
    }
}

fn secret(text: &Zeroizing<String>) -> SecretString {
    SecretString::from(text.as_str().to_owned())
}

/// What opens a backup.
pub enum Opener {
    /// The passphrase that it was made with.
    Passphrase(SecretString),
    /// Secret keys, of which one has to fit.
    Keys(Vec<Box<dyn age::Identity>>),
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Opener::Passphrase(_) => "Passphrase",
            Opener::Keys(_) => "Keys",
        })
    }
}

impl Opener {
    /// A passphrase, of any length.
    #[must_use]
    pub fn passphrase(passphrase: &Zeroizing<String>) -> Opener {
        Opener::Passphrase(secret(passphrase))
    }

    /// The secret keys in a file as `age-keygen` writes it, which others may not read.
    ///
    /// # Errors
    /// When the file cannot be read, or has none.
    pub fn key_file(path: &Path) -> Result<Opener, BackupError> {
        let content = Zeroizing::new(home::read_private(path)?);
        let none = || BackupError::KeyFile(path.to_owned());
        let file = IdentityFile::from_buffer(&content[..]).map_err(|_| none())?;
        let keys = file.into_identities().map_err(|_| none())?;
        if keys.is_empty() {
            return Err(none());
        }
        let keys = keys.into_iter().map(|key| key as Box<dyn age::Identity>);
        Ok(Opener::Keys(keys.collect()))
    }
}

/// True if what begins like this was encrypted by a passphrase; false if it was to a key.
///
/// # Errors
/// When it is no file of `age`.
fn is_by_passphrase(bytes: &[u8]) -> Result<bool, BackupError> {
    let decryptor = Decryptor::new_buffered(bytes).map_err(|error| in_words(&error))?;
    Ok(decryptor.is_scrypt())
}

/// A backup as it was read: nothing of it is known but what opens it.
#[derive(Debug)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Reads all of it.
    ///
    /// # Errors
    /// When it cannot be read, is too long, or is no file of `age`.
    pub fn read(from: impl Read) -> Result<Sealed, BackupError> {
        let mut bytes = Vec::new();
        let bounded = u64::try_from(BACKUP_BYTES).unwrap_or(u64::MAX);
        let mut bounded = from.take(bounded.saturating_add(1));
        bounded
            .read_to_end(&mut bytes)
            .map_err(BackupError::Stream)?;
        if bytes.len() > BACKUP_BYTES {
            return Err(BackupError::TooLong);
        }
        is_by_passphrase(&bytes)?;
        Ok(Sealed(bytes))
    }

    /// True if a passphrase opens it, false if a key does.
    #[must_use]
    pub fn is_by_passphrase(&self) -> bool {
        is_by_passphrase(&self.0).unwrap_or_default()
    }

    /// Decrypts it. The format itself shows every change and every cut.
    ///
    /// # Errors
    /// When the opener does not fit, or what is inside is no backup.
    pub fn open(&self, opener: &Opener) -> Result<Backup, BackupError> {
        let by_passphrase = self.is_by_passphrase();
        let decryptor =
            Decryptor::new_buffered(Cursor::new(&self.0)).map_err(|error| in_words(&error))?;
        let opened = match opener {
            Opener::Passphrase(passphrase) if by_passphrase => {
                let mut identity = scrypt::Identity::new(passphrase.clone());
                identity.set_max_work_factor(SCRYPT_MOST);
                let identity: &dyn age::Identity = &identity;
                decryptor.decrypt(std::iter::once(identity))
            }
            Opener::Passphrase(_) => return Err(BackupError::NeedsKey),
            Opener::Keys(_) if by_passphrase => return Err(BackupError::NeedsPassphrase),
            Opener::Keys(keys) => decryptor.decrypt(keys.iter().map(|key| &**key)),
        };
        let mut reader = opened.map_err(|error| match error {
            DecryptError::DecryptionFailed | DecryptError::NoMatchingKeys if by_passphrase => {
                BackupError::WrongPassphrase
            }
            DecryptError::NoMatchingKeys => BackupError::WrongKey,
            error => in_words(&error),
        })?;
        // What is inside is a little shorter, so nothing is copied while it is read.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.0.len()));
        reader
            .read_to_end(&mut bytes)
            .map_err(|_| BackupError::Damaged)?;
        Backup::from_bytes(&bytes)
    }
}

impl Backup {
    /// Encrypts it.
    ///
    /// # Errors
    /// When `to` cannot be written.
    pub fn seal(&self, lock: &Lock, mut to: impl Write) -> Result<(), BackupError> {
        let encryptor = match lock {
            Lock::Passphrase(passphrase) => {
                let secret = SecretString::from(passphrase.expose_secret().to_owned());
                let mut recipient = scrypt::Recipient::new(secret);
                // Not what this machine does in a second: the file may be opened by another.
                recipient.set_work_factor(SCRYPT_WORK);
                let recipient: &dyn age::Recipient = &recipient;
                Encryptor::with_recipients(std::iter::once(recipient))
            }
            Lock::Keys(keys) => {
                Encryptor::with_recipients(keys.iter().map(|BackupKey(key)| key as _))
            }
        };
        let refused = |error: age::EncryptError| std::io::Error::other(error.to_string());
        let write = || -> std::io::Result<()> {
            let mut writer = encryptor.map_err(refused)?.wrap_output(&mut to)?;
            writer.write_all(&self.to_bytes())?;
            writer.finish()?.flush()
        };
        write().map_err(BackupError::Stream)
    }
}

fn in_words(error: &DecryptError) -> BackupError {
    match error {
        DecryptError::ExcessiveWork { required, .. } => BackupError::TooCostly(*required),
        DecryptError::InvalidMac | DecryptError::DecryptionFailed => BackupError::Damaged,
        _ => BackupError::NotABackup,
    }
}
