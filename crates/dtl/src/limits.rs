//! Every bound of this crate, with its unit, its source and what happens past it.

use std::time::Duration;

/// Largest priority, in TCP flows.
///
/// Source: ours; the paper finds no gain past 4 flows (§5.2) and MulTCP works up to about 10 (§2),
/// so a thousand leaves room for experiments. Past it [`Priority::new`](crate::Priority::new)
/// refuses the value.
pub const MAX_PRIORITY: f64 = 1000.0;

/// Longest piece of a user's text that an error repeats, in characters.
///
/// Source: ours; a priority is a short number. Past it the text is cut.
pub const MAX_ERROR_TEXT: usize = 32;

/// Smallest datagram, in bytes.
///
/// Source: the paper §4: at slow rates its packets go down to 300 bytes. Below it the value is
/// raised to this.
pub const MIN_DATAGRAM: u64 = 300;

/// Largest datagram, in bytes.
///
/// Source: RFC 768: the length field of UDP has 16 bits. Past it the value is lowered to this.
pub const MAX_DATAGRAM: u64 = 65_535;

/// Smallest congestion window of the paper's algorithm, in datagrams. (The default one goes on
/// below it, by its pacing rate.)
///
/// Source: RFC 5681 §3.1, the loss window. Below it the window is raised to this, so that a flow
/// always has a datagram under way with which to notice that the path is free again.
pub const MIN_WINDOW_DATAGRAMS: f64 = 1.0;

/// Smallest slow start threshold after persistent congestion, in datagrams.
///
/// Source: RFC 5681 §3.1 (4). Below it the threshold is raised to this.
pub const MIN_SSTHRESH_DATAGRAMS: f64 = 2.0;

/// What a scavenger sends at once after a pause: so many datagrams, or what is due in so long a
/// time.
///
/// Source: two packets are what an acknowledgement usually lets go; a millisecond is the
/// granularity of timers (RFC 9002 §6.1.2). Beyond it packets leave at the pacing rate.
pub const PAUSE_DATAGRAMS: u64 = 2;
/// See [`PAUSE_DATAGRAMS`]. Source: the same.
pub const PAUSE_TIME: Duration = Duration::from_millis(1);

/// Largest congestion window, in bytes.
///
/// Source: ours; 100 Gbit/s over 340 ms. Past it the window stops growing.
pub const MAX_WINDOW: u64 = 1 << 32;

/// Longest round-trip time or one-way delay that is believed, per sample.
///
/// Source: RFC 6298 §2.5, the bound of a retransmission timer. Past it a sample counts as this
/// long, so that one absurd sample cannot stop a flow for ever; it holds with the error that the
/// sample may have, too. One-way delays are not held to it: they include the clocks' offset.
pub const MAX_RTT: Duration = Duration::from_secs(60);

/// For how long one-way delays, once reported, are those that a report shows.
///
/// Source: ours; receivers report them every 50 ms, and of a flow at its floor with every packet,
/// four a second. Past it the report shows round trips again.
pub const ONE_WAY_KEPT: Duration = Duration::from_secs(4);

/// Shortest round-trip time that is believed, per sample.
///
/// Source: RFC 9002 §6.1.2, the granularity of timers is a millisecond, of clocks far less. Below
/// it a sample counts as this long, so that the pacing rate stays finite.
pub const MIN_RTT: Duration = Duration::from_micros(1);

/// Longest base delay history, in minutes.
///
/// Source: ours; the paper (§4.1) uses 13, and a route rarely stays for hours. Past it the
/// configuration is lowered to this.
pub const MAX_BASE_HISTORY: usize = 60;

/// Longest noise filter, in samples.
///
/// Source: ours; the paper (§4.1) uses 3. Past it the configuration is lowered to this.
pub const MAX_NOISE_FILTER: usize = 16;

/// Smallest LEDBAT target.
///
/// Source: ours; the granularity of most clocks and schedulers. Below it the configuration is
/// raised to this.
pub const MIN_TARGET: Duration = Duration::from_millis(1);

/// Largest LEDBAT target.
///
/// Source: ours; ten times what RFC 6817 §2.5 allows, for experiments. Past it the configuration is
/// lowered to this.
pub const MAX_TARGET: Duration = Duration::from_secs(1);

/// Largest pacing gain and largest LEDBAT gain.
///
/// Source: ours; at 4 a window leaves in a quarter of a round trip. Past it the configuration is
/// lowered to this.
pub const MAX_GAIN: f64 = 4.0;

/// Smallest pacing gain.
///
/// Source: ours; below 1 the pacer, not the window, would set the rate. Below it the configuration
/// is raised to this.
pub const MIN_PACING_GAIN: f64 = 1.0;

/// Packets under way whose virtual flows are known, at twelve bytes each at most.
///
/// Source: ours; 100 Gbit/s for 100 ms. Past it the oldest count as no flow's: their losses are
/// charged by lot.
pub const MAX_LEDGER: usize = 1 << 20;

/// For how long it is remembered how far a path reorders packets.
///
/// Source: ours; RACK (RFC 8985 §6.2) keeps it for 16 losses, which are some seconds to minutes.
/// Past it three newer packets show a loss again.
pub const REORDERING_KEPT: Duration = Duration::from_secs(60);

