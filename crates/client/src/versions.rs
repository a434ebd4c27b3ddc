//! The numbers by which a program and the daemon know whether they understand each other.

/// This build's release, such as `0.2.0`.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Version of the control protocol: what commands and the daemon say over the control socket. It
/// goes up when a command, or a field that is asked for, is added. Each side reads what the other
/// says as far as it knows it, and names both releases where it does not. 1: release 0.2, which did
/// not tell it.
pub const CONTROL: u32 = 2;
