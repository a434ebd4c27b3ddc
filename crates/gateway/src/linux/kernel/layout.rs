//! What the gateway and the kernel's programs (`../bpf/border.bpf.c`) have in common: numbers, and
//! the form of what stands in their maps.
//!
//! It is written down here alone. The build takes this file in, writes `border.h` from it
//! ([`header`]), and has the compiler look whether the form is the same there. So it needs no other
//! file but those of the bounds and flags.
//!
//! Lengths are in bytes, times in nanoseconds since boot where nothing else is said. Numbers are in
//! the machine's order, addresses and ports in the network's.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr};

use super::flags::{ASK, DEAD, KNOWN, OPEN};
use super::limits::{
    ETHERNET_SEGMENT, FULL_SEGMENT, KERNEL_DATAGRAMS, KERNEL_EXTENSIONS, KERNEL_FLOWS,
    KERNEL_HANDING, KERNEL_KEPT, KERNEL_KEPT_PACKET, KERNEL_REFUSALS, KERNEL_SYNS, MAX_BLOCKED,
    MAX_TRIAGE_BYTES, MAX_TRIAGE_INTERFACES, MAX_TRIAGE_NETWORKS, ONE_SIDED, REFUSALS_REPORTED,
    SMALL_SEGMENTS, TRIAGE_SCAN, UDP_IDLE,
};

/// Cells of one table of the automaton.
pub(super) const CELLS: usize = MAX_TRIAGE_BYTES / 2;
/// Words of 64 bits that have one for each port.
pub(super) const PORT_WORDS: u32 = 65_536 / u64::BITS;
/// Slots for totals; more than there are, so that one more changes no map.
const TOTALS: u32 = 8;

/// What is counted, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// Calls that the connection cache dropped.
    Refused,
    /// Packets of undecided flows that passed without a question to user space.
    Passed,
    /// Packets of flows of which the kernel has seen enough; the connection's mark carries what
    /// follows.
    Finished,
    /// Flows that came to user space without their beginning.
    Lost,
}

impl Total {
    const ALL: [(Total, &str); 4] = [
        (Total::Refused, "REFUSED"),
        (Total::Passed, "PASSED"),
        (Total::Finished, "FINISHED"),
        (Total::Lost, "LOST"),
    ];

    /// Its position in the map.
    pub(super) fn index(self) -> u32 {
        let names = Self::ALL.iter().zip(0..);
        let own = names.filter(|((total, _), _)| *total == self);
        own.map(|(_, index)| index).next().unwrap_or(TOTALS)
    }
}

/// A value that both sides know.
pub(super) trait Form: Sized {
    /// How long it is.
    const BYTES: usize;

    /// Its declaration in C.
    fn declared(name: &str) -> String;

    /// Takes it off the front of these bytes; `None` if they are too few.
    fn read(bytes: &mut &[u8]) -> Option<Self>;

    /// Puts it behind these bytes.
    fn write(&self, bytes: &mut Vec<u8>);

    /// As it stands in a map, where `N` is [`BYTES`](Self::BYTES); behind what is longer, zeros.
    fn bytes<const N: usize>(&self) -> [u8; N] {
        let (mut whole, mut written) = ([0; N], Vec::with_capacity(N));
        self.write(&mut written);
        for (byte, value) in whole.iter_mut().zip(written) {
            *byte = value;
        }
        whole
    }
}

macro_rules! numbers {
    ($($kind:ty, $c:literal;)*) => {
        $(impl Form for $kind {
            const BYTES: usize = size_of::<$kind>();

            fn declared(name: &str) -> String {
                format!("{} {name}", $c)
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                let (own, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$kind>::from_ne_bytes(*own))
            }

            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_ne_bytes());
            }
        })*
    };
}

numbers! {
    u8, "__u8";
    u16, "__u16";
    u32, "__u32";
    u64, "__u64";
}

impl<T: Form, const N: usize> Form for [T; N] {
    const BYTES: usize = N * T::BYTES;

    fn declared(name: &str) -> String {
        T::declared(&format!("{name}[{N}]"))
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let values: Option<Vec<T>> = (0..N).map(|_| T::read(bytes)).collect();
        values?.try_into().ok()
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        for value in self {
            value.write(bytes);
        }
    }
}

/// A port.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Port(u16);

impl Port {
    pub(super) fn new(number: u16) -> Self {
        Self(number.to_be())
    }

