//! The organisation's OpenID Connect issuer, of which the authority is a client.
//!
//! What a token has to pass: signed by a key of the issuer with an algorithm of keys in two halves,
//! for this client alone, unexpired, issued after the sign-in began, and with the nonce of the
//! sign-in where the issuer repeats it. RFC 8628 knows no nonce. What binds the token to the key
//! that joins is the device code, which never leaves the authority.

use std::time::Duration;

use chrono::DateTime;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClaimName, CoreClaimType, CoreClientAuthMethod,
    CoreDeviceAuthorizationResponse, CoreErrorResponseType, CoreGenderClaim, CoreGrantType,
    CoreJsonWebKey, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm, CoreJwsSigningAlgorithm, CoreResponseMode, CoreResponseType,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreSubjectIdentifierType,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AdditionalProviderMetadata, AuthType, ClaimsVerificationError, Client,
    ClientId, ClientSecret, DeviceAuthorizationUrl, DeviceCodeErrorResponseType, DiscoveryError,
    EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenFields,
    IdTokenVerifier, IssuerUrl, Nonce, ProviderMetadata, RequestTokenError, Scope,
    StandardErrorResponse, StandardTokenResponse, TokenResponse as _,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::http::{Http, HttpError, innermost};
use super::person::Person;
use super::refused::Refused;
use super::settings::{Settings, SettingsError};
use crate::clock::unix_seconds;
use crate::limits::{CLOCK_SKEW, ENROL_TIME, ISSUER_PAUSE, SIGN_IN_TIME, SIGN_IN_URL};
use crate::text::printable;

/// What discovery says besides OpenID Connect's own (RFC 8628 §4).
#[derive(Clone, Debug, Deserialize, Serialize)]
struct DeviceMetadata {
    device_authorization_endpoint: Option<DeviceAuthorizationUrl>,
}

impl AdditionalProviderMetadata for DeviceMetadata {}

type Metadata = ProviderMetadata<
    DeviceMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// Claims that are not OpenID Connect's own, such as groups.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OtherClaims {
    #[serde(flatten)]
    claims: Map<String, Value>,
}

impl AdditionalClaims for OtherClaims {}

type TokenAnswer = StandardTokenResponse<
    IdTokenFields<
        OtherClaims,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

type IssuersClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    TokenAnswer,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Algorithms of signatures that are taken. None with a shared secret: a client could make such a
/// token itself. And not `none`.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The issuer, and how it is asked.
#[derive(Debug)]
pub(crate) struct Issuer {
    settings: Settings,
    url: IssuerUrl,
    http: Http,
}

/// A sign-in that has begun at the issuer.
#[derive(Debug)]
pub(crate) struct Begun {
    client: IssuersClient,
    keys_at: openidconnect::JsonWebKeySetUrl,
    device: CoreDeviceAuthorizationResponse,
    nonce: Nonce,
    /// Unix seconds.
    at: u64,
}

/// What the person is shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) url: String,
    /// An address with the code in it, where the issuer has one.
    pub(crate) complete: Option<String>,
    pub(crate) code: String,
    /// How long the code is good.
    pub(crate) time: Duration,
}

