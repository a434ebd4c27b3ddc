//! iptables' tools, of both versions of IP.

use super::class_rules::Ip;
use super::pure_acks::{self, Program};
use super::tool::Tool;

/// The tools of a version of IP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) ip: Ip,
    /// Writes the rules down.
    pub(super) save: Tool,
    /// Puts them in force.
    pub(super) restore: Tool,
    /// Finds pure ACKs.
    pub(super) bare: Program,
}

/// Both of them.
pub(super) const FAMILIES: [Family; 2] = [
    Family {
        ip: Ip::V4,
        save: tool("iptables-save"),
        restore: tool("iptables-restore"),
        bare: pure_acks::IPV4,
    },
    Family {
        ip: Ip::V6,
        save: tool("ip6tables-save"),
        restore: tool("ip6tables-restore"),
        bare: pure_acks::IPV6,
    },
];

/// A tool of iptables.
pub(super) const fn tool(name: &'static str) -> Tool {
    Tool {
        name,
        package: "iptables",
    }
}