    pub(super) fn number(self) -> u16 {
        u16::from_be(self.0)
    }
}

impl Form for Port {
    const BYTES: usize = u16::BYTES;

    fn declared(name: &str) -> String {
        format!("__be16 {name}")
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        u16::read(bytes).map(Self)
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
    }
}

/// Types with their names in C.
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        struct $name:ident = $c:literal {
            $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub(super) struct $name {
                $($(#[$field_doc])* pub(super) $field: $kind,)*
            }

            // Without gaps: padding has no defined value, and would be part of a map's key.
            const _: () = assert!(size_of::<$name>() == <$name as Form>::BYTES);

            impl Form for $name {
                const BYTES: usize = 0 $(+ <$kind as Form>::BYTES)*;

                fn declared(name: &str) -> String {
                    format!("struct {} {name}", $c)
                }

                fn read(bytes: &mut &[u8]) -> Option<Self> {
                    Some(Self { $($field: Form::read(bytes)?,)* })
                }

                fn write(&self, bytes: &mut Vec<u8>) {
                    $(self.$field.write(bytes);)*
                }
            }
        )*

        /// The types in C, each with what has to be true of it there.
        fn structures() -> String {
            let each = [$(structure($c, size_of::<$name>(), &[$((
                stringify!($field),
                <$kind as Form>::declared(stringify!($field)),
                offset_of!($name, $field),
            ),)*]),)*];
            each.concat()
        }
    };
}

layout! {
    /// An address of IPv6, or of IPv4 mapped into it.
    struct Address = "address" {
        /// Its bytes, four by four, in the network's order.
        word: [u32; 4],
    }

    /// The papers' key of the connection cache: the client's port is no part of it, because blocked
    /// programs reconnect from another.
    struct CacheKey = "cache_key" {
        client: Address,
        server: Address,
        /// The server's.
        port: Port,
        /// IP's number of the transport.
        l4: u8,
        zero: u8,
    }

    /// What is known of a blocked one.
    #[derive(Default)]
    struct Blocked = "blocked" {
        until: u64,
        /// When refusals are reported next.
        report_at: u64,
        /// Refusals that were not reported.
        unreported: u64,
        /// The latest one's time and port.
        latest: u64,
        client_port: Port,
        /// Others announce what was blocked: kept for the gateway's next run.
        announced: u8,
        zero: [u8; 5],
    }

    /// Refusals of one blocked one, as they are reported to user space.
    struct Refusals = "refusals" {
        key: CacheKey,
        client_port: Port,
        zero: [u8; 2],
        attempts: u64,
        latest: u64,
    }

    /// Signatures and policy, but for the table.
    struct Judged = "triage" {
        enabled: u32,
        class_count: u32,
        /// States to begin in: of a stream, of later segments, of a datagram.
        starts: [u16; 3],
        /// Data packets of each direction that are looked at.
        packets: u8,
        needs_unknown: u8,
        /// There are ports on which everything is asked about, of TCP and of UDP.
        ports: [u32; 2],
        classes: [u8; 256],
        /// Without a gateway nothing undecided passes (the policy's `failure = "closed"`).
        closed: u32,
        /// There are networks of whose hosts everything is asked about.
        networks: u32,
    }

    /// The border's interfaces by their numbers, then 0. Where there are none, all interfaces are
    /// at the border. A gateway writes the numbers again and again, because an interface that goes
    /// and comes has another one.
    struct Numbers = "border" {
        interfaces: [u32; MAX_TRIAGE_INTERFACES],
    }

    /// A key of the networks: the prefix counts bits from the slot on.
    struct Network = "network" {
        prefix: u32,
        slot: u8,
        address: [u8; 16],
        zero: [u8; 3],
    }

    /// Both ends of a flow, the lower one first.
    struct Ends = "ends" {
        low: Address,
        high: Address,
        low_port: Port,
        high_port: Port,
        /// IP's number of the transport.
        l4: u8,
        zero: [u8; 3],
    }

    /// A flow of which nothing is decided. Its model is [`FlowModel`](crate::triage::FlowModel).
    struct Flow = "flow" {
        ends: Ends,
        /// How far it is.
        stage: u32,
        /// The sender of the first packet, which is direction 0, is the higher end.
        from_high: u8,
        /// The direction of a further SYN without its SYN-ACK yet: 1 + the direction; 0: none.
        resyn_from: u8,
        /// By direction, of TCP: 1 by a SYN, 2 by a SYN-ACK.
        opened: [u8; 2],
        /// Data packets of each direction, and the eighths of one that small ones have made up.
        counts: [u8; 2],
        eighths: [u8; 2],
        /// Of TCP: the number of each direction's next byte.
        next: [u32; 2],
        /// The number of the first SYN.
        first: [u32; 2],
        /// The number of that SYN.
        resyn: u32,
        /// When a datagram was seen last, in seconds since boot.
        seen: u32,
        /// To which link address the packet went that user space was asked about first, and 1 + its
        /// direction; 0 if there is none.
        receiver: [u8; 6],
        linked: u8,
        /// The classifier names it by the first data.
        known: u8,
        /// Bytes of `kept`, a multiple of four; more than fit if something is missing.
        used: u32,
        kept: [u8; KERNEL_KEPT],
    }

    /// What stands in `kept` before the bytes of a packet.
    struct KeptHead = "kept" {
        from: u8,
        zero: u8,
        /// Bytes of it that are there.
        kept: u16,
        /// Its length on the wire.
        length: u32,
        sequence: u32,
    }

    /// A SYN: its number, and whether the higher end has sent it.
    struct PendingSyn = "pending_syn" {
        number: u32,
        high: u8,
        zero: [u8; 3],
    }
}

