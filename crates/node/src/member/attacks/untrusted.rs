//! Servers whose certificate is not trusted.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::TlsAcceptor;

use super::*;

/// A TLS server with a certificate that no authority has signed; its port.
async fn untrusted_server() -> u16 {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            assert!(acceptor.accept(stream).await.is_err());
        }
    });
    port
}

/// What `ringway path` shows, and `ringway ping` adds to its failure.
#[tokio::test]
async fn untrusted_certificate_is_named_with_its_address() {
    let mut owner = Owner::new();
    let address = format!(
        "wss://127.0.0.1:{}/ringway#localhost",
        untrusted_server().await
    );
    let peer = format!("[[peer]]\nname = \"lima\"\naddresses = [\"{address}\"]\n");
    let configured = format!("transports = [\"ws\"]\n{peer}");
    let oslo = Honest::start(&mut owner, "oslo", &configured).await;
    let lima = Puppet::new(&mut owner, "lima").await;
    let start = Instant::now();
    let shown = loop {
        assert!(oslo.handle.echo(lima.certificate.clone()).await.is_err());
        let paths = oslo.handle.paths(&lima.certificate).await.unwrap();
        if paths.last_errors().next().is_some() {
            break paths;
        }
        assert!(start.elapsed() < SOON, "{paths:?}");
    };
    assert!(!shown.linked);
    let errors: Vec<&str> = shown.last_errors().collect();
    let [error] = errors[..] else {
        panic!("{errors:?}")
    };
    assert!(error.contains(&address), "{error}");
    assert!(error.contains("UnknownIssuer"), "{error}");
    let path = shown.paths.iter().find(|path| path.address == address);
    assert_eq!(path.unwrap().reason, error);
}
