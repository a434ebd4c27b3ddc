//! How the mail transport is told what to do.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::address::{MailAddress, Protocol};
use crate::limits::{
    MAIL_BATCH_BYTES, MAIL_BATCH_TIME, MAIL_DAILY, MAIL_HOURLY, MAILBOX_DAILY, MAILBOX_HOURLY,
    SECRET_BYTES,
};
use crate::transport::StartError;

/// How to start an [`SmtpTransport`](crate::SmtpTransport).
#[derive(Debug, Clone)]
pub struct SmtpOptions {
    /// Our mailbox and the header by which we know our mails. Without one nothing is received.
    pub address: Option<MailAddress>,
    /// The server that takes our mails. Without one nothing is sent.
    pub relay: Option<MailRelay>,
    /// Where mails to our mailbox come from.
    pub sources: Vec<MailSource>,
    /// Cost in HELLOs; less is better, no unit.
    pub cost: u32,
    /// Messages a day that we ask others to send at most; `None` for no limit.
    pub quota: Option<u32>,
    /// Least time between two mails to one mailbox. What comes meanwhile is collected into one
    /// mail; the first message after a pause leaves at once. With zero, messages share a mail
    /// only while another one is on its way to the relay.
    pub batch_time: Duration,
    /// Bytes of messages in one mail, at most
    /// [`MAIL_CONTAINER_BYTES`](crate::limits::MAIL_CONTAINER_BYTES).
    pub batch_bytes: usize,
    /// Mails that may be sent in all.
    pub budget: MailBudget,
    /// Mails that may be sent to one mailbox.
    pub mailbox_budget: MailBudget,
}

impl Default for SmtpOptions {
    fn default() -> Self {
        Self {
            address: None,
            relay: None,
            sources: Vec::new(),
            cost: Protocol::Smtp.usual_cost(),
            quota: None,
            batch_time: MAIL_BATCH_TIME,
            batch_bytes: MAIL_BATCH_BYTES,
            budget: MailBudget {
                hourly: MAIL_HOURLY,
                daily: MAIL_DAILY,
            },
            mailbox_budget: MailBudget {
                hourly: MAILBOX_HOURLY,
                daily: MAILBOX_DAILY,
            },
        }
    }
}

/// How many mails may be sent. In no hour and on no day are there more; a restart forgets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailBudget {
    /// In any 60 minutes.
    pub hourly: usize,
    /// In any 24 hours, at most [`MAIL_DAILY_MOST`](crate::limits::MAIL_DAILY_MOST).
    pub daily: usize,
}

/// A server that mails are sent by, or fetched from.
#[derive(Debug, Clone)]
pub struct MailServer {
    /// Its name or IP address.
    pub host: String,
    /// Its port: 587 or 465 for a relay, 143 or 993 for IMAP, 110 or 995 for POP3.
    pub port: u16,
    /// How the connection is protected.
    pub tls: MailTls,
    /// A PEM file of authorities that are believed besides the system's.
    pub extra_roots: Option<PathBuf>,
}

/// The server that takes our mails.
#[derive(Debug, Clone)]
pub struct MailRelay {
    /// Where it is.
    pub server: MailServer,
    /// Who we are to it; `None` if it asks for no login.
    pub login: Option<MailLogin>,
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// Not at all: only on loopback, or without a password.
    Plain,
    /// TLS after the greeting, always.
    StartTls,
    /// TLS from the beginning.
    Tls,
}

/// A user of a mail server.
#[derive(Debug, Clone)]
pub struct MailLogin {
    /// The name.
    pub user: String,
    /// A file with the password and nothing else, which only its owner can read (mode 0600). It is
    /// read at start and again at every connection.
    pub password_file: PathBuf,
}

/// Where mails come from.
#[derive(Debug, Clone)]
pub enum MailSource {
    /// A local mail server delivers by LMTP (RFC 2033) to a Unix socket that we make there, with
    /// mode 0660.
    LmtpUnix(PathBuf),
    /// A local mail server delivers by LMTP to a TCP port, on loopback.
    LmtpTcp(SocketAddr),
    /// A Maildir, by the folder that has `new`, `cur` and `tmp` in it. Our mails are deleted,
    /// others stay.
    Maildir(PathBuf),
    /// A named pipe into which a filter such as procmail writes whole mails. It must exist.
    Pipe(PathBuf),
    /// A mailbox on an IMAP server. Our mails are deleted, others stay.
    Imap(ImapSource),
    /// A mailbox on a POP3 server. Our mails are deleted, others stay.
    Pop3(Pop3Source),
}

/// A mailbox on a POP3 server.
#[derive(Debug, Clone)]
pub struct Pop3Source {
    /// Where it is.
    pub server: MailServer,
    /// Whose it is.
    pub login: MailLogin,
    /// Time between two looks, at least [`POP3_LOOK_LEAST`](crate::limits::POP3_LOOK_LEAST).
    pub interval: Duration,
}

/// A mailbox on an IMAP server.
#[derive(Debug, Clone)]
pub struct ImapSource {
    /// Where it is.
    pub server: MailServer,
    /// Whose it is.
    pub login: MailLogin,
    /// The folder, `INBOX` most likely.
    pub folder: String,
}

