//! TLS 1.3 with member keys as raw public keys (RFC 7250) on both sides.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ed25519_dalek::SigningKey;
use noq::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureAlgorithm, SignatureScheme,
};

use super::endpoint::Allow;
use super::error::QuicError;
use crate::member::{MemberId, sign_bytes};

/// The application protocol (RFC 7301) of connections that carry streams.
const STREAMS: &[u8] = b"ringway/1";

/// The application protocol of connections that carry the messages of links, in datagrams.
const LINK: &[u8] = b"ringway-link/1";

/// The application protocol of [`crate::dtl`]: its programs and the members of rings refuse each
/// other.
const DTL: &[u8] = b"dtl/1";

/// What a connection is for. The ALPN says it, so that both kinds share one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Streams,
    Link,
    Dtl,
}

impl Purpose {
    const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Streams => STREAMS,
            Self::Link => LINK,
            Self::Dtl => DTL,
        }
    }

    /// What the two sides have agreed on.
    pub(super) fn of(connection: &noq::Connection) -> Option<Self> {
        let data = connection.handshake_data()?.downcast::<HandshakeData>();
        let protocol = data.ok()?.protocol?;
        let all = [Self::Streams, Self::Link, Self::Dtl];
        all.into_iter().find(|purpose| purpose.alpn() == protocol)
    }
}

/// Who may answer when we connect.
#[derive(Clone)]
pub(crate) enum Expected {
    /// This member only.
    Member(MemberId),
    /// Anybody who is allowed: only the address is known.
    Anybody(Allow),
}

impl Expected {
    pub(super) fn fits(&self, member: &MemberId) -> bool {
        match self {
            Self::Member(expected) => expected == member,
            Self::Anybody(allow) => allow(member),
        }
    }
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(member) => write!(f, "Member({member:?})"),
            Self::Anybody(_) => f.write_str("Anybody"),
        }
    }
}

/// What precedes an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410 §4).
const SPKI_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Our half of all handshakes.
#[derive(Clone)]
pub(super) struct Identity {
    key: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

/// Where a handshake notes the key that the peer showed.
pub(super) type Shown = Arc<OnceLock<MemberId>>;

impl Identity {
    pub(super) fn new(key: &SigningKey) -> Self {
        let member = MemberId::from(key);
        let spki = CertificateDer::from(to_spki(&member));
        let key = MemberKey {
            member,
            key: Arc::new(key.clone()),
        };
        Self {
            key: Arc::new(CertifiedKey::new(vec![spki], Arc::new(key))),
            provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
        }
    }

    /// A client that accepts `expected` and no other member, and notes who answered in `shown`.
    pub(super) fn client(
        &self,
        expected: Expected,
        shown: Shown,
        purpose: Purpose,
    ) -> Result<QuicClientConfig, QuicError> {
        let verifier = VerifyServer { expected, shown };
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| setup(&e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.key.clone(),
            )));
        config.alpn_protocols = vec![purpose.alpn().to_vec()];
        // A resumed session would skip the check of the key, and so a revocation.
        config.resumption = Resumption::disabled();
        // No host on the way needs to know whom we mean.
        config.enable_sni = false;
        config.try_into().map_err(|e| setup(&e))
    }

    /// A server that accepts the members that `allow` allows, for `purposes`.
    pub(super) fn server(
        &self,
        allow: Allow,
        purposes: &[Purpose],
    ) -> Result<QuicServerConfig, QuicError> {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| setup(&e))?
            .with_client_cert_verifier(Arc::new(VerifyClient { allow }))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
                self.key.clone(),
            )));
        config.alpn_protocols = purposes.iter().map(|p| p.alpn().to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.try_into().map_err(|e| setup(&e))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn setup(error: &dyn std::error::Error) -> QuicError {
    QuicError::Setup {
        reason: error.to_string(),
    }
}

fn to_spki(member: &MemberId) -> Vec<u8> {
    [SPKI_HEAD.as_slice(), &member.0].concat()
}

/// The member whose key this is; anything but one Ed25519 key is refused.
pub(super) fn from_spki(spki: &[u8]) -> Option<MemberId> {
    let key = spki.strip_prefix(&SPKI_HEAD)?;
    <[u8; 32]>::try_from(key).ok().map(MemberId)
}

fn shown_member(
    spki: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
) -> Result<MemberId, Error> {
    // RFC 7250 §3: exactly one key.
    let only = others.is_empty().then(|| from_spki(spki)).flatten();
    only.ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

fn refused() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}

fn verify_signature(
    message: &[u8],
    spki: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let bad = || Error::InvalidCertificate(CertificateError::BadSignature);
    if signed.scheme != SignatureScheme::ED25519 {
        return Err(bad());
    }
    let member = from_spki(spki).ok_or_else(bad)?;
    let signature = signed.signature().try_into().map_err(|_| bad())?;
    member
        .verify_bytes(message, &signature)
        .map_err(|_| bad())?;
    Ok(HandshakeSignatureValid::assertion())
}

/// TLS 1.2 is never negotiated; should it be, it fails here.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::Tls13RequiredForQuic.into())
}

#[derive(Debug)]
struct VerifyServer {
    expected: Expected,
    shown: Shown,
}

impl ServerCertVerifier for VerifyServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let member = shown_member(end_entity, intermediates)?;
        let first = *self.shown.get_or_init(|| member);
        if first == member && self.expected.fits(&member) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(refused())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

struct VerifyClient {
    allow: Allow,
}

impl fmt::Debug for VerifyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyClient").finish_non_exhaustive()
    }
}

impl ClientCertVerifier for VerifyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let member = shown_member(end_entity, intermediates)?;
        if (self.allow)(&member) {
            Ok(ClientCertVerified::assertion())
        } else {
            tracing::debug!(%member, "quic: refused a key that is not admitted");
            Err(refused())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A member's private key as TLS asks for it. Cloning shares it.
#[derive(Clone)]
struct MemberKey {
    member: MemberId,
    key: Arc<SigningKey>,
}

impl fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemberKey({:?})", self.member)
    }
}

impl rustls::sign::SigningKey for MemberKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn rustls::sign::Signer>> {
        offered
            .contains(&SignatureScheme::ED25519)
            .then(|| -> Box<dyn rustls::sign::Signer> { Box::new(self.clone()) })
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(to_spki(&self.member).into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl rustls::sign::Signer for MemberKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(sign_bytes(&self.key, message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_round_trips_and_other_bytes_are_refused(
            bytes: [u8; 32],
            random in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let member = MemberId(bytes);
            let mut spki = to_spki(&member);
            prop_assert_eq!(from_spki(&spki), Some(member));
            spki.push(0);
            prop_assert_eq!(from_spki(&spki), None);
            if let Some(member) = from_spki(&random) {
                prop_assert_eq!(to_spki(&member), random);
            }
        }
    }
}
