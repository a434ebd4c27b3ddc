//! What must not be in a bundle: secrets that are known, in every form in which programs write
//! bytes, and what looks like one.

use std::fs::File;
use std::io::Read as _;

use data_encoding::{BASE32_NOPAD, BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};

use super::super::subject::Subject;
use super::secret_files;

/// What stands in the place of what was taken out.
pub(super) const REMOVED: &str = "(removed)";

/// Characters that a secret has at least: shorter ones are words of the text as well.
const LEAST: usize = 4;

/// Bytes of a file with a secret: keys have 32, passwords a line.
const SECRET_FILE: u64 = 4_096;

/// Words in the name of a value that is secret.
const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "authorization",
    "bearer",
    "api_key",
    "apikey",
];

/// How an invite begins, and how long it is at least.
const INVITE: (&str, usize) = ("rw1", 24);

/// What is known to be secret, as text.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// The longest first, so that none stays by half.
    forms: Vec<String>,
}

impl Secrets {
    /// Those of the files that this user may read.
    pub(super) fn of(subject: &Subject) -> Secrets {
        let mut secrets = Secrets::default();
        for path in secret_files(subject) {
            let mut bytes = Vec::new();
            let file = File::open(&path).map(|file| file.take(SECRET_FILE));
            if file.is_ok_and(|mut file| file.read_to_end(&mut bytes).is_ok()) {
                secrets.add(&bytes);
                secrets.add(bytes.trim_ascii());
            }
        }
        secrets
    }

    /// One more.
    pub(super) fn add(&mut self, secret: &[u8]) {
        if secret.len() < LEAST {
            return;
        }
        if let Ok(text) = std::str::from_utf8(secret) {
            // In JSON and in TOML it stands with escapes.
            let escaped = serde_json::to_string(text).unwrap_or_default();
            self.forms.push(escaped.trim_matches('"').to_owned());
            self.forms.push(text.to_owned());
        }
        self.forms.extend([
            HEXLOWER.encode(secret),
            HEXUPPER.encode(secret),
            BASE64_NOPAD.encode(secret),
            BASE64URL_NOPAD.encode(secret),
            BASE32_NOPAD.encode(secret),
            BASE32_NOPAD.encode(secret).to_lowercase(),
        ]);
        // Those of one length stay beside their equals.
        self.forms
            .sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.forms.dedup();
    }

    /// The text without any of them, and without what looks like one.
    pub(super) fn removed_from(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.forms {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), REMOVED);
            }
        }
        let lines = text.split_inclusive('\n');
        lines
            .map(|line| without_invites(&without_values(line)))
            .collect()
    }
}

/// Whether a value of this name is secret. Names of files and credentials are not.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_place = name.ends_with("file") || name.ends_with("credential");
    !is_place && SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The line with what follows `password=`, `token: ` and the like taken out.
fn without_values(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    loop {
        let lower = rest.to_ascii_lowercase();
        let found = SECRET_WORDS.iter().filter_map(|word| {
            let at = lower.find(word)?;
            Some((at, at + word.len()))
        });
        let Some((_, end)) = found.min() else {
            return out + rest;
        };
        let (before, after) = rest.split_at(end);
        out.push_str(before);
        let sign = after.trim_start_matches(['"', '\'', ' ']);
        let Some(value) = sign.strip_prefix(['=', ':']) else {
            rest = after;
            continue;
        };
        let value = value.trim_start_matches([' ', '"', '\'']);
        let between = after.len() - value.len();
        out.push_str(after.get(..between).unwrap_or_default());
        // `Bearer TOKEN` and `Basic TOKEN` are two words.
        let scheme = ["bearer ", "basic "].iter().find(|scheme| {
            let begin = value.get(..scheme.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        });
        let skipped = scheme.map_or(0, |scheme| scheme.len());
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | '}');
        let value_end = value.get(skipped..).and_then(|value| value.find(ends));
        let value_end = value_end.map_or(value.len(), |end| skipped + end);
        if value_end > 0 {
            out.push_str(REMOVED);
        }
        rest = value.get(value_end..).unwrap_or_default();
    }
}

/// The line without invites, long or spoken (`7-crackdown-adviser-ragtime@ring.example.org`).
fn without_invites(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '@' | '.' | '_');
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(is_part) {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        out.push_str(before);
        out.push_str(if is_invite(word) { REMOVED } else { word });
        rest = after;
    }
    out + rest
}

fn is_invite(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    if lower.starts_with(INVITE.0) && lower.len() >= INVITE.1 {
        return true;
    }
    let Some((spoken, _domain)) = lower.split_once('@') else {
        return false;
    };
    let parts: Vec<&str> = spoken.split('-').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 4 && parts.first().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_go_in_every_form() {
        let mut secrets = Secrets::default();
        secrets.add(b"hunter2!");
        let forms = [
            "hunter2!".to_owned(),
            HEXLOWER.encode(b"hunter2!"),
            BASE64_NOPAD.encode(b"hunter2!"),
            BASE32_NOPAD.encode(b"hunter2!"),
        ];
        for form in forms {
            let text = secrets.removed_from(&format!("it is {form}, said it\n"));
            assert_eq!(text, format!("it is {REMOVED}, said it\n"));
        }
    }

    #[test]
    fn what_looks_like_a_secret_goes() {
        let secrets = Secrets::default();
        for (text, expected) in [
            ("password=x1 user=oslo", "password=(removed) user=oslo"),
            (
                r#"{"token": "abc", "n": 1}"#,
                r#"{"token": "(removed)", "n": 1}"#,
            ),
            (
                "Authorization: Bearer abc.def next",
                "Authorization: (removed) next",
            ),
            ("the password is asked for", "the password is asked for"),
            (
                "?token=a&secret=b&c=d",
                "?token=(removed)&secret=(removed)&c=d",
            ),
            ("rw1abcdefghijklmnopqrstuvw234 is used", "(removed) is used"),
            ("7-crackdown-adviser-ragtime@ring.example.org.", "(removed)"),
            ("oslo@example.org", "oslo@example.org"),
            ("password:", "password:"),
        ] {
            assert_eq!(secrets.removed_from(text), expected);
        }
        assert!(is_secret_name("mail_password") && !is_secret_name("password_file"));
    }
}
