//! Doors to private decoders, for the targets in `fuzz/` only.

use crate::linux::conntrack;
use crate::torrent;

/// What the kernel says of its connections, one read of it.
///
/// # Panics
/// When the gateway would ask the kernel about another connection than the one that it read.
pub fn conntrack(data: &[u8]) {
    conntrack::read_anything(data);
}

/// What connections of peers and of the web show of torrents' names.
///
/// # Panics
/// When a name is longer than it may be, or has control characters.
pub fn torrent_names(data: &[u8]) {
    torrent::read_anything(data);
}
