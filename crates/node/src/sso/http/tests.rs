//! Requests that go nowhere, by a proxy, and over TLS that is believed or not.

use std::path::PathBuf;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

fn http(change: impl FnOnce(&mut Settings)) -> Http {
    let mut settings = Settings::new("https://localhost", vec!["staff".to_owned()]);
    change(&mut settings);
    Http::new(&settings).unwrap()
}

fn request(url: &str) -> HttpRequest {
    http::Request::get(url).body(Vec::new()).unwrap()
}

#[test]
fn only_this_machine_is_asked_without_tls() {
    for good in [
        "http://127.0.0.1:1/x",
        "http://[::1]/x",
        "https://sso.example.org/x",
    ] {
        assert!(Target::of(&good.parse().unwrap()).is_ok(), "{good}");
    }
    for bad in ["http://192.0.2.1/token", "ftp://localhost/", "/token"] {
        assert!(Target::of(&bad.parse().unwrap()).is_err(), "{bad}");
    }
}

/// A server for one connection, with a certificate of its own in the file.
async fn tls_server(folder: &std::path::Path) -> (u16, PathBuf) {
    let names = vec!["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let file = folder.join("ca.pem");
    std::fs::write(&file, cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("localhost:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return;
        };
        let mut asked = [0; 1_024];
        let length = stream.read(&mut asked).await.unwrap();
        assert!(asked[..length].starts_with(b"GET /x HTTP/1.1"));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(answer).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    (port, file)
}

#[tokio::test]
async fn tls_of_an_unknown_authority_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (port, _) = tls_server(folder.path()).await;
    let url = format!("https://localhost:{port}/x");
    let refused = http(|_| {}).ask(request(&url)).await.unwrap_err();
    assert!(matches!(refused, HttpError::Tls { .. }), "{refused}");
}

#[tokio::test]
async fn tls_of_a_given_authority_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (port, file) = tls_server(folder.path()).await;
    let client = http(|settings| settings.ca = Some(file));
    let url = format!("https://localhost:{port}/x");
    let answer = client.ask(request(&url)).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.body().as_slice()),
        (200, &b"ok"[..])
    );
}

/// A proxy for one connection, which says this.
async fn proxy(says: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 1_024];
        let length = stream.read(&mut asked).await.unwrap();
        stream.write_all(says.as_bytes()).await.unwrap();
        String::from_utf8(asked[..length].to_vec()).unwrap()
    });
    (at, asked)
}

#[tokio::test]
async fn proxies_are_asked_for_the_issuer() {
    let target = Target::of(&"https://sso.example.org/x".parse().unwrap()).unwrap();
    let (at, asked) = proxy("HTTP/1.1 200 OK\r\nVia: x\r\n\r\n").await;
    through(&at, &target).await.unwrap();
    assert!(
        asked
            .await
            .unwrap()
            .starts_with("CONNECT sso.example.org:443 HTTP/1.1\r\n")
    );
    let (at, _) = proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    let refused = through(&at, &target).await.unwrap_err().to_string();
    assert!(refused.contains("refuses: HTTP/1.1 407"), "{refused}");
    let (at, _) = proxy("").await;
    assert!(through(&at, &target).await.is_err());
}