impl Issuer {
    pub(crate) fn new(settings: Settings) -> Result<Issuer, SettingsError> {
        settings.check()?;
        let url = IssuerUrl::new(settings.issuer.clone());
        let url = url.map_err(|_| SettingsError::Issuer(settings.issuer.clone()))?;
        let http = Http::new(&settings)?;
        Ok(Issuer {
            settings,
            url,
            http,
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether people can sign in, as far as its own description says.
    pub(crate) async fn check(&self) -> Result<(), Refused> {
        let metadata = self.discover().await?;
        self.device_endpoint(&metadata).map(drop)
    }

    /// Begins a sign-in. `nonce` binds it to the key that joins.
    pub(crate) async fn begin(&self, nonce: String) -> Result<(Shown, Begun), Refused> {
        let asked = tokio::time::timeout(ENROL_TIME * 4 / 5, self.begin_now(nonce)).await;
        asked.unwrap_or_else(|_| Err(self.silent(HttpError::TimedOut.to_string())))
    }

    async fn begin_now(&self, nonce: String) -> Result<(Shown, Begun), Refused> {
        let at = unix_seconds();
        let metadata = self.discover().await?;
        let endpoint = self.device_endpoint(&metadata)?;
        let keys_at = metadata.jwks_uri().clone();
        let scopes = scopes(&metadata);
        let client = self.client(metadata, endpoint);
        let request = client.exchange_device_code().add_scopes(scopes);
        // Issuers that know no nonce here ignore it, as they have to (RFC 6749 §3.1).
        let request = request.add_extra_param("nonce", nonce.clone());
        let device = request.request_async(&self.http).await;
        let device = device.map_err(|error| self.client_refused(error))?;
        let shown = shown(&device)?;
        let nonce = Nonce::new(nonce);
        let begun = Begun {
            client,
            keys_at,
            device,
            nonce,
            at,
        };
        Ok((shown, begun))
    }

    /// Waits until the person has signed in, and says who that is.
    pub(crate) async fn wait(&self, begun: Begun) -> Result<Person, Refused> {
        let request = begun.client.exchange_device_access_token(&begun.device);
        let request = request.map_err(|error| Refused::Token(error.to_string()))?;
        let pause = |time: Duration| tokio::time::sleep(time.max(ISSUER_PAUSE));
        let answer = request.request_async(&self.http, pause, Some(SIGN_IN_TIME));
        let answer = answer.await.map_err(|error| self.not_signed_in(error))?;
        self.person(&begun, &answer).await
    }

    async fn person(&self, begun: &Begun, answer: &TokenAnswer) -> Result<Person, Refused> {
        let token = answer.id_token();
        let token = token.ok_or_else(|| Refused::Token("there is no ID token".to_owned()))?;
        let nonce = |found: Option<&Nonce>| match found {
            Some(found) if found.secret() != begun.nonce.secret() => {
                Err("the nonce is another sign-in's".to_owned())
            }
            _ => Ok(()),
        };
        let verifier = self.rules(begun.client.id_token_verifier(), begun.at);
        let claims = match token.claims(&verifier, nonce) {
            // Its keys may have changed since the sign-in began.
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                let keys = CoreJsonWebKeySet::fetch_async(&begun.keys_at, &self.http).await;
                let keys = keys.map_err(|error| self.silent(innermost(&error)))?;
                let client = ClientId::new(self.settings.client.clone());
                let verifier = IdTokenVerifier::new_public_client(client, self.url.clone(), keys);
                token.claims(&self.rules(verifier, begun.at), nonce)
            }
            claims => claims,
        };
        let claims = claims.map_err(|error| {
            let reason = innermost(&error);
            tracing::warn!(
                issuer = self.settings.issuer,
                reason,
                "an ID token is refused"
            );
            Refused::Token(reason)
        })?;
        let mut all = claims.additional_claims().claims.clone();
        // Those that the library reads by itself.
        let text = |text: &str| Value::String(text.to_owned());
        let email = claims.email().map(|email| text(email.as_str()));
        let verified = claims.email_verified().map(Value::Bool);
        let username = claims.preferred_username().map(|name| text(name.as_str()));
        for (claim, value) in [
            ("email", email),
            ("email_verified", verified),
            ("preferred_username", username),
        ] {
            all.extend(value.map(|value| (claim.to_owned(), value)));
        }
        Person::admitted(&self.settings, claims.subject().as_str(), &all)
    }

    /// What a token has to pass besides issuer, audience and signature.
    fn rules<'a>(
        &self,
        verifier: IdTokenVerifier<'a, CoreJsonWebKey>,
        begun: u64,
    ) -> IdTokenVerifier<'a, CoreJsonWebKey> {
        let skew = CLOCK_SKEW.as_secs();
        let earliest = signed(begun.saturating_sub(skew));
        let time = move || {
            // Behind, so that a token is good for as long as clocks may differ.
            let now = signed(unix_seconds().saturating_sub(skew));
            DateTime::from_timestamp_secs(now).unwrap_or_default()
        };
        verifier
            .set_allowed_algs(ALGORITHMS)
            .set_other_audience_verifier_fn(|_| false)
            .set_time_fn(time)
            .set_issue_time_verifier_fn(move |issued| {
                let latest = signed(unix_seconds().saturating_add(skew));
                match issued.timestamp() {
                    at if at < earliest => Err("it was issued before this sign-in began".to_owned()),
                    at if at > latest => Err("it is issued in the future: compare the clocks of the issuer and the authority".to_owned()),
                    _ => Ok(()),
                }
            })
    }

    async fn discover(&self) -> Result<Metadata, Refused> {
        let found = Metadata::discover_async(self.url.clone(), &self.http).await;
        found.map_err(|error| {
            let reason = match &error {
                DiscoveryError::Response(status, ..) => {
                    format!("it answers {status} at its /.well-known/openid-configuration")
                }
                DiscoveryError::Validation(reason) => reason.clone(),
                error => innermost(error),
            };
            self.silent(reason)
        })
    }

