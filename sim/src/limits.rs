//! The bounds of the simulator.

/// Steps of one run.
/// Source: chosen; five times what 100 000 members take in a minute. Past it the run fails: something loops.
pub const MAX_STEPS: u64 = 200_000_000;

/// Steps at one and the same moment of virtual time.
/// Source: chosen; a burst of 64 joins takes a few hundred. Past it the run fails: a timer is stuck in
/// the past.
pub const MAX_STEPS_AT_ONCE: u64 = 100_000;
