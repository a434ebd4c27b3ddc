//! Doors to private decoders, for the targets in `fuzz/` only.

use crate::linux::conntrack;

/// What the kernel says of its connections, one read of it.
///
/// # Panics
/// When the gateway would ask the kernel about another connection than the one that it read.
pub fn conntrack(data: &[u8]) {
    conntrack::read_anything(data);
}
