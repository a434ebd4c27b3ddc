//! What brings connections to the gateway's own sockets: a table of nftables, and routes to this
//! machine for what it marks.
//!
//! nftables, and not iptables as for the rest: without a listener its `tproxy` lets the packet go
//! on, so that a gateway that was killed takes no connections with it; the target of iptables
//! drops them.
//!
//! A terminated connection is two for the kernel's connection tracking, with the same addresses and
//! ports. The client's half has a zone of its own there; the server's is in the host's, where it is
//! translated as any other.

use std::ops::RangeInclusive;

use super::Doors;
use crate::linux::border::Border;
use crate::linux::marks::{Hex, Marks};
use crate::linux::tool::{IP, Tool, ToolError};
use crate::policy::apart;

const NFT: Tool = Tool {
    name: "nft",
    package: "nftables",
};
const TABLE: &str = "ringway";
/// The zone of clients' halves, and the number of the table of routes: the shaper's handle, so
/// that it is distinguished from others'.
const NUMBER: &str = "31249";
/// The same as connection tracking gives it.
pub(crate) const CLIENTS_ZONE: u16 = 31_249;

/// What is redirected.
#[derive(Clone, Debug)]
pub struct Redirect<'a> {
    /// Connections from inside to outside.
    pub border: &'a Border,
    /// Our bits of marks.
    pub marks: Marks,
    /// Where they are taken.
    pub doors: Doors,
    /// New connections to these ports.
    pub ports: &'a [RangeInclusive<u16>],
    /// These and those of earlier policies, whose connections may go on.
    pub ever: &'a [RangeInclusive<u16>],
}

impl Redirect<'_> {
    /// Puts it in force, in place of what is there. Returns why there is none of IPv6 where
    /// somebody has switched that off since there was a door for it: the others need not suffer
    /// for it.
    ///
    /// # Errors
    /// nft or ip are missing or refuse.
    pub fn set_up(&self) -> Result<Option<ToolError>, ToolError> {
        NFT.run(&["-f", "-"], &self.text())?;
        unroute();
        let mark = self.marks.terminated();
        self.route("-4", &mark)?;
        let v6 = self.doors.v6.map(|_| self.route("-6", &mark));
        Ok(v6.and_then(Result::err))
    }

    /// Has this machine take what is marked.
    fn route(&self, family: &str, mark: &str) -> Result<(), ToolError> {
        let route = ["route", "replace", "local", "default", "dev", "lo"];
        IP.run(&[&[family], &route[..], &["table", NUMBER]].concat(), "")?;
        // Of what comes in only: what a socket sends may have the mark, too (`tcp_fwmark_accept`),
        // and the way back is looked up by it (`src_valid_mark`).
        for interface in self.border.all() {
            let rule = ["rule", "add", "iif", interface, "fwmark", mark];
            IP.run(&[&[family], &rule[..], &["lookup", NUMBER]].concat(), "")?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let names = |names: &[String]| format!("{{ \"{}\" }}", names.join("\", \""));
        let (inside, outside) = (names(&self.border.inside), names(&self.border.outside));
        let (mask, ours_mask) = (Hex(!self.marks.mask()), Hex(self.marks.mask()));
        let value = self.marks.terminated();
        let value = value.split('/').next().unwrap_or_default();
        let marked = format!("meta mark set meta mark & {mask} | {value}");
        let mut lines = vec![
            // There may be none to delete.
            format!("table inet {TABLE}"),
            format!("delete table inet {TABLE}"),
            format!("table inet {TABLE} {{"),
            "chain inside {".to_owned(),
            "type filter hook prerouting priority raw; policy accept;".to_owned(),
        ];
        let doors = [
            ("ipv4", format!("ip to 127.0.0.1:{}", self.doors.v4)),
            (
                "ipv6",
                format!("ip6 to [::1]:{}", self.doors.v6.unwrap_or_default()),
            ),
        ];
        let known = doors.into_iter().filter(|(family, _)| {
            !self.ports.is_empty() && (*family == "ipv4" || self.doors.v6.is_some())
        });
        lines.extend(known.map(|(family, door)| {
            format!(
                "iifname {inside} meta nfproto {family} tcp dport {} tcp flags & (fin | syn | rst | ack) == syn \
                 fib daddr oifname {outside} tproxy {door} ct zone set {NUMBER} {marked} accept",
                set(self.ports)
            )
        }));
        // What ICMP reports to TCP (path MTU, say) is for the gateway's own sockets, too.
        let ours = "meta l4proto { tcp, icmp, icmpv6 } socket transparent 1";
        lines.extend([
            // Behind the calls: one at a port whose old connection is not forgotten yet is for the
            // door.
            format!("iifname {inside} {ours} ct zone set {NUMBER} {marked} accept"),
            "}".to_owned(),
            // The host's own rules may have set marks of theirs at mangle (CONNMARK
            // --restore-mark): ours is what the way is found by.
            "chain marks {".to_owned(),
            "type filter hook prerouting priority mangle + 1; policy accept;".to_owned(),
            format!("iifname {inside} {ours} {marked}"),
            format!("iifname {outside} {ours} {marked}"),
            "}".to_owned(),
            "chain answers {".to_owned(),
            "type filter hook output priority raw; policy accept;".to_owned(),
            // A socket takes it from what it answers, where the host says so
            // (`tcp_fwmark_accept`); it is no verdict.
            format!("meta mark & {ours_mask} == {value} meta mark set meta mark & {mask}"),
        ]);
        if !self.ever.is_empty() {
            lines.push(format!(
                "oifname {inside} tcp sport {} fib saddr type != local ct zone set {NUMBER}",
                set(self.ever)
            ));
        }
        lines.push("}\n}\n".to_owned());
        lines.join("\n")
    }
}

