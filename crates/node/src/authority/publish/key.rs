//! The key that signs updates, from the file that `tsig-keygen` (BIND) or `keymgr -t` (Knot) has
//! written.
//!
//! ```text
//! key "ring-update" {             key:
//!     algorithm hmac-sha256;        - id: ring-update
//!     secret "9XY…=";                 algorithm: hmac-sha256
//! };                                  secret: 9XY…=
//! ```

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use hickory_proto::rr::Name;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use zeroize::Zeroizing;

use crate::limits::{TSIG_KEY_FILE, TSIG_SECRET};

/// Why a file is no usable key.
#[derive(Debug, thiserror::Error)]
pub enum TsigKeyError {
    /// It cannot be read.
    #[error("reading the TSIG key file {} failed: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Others can read it.
    #[error(
        "others than its owner can read the TSIG key file {path}: run `chmod 600 {path}`, or make a new key if somebody may have",
        path = .0.display()
    )]
    Exposed(PathBuf),
    /// It holds something else.
    #[error(
        "{} {what}: a file with one key is needed, as `tsig-keygen NAME` or `keymgr -t NAME hmac-sha256` writes it",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The algorithm is none of ours.
    #[error(
        "the TSIG key in {} is for `{algorithm}`, and updates are signed with hmac-sha256, hmac-sha384 or hmac-sha512: make another key",
        path.display()
    )]
    Algorithm {
        /// The file.
        path: PathBuf,
        /// Its word.
        algorithm: String,
    },
    /// It can be guessed.
    #[error(
        "the secret in {} has fewer than {TSIG_SECRET} bytes: make another key with `tsig-keygen` or `keymgr -t`",
        .0.display()
    )]
    Weak(PathBuf),
}

/// A secret that the ring's owner shares with a DNS server. The library clears it from memory when
/// it is dropped.
pub struct TsigKey {
    pub(super) name: Name,
    pub(super) algorithm: TsigAlgorithm,
    pub(super) mac: hmac::Key,
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TsigKey")
            .field("name", &self.name.to_ascii())
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl TsigKey {
    /// Reads the key in a file that only its owner can read.
    ///
    /// # Errors
    /// See [`TsigKeyError`]; none of them shows anything of the secret.
    pub fn read(path: &Path) -> Result<TsigKey, TsigKeyError> {
        let unreadable = |source| TsigKeyError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(malformed(path, "is no file"));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(TsigKeyError::Exposed(path.to_owned()));
        }
        // Of full size at once: a buffer that grows leaves copies of the secret behind.
        let mut bytes = Zeroizing::new(vec![0; TSIG_KEY_FILE + 1]);
        let mut length = 0;
        loop {
            match file.read(&mut bytes[length..]).map_err(unreadable)? {
                0 => break,
                more => length += more,
            }
            if length > TSIG_KEY_FILE {
                return Err(malformed(path, "is too long for a key"));
            }
        }
        let text = std::str::from_utf8(&bytes[..length])
            .map_err(|_| malformed(path, "is not a text file"))?;
        TsigKey::parse(text, path)
    }

    /// `path` is for the error.
    pub(super) fn parse(text: &str, path: &Path) -> Result<TsigKey, TsigKeyError> {
        let (mut name, mut algorithm, mut secret) = (None, None, None);
        let mut words = words(text);
        while let Some(word) = words.next() {
            let field = match word {
                "key" => {
                    // In BIND's form the name follows; in Knot's the next word is `id`, and its
                    // name follows that.
                    match words.next() {
                        Some("id") => {}
                        Some(named) => {
                            set(&mut name, named, path)?;
                            continue;
                        }
                        None => return Err(malformed(path, "ends behind `key`")),
                    }
                    &mut name
                }
                "id" => &mut name,
                "algorithm" => &mut algorithm,
                "secret" => &mut secret,
                _ => return Err(malformed(path, "holds something else than a TSIG key")),
            };
            let value = words
                .next()
                .ok_or_else(|| malformed(path, "ends too early"))?;
            set(field, value, path)?;
        }
        let name = name.ok_or_else(|| malformed(path, "gives the key no name"))?;
        let mut name =
            Name::from_ascii(name).map_err(|_| malformed(path, "gives the key a bad name"))?;
        name.set_fqdn(true);
        // Without a word BIND and Knot would take these for MD5 and refuse, respectively.
        let algorithm = algorithm.ok_or_else(|| malformed(path, "names no algorithm"))?;
        let (algorithm, hash) = by_name(algorithm).ok_or_else(|| TsigKeyError::Algorithm {
            path: path.to_owned(),
            algorithm: algorithm.chars().take(64).collect(),
        })?;
        let secret = secret.ok_or_else(|| malformed(path, "has no secret"))?;
        let secret = BASE64.decode(secret.as_bytes());
        let secret =
            Zeroizing::new(secret.map_err(|_| malformed(path, "has a secret that is no base64"))?);
        if secret.len() < TSIG_SECRET {
            return Err(TsigKeyError::Weak(path.to_owned()));
        }
        let mac = hmac::Key::new(hash, &secret);
        Ok(TsigKey {
            name,
            algorithm,
            mac,
        })
    }
}

