//! `[smtp]`: messages in mail.

use std::net::SocketAddr;
use std::path::PathBuf;

use ringway_transport::{
    ImapSource, MailAddress, MailLogin, MailRelay, MailServer, MailSource, MailTls, SmtpOptions,
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
    /// Messages a day that any other member may send to the mailbox. Without it there is no limit.
    pub quota: Option<u32>,
    /// Mails that may be sent in any hour.
    pub hourly: Option<usize>,
    /// Mails that may be sent on any day.
    pub daily: Option<usize>,
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
    /// The folder, for IMAP; `INBOX` unless it is said.
    pub folder: Option<String>,
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
            sources.push(MailSource::Imap(ImapSource {
                server: server(imap),
                login,
                folder: imap.folder.clone().unwrap_or_else(|| "INBOX".to_owned()),
            }));
        }
        Ok(sources)
    }
}

fn relay(config: &ServerConfig) -> Result<MailRelay, String> {
    Ok(MailRelay {
        server: server(config),
        login: login(config)?,
    })
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
    match (&config.user, &config.password_file) {
        (Some(user), Some(file)) => Ok(Some(MailLogin {
            user: user.clone(),
            password_file: file.clone(),
        })),
        (None, None) => Ok(None),
        _ => Err(format!(
            "smtp: `user` and `password_file` of {} belong together",
            config.host
        )),
    }
}
