//! Every bound of the benchmarks: unit, source, and what happens past it.

use std::time::Duration;

/// How long the two members of a benchmark may take to reach each other.
///
/// Source: a second on an idle machine. Past it the benchmark fails.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// How long the routers of a benchmark may take to form a ring.
///
/// Source: a quarter of a minute for 255 on two idle cores. Past it the benchmark fails.
pub(crate) const RING_WAIT: Duration = Duration::from_secs(1_200);

/// How long a child program of a benchmark may take to end after it was asked to.
///
/// Source: an emulator removes its interfaces within a fraction of a second. Past it, it is killed.
pub(crate) const CHILD_END: Duration = Duration::from_secs(3);

/// How long the endpoints of a benchmark's flow may take to end after its connection was closed.
///
/// Source: a closed connection is kept for three probe timeouts (RFC 9000, 10.2), each of a round
/// trip and its deviations: a fraction of a second. Past it, the line goes before them, and they
/// complain of it.
pub(crate) const FLOW_END: Duration = Duration::from_secs(3);
