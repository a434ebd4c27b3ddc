//! `[smtp]`: messages in mail.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_transport::limits::POP3_LOOK;
use ringway_transport::{
    ImapSource, MailAddress, MailLogin, MailRelay, MailServer, MailSource, MailTls, Pop3Source,
    SmtpOptions,
};
use serde::Deserialize;

use super::Wrong;

/// `[smtp]`: a mailbox of the member's own, and the servers behind it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailConfig {
    /// The mailbox that others write to, such as `oslo@example.org`. Without it nothing is
    /// received.
    pub mailbox: Option<String>,
    /// The header field that distinguishes our mail from other mail, and its value; the name
    /// begins with `X-`.
    pub header: Option<[String; 2]>,
    /// The server that takes our mail. Without it nothing is sent.
    pub relay: Option<ServerConfig>,
    /// A Maildir in which mail arrives.
    pub maildir: Option<PathBuf>,
    /// A named pipe into which a filter such as procmail writes.
    pub pipe: Option<PathBuf>,
    /// A Unix socket at which the mail server delivers by LMTP.
    pub lmtp: Option<PathBuf>,
    /// A loopback address at which it does.
    pub lmtp_tcp: Option<SocketAddr>,
    /// A mailbox on an IMAP server.
    pub imap: Option<ServerConfig>,
    /// A mailbox on a POP3 server.
    pub pop3: Option<ServerConfig>,
    /// Messages a day that any other member may send to the mailbox. Without it there is no limit.
    pub quota: Option<u32>,
    /// Mails that may be sent in any hour.
    pub hourly: Option<usize>,
    /// Mails that may be sent on any day.
    pub daily: Option<usize>,
    /// Mails that may be sent to one mailbox in any hour.
    pub mailbox_hourly: Option<usize>,
    /// Mails that may be sent to one mailbox on any day.
    pub mailbox_daily: Option<usize>,
    /// Least time between two mails to one mailbox, milliseconds.
    pub batch_ms: Option<u64>,
}

/// A mail server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Its name or IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `"tls"`, `"starttls"` or, on loopback, `"plain"`.
    #[serde(default)]
    pub tls: TlsName,
    /// PEM file of authorities that are believed besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The user, if it asks for one.
    pub user: Option<String>,
    /// A file with the user's password alone, mode 0600.
    pub password_file: Option<PathBuf>,
    /// Instead of the file, the name of a credential that systemd passes on (`LoadCredential=`).
    pub password_credential: Option<String>,
    /// The folder, for IMAP; `INBOX` unless it is said.
    pub folder: Option<String>,
    /// Seconds between two looks, for POP3; 30 unless it is said.
    pub poll_seconds: Option<u64>,
}

/// How a connection is protected, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsName {
    /// From the beginning.
    #[default]
    Tls,
    /// After the greeting.
    StartTls,
    /// Not at all.
    Plain,
}

impl MailConfig {
    /// True if there is anything to start.
    pub(crate) fn is_used(&self) -> bool {
        *self != MailConfig::default()
    }

    /// The transport's options.
    ///
    /// # Errors
    /// When something does not fit together.
    pub(crate) fn options(&self) -> Result<SmtpOptions, Wrong> {
        let mut options = SmtpOptions {
            address: self.address()?,
            relay: self.relay.as_ref().map(relay).transpose()?,
            sources: self.sources()?,
            quota: self.quota,
            ..SmtpOptions::default()
        };
        if options.relay.is_none() && options.sources.is_empty() {
            let reason = "name a server that takes our mail, such as `relay = { host = \"mail.example.org\", port = 465 }`, or where \
                          mail arrives (`maildir`, `pipe`, `lmtp`, `lmtp_tcp`, `imap` or `pop3`); or remove the table";
            return Err(Wrong::new("smtp", reason));
        }
        if options.address.is_none() && !options.sources.is_empty() {
            let reason = "say by which mail to us is known: `mailbox = \"oslo@example.org\"` and `header = [\"X-Ringway\", \"k3\"]`";
            return Err(Wrong::new("smtp.mailbox", reason));
        }
        options.budget.hourly = self.hourly.unwrap_or(options.budget.hourly);
        options.budget.daily = self.daily.unwrap_or(options.budget.daily);
        let mailbox = &mut options.mailbox_budget;
        mailbox.hourly = self.mailbox_hourly.unwrap_or(mailbox.hourly);
        mailbox.daily = self.mailbox_daily.unwrap_or(mailbox.daily);
        if let Some(time) = self.batch_ms {
            options.batch_time = Duration::from_millis(time);
        }
        Ok(options)
    }

