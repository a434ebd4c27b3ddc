//! Bounds of what the programs keep of their log.

use std::time::Duration;

/// Lines of the log that are remembered, so that lines like them are joined.
/// Source: chosen: some dozens of faults may repeat at a time; with their texts half a megabyte at
/// most. Past it the one shown longest ago is forgotten, and one like it is shown again.
pub const JOINED_LINES: usize = 256;

/// Bytes of a line that are compared and shown again with the count.
/// Source: chosen: some lines of a terminal. Past it lines count as alike that begin alike.
pub const JOINED_TEXT: usize = 1_024;

/// Lines of one module and message that are shown within [`JOINED_FIRST`], however different.
/// Source: chosen: many small files have a line each, and a peer that has thousands of offers
/// refused fills no disk. Past it further ones count as alike.
pub const JOINED_BURST: u32 = 1_000;

/// Time for which lines like one that was shown are counted instead of shown, at first.
/// Source: chosen: what is tried again each 30 seconds is told once a minute. Past it the count is
/// told, and the time grows by [`JOINED_GROWTH`].
pub const JOINED_FIRST: Duration = Duration::from_secs(60);

/// By how much that time grows whenever lines were counted.
/// Source: chosen: 1, 4 and 16 minutes, then [`JOINED_LONGEST`]. A time without such a line ends
/// it.
pub const JOINED_GROWTH: u32 = 4;

/// The longest such time.
/// Source: chosen: 24 lines a day for a fault that stays. Past it the count is told.
pub const JOINED_LONGEST: Duration = Duration::from_secs(3_600);

/// How often it is looked for counts that are due, where no other line comes.
/// Source: chosen: a tenth of the shortest time. A count is told at most so much later.
pub const JOINED_LOOK: Duration = Duration::from_secs(6);