    fn device_endpoint(&self, metadata: &Metadata) -> Result<DeviceAuthorizationUrl, Refused> {
        let endpoint = &metadata.additional_metadata().device_authorization_endpoint;
        let none = || Refused::NoDeviceGrant(self.settings.issuer.clone());
        endpoint.clone().ok_or_else(none)
    }

    fn client(&self, metadata: Metadata, endpoint: DeviceAuthorizationUrl) -> IssuersClient {
        let methods = metadata.token_endpoint_auth_methods_supported();
        // OpenID Connect Discovery 1.0 §3: where nothing is said, it is this one.
        let basic = CoreClientAuthMethod::ClientSecretBasic;
        let in_head = methods.is_none_or(|methods| methods.contains(&basic));
        let secret = self.settings.secret.as_ref();
        let secret = secret.map(|secret| ClientSecret::new(secret.to_string()));
        let id = ClientId::new(self.settings.client.clone());
        let client = Client::from_provider_metadata(metadata, id, secret);
        let way = if in_head {
            AuthType::BasicAuth
        } else {
            AuthType::RequestBody
        };
        client
            .set_device_authorization_url(endpoint)
            .set_auth_type(way)
    }

    fn silent(&self, reason: String) -> Refused {
        let issuer = self.settings.issuer.clone();
        tracing::warn!(issuer, reason, "the issuer of sign-ins does not answer");
        Refused::Silent { issuer, reason }
    }

    fn client_refused(
        &self,
        error: RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>,
    ) -> Refused {
        let reason = match error {
            RequestTokenError::ServerResponse(answer) => printable(&answer.to_string(), 200),
            // What is no answer of OAuth: a page of an error, most likely.
            RequestTokenError::Parse(..) => "its answer is none of OAuth's".to_owned(),
            error => return self.silent(innermost(&error)),
        };
        let issuer = self.settings.issuer.clone();
        tracing::warn!(
            issuer,
            reason,
            "the issuer refuses this authority's request"
        );
        Refused::Client { issuer, reason }
    }

    fn not_signed_in(
        &self,
        error: RequestTokenError<HttpError, openidconnect::DeviceCodeErrorResponse>,
    ) -> Refused {
        let RequestTokenError::ServerResponse(answer) = &error else {
            return match error {
                RequestTokenError::Parse(error, _) => Refused::Token(innermost(&error)),
                error => self.silent(innermost(&error)),
            };
        };
        match answer.error() {
            DeviceCodeErrorResponseType::ExpiredToken => Refused::Expired,
            DeviceCodeErrorResponseType::AccessDenied => Refused::Denied,
            // What the person cannot mend.
            _ => {
                let issuer = self.settings.issuer.clone();
                let reason = printable(&answer.to_string(), 200);
                tracing::warn!(
                    issuer,
                    reason,
                    "the issuer refuses this authority's request"
                );
                Refused::Client { issuer, reason }
            }
        }
    }
}

/// What the person is shown, if it can be.
fn shown(device: &CoreDeviceAuthorizationResponse) -> Result<Shown, Refused> {
    let address = |text: &str| {
        let web = text.starts_with("https://") || text.starts_with("http://");
        let fits = web && text.len() <= SIGN_IN_URL && printable(text, SIGN_IN_URL) == text;
        fits.then(|| text.to_owned())
    };
    let url = address(device.verification_uri().as_str());
    let code = printable(device.user_code().secret(), 64);
    let Some(url) = url.filter(|_| !code.is_empty()) else {
        return Err(Refused::Token("its address or its code is none".to_owned()));
    };
    let complete = device.verification_uri_complete();
    Ok(Shown {
        url,
        complete: complete.and_then(|complete| address(complete.secret())),
        code,
        time: device.expires_in().min(SIGN_IN_TIME),
    })
}

/// What is asked for: who the person is, and its groups where the issuer knows such a scope. One
/// that it does not know it would refuse.
fn scopes(metadata: &Metadata) -> Vec<Scope> {
    let known = metadata.scopes_supported();
    let usual = ["profile", "email"].map(|scope| Scope::new(scope.to_owned()));
    let groups = Scope::new("groups".to_owned());
    let mut scopes: Vec<Scope> = usual.into();
    if let Some(known) = known {
        scopes.retain(|scope| known.contains(scope));
        scopes.extend(known.contains(&groups).then_some(groups));
    }
    scopes
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