/// The redirection as the system lists it, also that of an earlier run: equal as long as it is not
/// changed; empty where there is none.
#[must_use]
pub fn standing() -> String {
    // Where a tool refuses, or is not there, what it would list is not there either: the table, or
    // IPv6.
    let mut listed = NFT
        .run(&["list", "table", "inet", TABLE], "")
        .unwrap_or_default();
    for family in ["-4", "-6"] {
        let rules = IP.run(&[family, "rule", "show"], "").unwrap_or_default();
        listed.extend(rules.lines().filter_map(ours));
        // An empty table is none, which is an error to some versions.
        let routes = IP.run(&[family, "route", "show", "table", NUMBER], "");
        listed.push_str(&routes.unwrap_or_default());
    }
    listed
}

/// A rule to our table, of what ip printed; that an interface is away is no change of it.
fn ours(rule: &str) -> Option<String> {
    let rule = rule.trim_end();
    let way = format!("lookup {NUMBER}");
    rule.ends_with(&way)
        .then(|| rule.replace("[detached] ", "") + "\n")
}

/// Ports as nftables writes them: spans that do not overlap.
fn set(ports: &[RangeInclusive<u16>]) -> String {
    let spans = apart(ports).into_iter().map(|span| {
        let (first, last) = span.into_inner();
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    format!("{{ {} }}", spans.collect::<Vec<_>>().join(", "))
}

/// Takes it out, also that of an earlier run. Nothing is left.
///
/// # Errors
/// nft refuses to take out what is there.
pub fn take_down() -> Result<(), ToolError> {
    // Without it, or without its part of the kernel, nothing was put in.
    let shown = NFT.run(&["list", "tables"], "").unwrap_or_default();
    let ours = format!("table inet {TABLE}");
    if shown.lines().any(|line| line.trim() == ours) {
        NFT.run(&["delete", "table", "inet", TABLE], "")?;
    }
    unroute();
    Ok(())
}

/// Takes out rules and routes; there may be none.
fn unroute() {
    for family in ["-4", "-6"] {
        while IP
            .run(&[family, "rule", "del", "lookup", NUMBER], "")
            .is_ok()
        {}
        IP.run(&[family, "route", "flush", "table", NUMBER], "")
            .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::{Redirect, ours, set};
    use crate::linux::border::Border;
    use crate::linux::marks::Marks;
    use crate::linux::terminate::Doors;

    #[test]
    fn ports_are_written_as_nftables_does() {
        assert_eq!(set(&[80..=80, 6881..=6889]), "{ 80, 6881-6889 }");
    }

    #[test]
    fn a_missing_interface_changes_no_rules() {
        let rule = |away| format!("32765:\tfrom all fwmark 0x5/0x7f iif lan0 {away}lookup 31249 ");
        assert_eq!(ours(&rule("")), ours(&rule("[detached] ")));
        assert!(ours(&rule("")).is_some());
        assert_eq!(ours("32766:\tfrom all lookup main"), None);
    }

    #[test]
    fn without_ports_no_new_connection_is_terminated() {
        let border = Border {
            inside: vec!["lan0".to_owned(), "lan1".to_owned()],
            outside: vec!["wan0".to_owned()],
            bridged: false,
        };
        let redirect = Redirect {
            border: &border,
            marks: Marks::default(),
            doors: Doors { v4: 1, v6: None },
            ports: &[],
            ever: &[80..=80],
        };
        let text = redirect.text();
        assert!(!text.contains("tproxy"), "{text}");
        assert!(text.contains("socket transparent 1"), "{text}");
        assert!(
            text.contains("oifname { \"lan0\", \"lan1\" } tcp sport { 80 }"),
            "{text}"
        );
        let text = Redirect {
            ports: &[80..=80],
            ..redirect
        }
        .text();
        assert!(
            text.contains("tproxy ip to 127.0.0.1:1 ") && !text.contains("ip6 to"),
            "{text}"
        );
    }
}