    /// The key that named a file which cannot be used.
    pub(crate) fn key_of(&self, file: &Path) -> String {
        let folder = file.parent();
        let of_server = |(name, server): (&str, &Option<ServerConfig>)| {
            let server = server.as_ref()?;
            let is = |path: &Option<PathBuf>| path.as_deref() == Some(file);
            let key = match () {
                () if is(&server.ca_file) => "ca_file",
                () if is(&server.password_file) => "password_file",
                () if server.password().is_ok_and(|path| is(&path)) => "password_credential",
                () => return None,
            };
            Some(format!("smtp.{name}.{key}"))
        };
        let ways = [
            ("smtp.pipe", self.pipe.as_deref() == Some(file)),
            ("smtp.lmtp", self.lmtp.as_deref() == Some(file)),
            ("smtp.maildir", self.maildir.as_deref() == folder),
        ];
        let way = ways.into_iter().find(|(_, is_it)| *is_it);
        let servers = [
            ("relay", &self.relay),
            ("imap", &self.imap),
            ("pop3", &self.pop3),
        ];
        let server = servers.into_iter().find_map(of_server);
        server.unwrap_or_else(|| way.map_or("smtp", |(key, _)| key).to_owned())
    }

    fn address(&self) -> Result<Option<MailAddress>, Wrong> {
        match (&self.mailbox, &self.header) {
            (Some(mailbox), Some([name, value])) => {
                let address = MailAddress::new(mailbox, name, value);
                // A mailbox that is right with another header is not what is wrong.
                let (key, example) = match MailAddress::new(mailbox, "X-Ringway", "k3") {
                    Ok(_) => ("smtp.header", "header = [\"X-Ringway\", \"k3\"]"),
                    Err(_) => ("smtp.mailbox", "mailbox = \"oslo@example.org\""),
                };
                address.map(Some).map_err(|error| {
                    Wrong::new(key, format!("{error}; right is, for example, `{example}`"))
                })
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(Wrong::new(
                "smtp.mailbox",
                "`mailbox` and `header` belong together: add, for example, `header = [\"X-Ringway\", \"k3\"]`",
            )),
            (None, Some(_)) => Err(Wrong::new(
                "smtp.header",
                "`mailbox` and `header` belong together: add, for example, `mailbox = \"oslo@example.org\"`",
            )),
        }
    }

    fn sources(&self) -> Result<Vec<MailSource>, Wrong> {
        let mut sources = Vec::new();
        sources.extend(self.maildir.clone().map(MailSource::Maildir));
        sources.extend(self.pipe.clone().map(MailSource::Pipe));
        sources.extend(self.lmtp.clone().map(MailSource::LmtpUnix));
        if self
            .lmtp_tcp
            .is_some_and(|listen| !listen.ip().is_loopback())
        {
            let reason = "LMTP does not authenticate its clients, so it listens on loopback only, such as `lmtp_tcp = \"127.0.0.1:2525\"`";
            return Err(Wrong::new("smtp.lmtp_tcp", reason));
        }
        sources.extend(self.lmtp_tcp.map(MailSource::LmtpTcp));
        if let Some(imap) = &self.imap {
            let table = Table("smtp.imap", imap);
            table.only(&["folder"])?;
            sources.push(MailSource::Imap(ImapSource {
                server: table.server()?,
                login: table.login()?.ok_or_else(|| table.anonymous())?,
                folder: imap.folder.clone().unwrap_or_else(|| "INBOX".to_owned()),
            }));
        }
        if let Some(pop3) = &self.pop3 {
            let table = Table("smtp.pop3", pop3);
            table.only(&["poll_seconds"])?;
            sources.push(MailSource::Pop3(Pop3Source {
                server: table.server()?,
                login: table.login()?.ok_or_else(|| table.anonymous())?,
                interval: pop3.poll_seconds.map_or(POP3_LOOK, Duration::from_secs),
            }));
        }
        Ok(sources)
    }
}

fn relay(config: &ServerConfig) -> Result<MailRelay, Wrong> {
    let table = Table("smtp.relay", config);
    table.only(&[])?;
    Ok(MailRelay {
        server: table.server()?,
        login: table.login()?,
    })
}

/// A server, and the table that says so.
struct Table<'a>(&'static str, &'a ServerConfig);

impl Table<'_> {
    fn wrong(&self, key: &str, reason: impl Into<String>) -> Wrong {
        Wrong::new(format!("{}.{key}", self.0), reason)
    }

