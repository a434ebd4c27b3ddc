//! The bounds of the simulator.

/// Members of an attacked ring in which it is asserted after each change of a member's state what traitors cannot change.
/// Source: each such look is at all members; at 128 it takes no time that can be measured. Past it honest members that were convicted are told at the end of a
/// run, and nothing else is asserted.
pub const MAX_CHECKED: usize = 300;

/// Steps of one run.
/// Source: chosen; five times what 100 000 members take in a minute. Past it the run fails: something loops.
pub const MAX_STEPS: u64 = 200_000_000;

/// Steps at one and the same moment of virtual time.
/// Source: chosen; 100 000 members that begin together have as many timers at once, a few times. Past it the run fails: a timer
/// is stuck in the past.
pub const MAX_STEPS_AT_ONCE: u64 = 1_000_000;
