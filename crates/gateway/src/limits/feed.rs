//! Bounds of lists in files, and of torrents.

use std::time::Duration;

/// Bytes of a list in a file.
/// Source: chosen: twice the longest lines of four million entries. Past it the list is refused.
pub const MAX_FEED_FILE: usize = 268_435_456;

/// Entries of a list in a file.
/// Source: chosen: four times the largest lists that are published; some 400 MB of hosts. Past it
/// the list is refused.
pub const MAX_FEED_ENTRIES: usize = 4_000_000;

/// Bytes of a line of a list, but for infohashes with names.
/// Source: chosen: four times the longest name of a host (RFC 1035 §2.3.4). Past it the line is
/// wrong.
pub const MAX_FEED_LINE: usize = 1_024;

/// Lines of a list that are named as wrong.
/// Source: chosen: a screen. Past it the others are counted.
pub const MAX_FEED_FAULTS: usize = 20;

/// Lists that the rules of a policy name.
/// Source: chosen: lists are published by kind, of which there are some dozens. Past it the policy
/// is refused.
pub const MAX_FEEDS: usize = 64;

/// Torrents that one packet names.
/// Source: BEP 15: about 74 in a request of one packet. Past it further ones are not seen.
pub const MAX_PACKET_TORRENTS: usize = 74;

/// Torrents that one flow names.
/// Source: chosen: a client with a tracker for that many is a large one. Past it further ones are
/// judged, and not in the accounts.
pub const MAX_FLOW_TORRENTS: usize = 64;

/// Time between two looks whether a list's file is another one.
/// Source: chosen: a look is one call of the system for each list. Until then the list that was
/// read before is at work.
pub const FEED_LOOK: Duration = Duration::from_secs(2);

/// For how long a file was not written to before it is read.
/// Source: chosen: programs that write a list do not pause for so long. Before that it may be half
/// written, and what was read before is at work.
pub const FEED_SETTLE: Duration = Duration::from_secs(1);
