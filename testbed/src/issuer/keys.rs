//! The keys of an issuer, and tokens signed with them or in their name.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use aws_lc_rs::{error::Unspecified, hmac};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::{CLIENT, Fault};
use crate::TestbedError;

#[derive(Debug)]
enum Key {
    Rsa(RsaKeyPair),
    Elliptic(EcdsaKeyPair),
}

/// The key that is published, and one that is not.
#[derive(Debug)]
pub(super) struct Keys {
    own: Key,
    other: Key,
    /// Differs for each.
    id: String,
}

fn key(elliptic: bool) -> Result<Key, Unspecified> {
    Ok(if elliptic {
        Key::Elliptic(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?)
    } else {
        Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048)?)
    })
}

impl Keys {
    pub(super) fn new(elliptic: bool) -> Result<Keys, TestbedError> {
        let made = || -> Result<Keys, Unspecified> {
            let mut id = [0; 8];
            aws_lc_rs::rand::fill(&mut id)?;
            Ok(Keys {
                own: key(elliptic)?,
                other: key(elliptic)?,
                id: encoded(&id),
            })
        };
        made().map_err(|error| TestbedError::of("making keys", error))
    }

    /// As a JSON Web Key Set (RFC 7517).
    pub(super) fn published(&self) -> Value {
        let mut published = match &self.own {
            Key::Rsa(key) => {
                let public = key.public_key();
                let modulus = public.modulus().big_endian_without_leading_zero();
                let exponent = public.exponent().big_endian_without_leading_zero();
                json!({"kty": "RSA", "alg": "RS256", "n": encoded(modulus), "e": encoded(exponent)})
            }
            Key::Elliptic(key) => {
                // A byte that says that both coordinates follow.
                let point = key.public_key().as_ref();
                let (x, y) = point[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "x": encoded(x), "y": encoded(y)})
            }
        };
        published["kid"] = self.id.clone().into();
        published["use"] = "sig".into();
        json!({ "keys": [published] })
    }

    /// A token (RFC 7519).
    pub(super) fn sign(&self, fault: Fault, claims: &Value) -> String {
        let (key, usual) = match fault {
            Fault::OtherKey => (&self.other, true),
            _ => (
                &self.own,
                !matches!(fault, Fault::NoSignature | Fault::SharedSecret),
            ),
        };
        let algorithm = match (fault, key) {
            (Fault::NoSignature, _) => "none",
            (Fault::SharedSecret, _) => "HS256",
            (_, Key::Rsa(_)) => "RS256",
            (_, Key::Elliptic(_)) => "ES256",
        };
        let head = json!({"alg": algorithm, "kid": self.id, "typ": "JWT"});
        let part = |value: &Value| encoded(value.to_string().as_bytes());
        let text = format!("{}.{}", part(&head), part(claims));
        // Forged in the ways that verifiers have fallen for.
        let signature = match fault {
            Fault::NoSignature => Vec::new(),
            Fault::SharedSecret => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, CLIENT.1.as_bytes());
                hmac::sign(&secret, text.as_bytes()).as_ref().to_vec()
            }
            _ => signature(key, text.as_bytes()).unwrap_or_default(),
        };
        debug_assert!(!usual || !signature.is_empty());
        let text = match fault {
            Fault::Changed => {
                let mut other = claims.clone();
                other["sub"] = "another".into();
                format!("{}.{}", part(&head), part(&other))
            }
            _ => text,
        };
        format!("{text}.{}", encoded(&signature))
    }
}

fn signature(key: &Key, text: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let random = SystemRandom::new();
    match key {
        Key::Rsa(key) => {
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature)?;
            Ok(signature)
        }
        Key::Elliptic(key) => Ok(key.sign(&random, text)?.as_ref().to_vec()),
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}
