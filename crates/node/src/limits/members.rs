//! What is known of members: lists, names and releases.

use std::time::Duration;

/// Members that `ringway members` lists.
///
/// Source: chosen: more than [`DIRECTORY_ENTRIES`](super::DIRECTORY_ENTRIES) and [`LIST_MEMBERS`]
/// together. Past it further ones are left out.
pub const KNOWN_MEMBERS: usize = 16_384;

/// Names that are suggested in place of a wrong one.
///
/// Source: chosen: they stand in one line. Past it further ones are left out.
pub const SUGGESTED_NAMES: usize = 3;

/// Members on one page of the owner's list.
///
/// Source: a name of 32 bytes and a role take 36 of the 65 519 that a message of the enrolment
/// channel carries. Past it the list has one page more.
pub const LIST_PAGE: usize = 1_024;

/// Bytes of one page, signed.
///
/// Source: [`LIST_PAGE`] times 36, and the head. Past it the page is refused.
pub const LIST_PAGE_BYTES: usize = 40_000;

/// Members on the owner's list.
///
/// Source: chosen: eight pages, 320 KB once a minute at most. Past it the rest, by name, is on no
/// list.
pub const LIST_MEMBERS: usize = 8 * LIST_PAGE;

/// How long a member goes by the owner's list before it asks for it again, also where it got none.
///
/// Source: chosen: a newcomer is completed within a minute. Past it the next command asks.
pub const LIST_KEPT: Duration = Duration::from_secs(60);

/// How long a command waits for the owner's list.
///
/// Source: chosen: what a person waits for at a terminal. Past it what was known before counts.
pub const LIST_WAIT: Duration = Duration::from_secs(1);