pub(super) fn wrong(reason: impl fmt::Display) -> StartError {
    StartError::Option {
        protocol: Protocol::Smtp,
        reason: reason.to_string(),
    }
}

pub(super) fn file_error(path: &Path, source: io::Error) -> StartError {
    StartError::File {
        protocol: Protocol::Smtp,
        path: path.to_owned(),
        source,
    }
}

impl fmt::Display for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(ip) => write!(f, "[{ip}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl MailServer {
    /// Whether a password sent there is protected: by TLS, or because it stays on this machine.
    pub fn may_have_password(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        let local = self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
        self.tls != MailTls::Plain || local
    }

    /// Refuses to show a password to the network.
    pub(super) fn check(&self, login: Option<&MailLogin>) -> Result<(), StartError> {
        if login.is_some() && !self.may_have_password() {
            let host = self.host.escape_debug();
            let reason =
                format!("the password for {host} would cross the network unprotected: use TLS");
            return Err(wrong(reason));
        }
        if let Some(login) = login {
            if login.user.is_empty() || login.user.contains(char::is_control) {
                return Err(wrong("a user of a mail server has a name, in one line"));
            }
            let read = login.password();
            read.map_err(|source| file_error(&login.password_file, source))?;
        }
        Ok(())
    }
}

impl MailLogin {
    /// Reads the password, without the newline at its end.
    pub(super) fn password(&self) -> io::Result<Zeroizing<String>> {
        let mut file = File::open(&self.password_file)?;
        let metadata = file.metadata()?;
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
        if metadata.mode() & closed_to(&self.password_file, credentials.as_deref()) != 0 {
            let reason = "others can read this secret: run `chmod 600` on it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        if !metadata.is_file() || metadata.len() > SECRET_BYTES {
            return Err(io::Error::other(
                "it is no file, or longer than any password",
            ));
        }
        let mut password = Zeroizing::new(String::new());
        file.by_ref()
            .take(SECRET_BYTES)
            .read_to_string(&mut password)?;
        let bare = password.trim_end_matches(['\r', '\n']);
        if bare.is_empty() || bare.contains(['\r', '\n', '\0']) {
            return Err(io::Error::other("one line with the password is needed"));
        }
        Ok(Zeroizing::new(bare.to_owned()))
    }
}

/// The permissions that a secret's file must not give. A credential of systemd may show the group's
/// right to read: it has an access list for the service's user, whose mask stands there; the folder
/// itself is closed to everybody else.
fn closed_to(file: &Path, credentials: Option<&OsStr>) -> u32 {
    let is_credential = credentials
        .is_some_and(|folder| !folder.is_empty() && file.parent() == Some(Path::new(folder)));
    if is_credential { 0o037 } else { 0o077 }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let login = MailLogin {
            user: "oslo".to_owned(),
            password_file: folder.path().join("password"),
        };
        assert!(login.password().is_err());
        let set = |text: &str, mode: u32| {
            std::fs::write(&login.password_file, text).unwrap();
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&login.password_file, mode).unwrap();
        };
        set("secret\n", 0o600);
        assert_eq!(*login.password().unwrap(), "secret");
        for (text, mode) in [("secret", 0o644), ("", 0o600), ("a\nb", 0o600)] {
            set(text, mode);
            assert!(login.password().is_err(), "{text} {mode:o}");
        }
        set(&"x".repeat(5000), 0o600);
        assert!(login.password().is_err());
    }

    #[test]
    fn credentials_of_systemd_may_show_their_mask() {
        let file = Path::new("/run/credentials/ringway.service/mail");
        let folder = OsStr::new("/run/credentials/ringway.service");
        assert_eq!(closed_to(file, Some(folder)), 0o037);
        for other in [
            None,
            Some(OsStr::new("")),
            Some(OsStr::new("/run/credentials")),
        ] {
            assert_eq!(closed_to(file, other), 0o077);
        }
    }

    #[test]
    fn a_password_crosses_no_network_in_the_clear() {
        let folder = tempfile::tempdir().unwrap();
        let password_file = folder.path().join("password");
        std::fs::write(&password_file, "secret").unwrap();
        let owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&password_file, owner).unwrap();
        let login = MailLogin {
            user: "oslo".to_owned(),
            password_file,
        };
        let server = |host: &str, tls| MailServer {
            host: host.to_owned(),
            port: 25,
            tls,
            extra_roots: None,
        };
        assert_eq!(server("::1", MailTls::Plain).to_string(), "[::1]:25");
        assert_eq!(
            server("mail.test", MailTls::Tls).to_string(),
            "mail.test:25"
        );
        assert!(
            server("mail.test", MailTls::Plain)
                .check(Some(&login))
                .is_err()
        );
        assert!(server("mail.test", MailTls::Plain).check(None).is_ok());
        assert!(
            server("mail.test", MailTls::Tls)
                .check(Some(&login))
                .is_ok()
        );
        assert!(
            server("127.0.0.1", MailTls::Plain)
                .check(Some(&login))
                .is_ok()
        );
    }
}
