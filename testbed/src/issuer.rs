//! A small OpenID Connect issuer of the tests' own: discovery, keys, the device authorization
//! grant (RFC 8628), with RS256 or ES256, and faults to inject. It conforms as far as it goes, and
//! is none that people run: a test with Keycloak is beside those that use this one.

mod http;
mod keys;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

use self::http::{Answer, Asked};
use self::keys::Keys;
use crate::TestbedError;

/// The client that it knows, and its secret.
pub const CLIENT: (&str, &str) = ("ringway", "a secret & more");

/// The pause between questions that it asks for.
const INTERVAL: u64 = 1;

/// What it does wrong, or what an attacker does in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The token is for another client.
    OtherAudience,
    /// It is for this client and another one.
    TwoAudiences,
    /// Another issuer is named in it.
    OtherIssuer,
    /// It has expired.
    Expired,
    /// It was issued before the sign-in.
    Old,
    /// It is issued tomorrow.
    Tomorrow,
    /// `alg` is `none`, and there is no signature.
    NoSignature,
    /// Another key has signed it.
    OtherKey,
    /// It is signed with the client's secret.
    SharedSecret,
    /// Its nonce is another sign-in's.
    OtherNonce,
    /// Its claims were changed after it was signed.
    Changed,
    /// There is an access token and no ID token.
    NoToken,
    /// Discovery names no device authorization endpoint.
    NoDeviceGrant,
    /// Discovery names another issuer.
    OtherDiscovery,
    /// Every answer is a redirect.
    Redirects,
    /// Every answer is longer than any should be.
    Endless,
    /// Every answer is a page for people.
    Pages,
    /// The token endpoint is at an address of another machine, without TLS.
    PlainElsewhere,
    /// The first questions are answered `slow_down`.
    SlowDown,
    /// The code runs out at once.
    ShortCodes,
}

/// What has become of a device code.
#[derive(Debug)]
enum Grant {
    Pending,
    Denied,
    Confirmed(Map<String, Value>),
    Used,
}

#[derive(Debug)]
struct Device {
    user_code: String,
    nonce: Option<String>,
    until: Instant,
    polled: Option<Instant>,
    slowed: u32,
    grant: Grant,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    keys: Keys,
    devices: HashMap<String, Device>,
    begun: u32,
    /// Questions that came too early.
    early: u32,
}

