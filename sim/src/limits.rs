//! The bounds of the simulator.

/// Members of an attacked ring that are looked at for each change of a member's state, whether what
/// traitors cannot change still holds. Source: each look is at all members; at 128 it takes no time
/// that can be measured. In a ring with twice as many there is a look after every second change,
/// and so on.
pub const CHECKED_PER_CHANGE: usize = 300;

/// Steps of one run.
/// Source: chosen; five times what 100 000 members take in a minute. Past it the run fails:
/// something loops.
pub const MAX_STEPS: u64 = 200_000_000;

/// Steps at one and the same moment of virtual time.
/// Source: chosen; 100 000 members that begin together have as many timers at once, a few times.
/// Past it the run fails: a timer is stuck in the past.
pub const MAX_STEPS_AT_ONCE: u64 = 1_000_000;
