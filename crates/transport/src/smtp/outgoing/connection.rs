//! A connection to the relay, kept for the next mail.

use std::io::{self, Cursor};
use std::net::SocketAddr;

use lettre::Address;
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Ehlo, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use smtp_proto::response::parser::ResponseReceiver;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::smtp::metered::{Budget, Io, Metered};
use crate::smtp::options::{MailRelay, MailTls};
use crate::web_tls::WebTls;

type Stream = Metered<Box<dyn Io>>;

impl AsyncTokioStream for Stream {
    /// Never asked for.
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Why the relay did not take a mail.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection failed, or the relay ended it: another one may do.
    Lost(String),
    /// The relay says that it may take the mail later.
    Later(String),
    /// It never will.
    Never(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

impl From<lettre::transport::smtp::Error> for Failure {
    fn from(error: lettre::transport::smtp::Error) -> Self {
        let reason = error.to_string();
        // RFC 5321 §3.8: 421 says that it ends the connection.
        let ended = error.status().is_none_or(|code| u16::from(code) == 421);
        if error.is_permanent() || error.is_client() {
            Self::Never(reason)
        } else if ended {
            Self::Lost(reason)
        } else {
            Self::Later(reason)
        }
    }
}

/// A connection on which the relay knows who we are.
pub(super) struct Connection {
    smtp: AsyncSmtpConnection,
    answers: Budget,
    /// Whether commands may leave together (RFC 2920).
    pipelines: bool,
}

impl Connection {
    /// Connects and logs in. The caller limits the time.
    pub(super) async fn open(
        relay: &MailRelay,
        tls: &WebTls,
        domain: &str,
    ) -> Result<Self, Failure> {
        let server = &relay.server;
        let answers = Budget::default();
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
        // The dot behind a mail must not wait until the mail is acknowledged.
        stream.set_nodelay(true)?;
        let stream: Box<dyn Io> = match server.tls {
            MailTls::Plain => Box::new(stream),
            MailTls::Tls => Box::new(tls.connect(&server.host, stream).await?),
            MailTls::StartTls => {
                let bare = start_tls(stream, domain).await?;
                let stream = tls.connect(&server.host, bare).await?;
                Box::new(greeted(stream))
            }
        };
        let stream = Box::new(answers.meter(stream));
        let name = ClientId::Domain(domain.to_owned());
        let mut smtp = AsyncSmtpConnection::connect_with_transport(stream, &name).await?;
        if let Some(login) = &relay.login {
            let password = login.password()?;
            let login = Credentials::new(login.user.clone(), password.to_string());
            let ways = [Mechanism::Plain, Mechanism::Login];
            smtp.auth(&ways, &login).await?;
        }
        // Once more: the library does not tell whether commands may leave together.
        let greeting = smtp.command(Ehlo::new(name)).await?;
        let mut offers = greeting.message();
        let pipelines = offers.any(|line| line.trim().eq_ignore_ascii_case("PIPELINING"));
        Ok(Self {
            smtp,
            answers,
            pipelines,
        })
    }

    /// Sends one mail, without an envelope sender: no server sends a bounce for a bounce. After a
    /// failure the connection is of no use.
    pub(super) async fn send(&mut self, to: &Address, mail: &[u8]) -> Result<(), Failure> {
        self.answers.renew();
        if !self.pipelines || !AsRef::<str>::as_ref(to).is_ascii() {
            let to = Envelope::new(None, vec![to.clone()]);
            let to = to.map_err(|error| Failure::Never(error.to_string()))?;
            self.smtp.send(&to, mail).await?;
            return Ok(());
        }
        let (from, to) = (
            Mail::new(None, Vec::new()),
            Rcpt::new(to.clone(), Vec::new()),
        );
        self.smtp.command(format!("{from}{to}{Data}")).await?;
        // Each has its answer.
        self.smtp.read_response().await?;
        self.smtp.read_response().await?;
        self.smtp.message(mail).await?;
        Ok(())
    }

    /// Says goodbye. The caller limits the time.
    pub(super) async fn quit(mut self) {
        self.answers.renew();
        // It ends either way.
        self.smtp.quit().await.ok();
    }
}

/// Asks for TLS. What stands behind the relay's answer came in the clear from anybody, and ends the
/// connection.
async fn start_tls(mut stream: TcpStream, domain: &str) -> Result<TcpStream, Failure> {
    expect(&mut stream, "", 220).await?;
    let offers = expect(&mut stream, &format!("EHLO {domain}\r\n"), 250).await?;
    let mut offers = offers.lines();
    if !offers.any(|line| line.trim().eq_ignore_ascii_case("STARTTLS")) {
        return Err(Failure::Lost("the relay offers no STARTTLS".to_owned()));
    }
    expect(&mut stream, "STARTTLS\r\n", 220).await?;
    Ok(stream)
}

/// Says something and waits for the answer with the code.
async fn expect(stream: &mut TcpStream, text: &str, code: u16) -> Result<String, Failure> {
    stream.write_all(text.as_bytes()).await?;
    let (mut receiver, mut buffer) = (ResponseReceiver::default(), [0; 1024]);
    loop {
        let size = stream.read(&mut buffer).await?;
        if size == 0 {
            return Err(Failure::Lost("the relay ended the connection".to_owned()));
        }
        let mut arrived = buffer.get(..size).unwrap_or_default().iter();
        let response = match receiver.parse(&mut arrived) {
            Ok(response) => response,
            Err(smtp_proto::Error::NeedsMoreData { .. }) => continue,
            Err(error) => return Err(Failure::Lost(format!("no answer of SMTP: {error:?}"))),
        };
        if !arrived.as_slice().is_empty() {
            let reason = "the relay says something that it was not asked";
            return Err(Failure::Lost(reason.to_owned()));
        }
        if response.code != code {
            return Err(Failure::Lost(response.to_string()));
        }
        return Ok(response.message);
    }
}

/// A stream behind TLS as one from the beginning: the library waits for a greeting, which came
/// before.
fn greeted(stream: impl Io + 'static) -> impl Io {
    let (read, write) = tokio::io::split(stream);
    tokio::io::join(Cursor::new("220 ready\r\n").chain(read), write)
}
