//! The authority and its members as a user meets them: real sockets on loopback, real DNS.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in the functions it shares with others"
)]

mod enrolment;
mod join_again;
mod messages;
mod nameservers;
mod owner;
mod place;
mod restored;
mod spoken;
#[cfg(feature = "sso")]
mod sso;
