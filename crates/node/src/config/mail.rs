//! `[smtp]`: messages in mail.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_transport::limits::POP3_LOOK;
use ringway_transport::{
    ImapSource, MailAddress, MailLogin, MailRelay, MailServer, MailSource, MailTls, Pop3Source,
    SmtpOptions,
};
use serde::Deserialize;

/// `[smtp]`: a mailbox of the member's own, and the servers behind it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailConfig {
    /// The mailbox that others write to, such as `oslo@example.org`. Without it nothing is received.
    pub mailbox: Option<String>,
    /// The header field that tells our mail from other mail, and its value; the name begins with `X-`.
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

    /// What the transport is told.
    ///
    /// # Errors
    /// In words, when something does not fit together.
    pub(crate) fn options(&self) -> Result<SmtpOptions, String> {
        let mut options = SmtpOptions {
            address: self.address()?,
            relay: self.relay.as_ref().map(relay).transpose()?,
            sources: self.sources()?,
            quota: self.quota,
            ..SmtpOptions::default()
        };
        if options.relay.is_none() && options.sources.is_empty() {
            return Err("smtp: name a `relay`, or where mail arrives".to_owned());
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

    fn address(&self) -> Result<Option<MailAddress>, String> {
        match (&self.mailbox, &self.header) {
            (Some(mailbox), Some([name, value])) => MailAddress::new(mailbox, name, value)
                .map(Some)
                .map_err(|error| format!("smtp: {error}")),
            (None, None) => Ok(None),
            _ => Err("smtp: `mailbox` and `header` belong together".to_owned()),
        }
    }

    fn sources(&self) -> Result<Vec<MailSource>, String> {
        let mut sources = Vec::new();
        sources.extend(self.maildir.clone().map(MailSource::Maildir));
        sources.extend(self.pipe.clone().map(MailSource::Pipe));
        sources.extend(self.lmtp.clone().map(MailSource::LmtpUnix));
        sources.extend(self.lmtp_tcp.map(MailSource::LmtpTcp));
        if let Some(imap) = &self.imap {
            let login = login(imap)?.ok_or("smtp.imap: `user` and `password_file` are needed")?;
            only(imap, "smtp.imap", ["folder"])?;
            sources.push(MailSource::Imap(ImapSource {
                server: server(imap),
                login,
                folder: imap.folder.clone().unwrap_or_else(|| "INBOX".to_owned()),
            }));
        }
        if let Some(pop3) = &self.pop3 {
            let login = login(pop3)?.ok_or("smtp.pop3: `user` and `password_file` are needed")?;
            only(pop3, "smtp.pop3", ["poll_seconds"])?;
            sources.push(MailSource::Pop3(Pop3Source {
                server: server(pop3),
                login,
                interval: pop3.poll_seconds.map_or(POP3_LOOK, Duration::from_secs),
            }));
        }
        Ok(sources)
    }
}

fn relay(config: &ServerConfig) -> Result<MailRelay, String> {
    only(config, "smtp.relay", [])?;
    Ok(MailRelay {
        server: server(config),
        login: login(config)?,
    })
}

/// Refuses what means nothing for a server of this kind.
fn only<const N: usize>(config: &ServerConfig, table: &str, keys: [&str; N]) -> Result<(), String> {
    for (key, is_set) in [
        ("folder", config.folder.is_some()),
        ("poll_seconds", config.poll_seconds.is_some()),
    ] {
        if is_set && !keys.contains(&key) {
            return Err(format!("{table}: `{key}` means nothing here: remove it"));
        }
    }
    Ok(())
}

fn server(config: &ServerConfig) -> MailServer {
    MailServer {
        host: config.host.clone(),
        port: config.port,
        tls: match config.tls {
            TlsName::Tls => MailTls::Tls,
            TlsName::StartTls => MailTls::StartTls,
            TlsName::Plain => MailTls::Plain,
        },
        extra_roots: config.ca_file.clone(),
    }
}

fn login(config: &ServerConfig) -> Result<Option<MailLogin>, String> {
    let Some(password_file) = password(config)? else {
        return match config.user {
            None => Ok(None),
            Some(_) => Err(apart(config)),
        };
    };
    let user = config.user.clone().ok_or_else(|| apart(config))?;
    Ok(Some(MailLogin {
        user,
        password_file,
    }))
}

fn apart(config: &ServerConfig) -> String {
    format!(
        "smtp: `user` and `password_file` (or `password_credential`) of {} belong together",
        config.host
    )
}

/// Where the password is.
fn password(config: &ServerConfig) -> Result<Option<PathBuf>, String> {
    let Some(name) = &config.password_credential else {
        return Ok(config.password_file.clone());
    };
    if config.password_file.is_some() {
        return Err("smtp: name `password_file` or `password_credential`, not both".to_owned());
    }
    let is_name = Path::new(name)
        .file_name()
        .is_some_and(|last| last == &**name);
    if !is_name {
        return Err("smtp: `password_credential` is the name of a credential, no path".to_owned());
    }
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").ok_or(
        "smtp: `password_credential` needs a systemd unit with `LoadCredential=`; else use `password_file`",
    )?;
    Ok(Some(Path::new(&folder).join(name)))
}
