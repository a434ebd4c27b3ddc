//! Another QUIC stack, the crate quinn, as our peer: it dials us and we dial it. It has nothing of
//! ours; raw public keys come from rustls alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{AckFrequencyConfig, TransportConfig};
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::{QuicEndpoint, QuicOptions};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use crate::support::{key, loopback, soon};

/// What both ends must offer (RFC 7301).
const ALPN: &[u8] = b"ringway/1";

/// What precedes an Ed25519 private key in PKCS #8 (RFC 8410 §7).
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Bytes each way: several times the windows.
const BYTES: usize = 6_000_000;

/// Time in which a peer's clock is asked for at least twice: who sends at priority 0 does so every
/// second.
const ASKED_TWICE: Duration = Duration::from_millis(3500);

const OURS: u16 = 1;
const THEIRS: u16 = 2;

fn ours() -> (QuicEndpoint, SocketAddr) {
    let only = Arc::new(|member: &MemberId| *member == MemberId::from(&key(THEIRS)));
    let options = QuicOptions::default();
    let endpoint = QuicEndpoint::bind(loopback(), &key(OURS), only, options).unwrap();
    let address = endpoint.local_address().unwrap();
    (endpoint, address)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Their key, as rustls alone makes it.
fn raw_key() -> Arc<CertifiedKey> {
    let pkcs8 = [PKCS8_HEAD.as_slice(), key(THEIRS).as_bytes()].concat();
    let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pkcs8));
    let key = aws_lc_rs::sign::any_supported_type(&der).unwrap();
    let spki = CertificateDer::from(key.public_key().unwrap().to_vec());
    Arc::new(CertifiedKey::new(vec![spki], key))
}

/// Whether quinn is to ask us for an acknowledgement frequency of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Yes,
    No,
}

fn settings(asks: Asks) -> TransportConfig {
    let mut config = TransportConfig::default();
    if asks == Asks::Yes {
        config.ack_frequency_config(Some(AckFrequencyConfig::default()));
    }
    config
}

/// What programs without a ring offer.
const PROGRAMS: &[u8] = b"dtl/1";

fn client_config(asks: Asks, alpn: &[u8]) -> quinn::ClientConfig {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OnlyOurs))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(raw_key())));
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(settings(asks)));
    config
}

fn server_config(settings: TransportConfig) -> quinn::ServerConfig {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(OnlyOurs))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(raw_key())));
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicServerConfig::try_from(tls).unwrap();
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(settings));
    config
}

/// Takes our key and no other, by rustls's own check of the signature.
#[derive(Debug)]
struct OnlyOurs;

impl OnlyOurs {
    fn is_ours(spki: &CertificateDer<'_>) -> Result<(), Error> {
        // RFC 8410 §4: the key is what the structure ends with.
        match spki.ends_with(MemberId::from(&key(OURS)).as_bytes()) {
            true => Ok(()),
            false => Err(Error::General("not the key of the endpoint".into())),
        }
    }

    fn signed(
        message: &[u8],
        spki: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(spki.as_ref());
        let known = provider().signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &spki, signed, &known)
    }
}

