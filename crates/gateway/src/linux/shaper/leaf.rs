//! What a class ends in: the queueing discipline that shares it among hosts and keeps it short.
//!
//! | leaf | between hosts | within a host | needs |
//! |---|---|---|---|
//! | cake | fair | fair between flows | `sch_cake` |
//! | fq_codel | fair | one queue, kept short by CoDel | `sch_fq_codel`, `cls_flow`, `sch_tbf` |
//! | shares | fair, as far as [`CLASS_SHARES`] keep them apart | one FIFO | `sch_tbf` |
//! | FIFO | not fair | one FIFO | nothing |
//!
//! Hosts are those inside, before their addresses are translated. A joined packet of 64 kB takes a
//! quarter of a second at 2 Mbit/s, so slow classes cut them: cake does, and `tbf` cuts what is
//! longer than its burst. Its rate is far above every class, so that it never holds a packet back.

use std::net::IpAddr;
use std::time::Duration;

use super::{HANDLE, HANDLE_NUMBER, class_id};
use crate::limits::{
    CAKE_RTT, CLASS_BUSY_HOSTS, CLASS_QUEUE, CLASS_SHARES, CODEL_INTERVAL, CODEL_TARGET,
    FIFO_LEAST, LEAF_MEMORY, SHARE_PACKETS, SHARE_SMALL,
};
use crate::policy::Class;

/// The number of the first class's first share: past those of all classes.
const FIRST_SHARE: u32 = 0x100;
/// The handles of leaves, and of what is below them, from the first class on.
const LEAF_HANDLE: usize = 0x7a20;
const INNER_HANDLE: usize = 0x7a40;
/// Bytes of a frame beside what the interface's MTU counts: Ethernet, with a VLAN.
const FRAME: u64 = 18;
/// Bytes of a joined packet: what is as long need not be cut.
const JOINED: u64 = 65_536 + FRAME;
/// Below this rate small packets go first (as sqm-scripts do).
const SLOW: u64 = 10_000_000;
/// Bytes of a flow's turn there.
const SLOW_QUANTUM: u64 = 300;

/// What a class ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaf {
    /// `cake`.
    Cake,
    /// `fq_codel` with a queue for each host.
    FqCodel,
    /// A number of FIFOs, chosen by the host's address.
    Shares,
    /// One FIFO.
    Fifo,
}

impl Leaf {
    /// All of them; the first that the kernel has is taken.
    pub const ORDER: [Leaf; 4] = [Leaf::Cake, Leaf::FqCodel, Leaf::Shares, Leaf::Fifo];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Leaf::Cake => "cake",
            Leaf::FqCodel => "fq_codel",
            Leaf::Shares => "shares",
            Leaf::Fifo => "fifo",
        }
    }

    /// What it means for the flows of a class, in a line.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Leaf::Cake => {
                "hosts share a class evenly, a host's flows its share; the queue is short"
            }
            Leaf::FqCodel => "hosts share a class evenly; each has a short queue of its own",
            Leaf::Shares => "hosts share a class evenly; each has a short FIFO (32 for all)",
            Leaf::Fifo => "a class is one FIFO: hosts wait for each other, by their connections",
        }
    }
}

/// The side of the border at which an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What leaves goes to hosts inside.
    Inside,
    /// What leaves comes from hosts inside.
    Outside,
}

/// An interface whose classes get leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) interface: &'a str,
    pub(super) side: Side,
    /// Bytes of the longest packet.
    pub(super) mtu: u64,
}

/// The share of a class that an address inside has: by its last bits, so that neighbours have
/// different ones.
pub(super) fn share(address: IpAddr) -> u32 {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    u32::from(last) % CLASS_SHARES
}

/// The number of a share below the tree's handle.
pub(super) fn share_minor(class: usize, share: u32) -> u32 {
    let class = u32::try_from(class).unwrap_or(0);
    let first = class
        .saturating_mul(CLASS_SHARES)
        .saturating_add(FIRST_SHARE);
    first.saturating_add(share)
}

/// A share's name for tc and iptables.
pub(in crate::linux) fn share_id(class: usize, share: u32) -> String {
    format!("{HANDLE}:{:x}", share_minor(class, share))
}

