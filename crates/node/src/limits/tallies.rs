//! Bounds of counts that programs leave.

/// Counts that one request on the control socket may leave.
///
/// Source: chosen; some 40 kB as a line. A longer list is refused.
pub const COUNTS_IN_REQUEST: usize = 512;

/// Counts of one request that are left at once.
///
/// Source: chosen, a quarter of what the overlay does at once, so that reading goes on beside it.
/// The others wait.
pub const COUNTS_AT_ONCE: usize = 32;