fn malformed(path: &Path, what: &'static str) -> TsigKeyError {
    let path = path.to_owned();
    TsigKeyError::Malformed { path, what }
}

/// A second key would be a guess at which is meant.
fn set<'a>(field: &mut Option<&'a str>, value: &'a str, path: &Path) -> Result<(), TsigKeyError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(malformed(path, "holds more than one key")),
    }
}

fn by_name(algorithm: &str) -> Option<(TsigAlgorithm, hmac::Algorithm)> {
    match algorithm.to_ascii_lowercase().trim_end_matches('.') {
        "hmac-sha256" => Some((TsigAlgorithm::HmacSha256, hmac::HMAC_SHA256)),
        "hmac-sha384" => Some((TsigAlgorithm::HmacSha384, hmac::HMAC_SHA384)),
        "hmac-sha512" => Some((TsigAlgorithm::HmacSha512, hmac::HMAC_SHA512)),
        _ => None,
    }
}

/// What stands between white space and the punctuation of either form, without comments.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| {
        let line = line.trim();
        // A comment stands on a line of its own: `//` may also be within a secret.
        let comment = line.starts_with('#') || line.starts_with("//");
        if comment { "" } else { line }
    });
    let punctuation = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '"' | '\'');
    lines
        .flat_map(move |line| line.split(punctuation))
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| !word.is_empty() && *word != "-")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    const BIND: &str = "key \"ring-update\" {\n\talgorithm hmac-sha256;\n\tsecret \"Siclj9OyQKkAh4q2iJIMUvPKUD9Bj2/+VzdxDyY5OGI=\";\n};\n";
    const KNOT: &str = "# hmac-sha256:ring-update:Siclj9OyQKkAh4q2iJIMUvPKUD9Bj2/+VzdxDyY5OGI=\nkey:\n  - id: ring-update\n    algorithm: hmac-sha256\n    secret: Siclj9OyQKkAh4q2iJIMUvPKUD9Bj2/+VzdxDyY5OGI=\n";

    fn parse(text: &str) -> Result<TsigKey, TsigKeyError> {
        TsigKey::parse(text, Path::new("update.key"))
    }

    #[test]
    fn files_of_bind_and_knot_agree() {
        let (bind, knot) = (parse(BIND).unwrap(), parse(KNOT).unwrap());
        assert_eq!(bind.name, knot.name);
        assert_eq!(bind.name.to_ascii(), "ring-update.");
        let tags = [&bind, &knot].map(|key| hmac::sign(&key.mac, b"text").as_ref().to_vec());
        assert_eq!(tags[0], tags[1]);
        assert!(!format!("{bind:?}").contains("Siclj"));
    }

    #[test]
    fn other_content_is_refused_without_showing_it() {
        let secret = "Siclj9OyQKkAh4q2iJIMUvPKUD9Bj2/+VzdxDyY5OGI=";
        for (text, wanted) in [
            (String::new(), "no name"),
            (secret.to_owned(), "something else"),
            (format!("{BIND}{BIND}"), "more than one"),
            (BIND.replace("hmac-sha256", "hmac-md5"), "hmac-md5"),
            (BIND.replace(secret, "AAAA"), "fewer than"),
            (BIND.replace(secret, "!"), "base64"),
            (BIND.replace("algorithm hmac-sha256;", ""), "algorithm"),
            ("key".to_owned(), "ends"),
            ("key a { algorithm".to_owned(), "ends"),
        ] {
            let refused = parse(&text).unwrap_err().to_string();
            assert!(refused.contains(wanted), "{refused}");
            assert!(!refused.contains("Siclj"), "{refused}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("update.key");
        for (mode, good) in [(0o600, true), (0o640, false), (0o604, false), (0o400, true)] {
            std::fs::remove_file(&path).unwrap_or_default();
            let mut options = File::options();
            let mut file = options
                .create_new(true)
                .write(true)
                .mode(mode)
                .open(&path)
                .unwrap();
            io::Write::write_all(&mut file, BIND.as_bytes()).unwrap();
            let read = TsigKey::read(&path);
            assert_eq!(read.is_ok(), good, "{mode:o}");
            if let Err(refused) = read {
                assert!(refused.to_string().contains("chmod 600"), "{refused}");
            }
        }
        std::fs::write(&path, vec![b'#'; TSIG_KEY_FILE + 1]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let refused = TsigKey::read(&path).unwrap_err().to_string();
        assert!(refused.contains("too long"), "{refused}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(key|id|algorithm|secret|hmac-sha256|[{};:\"\n #/]|[a-z]{0,4}){0,40}") {
            parse(&text).ok();
        }
    }
}
