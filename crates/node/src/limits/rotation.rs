//! Bounds of changes of keys.

use super::WAITING_RECEIVE_TIME;

/// Bytes of a request for a new certificate.
///
/// Source: three keys, a serial, a time and two signatures take 260. A longer one is malformed.
pub const ROTATION_REQUEST_BYTES: usize = 320;

/// Bytes of the owner's reply to it.
///
/// Source: a statement of [`STATEMENT_BYTES`](super::STATEMENT_BYTES), a certificate of
/// [`CERTIFICATE_BYTES`](super::CERTIFICATE_BYTES), and the fixed fields. A longer one is
/// malformed.
pub const ROTATION_REPLY_BYTES: usize = 40_400;

/// How long a member may be asked to change its key.
///
/// Source: as long as an invite may be valid. A longer time is refused.
pub const ROTATION_ASKED: std::ops::RangeInclusive<u64> = 1..=365 * 86_400;

/// Pause before a member that could not change its key tries again, after the first failure in a
/// row.
///
/// Source: an authority that is being restarted is back by then. It doubles up to
/// [`ROTATION_RETRY_LONGEST`].
pub const ROTATION_RETRY_FIRST: std::time::Duration = std::time::Duration::from_secs(2);

/// The longest such pause.
///
/// Source: a hundred thousand members that were asked at once and find no authority cost it 300
/// connections a second when it is back. A longer one would keep a member whose old certificate has
/// ended away for longer.
pub const ROTATION_RETRY_LONGEST: std::time::Duration = std::time::Duration::from_secs(300);

/// How long a statement says of a certificate that it was replaced, at least, also if it has
/// expired meanwhile.
///
/// Source: as long as files under way wait for their sender ([`WAITING_RECEIVE_TIME`]). Past it,
/// and past its own time, it cannot be learnt any more whose the files were.
pub const REPLACED_KEPT: std::time::Duration = WAITING_RECEIVE_TIME;

/// How long a router that starts looks in DNS whether routers that it remembers have other keys.
///
/// Source: some round trips to a DNS server that answers. Past it, it looks for them by the keys
/// that it knows.
pub const FOLLOW_AT_START: std::time::Duration = std::time::Duration::from_secs(3);
