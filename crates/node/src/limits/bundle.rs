//! Bounds of bundles: files and folders that travel in one transfer.

/// Entries of a bundle: files, folders and links.
///
/// Source: a source tree of the largest projects has some 100 000, a home folder a million. Past it
/// the sender says so, and a receiver refuses the list.
pub const BUNDLE_ENTRIES: u32 = 1_000_000;

/// Bytes of a bundle's list.
///
/// Source: a million entries of 64 bytes. Past it the sender says so, and a receiver refuses.
pub const BUNDLE_LIST: u64 = 64 << 20;

/// Folders within each other.
///
/// Source: chosen; deep trees of real projects have 30 levels. The walk holds a descriptor for
/// each. Past it the sender says so, and a receiver refuses the list.
pub const BUNDLE_DEPTH: u8 = 128;

/// Bytes of a path within a bundle.
///
/// Source: `PATH_MAX` of Linux is 4 096 with the end; some are left for the folder that it goes to.
/// Past it the sender says so, and a receiver refuses the list.
pub const BUNDLE_PATH: usize = 3_584;

/// Bytes of a link's target.
///
/// Source: symlink(2): no more than `PATH_MAX`. Past it the list is refused.
pub const BUNDLE_TARGET: usize = 4_095;

/// MiB of memory that lists of bundles on their way in may take in all.
///
/// Source: four of the largest, each as it came and with an index of about the same size. Past it
/// bundles are refused with "try later".
pub const BUNDLE_MEMORY: usize = 512;

/// Files and folders that one command may name.
///
/// Source: as many as have room in a request on the control socket. Past it the command says to
/// send the folder that they are in.
pub const BUNDLE_PATHS: usize = 4_096;

/// Members that one command may send to.
///
/// Source: each is a transfer of its own, of which at most [`QUEUED_SENDS`](super::QUEUED_SENDS)
/// wait. Past it the command is refused.
pub const SEND_PEERS: usize = 256;
