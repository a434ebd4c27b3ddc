//! Behaviours of the transport crate, seen from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's helpers end the test at the first error"
)]

mod clock;
mod dtl;
mod exec;
mod hello;
mod mail_servers;
mod mail_ways;
mod pop3;
mod quic;
mod quic_interop;
mod quic_messages;
mod quic_streams;
mod raise;
mod receipt;
mod reordering;
mod slow_path;
mod smtp;
mod support;
mod tcp;
mod udp;
mod validation;
mod ws;
