//! What may be shown of others' words and names, and paths in JSON.

/// True for characters that change how others are shown: control characters, line separators, and
/// those of the Unicode bidirectional algorithm (UAX #9 §2), by which `exe.txt` can look like
/// `txt.exe`.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a stranger's text may do to a terminal is nothing: at most so many of its characters.
pub fn printable(text: &str, most: usize) -> String {
    text.chars()
        .filter(|c| !is_harmful(*c))
        .take(most)
        .collect()
}

/// Paths in JSON, which knows no bytes: a string, or the bytes one by one where they are no UTF-8.
pub(crate) mod path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let form = match path.to_str() {
            Some(text) => Form::Text(text.to_owned()),
            None => Form::Bytes(path.as_os_str().as_bytes().to_vec()),
        };
        form.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Form::deserialize(from)? {
            Form::Text(text) => text.into(),
            Form::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

/// The same for a path that there may not be.
pub(crate) mod path_some {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Known(#[serde(with = "super::path")] PathBuf);

    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.clone().map(Known).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let known = Option::<Known>::deserialize(from)?;
        Ok(known.map(|Known(path)| path))
    }
}

/// Bytes in JSON, in base64 (RFC 4648 §4).
pub(crate) mod base64 {
    use std::borrow::Cow;

    use data_encoding::BASE64;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = <Cow<'de, str>>::deserialize(from)?;
        BASE64.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}
