//! Bounds of what waits in classes of bandwidth.

use std::time::Duration;

/// How long what waits in a class takes to leave at the class's ceiling.
/// Source: chosen: a call stays usable, and a TCP of a short way fills its class. Past it packets
/// are dropped; FIFOs of shares hold a quarter of it for each host ([`CLASS_BUSY_HOSTS`]).
pub const CLASS_QUEUE: Duration = Duration::from_millis(50);

/// Hosts whose FIFOs are full together at [`CLASS_QUEUE`].
/// Source: chosen: four downloads. Past it each further one waits longer for itself alone: others
/// wait for one packet of it.
pub const CLASS_BUSY_HOSTS: u64 = 4;

/// Shares of a class without a fair queueing discipline. A power of two.
/// Source: chosen: neighbouring addresses get shares of their own, and the packet filter compares
/// so many at most. Past it hosts have a share together.
pub const CLASS_SHARES: u32 = 32;

/// Full packets that a share holds at least.
/// Source: measured: with two, TCPs wait for their timers, so that four hosts at 2 Mbit/s leave a
/// tenth of it, and Jain's index of them falls to 0.94. Past it packets are dropped.
pub const SHARE_PACKETS: u64 = 3;

/// Bytes of small packets that a share holds beside its full ones.
/// Source: measured: without them a host's own questions are lost beside its download, and its
/// round trip is 0.2 to 0.9 s. Past it packets are dropped.
pub const SHARE_SMALL: u64 = 600;

/// The shortest time for which CoDel lets a packet wait, and its interval.
/// Source: RFC 8289 §4.3 and §4.4. Past the target for a whole interval it drops.
pub const CODEL_TARGET: Duration = Duration::from_millis(5);

/// See [`CODEL_TARGET`].
/// Source: RFC 8289 §4.3. Past it the next drop comes sooner.
pub const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest round trip that cake is told.
/// Source: chosen: at 500 kbit/s its target would ask for 0.7 s. Past it the target is below one
/// and a half packets, which costs a slow class throughput.
pub const CAKE_RTT: Duration = Duration::from_millis(300);

/// Bytes of memory of a class whose leaf is cake or fq_codel.
/// Source: cake's own least. Past it packets of the longest queue are dropped.
pub const LEAF_MEMORY: u64 = 4 << 20;

/// Bytes of the FIFO of a class where the kernel cuts no joined packets.
/// Source: four unsegmented packets of 64 kB. Past it packets are dropped.
pub const FIFO_LEAST: u64 = 262_144;