impl ServerCertVerifier for OnlyOurs {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::is_ours(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::signed(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OnlyOurs {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Self::is_ours(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::signed(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Sends [`BYTES`] and expects them back while they are still being sent.
async fn ask(mut send: impl AsyncWrite + Unpin, mut receive: impl AsyncRead + Unpin) {
    let data: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    let mut back = Vec::with_capacity(BYTES);
    let sending = async {
        send.write_all(&data).await.unwrap();
        send.shutdown().await.unwrap();
    };
    let receiving = async { receive.read_to_end(&mut back).await.unwrap() };
    soon(async { tokio::join!(sending, receiving) }).await;
    assert!(back == data, "the same bytes come back");
}

/// Sends back what comes.
async fn echo(mut send: impl AsyncWrite + Unpin, mut receive: impl AsyncRead + Unpin) {
    tokio::io::copy(&mut receive, &mut send).await.unwrap();
    send.shutdown().await.unwrap();
}

/// What must hold at their end after all has been sent.
fn check(connection: &quinn::Connection, asks: Asks) {
    let stats = connection.stats();
    // Our controller wants a sample for each packet, and says so to those who understand it
    // (draft-ietf-quic-ack-frequency).
    assert!(stats.frame_rx.ack_frequency > 0, "we ask them");
    assert_eq!(stats.frame_tx.ack_frequency > 0, asks == Asks::Yes);
    assert!(stats.path.current_mtu > 1200, "larger packets were found");
}

#[tokio::test]
async fn quinn_dials_us_and_data_goes_both_ways() {
    for asks in [Asks::No, Asks::Yes] {
        let (endpoint, address) = ours();
        let answering = tokio::spawn(async move {
            let connection = endpoint.accept().await.unwrap();
            assert_eq!(connection.peer(), MemberId::from(&key(THEIRS)));
            let (send, receive) = connection.accept_bi().await.unwrap();
            echo(send, receive).await;
            connection.closed().await
        });
        let theirs = quinn::Endpoint::client(loopback()).unwrap();
        let dialling = theirs.connect_with(client_config(asks, ALPN), address, "any.name");
        let connection = soon(dialling.unwrap()).await.unwrap();
        let (send, receive) = connection.open_bi().await.unwrap();
        ask(send, receive).await;
        check(&connection, asks);
        connection.close(5_u32.into(), b"done");
        let closed = soon(answering).await.unwrap().to_string();
        assert!(closed.contains("done"), "{closed}");
    }
}

/// The other side of [`ringway_transport::dtl`] may be any QUIC stack with raw public keys.
#[tokio::test]
async fn quinn_dials_a_program_without_a_ring() {
    use ringway_transport::dtl::{Endpoint, Key, PeerKey, Trust};
    let theirs = PeerKey::from_bytes(*MemberId::from(&key(THEIRS)).as_bytes());
    let ours = Key::from_bytes(&key(OURS).to_bytes());
    let endpoint = Endpoint::bind(loopback(), &ours, Trust::from(theirs)).unwrap();
    let address = endpoint.local_address().unwrap();
    let answering = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap();
        assert_eq!(connection.peer_key(), theirs);
        let (receive, send) = connection.accept().await.unwrap().into_split();
        echo(send, receive).await;
        connection.closed().await
    });
    let quinn = quinn::Endpoint::client(loopback()).unwrap();
    let dialling = quinn.connect_with(client_config(Asks::No, PROGRAMS), address, "any.name");
    let connection = soon(dialling.unwrap()).await.unwrap();
    let (send, receive) = connection.open_bi().await.unwrap();
    ask(send, receive).await;
    connection.close(5_u32.into(), b"done");
    let closed = soon(answering).await.unwrap().to_string();
    assert!(closed.contains("done"), "{closed}");
}

#[tokio::test]
async fn we_dial_quinn_and_data_goes_both_ways() {
    for (asks, priority) in [
        (Asks::No, Priority::NORMAL),
        (Asks::Yes, Priority::SCAVENGER),
    ] {
        let theirs = quinn::Endpoint::server(server_config(settings(asks)), loopback()).unwrap();
        let address = theirs.local_addr().unwrap();
        let answering = tokio::spawn(async move {
            let connection = theirs.accept().await.unwrap().await.unwrap();
            let (send, receive) = connection.accept_bi().await.unwrap();
            echo(send, receive).await;
            connection.closed().await;
            check(&connection, asks);
        });
        let (endpoint, _) = ours();
        let member = MemberId::from(&key(THEIRS));
        let connection = soon(endpoint.connect(address, member, priority))
            .await
            .unwrap();
        let (send, receive) = connection.open_bi().await.unwrap();
        ask(send, receive).await;
        let report = connection.report();
        assert!(report.sent_bytes as usize > BYTES);
        assert!(report.base_delay.is_some() && report.pacing_rate.is_some());
        connection.close(0, "");
        soon(answering).await.unwrap();
    }
}

/// Sends for as long as [`ASKED_TWICE`] and expects it all back.
async fn ask_long(mut send: impl AsyncWrite + Unpin, mut receive: impl AsyncRead + Unpin) {
    let began = Instant::now();
    let mut data = Vec::new();
    let sending = async {
        while began.elapsed() < ASKED_TWICE {
            let chunk: Vec<u8> = (0..2000).map(|n| ((data.len() + n) % 251) as u8).collect();
            send.write_all(&chunk).await.unwrap();
            data.extend(chunk);
            sleep(Duration::from_millis(5)).await;
        }
        send.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let receiving = async { receive.read_to_end(&mut back).await.unwrap() };
    soon(async { tokio::join!(sending, receiving) }).await;
    assert!(back == data, "the same bytes come back");
}

/// The question is for a reading of its clock.
#[tokio::test]
async fn quinn_is_asked_only_if_it_takes_datagrams() {
    // What quinn does unless told otherwise is to take them. No task reads these.
    for takes in [true, false] {
        let mut settings = settings(Asks::No);
        if !takes {
            settings.datagram_receive_buffer_size(None);
        }
        let theirs = quinn::Endpoint::server(server_config(settings), loopback()).unwrap();
        let address = theirs.local_addr().unwrap();
        let answering = tokio::spawn(async move {
            let connection = theirs.accept().await.unwrap().await.unwrap();
            let (send, receive) = connection.accept_bi().await.unwrap();
            echo(send, receive).await;
            let closed = connection.closed().await.to_string();
            (connection.stats().frame_rx.datagram, closed)
        });
        let (endpoint, _) = ours();
        let member = MemberId::from(&key(THEIRS));
        let connecting = endpoint.connect(address, member, Priority::SCAVENGER);
        let connection = soon(connecting).await.unwrap();
        let (send, receive) = connection.open_bi().await.unwrap();
        ask_long(send, receive).await;
        // It tells nothing.
        assert_eq!(connection.report().way_back_delay, None);
        connection.close(0, "done");
        let (datagrams, closed) = soon(answering).await.unwrap();
        assert_eq!(datagrams > 0, takes, "{datagrams} datagrams");
        assert!(closed.contains("done"), "{closed}");
    }
}

#[tokio::test]
async fn quinn_with_an_ordinary_certificate_is_refused() {
    let (_endpoint, address) = ours();
    let made = rcgen::generate_simple_self_signed(["any.name".to_owned()]).unwrap();
    let private = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OnlyOurs))
        .with_client_auth_cert(vec![made.cert.der().clone()], private.into())
        .unwrap();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let theirs = quinn::Endpoint::client(loopback()).unwrap();
    let dialling = theirs.connect_with(config, address, "any.name").unwrap();
    let refused = soon(async {
        // With TLS 1.3 a client may be done before its certificate is judged.
        match dialling.await {
            Ok(connection) => connection.closed().await,
            Err(error) => error,
        }
    })
    .await;
    assert!(refused.to_string().contains("CertificateType"), "{refused}");
}