/// Lost packets of which it is remembered whose they were, so that their loss can be undone.
///
/// Source: ours; what a window of 6 MB loses at once. Past it the oldest stay lost.
pub const MAX_UNDONE: usize = 4096;

/// Packet numbers that may be left out between two packets.
///
/// Source: ours; QUIC leaves out one now and then (RFC 9000 §21.4). Past it the packets before
/// count as no flow's.
pub const MAX_PACKET_GAP: u64 = 1024;

/// Largest number of flows that one [`Scheduler`](crate::Scheduler) divides its cap between.
///
/// Source: ours; a host has at most about this many ports. Past it
/// [`Scheduler::add`](crate::Scheduler::add) refuses the flow.
pub const MAX_FLOWS: usize = 65_536;

/// Smallest weight of a positive priority, in the scheduler and as a part of a flow.
///
/// Source: ours; a thousandth of a flow. Below it a priority weighs this much, so that virtual
/// times and windows stay finite.
pub const MIN_WEIGHT: f64 = 0.001;

/// Largest single grant under a cap, in bytes.
///
/// Source: ours; one UDP segmentation offload batch. Larger demands are granted in several pieces.
pub const MAX_GRANT: u64 = 65_536;

/// How much unused capacity the scheduler saves up, as a time at the capped rate.
///
/// Source: ours; ten times the timer granularity of tokio and of most systems, so that late
/// wake-ups cost no capacity. Capacity unused for longer is lost.
pub const BURST_TIME: Duration = Duration::from_millis(20);

/// Smallest burst, in bytes, whatever the rate.
///
/// Source: ours; one Ethernet frame's payload. With a lower burst a full datagram could never be
/// granted.
pub const MIN_BURST: u64 = 1500;

/// Largest burst, in bytes, whatever the rate.
///
/// Source: ours; what one GRO/GSO exchange with a fast card moves. Capacity beyond it is lost.
pub const MAX_BURST: u64 = 1 << 20;

/// Flows of one [`Group`](crate::Group).
///
/// Source: ours; a member sends 64 files at once. Past it [`Group::join`](crate::Group::join)
/// refuses the flow, which then has a controller of its own.
pub const MAX_GROUP_FLOWS: usize = 256;

/// Runs of consecutive packets of which a group remembers which numbers it gave them, for each
/// flow.
///
/// Source: ours; 4 096 trains of datagrams between which other flows sent, 96 KiB of memory. Past
/// it the oldest is forgotten: the loss of one of its packets counts as one of those that an
/// earlier loss has answered.
pub const GROUP_RUNS: usize = 4_096;

/// How long a flow of a group counts after it last used what it may, at least; four round trips if
/// they are longer.
///
/// Source: ours; longer than a scheduler's or a disk's pauses. Past it the others get what it
/// leaves.
pub const GROUP_IDLE: Duration = Duration::from_millis(100);

/// The same where the group's rate gives each flow a datagram less often: so many turns of all, and
/// so long at most.
///
/// Source: ours; one turn late, and one lost. Without it flows at the floor of priority 0 would
/// take each other for idle, and each would send at the floor of all. Past the longest, those that
/// wait for longer between two datagrams send as if they were fewer.
pub const GROUP_TURNS: f64 = 3.0;
/// See [`GROUP_TURNS`]. Source: ours; the idle time of most transports.
pub const GROUP_IDLE_MOST: Duration = Duration::from_secs(60);

/// Groups of one [`Coupling`](crate::Coupling).
///
/// Source: ours; a member sends to 64 peers at once, and each pair of them is compared twenty times
/// a second. Past it [`Coupling::join`](crate::Coupling::join) refuses the group, which then goes
/// on alone.
pub const MAX_COUPLED: usize = 64;

/// Bins of time of which a coupled group remembers its round trip, 50 ms each.
///
/// Source: ours; longer than a round trip over a full queue, by which one group learns of the same
/// moment later than another. Past it the oldest is forgotten, and not compared.
pub const COUPLED_BINS: usize = 64;

/// Highest priority that a [`Deadline`](crate::Deadline) asks for, in TCP flows.
///
/// Source: ours; what the figures of N flows reach to (docs/explanation/priority.md), and eight
/// ninths of a line beside one other flow. A deadline that needs more is missed.
pub const MAX_DEADLINE_PRIORITY: f64 = 8.0;

/// The part of the time until a deadline that is kept in reserve.
///
/// Source: ours; the rate of a TCP flow beside others swings by about as much over a minute. Less,
/// and deadlines are missed by a swing; more, and others give way earlier than they must.
pub const DEADLINE_RESERVE: f64 = 0.07;

/// The reserve at least.
///
/// Source: ours; what a raise from priority 0 takes. A deadline that is nearer than this is met as
/// far as it can be.
pub const DEADLINE_RESERVE_LEAST: Duration = Duration::from_secs(2);

/// The reserve at most.
///
/// Source: ours; ten corrections of a minute each. Longer would have others give way for hours for
/// the deadline of a day.
pub const DEADLINE_RESERVE_MOST: Duration = Duration::from_secs(600);

/// Measurements of priority 0 that a deadline remembers, eight bytes each.
///
/// Source: ours; a fifth of the time that there is, at a sixtieth for each. Past it the oldest is
/// forgotten.
pub const DEADLINE_SLOTS: usize = 12;
