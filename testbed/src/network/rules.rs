//! What a host, gateway or switch drops or translates, as nftables rules.

use std::fmt::Write as _;
use std::net::IpAddr;

/// Which packets a rule means.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    udp: bool,
    from: Option<IpAddr>,
    to: Option<IpAddr>,
}

impl Traffic {
    /// Every IP packet.
    #[must_use]
    pub fn any() -> Traffic {
        Traffic::default()
    }

    /// Every UDP packet.
    #[must_use]
    pub fn udp() -> Traffic {
        Traffic {
            udp: true,
            ..Traffic::default()
        }
    }

    /// Of these, the packets with this source.
    #[must_use]
    pub fn from(mut self, source: IpAddr) -> Traffic {
        self.from = Some(source);
        self
    }

    /// Of these, the packets with this destination.
    #[must_use]
    pub fn to(mut self, destination: IpAddr) -> Traffic {
        self.to = Some(destination);
        self
    }

    fn matches(&self) -> String {
        let mut text = String::new();
        for (side, address) in [("saddr", self.from), ("daddr", self.to)] {
            if let Some(address) = address {
                let family = if address.is_ipv6() { "ip6" } else { "ip" };
                text.push_str(&format!("{family} {side} {address} "));
            }
        }
        if self.udp {
            text.push_str("meta l4proto udp ");
        } else if text.is_empty() {
            text.push_str("meta protocol { ip, ip6 } ");
        }
        text
    }
}

/// One rule. Rules are looked at in order.
#[derive(Clone, Debug)]
pub enum Rule {
    /// These packets pass, whatever later rules say.
    Pass(Traffic),
    /// These packets vanish. With both ends given it is one way only: a blackhole.
    Drop(Traffic),
    /// Only TCP from and to this port passes, with the neighbour discovery that IP itself needs.
    OnlyTcp(u16),
    /// What leaves by this interface gets its address, and only answers come back in: NAT, as in a
    /// home router. A socket inside has the same port outside whomever it sends to.
    Masquerade(String),
    /// As [`Rule::Masquerade`], but with another port for each destination: no host outside can
    /// know it beforehand.
    MasqueradeAtRandom(String),
    /// As [`Rule::MasqueradeAtRandom`], and [`Miniupnpd`](crate::Miniupnpd) may open ports.
    HomeRouter(String),
}

impl Rule {
    fn filter(&self) -> String {
        match self {
            Rule::Pass(traffic) => format!("{}accept\n", traffic.matches()),
            Rule::Drop(traffic) => format!("{}drop\n", traffic.matches()),
            Rule::OnlyTcp(port) => format!(
                "tcp dport {port} accept\ntcp sport {port} accept\n\
                 meta l4proto ipv6-icmp accept\nmeta protocol {{ ip, ip6 }} drop\n"
            ),
            // An unasked packet has to vanish here: were it answered, the kernel would remember it
            // and give the port to it.
            Rule::Masquerade(out) | Rule::MasqueradeAtRandom(out) | Rule::HomeRouter(out) => {
                only_answers(out)
            }
        }
    }

    fn forward(&self) -> String {
        match self {
            Rule::Masquerade(out) | Rule::MasqueradeAtRandom(out) => only_answers(out),
            Rule::HomeRouter(out) => format!("jump miniupnpd\n{}", only_answers(out)),
            other => other.filter(),
        }
    }

    /// How to translate, and behind which interface.
    fn translation(&self) -> Option<(&str, &str)> {
        match self {
            Rule::Masquerade(out) => Some((out, "masquerade")),
            Rule::MasqueradeAtRandom(out) | Rule::HomeRouter(out) => {
                Some((out, "masquerade random,fully-random"))
            }
            _ => None,
        }
    }
}

fn only_answers(out: &str) -> String {
    format!("iifname \"{out}\" ct state != {{ established, related }} drop\n")
}

/// What the daemon fills.
const OPENED: &str = "chain miniupnpd {}\nchain prerouting_miniupnpd {}\nchain postrouting_miniupnpd {}\n\
    chain opened {\ntype nat hook prerouting priority -100; policy accept;\njump prerouting_miniupnpd\n}\n";

/// A script for `nft` that replaces all rules of a namespace at once.
pub(super) fn ruleset(rules: &[Rule], switch: bool) -> String {
    let chain = |hook: &str, lines: String| {
        format!("chain {hook} {{\ntype filter hook {hook} priority 0; policy accept;\n{lines}}}\n")
    };
    let filter: String = rules.iter().map(Rule::filter).collect();
    if switch {
        return table("bridge", &chain("forward", filter));
    }
    let forward = rules.iter().map(Rule::forward).collect();
    let input = format!("iifname \"lo\" accept\n{filter}");
    let mut chains = String::new();
    if rules.iter().any(|rule| matches!(rule, Rule::HomeRouter(_))) {
        chains.push_str(OPENED);
    }
    chains += &(chain("input", input) + &chain("forward", forward));
    for rule in rules {
        if let Some((out, how)) = rule.translation() {
            chains.push_str(&format!(
                "chain translate-{out} {{\ntype nat hook postrouting priority 100; policy accept;\n\
                 oifname \"{out}\" {how}\n}}\n"
            ));
        }
    }
    table("inet", &chains)
}

/// The table is made first so that there is one to delete; a script is carried out whole or not at
/// all.
fn table(family: &str, chains: &str) -> String {
    let mut text = String::new();
    let name = format!("{family} ringway");
    // Writing to a String does not fail.
    writeln!(
        text,
        "table {name}\ndelete table {name}\ntable {name} {{\n{chains}}}"
    )
    .ok();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blackhole_names_both_ends() {
        let traffic = Traffic::udp()
            .from([10, 0, 0, 1].into())
            .to([10, 0, 0, 2].into());
        let text = ruleset(&[Rule::Drop(traffic)], true);
        let rule = "ip saddr 10.0.0.1 ip daddr 10.0.0.2 meta l4proto udp drop";
        assert!(
            text.contains(rule) && text.contains("table bridge"),
            "{text}"
        );
    }

    #[test]
    fn dropping_everything_leaves_address_resolution() {
        assert_eq!(Traffic::any().matches(), "meta protocol { ip, ip6 } ");
    }

    #[test]
    fn a_host_keeps_its_loopback() {
        let text = ruleset(&[Rule::OnlyTcp(443)], false);
        let (lo, drop) = (text.find("iifname \"lo\""), text.find("ip6 } drop"));
        assert!(lo.is_some() && lo < drop, "{text}");
    }
}