    /// Refuses what means nothing for a server of this kind.
    fn only(&self, keys: &[&str]) -> Result<(), Wrong> {
        for (key, is_set) in [
            ("folder", self.1.folder.is_some()),
            ("poll_seconds", self.1.poll_seconds.is_some()),
        ] {
            if is_set && !keys.contains(&key) {
                return Err(self.wrong(key, "it means nothing here: remove it"));
            }
        }
        Ok(())
    }

    fn server(&self) -> Result<MailServer, Wrong> {
        let config = self.1;
        let host = &config.host;
        let named = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if host.parse::<IpAddr>().is_err() && !host.bytes().all(named) {
            let reason = format!(
                "`{}` is neither a name nor an IP address, such as `host = \"mail.example.org\"`; the port stands in `port`",
                host.escape_debug()
            );
            return Err(self.wrong("host", reason));
        }
        let server = MailServer {
            host: host.clone(),
            port: config.port,
            tls: match config.tls {
                TlsName::Tls => MailTls::Tls,
                TlsName::StartTls => MailTls::StartTls,
                TlsName::Plain => MailTls::Plain,
            },
            extra_roots: config.ca_file.clone(),
        };
        if config.user.is_some() && !server.may_have_password() {
            let reason = format!(
                "the password for {host} would cross the network unprotected: write `tls = \"tls\"` or `tls = \"starttls\"`"
            );
            return Err(self.wrong("tls", reason));
        }
        Ok(server)
    }

    fn login(&self) -> Result<Option<MailLogin>, Wrong> {
        let password = self.1.password();
        let password = password.map_err(|reason| self.wrong("password_credential", reason))?;
        let apart = |key: &str| {
            let reason = "`user` and `password_file` (or `password_credential`) belong together";
            self.wrong(key, reason)
        };
        match (self.1.user.clone(), password) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(apart("user")),
            (None, Some(_)) if self.1.password_file.is_some() => Err(apart("password_file")),
            (None, Some(_)) => Err(apart("password_credential")),
            // A line break in it could begin another command of the mail session.
            (Some(user), Some(_)) if user.contains(char::is_control) => {
                Err(self.wrong("user", "a user has a name, in one line"))
            }
            (Some(user), Some(password_file)) => Ok(Some(MailLogin {
                user,
                password_file,
            })),
        }
    }

    /// Mail is fetched by somebody.
    fn anonymous(&self) -> Wrong {
        let reason = "`user` and `password_file` (or `password_credential`) are needed, such as \
                      `user = \"oslo\", password_file = \"/etc/ringway/mail-password\"`";
        Wrong::new(self.0, reason)
    }
}

impl ServerConfig {
    /// Where the password is.
    fn password(&self) -> Result<Option<PathBuf>, String> {
        let Some(name) = &self.password_credential else {
            return Ok(self.password_file.clone());
        };
        if self.password_file.is_some() {
            return Err("name `password_file` or `password_credential`, not both".to_owned());
        }
        let is_name = Path::new(name)
            .file_name()
            .is_some_and(|last| last == &**name);
        if !is_name {
            return Err("it is the name of a credential, no path".to_owned());
        }
        let folder = std::env::var_os("CREDENTIALS_DIRECTORY")
            .ok_or("it needs a systemd unit with `LoadCredential=`; else use `password_file`")?;
        Ok(Some(Path::new(&folder).join(name)))
    }
}
