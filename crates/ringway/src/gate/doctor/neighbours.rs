//! Who else keeps rules in this machine's packet filter, known by the rules themselves, and what
//! that means for a gateway.

use ringway_gateway::linux::tool::Tool;
use serde::Serialize;

/// What the rules are listed by.
const LISTS: [(Tool, &[&str]); 2] = [
    (
        Tool {
            name: "iptables-save",
            package: "iptables",
        },
        &[],
    ),
    (
        Tool {
            name: "nft",
            package: "nftables",
        },
        &["list", "ruleset"],
    ),
];

/// The bits of connections' marks that are the gateway's without `--mask`: seven of the eight.
const KEPT: u32 = 0x7f00_0000;

/// A program, what only its rules have, and what to know of it.
const KNOWN: [(&str, &str, &str); 7] = [
    (
        "docker",
        "DOCKER-USER",
        "it closes FORWARD: let what crosses the border pass in DOCKER-USER",
    ),
    ("podman", "NETAVARK", "nothing to do"),
    ("libvirt", "LIBVIRT_FWX", "nothing to do"),
    (
        "firewalld",
        "table inet firewalld",
        "a reload takes the gateway's rules out, and they come back within a second",
    ),
    ("ufw", "ufw-before-forward", "nothing to do"),
    ("fail2ban", "f2b-", "nothing to do"),
    (
        "tailscale",
        "ts-forward",
        "nothing to do: its marks are others",
    ),
];

/// A neighbour, in the form of the other things that `gate doctor` finds.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Neighbour {
    pub(super) name: String,
    pub(super) needed_for: &'static str,
    /// What keeps the gateway from its work.
    pub(super) missing: Option<String>,
    pub(super) untried: bool,
    pub(super) optional: bool,
    /// What it means for the gateway.
    pub(super) meaning: String,
}

impl Neighbour {
    fn new(name: &str, meaning: &str, keeps: bool) -> Neighbour {
        Neighbour {
            name: format!("beside {name}"),
            needed_for: "rules of others in the packet filter",
            missing: keeps.then(|| meaning.to_owned()),
            untried: false,
            optional: true,
            meaning: meaning.to_owned(),
        }
    }
}

/// Those that there are; none where the rules cannot be listed.
pub(super) fn neighbours() -> Vec<Neighbour> {
    let listed = LISTS.map(|(tool, words)| tool.run(words, "").unwrap_or_default());
    found(&listed.concat())
}

/// Those of which there are rules in this list.
fn found(rules: &str) -> Vec<Neighbour> {
    let known = KNOWN.iter().filter(|(_, sign, _)| rules.contains(sign));
    let mut found: Vec<Neighbour> = known
        .map(|(name, _, meaning)| Neighbour::new(name, meaning, false))
        .collect();
    if rules.contains("flow add @") || rules.contains("flow offload @") {
        let meaning = "offloaded flows pass the gateway unseen: offload only where `ct mark and 0x7f000000 == 0x01000000`";
        found.push(Neighbour::new("a flowtable", meaning, true));
    }
    let theirs = rules.lines().map(str::trim);
    let mut theirs = theirs.filter(|line| !line.contains("RINGWAY"));
    if let Some(rule) = theirs.find(|line| overwrites(line)) {
        let meaning = format!(
            "`{rule}` overwrites the gateway's bits of connections' marks: give it a mask, or the gateway another --mask"
        );
        found.push(Neighbour::new("rules with marks", &meaning, true));
    }
    found
}

/// Whether a rule changes our bits of a connection's mark.
fn overwrites(rule: &str) -> bool {
    let after = |word: &str| {
        let rest = rule.split_once(word).map(|(_, rest)| rest)?;
        rest.split_whitespace().next()
    };
    let bits = |text: &str| {
        let digits = text.trim_start_matches("0x");
        u32::from_str_radix(digits, 16).unwrap_or(0)
    };
    // Of packets that somebody has marked, as WireGuard's own are: none of them crosses the border.
    if rule.contains("-m mark --mark ") || rule.contains("meta mark 0x") {
        return false;
    }
    if rule.contains("-j CONNMARK ") {
        let masks = [
            after("--set-xmark ").and_then(|value| value.split_once('/').map(|(_, mask)| mask)),
            // Of the connection's mark this much is replaced.
            after("--ctmask ").filter(|_| rule.contains("--save-mark")),
        ];
        return masks
            .into_iter()
            .flatten()
            .any(|mask| bits(mask) & KEPT != 0);
    }
    // nftables: what the new mark is made of without the old one leaves nothing of it.
    rule.split_once("ct mark set ")
        .is_some_and(|(_, made)| !made.contains("ct mark"))
}

#[cfg(test)]
mod tests {
    use super::{found, overwrites};

    #[test]
    fn neighbours_are_known_by_their_rules() {
        let rules = ":DOCKER-USER - [0:0]\n-A FORWARD -j ts-forward\n\tchain f2b-chain {\n\
            -A RINGWAY-FREE -j CONNMARK --set-xmark 0x1000000/0x7f000000\n";
        let names: Vec<String> = found(rules).into_iter().map(|one| one.name).collect();
        assert_eq!(
            names,
            ["beside docker", "beside fail2ban", "beside tailscale"]
        );
        assert!(found("*filter\n:FORWARD ACCEPT [0:0]\n").is_empty());
        let offloads = found("\t\tip protocol tcp flow add @fast\n");
        assert!(offloads[0].missing.is_some());
        let marks = found(
            "-A POSTROUTING -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff\n",
        );
        assert!(marks[0].meaning.contains("--save-mark"));
    }

    #[test]
    fn only_rules_that_take_our_bits_overwrite_them() {
        for (rule, taken) in [
            ("-A F -j CONNMARK --set-xmark 0x1/0xffffffff", true),
            ("-A F -j CONNMARK --set-xmark 0x1/0xff", false),
            (
                "-A F -j CONNMARK --save-mark --nfmask 0xff0000 --ctmask 0xff0000",
                false,
            ),
            (
                "-A F -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff",
                false,
            ),
            ("-A F -j MARK --set-xmark 0x40000/0xff0000", false),
            (
                "-A P -p udp -m mark --mark 0xca6c -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
                false,
            ),
            ("ct mark set meta mark", true),
            ("ct mark set 0x1", true),
            ("ct mark set ct mark & 0xff000000 | 0x1", false),
            ("meta mark set ct mark", false),
        ] {
            assert_eq!(overwrites(rule), taken, "{rule}");
        }
    }
}
