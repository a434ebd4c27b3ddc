//! The bounds of the programs in the kernel: `linux/bpf/border.bpf.c` has the same, and a test
//! compares them.

/// Connections by TCP of which nothing is decided yet and that the in-kernel path remembers.
/// Source: chosen: 1.2 KB each. Past it the longest unused is forgotten, and user space asked
/// about its rest, without the beginning.
pub const KERNEL_FLOWS: u32 = 16_384;

/// The same by UDP.
/// Source: half of [`KERNEL_FLOWS`]: apart, so that a flood of one kind does not cost the other its
/// beginnings. Past it as there.
pub const KERNEL_DATAGRAMS: u32 = 8_192;

/// Calls by TCP that were not answered yet and that the in-kernel path remembers.
/// Source: the same as [`MAX_FLOWS`](super::MAX_FLOWS); 110 bytes each. Past it the longest unused
/// is forgotten: what is said in its connection is not taken for a beginning.
pub const KERNEL_CALLS: u32 = 65_536;

/// Bytes that the in-kernel path keeps of what has passed in an undecided flow, for user space when
/// that is asked later. Source: chosen: the first messages of applications are shorter. Past it
/// something is missing, and user space is told so.
pub const KERNEL_KEPT: u32 = 1_024;

/// Bytes of one packet that are kept so.
/// Source: chosen: a quarter of [`KERNEL_KEPT`]. Of a longer one the first are kept, and its
/// length.
pub const KERNEL_KEPT_PACKET: u32 = 256;

/// Bytes of beginnings that wait for user space to read them.
/// Source: some seven hundred flows. Past it flows come to user space without their beginning.
pub const KERNEL_HANDING: u32 = 1 << 20;

/// Bytes of refusals that wait for user space to read them.
/// Source: chosen: four thousand. Past it they are counted and not told.
pub const KERNEL_TELLING: u32 = 256 * 1_024;

/// Extension headers of IPv6 that the in-kernel path looks behind.
/// Source: RFC 8200 §4.1 knows six, in any order. With more, user space decides.
pub const KERNEL_EXTENSIONS: u32 = 6;

/// Interfaces of a border that the in-kernel path tells from others.
/// Source: chosen; each packet is compared with them. Past it packets of all interfaces are judged,
/// whether they cross the border or not.
pub const MAX_TRIAGE_INTERFACES: usize = 16;
