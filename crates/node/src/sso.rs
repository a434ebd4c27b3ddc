//! Enrolment by single sign-on: a person signs in at the organisation's OpenID Connect issuer, and
//! the authority signs the certificate of the person's machine.
//!
//! ```text
//! joining member        authority                     issuer              the person's browser
//!     |-- Begin ----------->|-- device authorization -->|
//!     |<- address and code -|<- device code, user code -|
//!     |   (shown)           |                           |<----- signs in, confirms the code --|
//!     |-- Look ------------>|-- device code ----------->|
//!     |<- certificate ------|<- ID token ---------------|
//! ```
//!
//! This is the device authorization grant of RFC 8628, and the *authority* is its client. The
//! joining member gets an address and a code, and never a token: there is none that could be
//! replayed for another key. The authority keeps the device code with the key that has begun the
//! sign-in, and every message of the member comes over a channel that this key has opened.
//!
//! [`Settings`] say which issuer and who may join, `person` judges what a token says, `sessions`
//! keeps what is open, `issuer` and `http` speak with the issuer (feature `sso`), and `service`
//! joins them.

#[cfg(feature = "sso")]
mod http;
#[cfg(feature = "sso")]
mod issuer;
#[cfg(not(feature = "sso"))]
#[path = "sso/absent.rs"]
mod issuer;
mod link;
mod person;
mod refused;
mod service;
mod sessions;
mod settings;

pub use self::link::{InvalidLink, JoinLink};
#[cfg(test)]
pub(crate) use self::person::Person;
pub use self::refused::Refused;
pub(crate) use self::service::{Opened, SignIns, SignedIn, Wanted};
pub use self::settings::{InvalidPattern, NamePattern, Secret, Settings, SettingsError};
