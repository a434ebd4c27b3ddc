//! TLS to servers that show certificates of public authorities, or of the organisation's own.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The client side of TLS. The system's authorities are read at first use.
#[derive(Clone)]
pub struct WebTls {
    extra: Arc<[CertificateDer<'static>]>,
    connector: Arc<OnceCell<TlsConnector>>,
}

impl std::fmt::Debug for WebTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebTls")
            .field("extra", &self.extra.len())
            .finish_non_exhaustive()
    }
}

impl WebTls {
    /// Believes the system's authorities and those in the PEM file.
    ///
    /// # Errors
    /// When the file cannot be read, or has no certificate.
    pub fn load(extra_roots: Option<&Path>) -> io::Result<Self> {
        let extra = match extra_roots {
            Some(path) => certificates(path)?,
            None => Vec::new(),
        };
        Ok(Self {
            extra: extra.into(),
            connector: Arc::default(),
        })
    }

    /// Greets the server `name` over the stream. The caller limits the time.
    ///
    /// # Errors
    /// When the name is none, the server's certificate is not believed, or the stream fails.
    pub async fn connect<S>(&self, name: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let extra = self.extra.clone();
        // Reading some hundred files must not hold up the runtime.
        let made = self.connector.get_or_try_init(|| async {
            tokio::task::spawn_blocking(move || connector(&extra)).await?
        });
        made.await?.connect(name, stream).await
    }
}

/// The certificates in a PEM file; not none.
pub(crate) fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).map_err(io::Error::other)?;
    let certificates = read.collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(io::Error::other)?;
    if certificates.is_empty() {
        return Err(io::Error::other("there is no PEM certificate in it"));
    }
    Ok(certificates)
}

fn connector(extra: &[CertificateDer<'static>]) -> io::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in &system.errors {
        tracing::debug!(%error, "a root certificate of the system cannot be read");
    }
    // One that does not parse must not make the others useless.
    roots.add_parsable_certificates(system.certs);
    for certificate in extra {
        roots.add(certificate.clone()).map_err(io::Error::other)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
