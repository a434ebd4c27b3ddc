//! The bounds that the programs in the kernel (`linux/bpf/border.bpf.c`) have, too. The build takes
//! them from here, so this file needs no other.

use std::time::Duration;

/// Connections by TCP of which nothing is decided yet and that the in-kernel path remembers.
/// Source: chosen: 1.2 KB each. Past it the longest unused is forgotten, and user space asked
/// about its rest, without the beginning.
pub const KERNEL_FLOWS: u32 = 16_384;

/// The same by UDP.
/// Source: half of [`KERNEL_FLOWS`]: apart, so that a flood of one kind does not cost the other its
/// beginnings. Past it as there.
pub const KERNEL_DATAGRAMS: u32 = 8_192;

/// SYNs without their SYN-ACK yet that the in-kernel path remembers.
/// Source: the same as [`MAX_FLOWS`](super::MAX_FLOWS); 110 bytes each. Past it the longest unused
/// is forgotten: what is sent in its connection is not taken for a beginning.
pub const KERNEL_SYNS: u32 = 65_536;

/// Bytes that the in-kernel path keeps of what has passed in an undecided flow, for user space
/// when that is asked later. Source: chosen: the first messages of applications are shorter. Past
/// it something is missing, and user space is notified.
pub const KERNEL_KEPT: usize = 1_024;

/// Bytes of one packet that are kept so.
/// Source: chosen: a quarter of [`KERNEL_KEPT`]. Of a longer one the first are kept, and its
/// length.
pub const KERNEL_KEPT_PACKET: u32 = 256;

/// Bytes of beginnings that wait for user space to read them.
/// Source: some seven hundred flows. Past it flows come to user space without their beginning.
pub const KERNEL_HANDING: u32 = 1 << 20;

/// Bytes of refusals that wait for user space to read them.
/// Source: chosen: four thousand. Past it they are counted and not reported.
pub const KERNEL_REFUSALS: u32 = 256 * 1_024;

/// Extension headers of IPv6 that the in-kernel path looks behind.
/// Source: RFC 8200 §4.1 knows six, in any order. With more, user space decides.
pub const KERNEL_EXTENSIONS: u32 = 6;

/// Interfaces of a border that the in-kernel path knows.
/// Source: chosen; each packet is compared with them. Past it packets of all interfaces are judged,
/// whether they cross the border or not.
pub const MAX_TRIAGE_INTERFACES: usize = 16;

/// Bytes of a TCP segment that counts as one of the [`INSPECT_PACKETS`](super::INSPECT_PACKETS).
/// Source: RFC 9293 §3.7.1 (every host accepts 536). Past it a segment counts no more than once;
/// shorter ones count in part.
pub const FULL_SEGMENT: usize = 512;

/// Bytes of a full TCP segment on Ethernet, by which segments that were joined are counted.
/// Source: 1 500 bytes without headers and timestamps. Past it a segment counts as several.
pub const ETHERNET_SEGMENT: usize = 1_448;

/// How many times [`INSPECT_PACKETS`](super::INSPECT_PACKETS) one direction may go on before a
/// flow is known as well as it will be: of an answer while the other side is silent, and of both
/// where nothing has named the flow. Source: chosen: some 46 kB of an answer. Past it the flow
/// keeps what was found.
pub const ONE_SIDED: u8 = 4;

/// Small TCP segments that count as one of the [`INSPECT_PACKETS`](super::INSPECT_PACKETS) at
/// least.
/// Source: chosen: a conversation of keystrokes is inspected for 64 segments of each direction.
/// Past it the next one begins.
pub const SMALL_SEGMENTS: usize = 8;

/// Time after which an idle UDP flow is finished.
/// Source: RFC 4787 §4.3 REQ-5 (5 minutes or more), and a sixth because BEP 14 repeats every 5
/// minutes. Past it a further packet begins a new flow.
pub const UDP_IDLE: Duration = Duration::from_secs(360);

/// Blocked connections that are remembered.
/// Source: the same as [`MAX_FLOWS`](super::MAX_FLOWS). Past it the oldest is forgotten.
pub const MAX_BLOCKED: usize = 65_536;

/// For how long refused attempts to one blocked endpoint are counted before they are reported as
/// one event. Source: chosen: writing each down took two thirds of what a storm of them cost, and
/// a reader wants to know how many there were, not each. The first one is reported at once.
pub const REFUSALS_REPORTED: Duration = Duration::from_secs(10);

/// Bytes of each payload that the kernel looks at before it passes a packet unasked.
/// Source: chosen: heads of browsers' requests fit; a program in the kernel takes a step for each
/// byte. Past it a payload that is not decided is asked about. It must be a power of two there.
pub const TRIAGE_SCAN: usize = 512;

/// Bytes of the kernel's table of next states.
/// Source: chosen: a level-2 cache holds it. Past it the same as
/// [`MAX_TRIAGE_STATES`](super::MAX_TRIAGE_STATES).
pub const MAX_TRIAGE_BYTES: usize = 524_288;

/// Networks for whose hosts the kernel asks about everything.
/// Source: chosen: a table of some hundred kilobytes, two of which are there while one takes the
/// other's place. Past it the kernel asks about everything.
pub const MAX_TRIAGE_NETWORKS: usize = 4_096;
