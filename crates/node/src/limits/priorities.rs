//! Bounds of priorities: who may ask for how much, and how many have names.

/// Highest priority that users of the control socket may ask for who are not the daemon's own user,
/// where the configuration says nothing, in TCP flows.
///
/// Source: as `ringway_dtl::limits::MAX_DEADLINE_PRIORITY`, which is also the class `live`. More is
/// refused.
pub const MAX_GROUP_PRIORITY: f64 = 8.0;

/// Classes in the configuration.
///
/// Source: more than a refusal could list. More are refused.
pub const CLASSES: usize = 32;

/// Bytes of a class's name.
///
/// Source: as of a member's name. A longer one is refused.
pub const CLASS_NAME_BYTES: usize = 32;