impl Address {
    pub(super) fn of(address: IpAddr) -> Self {
        let v6 = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let octets = v6.octets();
        let (words, _) = octets.as_chunks();
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(words) {
            *to = u32::from_ne_bytes(*from);
        }
        Self { word }
    }

    pub(super) fn ip(&self) -> IpAddr {
        let octets: [u8; 16] = self.bytes();
        Ipv6Addr::from(octets).to_canonical()
    }
}

fn structure(name: &str, size: usize, fields: &[(&str, String, usize)]) -> String {
    let mut text = format!("\nstruct {name} {{\n");
    for (_, declared, _) in fields {
        text += &format!("\t{declared};\n");
    }
    text += &format!("}};\n_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");\n");
    for (field, _, offset) in fields {
        text += &format!(
            "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");\n"
        );
    }
    text
}

/// The bounds by their names in C.
fn bounds() -> [(&'static str, u128); 25] {
    // No bound is more than fits.
    let whole = |bound: usize| u128::try_from(bound).unwrap_or(u128::MAX);
    [
        ("EXTENSIONS", KERNEL_EXTENSIONS.into()),
        ("BLOCKED", whole(MAX_BLOCKED)),
        ("REPORT_NS", REFUSALS_REPORTED.as_nanos()),
        ("REFUSALS", KERNEL_REFUSALS.into()),
        ("SCAN", whole(TRIAGE_SCAN)),
        ("CELLS", whole(CELLS)),
        ("NETWORKS", whole(MAX_TRIAGE_NETWORKS)),
        ("PORT_WORDS", PORT_WORDS.into()),
        ("ETHERNET_SEGMENT", whole(ETHERNET_SEGMENT)),
        ("FULL_SEGMENT", whole(FULL_SEGMENT)),
        ("SMALL_SEGMENTS", whole(SMALL_SEGMENTS)),
        ("ONE_SIDED", ONE_SIDED.into()),
        ("UDP_IDLE", UDP_IDLE.as_secs().into()),
        ("FLOWS", KERNEL_FLOWS.into()),
        ("DATAGRAMS", KERNEL_DATAGRAMS.into()),
        ("SYNS", KERNEL_SYNS.into()),
        ("KEPT", whole(KERNEL_KEPT)),
        ("KEPT_PACKET", KERNEL_KEPT_PACKET.into()),
        ("INTERFACES", whole(MAX_TRIAGE_INTERFACES)),
        ("HANDING", KERNEL_HANDING.into()),
        ("TOTALS", TOTALS.into()),
        ("ASK", ASK.into()),
        ("KNOWN", KNOWN.into()),
        ("OPEN", OPEN.into()),
        ("DEAD", DEAD.into()),
    ]
}

/// The text of `border.h`.
pub(super) fn header() -> String {
    let mut text = "// Written by the build from linux/kernel/layout.rs.\n".to_owned();
    for (name, bound) in bounds() {
        text += &format!("#define {name} {bound}\n");
    }
    text += "\nenum total {\n";
    for (total, name) in Total::ALL {
        text += &format!("\t{name} = {},\n", total.index());
    }
    text += "};\n";
    text + &structures()
}
