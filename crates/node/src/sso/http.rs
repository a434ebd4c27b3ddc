//! Requests to the issuer: HTTP/1.1 over TLS, by hyper and the rustls that transports have.
//!
//! One connection carries one request: a sign-in needs three. No redirect is followed, so that an
//! answer comes from where the issuer has said, and no answer is longer than its bound.

use std::future::Future;
use std::io;
use std::pin::Pin;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use openidconnect::http::{self, Uri, header};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use ringway_transport::WebTls;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::settings::{Settings, SettingsError, is_loopback};
use crate::limits::{ISSUER_ANSWER, ISSUER_TIME};
use crate::text::printable;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{0} is no address that can be asked: https:// is needed")]
    Address(String),
    #[error("{host} cannot be reached: {source}")]
    Unreachable { host: String, source: io::Error },
    #[error("the proxy {proxy} {reason}")]
    Proxy { proxy: String, reason: String },
    #[error("the TLS of {host} is not believed: {source}")]
    Tls { host: String, source: io::Error },
    #[error("no answer within {} s", ISSUER_TIME.as_secs())]
    TimedOut,
    #[error("the answer is longer than {ISSUER_ANSWER} bytes")]
    TooLong,
    #[error("{host} redirects to {to}: the issuer's address is another one")]
    Redirected { host: String, to: String },
    #[error("{0}")]
    Failed(String),
}

/// What asks an issuer.
#[derive(Clone, Debug)]
pub(super) struct Http {
    tls: WebTls,
    /// `HOST:PORT`.
    proxy: Option<String>,
}

impl Http {
    pub(super) fn new(settings: &Settings) -> Result<Http, SettingsError> {
        let tls = WebTls::load(settings.ca.as_deref());
        let tls = tls.map_err(|source| SettingsError::Ca {
            path: settings.ca.clone().unwrap_or_default(),
            source,
        })?;
        let proxy = settings.proxy_at().map(str::to_owned);
        Ok(Http { tls, proxy })
    }

    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let target = Target::of(request.uri())?;
        if target.is_plain {
            let stream = connect(&target.host, target.port).await?;
            return exchange(stream, &target, request).await;
        }
        let stream = match &self.proxy {
            Some(proxy) => through(proxy, &target).await?,
            None => connect(&target.host, target.port).await?,
        };
        let greeted = self.tls.connect(&target.host, stream).await;
        let stream = greeted.map_err(|source| HttpError::Tls {
            host: target.host.clone(),
            source,
        })?;
        exchange(stream, &target, request).await
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let asked = timeout(ISSUER_TIME, self.ask(request)).await;
            asked.unwrap_or(Err(HttpError::TimedOut))
        })
    }
}

/// Where a request goes.
struct Target {
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// True for HTTP without TLS, which is for this machine only.
    is_plain: bool,
}

impl Target {
    fn of(uri: &Uri) -> Result<Target, HttpError> {
        let refused = || HttpError::Address(printable(&uri.to_string(), 200));
        let host = uri.host().ok_or_else(refused)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // Also of what the issuer's discovery names, such as its token endpoint.
        let is_plain = match uri.scheme_str() {
            Some("https") => false,
            Some("http") if is_loopback(host) => true,
            _ => return Err(refused()),
        };
        let usual = if is_plain { 80 } else { 443 };
        Ok(Target {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(usual),
            is_plain,
        })
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, HttpError> {
    let connected = TcpStream::connect((host, port)).await;
    connected.map_err(|source| HttpError::Unreachable {
        host: format!("{host}:{port}"),
        source,
    })
}

/// A stream to the target that an HTTP proxy has opened (RFC 9110 §9.3.6).
async fn through(proxy: &str, target: &Target) -> Result<TcpStream, HttpError> {
    /// Bytes of the proxy's answer.
    const HEAD: usize = 8_192;
    let failed = |reason: String| HttpError::Proxy {
        proxy: proxy.to_owned(),
        reason,
    };
    let connected = TcpStream::connect(proxy).await;
    let mut stream = connected.map_err(|error| failed(format!("cannot be reached: {error}")))?;
    let Target { host, port, .. } = target;
    let at = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let request = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let broken = |error: io::Error| failed(format!("has ended the connection: {error}"));
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    // By single bytes: what follows the head is the target's.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD {
            return Err(failed("answers too much".to_owned()));
        }
        head.push(stream.read_u8().await.map_err(broken)?);
    }
    let first = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    match first.split(' ').nth(1) {
        Some("200") => Ok(stream),
        _ => Err(failed(format!("refuses: {}", printable(&first, 100)))),
    }
}

async fn exchange<S>(
    stream: S,
    target: &Target,
    request: HttpRequest,
) -> Result<HttpResponse, HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |error: hyper::Error| HttpError::Failed(error.to_string());
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().map(ToString::to_string);
    let host = authority.unwrap_or_else(|| target.host.clone());
    let host = header::HeaderValue::from_str(&host);
    let host = host.map_err(|error| HttpError::Failed(error.to_string()))?;
    parts.headers.insert(header::HOST, host);
    let close = header::HeaderValue::from_static("close");
    parts.headers.insert(header::CONNECTION, close);
    // To a server, and not a proxy, goes the path alone.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path
        .parse()
        .map_err(|_| HttpError::Address(path.to_owned()))?;
    let request = http::Request::from_parts(parts, Full::new(Bytes::from(body)));
    let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = made.map_err(failed)?;
    let connection = tokio::spawn(async move { connection.await.ok() });
    // It ends with the answer, or with this: nothing is left behind.
    let _ends = AbortOnDrop(connection);
    let answer = sender.send_request(request).await.map_err(failed)?;
    let (parts, body) = answer.into_parts();
    if parts.status.is_redirection() {
        let to = parts.headers.get(header::LOCATION);
        let to = to.and_then(|to| to.to_str().ok()).unwrap_or_default();
        return Err(HttpError::Redirected {
            host: target.host.clone(),
            to: printable(to, 200),
        });
    }
    let body = Limited::new(body, ISSUER_ANSWER).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            HttpError::TooLong
        } else {
            HttpError::Failed(error.to_string())
        }
    })?;
    Ok(http::Response::from_parts(parts, body.to_bytes().to_vec()))
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the innermost error says, which is what people can mend something by.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        // Errors of this file name the host, which their sources do not.
        if at.is::<HttpError>() {
            break;
        }
        at = source;
    }
    printable(&at.to_string(), 200)
}

#[cfg(test)]
mod tests;
