//! Bounds of where the authority and routers are.

use std::time::Duration;

/// Addresses that a host name is taken to stand for.
///
/// Source: chosen: a service has some of each kind; each that is silent costs a try. Those past it
/// are not tried.
pub const ENDPOINT_ADDRESSES: usize = 8;

/// For how long a DNS server's host name stands for the addresses that were found.
///
/// Source: chosen: between the TTL of a dynamic name (60 s is usual) and a look-up for each
/// question. After it the system is asked again; while that knows nothing, the addresses stay.
pub const NAME_SERVER_RESOLVED: Duration = Duration::from_secs(30);

/// Addresses at which each server of a running authority listens.
///
/// Source: chosen: each change of its address adds one until it is restarted. Past it the one that
/// was added first is given up.
pub const SERVED_ADDRESSES: usize = 4;

/// Earlier addresses of the ring's DNS that a statement names beside the one of now.
///
/// Source: chosen: a move every year or two for the life of a machine. A member whose configuration
/// names an older one has to be given the new one by hand.
pub const FORMER_ADDRESSES: usize = 8;

/// Bytes of what a statement says of where the authority is.
///
/// Source: with the rest of a short statement it stays below what members send each other, 1 000
/// bytes; two long host names leave room for some earlier addresses. Earlier addresses past it are
/// left out, the oldest first.
pub const CONTACT_BYTES: usize = 640;