/// The priority that puts a socket's packets into a share.
pub(super) fn share_priority(class: usize, share: u32) -> u32 {
    (HANDLE_NUMBER << 16) | share_minor(class, share)
}

/// Bytes that leave in this time at this rate.
fn bytes(bits: u64, time: Duration) -> u64 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    bits.saturating_mul(micros) / 8_000_000
}

/// The time that one and a half packets take: CoDel with a shorter target drops what cannot come
/// sooner (as sqm-scripts do).
fn packets_time(mtu: u64, bits: u64) -> Duration {
    let bits_of = mtu.saturating_add(FRAME).saturating_mul(12);
    let micros = bits_of.saturating_mul(1_000_000).checked_div(bits);
    micros.map_or(Duration::MAX, Duration::from_micros)
}

/// Bytes of a host's FIFO.
fn share_bytes(mtu: u64, ceiling: u64) -> u64 {
    let full = mtu.saturating_add(FRAME).saturating_mul(SHARE_PACKETS);
    (bytes(ceiling, CLASS_QUEUE) / CLASS_BUSY_HOSTS).max(full.saturating_add(SHARE_SMALL))
}

impl Place<'_> {
    /// The lines for `tc -batch` that give a class this leaf.
    pub(super) fn leaf(&self, leaf: Leaf, index: usize, class: &Class) -> Vec<String> {
        match leaf {
            Leaf::Cake => vec![self.cake(index, class.ceiling)],
            Leaf::FqCodel => self.fq_codel(index, class.ceiling),
            Leaf::Shares => self.shares(index, class),
            Leaf::Fifo => {
                let limit = bytes(class.ceiling, CLASS_QUEUE).max(FIFO_LEAST);
                vec![self.below(&class_id(index), &format!("bfifo limit {limit}"))]
            }
        }
    }

    fn below(&self, parent: &str, what: &str) -> String {
        format!("qdisc add dev {} parent {parent} {what}", self.interface)
    }

    fn cake(&self, index: usize, ceiling: u64) -> String {
        let hosts = match self.side {
            Side::Inside => "dual-dsthost",
            Side::Outside => "dual-srchost",
        };
        // Its target is a twentieth of this.
        let slow = packets_time(self.mtu, ceiling).saturating_mul(20);
        let rtt = slow.clamp(CODEL_INTERVAL, CAKE_RTT).as_micros();
        let handle = LEAF_HANDLE.saturating_add(index);
        self.below(
            &class_id(index),
            &format!(
                "handle {handle:x}: cake unlimited besteffort {hosts} nat split-gso \
                 rtt {rtt}us memlimit {LEAF_MEMORY}"
            ),
        )
    }

    fn fq_codel(&self, index: usize, ceiling: u64) -> Vec<String> {
        let (outer, inner) = (
            LEAF_HANDLE.saturating_add(index),
            INNER_HANDLE.saturating_add(index),
        );
        let mut lines = Vec::new();
        let limit = share_bytes(self.mtu, ceiling);
        let parent = match self.cutting(limit) {
            Some(tbf) => {
                let tbf = format!("handle {outer:x}: {tbf}");
                lines.push(self.below(&class_id(index), &tbf));
                format!("{outer:x}:1")
            }
            None => class_id(index),
        };
        let target = packets_time(self.mtu, ceiling).max(CODEL_TARGET);
        let interval = CODEL_INTERVAL
            .saturating_sub(CODEL_TARGET)
            .saturating_add(target);
        let quantum = if ceiling < SLOW {
            SLOW_QUANTUM
        } else {
            self.mtu.saturating_add(FRAME)
        };
        let discipline = format!(
            "handle {inner:x}: fq_codel flows 1024 target {}us interval {}us quantum {quantum} \
             memory_limit {LEAF_MEMORY}",
            target.as_micros(),
            interval.as_micros()
        );
        lines.push(self.below(&parent, &discipline));
        let hosts = match self.side {
            Side::Inside => "dst",
            // As connection tracking knows it: the address may be translated by now.
            Side::Outside => "nfct-src",
        };
        lines.push(format!(
            "filter add dev {} parent {inner:x}: protocol all prio 1 handle 1 flow hash keys \
             {hosts} divisor 1024",
            self.interface
        ));
        lines
    }

    fn shares(&self, index: usize, class: &Class) -> Vec<String> {
        let limit = share_bytes(self.mtu, class.ceiling);
        let fifo = self
            .cutting(limit)
            .unwrap_or_else(|| format!("bfifo limit {limit}"));
        let rate = class
            .rate
            .checked_div(u64::from(CLASS_SHARES))
            .unwrap_or(0)
            .max(8);
        // A packet each, in turns.
        let quantum = self.mtu.saturating_add(FRAME);
        let of_each = (0..CLASS_SHARES).flat_map(|share| {
            let (id, parent) = (share_id(index, share), class_id(index));
            let class = format!(
                "class add dev {} parent {parent} classid {id} htb rate {rate}bit ceil {}bit \
                 quantum {quantum}",
                self.interface, class.ceiling
            );
            [class, self.below(&id, &fifo)]
        });
        of_each.collect()
    }

    /// What cuts joined packets, where one would wait for long.
    fn cutting(&self, limit: u64) -> Option<String> {
        let longest = (limit / 2).max(self.mtu.saturating_add(FRAME));
        (longest < JOINED).then(|| format!("tbf rate 100gbit burst {longest} limit {limit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASS_SHARES, Leaf, Place, Side, share, share_id, share_priority};
    use crate::limits::MAX_CLASSES;
    use crate::policy::Class;

    fn lines(leaf: Leaf, side: Side, rate: u64) -> String {
        let (interface, mtu) = ("wan0", 1_500);
        let place = Place {
            interface,
            side,
            mtu,
        };
        let class = Class {
            name: "bulk".to_owned(),
            rate,
            ceiling: rate,
        };
        place.leaf(leaf, 0, &class).join("\n")
    }

    #[test]
    fn neighbours_have_shares_of_their_own() {
        let shares = |from: u8| -> std::collections::BTreeSet<u32> {
            let last = from..from + 32;
            last.map(|last| share([10, 66, 0, last].into())).collect()
        };
        assert_eq!(shares(2).len(), 32);
        assert_eq!(share("2001:db8::25".parse().unwrap()), 5);
    }

    #[test]
    fn shares_of_all_classes_differ() {
        let mut seen = std::collections::BTreeSet::new();
        for class in 0..MAX_CLASSES {
            for share in 0..CLASS_SHARES {
                assert!(seen.insert(share_priority(class, share)));
            }
        }
        assert!(seen.iter().all(|number| number >> 16 == 0x7a11));
        assert_eq!(share_id(1, 2), "7a11:122");
    }

    #[test]
    fn slow_classes_cut_joined_packets() {
        let slow = lines(Leaf::Shares, Side::Inside, 2_000_000);
        assert!(
            slow.contains("parent 7a11:11f tbf rate 100gbit burst 2577 limit 5154"),
            "{slow}"
        );
        let fast = lines(Leaf::Shares, Side::Inside, 1_000_000_000);
        assert!(
            fast.contains("parent 7a11:100 bfifo limit 1562500") && !fast.contains("tbf"),
            "{fast}"
        );
    }

    #[test]
    fn codel_waits_longer_where_a_packet_takes_long() {
        let slow = lines(Leaf::FqCodel, Side::Outside, 2_000_000);
        assert!(
            slow.contains("target 9108us interval 104108us quantum 300"),
            "{slow}"
        );
        assert!(slow.contains("flow hash keys nfct-src"), "{slow}");
        let fast = lines(Leaf::FqCodel, Side::Inside, 100_000_000);
        assert!(
            fast.contains("target 5000us interval 100000us quantum 1518"),
            "{fast}"
        );
        assert!(fast.contains("flow hash keys dst "), "{fast}");
        let cake = lines(Leaf::Cake, Side::Outside, 2_000_000);
        assert!(
            cake.contains("dual-srchost nat split-gso rtt 182160us"),
            "{cake}"
        );
    }
}