/// A running issuer on loopback; it ends when dropped.
#[derive(Debug)]
pub struct Issuer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Issuer {
    /// Starts one that signs with RSA, or with the curve P-256.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(elliptic: bool) -> Result<Issuer, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting an issuer", error);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let state = Arc::new(Mutex::new(State {
            fault: Fault::None,
            keys: Keys::new(elliptic)?,
            devices: HashMap::new(),
            begun: 0,
            early: 0,
        }));
        let ends = Arc::new(AtomicBool::new(false));
        let (served, over) = (Arc::clone(&state), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&served);
                // A client that says nothing must not hold up the others.
                std::thread::spawn(move || {
                    http::serve(&stream, |asked| answer(&state, address, asked))
                });
            }
        });
        Ok(Issuer {
            address,
            state,
            ends,
            thread: Some(thread),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Its address, as it stands in tokens.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// From now on it does this wrong.
    pub fn set_fault(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// Signs with new keys from now on, and forgets the old ones.
    ///
    /// # Errors
    /// When none can be made.
    pub fn change_keys(&self, elliptic: bool) -> Result<(), TestbedError> {
        self.state().keys = Keys::new(elliptic)?;
        Ok(())
    }

    /// A person enters the code and confirms it, in a browser.
    ///
    /// # Errors
    /// When the code is not known, or its time is over.
    pub fn sign_in(&self, code: &str, claims: Value) -> Result<(), TestbedError> {
        let Value::Object(claims) = claims else {
            return Err(TestbedError("claims are an object".to_owned()));
        };
        self.decide(code, Grant::Confirmed(claims))
    }

    /// The person refuses.
    ///
    /// # Errors
    /// As [`Issuer::sign_in`].
    pub fn deny(&self, code: &str) -> Result<(), TestbedError> {
        self.decide(code, Grant::Denied)
    }

    fn decide(&self, code: &str, grant: Grant) -> Result<(), TestbedError> {
        let mut state = self.state();
        let mut devices = state.devices.values_mut();
        let known = devices.find(|device| device.user_code == code);
        let device = known.filter(|device| Instant::now() < device.until);
        let device = device.ok_or_else(|| TestbedError(format!("no code {code}")))?;
        device.grant = grant;
        Ok(())
    }

    /// How many sign-ins have begun, and how many questions came before it was time.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        let state = self.state();
        (state.begun, state.early)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // The thread waits for a connection.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/realm")
}

fn answer(state: &Mutex<State>, address: SocketAddr, asked: &Asked) -> Answer {
    let mut state = lock(state);
    match state.fault {
        Fault::Redirects => return Answer::redirect("http://192.0.2.1/realm"),
        Fault::Endless => return Answer::text(&"x".repeat(1_000_000)),
        Fault::Pages => return Answer::text("<html>It works!</html>"),
        _ => {}
    }
    match asked.path.as_str() {
        "/realm/.well-known/openid-configuration" => Answer::json(200, &discovery(&state, address)),
        "/realm/keys" => Answer::json(200, &state.keys.published()),
        "/realm/device" if asked.is_client(CLIENT) => state.begin(address, asked),
        "/realm/token" if asked.is_client(CLIENT) => state.token(address, asked),
        "/realm/device" | "/realm/token" => Answer::error(401, "invalid_client"),
        _ => Answer::error(404, "not_found"),
    }
}

fn discovery(state: &State, address: SocketAddr) -> Value {
    let issuer = url(address);
    let token = match state.fault {
        Fault::PlainElsewhere => "http://192.0.2.1/token".to_owned(),
        _ => format!("{issuer}/token"),
    };
    let named = match state.fault {
        Fault::OtherDiscovery => "https://sso.example.org".to_owned(),
        _ => issuer.clone(),
    };
    let mut metadata = json!({
        "issuer": named,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": token,
        "jwks_uri": format!("{issuer}/keys"),
        "device_authorization_endpoint": format!("{issuer}/device"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256"],
        "scopes_supported": ["openid", "profile", "email", "groups"],
    });
    if let (Fault::NoDeviceGrant, Some(metadata)) = (state.fault, metadata.as_object_mut()) {
        metadata.remove("device_authorization_endpoint");
    }
    metadata
}

impl State {
    fn begin(&mut self, address: SocketAddr, asked: &Asked) -> Answer {
        self.begun += 1;
        let (device_code, user_code) = (format!("device-{}", self.begun), code(self.begun));
        let seconds = match self.fault {
            Fault::ShortCodes => 1,
            _ => 300,
        };
        // The nonce is none of RFC 8628, and repeated as some issuers do.
        let device = Device {
            user_code: user_code.clone(),
            nonce: asked.form.get("nonce").cloned(),
            until: Instant::now() + Duration::from_secs(seconds),
            polled: None,
            slowed: 0,
            grant: Grant::Pending,
        };
        self.devices.insert(device_code.clone(), device);
        let page = format!("{}/activate", url(address));
        Answer::json(
            200,
            &json!({
                "device_code": device_code, "user_code": user_code,
                "verification_uri": page,
                "verification_uri_complete": format!("{page}?user_code={user_code}"),
                "expires_in": seconds, "interval": INTERVAL,
            }),
        )
    }

    fn token(&mut self, address: SocketAddr, asked: &Asked) -> Answer {
        let code = asked.form.get("device_code").cloned().unwrap_or_default();
        let fault = self.fault;
        let Some(device) = self.devices.get_mut(&code) else {
            return Answer::error(400, "invalid_grant");
        };
        let now = Instant::now();
        // A little earlier is no fault: the answer was under way.
        let pause = Duration::from_millis(INTERVAL * 1_000 - 100);
        let early = device.polled.is_some_and(|at| now < at + pause);
        device.polled = Some(now);
        self.early += u32::from(early);
        if now >= device.until {
            return Answer::error(400, "expired_token");
        }
        if early || (fault == Fault::SlowDown && device.slowed == 0) {
            device.slowed += 1;
            return Answer::error(400, "slow_down");
        }
        let claims = match &device.grant {
            Grant::Pending => return Answer::error(400, "authorization_pending"),
            Grant::Denied => return Answer::error(400, "access_denied"),
            // A code is good once.
            Grant::Used => return Answer::error(400, "invalid_grant"),
            Grant::Confirmed(claims) => claims.clone(),
        };
        device.grant = Grant::Used;
        let nonce = device.nonce.clone();
        let mut tokens = json!({"access_token": "an access token", "token_type": "Bearer"});
        if fault != Fault::NoToken {
            tokens["id_token"] = self
                .keys
                .sign(fault, &token_claims(fault, address, nonce, claims))
                .into();
        }
        Answer::json(200, &tokens)
    }
}

fn token_claims(
    fault: Fault,
    address: SocketAddr,
    nonce: Option<String>,
    mut claims: Map<String, Value>,
) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |time| time.as_secs());
    const DAY: u64 = 86_400;
    let issued = match fault {
        Fault::Old => now - DAY,
        Fault::Tomorrow => now + DAY,
        _ => now,
    };
    let expires = match fault {
        Fault::Expired => now - 3_600,
        _ => now + 3 * DAY,
    };
    let audience = match fault {
        Fault::OtherAudience => json!("another"),
        Fault::TwoAudiences => json!([CLIENT.0, "another"]),
        _ => json!(CLIENT.0),
    };
    let issuer = match fault {
        Fault::OtherIssuer => "https://sso.example.org".to_owned(),
        _ => url(address),
    };
    let nonce = match fault {
        Fault::OtherNonce => Some("another".to_owned()),
        _ => nonce,
    };
    claims.entry("sub").or_insert_with(|| json!("1"));
    claims.extend(nonce.map(|nonce| ("nonce".to_owned(), nonce.into())));
    for (name, value) in [
        ("iss", json!(issuer)),
        ("aud", audience),
        ("iat", json!(issued)),
        ("exp", json!(expires)),
    ] {
        claims.insert(name.to_owned(), value);
    }
    Value::Object(claims)
}

/// A code such as people are asked to type.
fn code(number: u32) -> String {
    format!("RING-{number:04}")
}
