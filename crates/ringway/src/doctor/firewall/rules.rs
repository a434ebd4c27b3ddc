//! A packet filter's rules as `nft -j list ruleset` shows them (libnftables-json(5)), and what
//! becomes of a first packet to a port. What a rule says beyond protocol, port and state is not
//! judged: such a rule may or may not be about the packet.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::limits::DOCTOR_RULES;

/// Chains that jump to each other, at most so deep (the kernel's own bound, `NFT_JUMP_STACK_SIZE`).
const DEPTH: usize = 16;

/// What becomes of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Every chain lets it in, as far as it is read.
    Accepted,
    /// It hangs on what is not judged.
    Unknown,
    /// Dropped or refused by this chain: family, table and name.
    Dropped(String),
}

/// Family, table and name.
type ChainName = (String, String, String);

#[derive(Debug, Default)]
struct Chain {
    /// The chain begins the way of packets to this machine.
    is_input: bool,
    priority: i64,
    drops_rest: bool,
    rules: Vec<Vec<Value>>,
}

/// All rules.
#[derive(Debug)]
pub(super) struct Ruleset {
    chains: BTreeMap<ChainName, Chain>,
    /// Elements of named sets.
    sets: BTreeMap<ChainName, Vec<Value>>,
}

/// The packet that is followed.
#[derive(Clone, Copy, Debug)]
struct Packet<'a> {
    protocol: &'a str,
    port: u16,
}

/// How a chain, or a part of it, ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Accept,
    Drop,
    /// The chain that jumped here goes on.
    Return,
    Unknown,
}

/// Whether a rule is about the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fits {
    No,
    Maybe,
    Yes,
}

impl Ruleset {
    /// None for what is no list of rules.
    pub(super) fn parse(text: &str) -> Option<Ruleset> {
        let read: Value = serde_json::from_str(text).ok()?;
        let mut found = Ruleset {
            chains: BTreeMap::new(),
            sets: BTreeMap::new(),
        };
        // Objects of other kinds say nothing about a first packet.
        for object in read["nftables"].as_array()? {
            if let Some(chain) = object.get("chain") {
                let entry = found.chains.entry(name(chain, "name")).or_default();
                entry.is_input = chain["hook"] == "input";
                entry.priority = chain["prio"].as_i64().unwrap_or(0);
                entry.drops_rest = chain["policy"] == "drop";
            } else if let Some(rule) = object.get("rule") {
                let entry = found.chains.entry(name(rule, "chain")).or_default();
                entry
                    .rules
                    .push(rule["expr"].as_array().cloned().unwrap_or_default());
            } else if let Some(set) = object.get("set") {
                let elements = set["elem"].as_array().cloned().unwrap_or_default();
                found.sets.insert(name(set, "name"), elements);
            }
        }
        Some(found)
    }

    /// What becomes of a first packet to this port from anywhere.
    pub(super) fn fate(&self, protocol: &str, port: u16, is_ipv4: bool) -> Fate {
        let family = if is_ipv4 { "ip" } else { "ip6" };
        let is_passed = |chain: &(&ChainName, &Chain)| {
            chain.1.is_input && [family, "inet"].contains(&chain.0.0.as_str())
        };
        // An accept ends one chain; the next one of the hook may still drop.
        let mut passed: Vec<_> = self.chains.iter().filter(is_passed).collect();
        passed.sort_by_key(|(_, chain)| chain.priority);
        let packet = Packet { protocol, port };
        let (mut left, mut is_sure) = (DOCTOR_RULES, true);
        for (name, chain) in passed {
            let end = self.follow(name, packet, DEPTH, &mut left);
            match end {
                End::Drop => return Fate::Dropped(shown(name)),
                End::Return if chain.drops_rest => return Fate::Dropped(shown(name)),
                End::Unknown => is_sure = false,
                End::Accept | End::Return => {}
            }
        }
        if !is_sure {
            return Fate::Unknown;
        }
        Fate::Accepted
    }

    /// Follows the packet through one chain.
    fn follow(&self, at: &ChainName, packet: Packet<'_>, depth: usize, left: &mut usize) -> End {
        let Some(chain) = self.chains.get(at) else {
            return End::Unknown;
        };
        // Once a rule may have taken the packet, all that is known is what would be the same then.
        let mut may_have_ended: Option<End> = None;
        for rule in &chain.rules {
            if *left == 0 || depth == 0 {
                return End::Unknown;
            }
            *left -= 1;
            let (fits, verdict) = self.read(at, rule, packet);
            let end = match verdict {
                _ if fits == Fits::No => continue,
                None => continue,
                Some(Verdict::Ends(end)) => end,
                Some(Verdict::Jump(target)) => {
                    let end = self.follow(&target, packet, depth - 1, left);
                    if end == End::Return {
                        continue;
                    }
                    end
                }
                Some(Verdict::Goto(target)) => self.follow(&target, packet, depth - 1, left),
            };
            if fits == Fits::Yes && end != End::Unknown {
                return agreed(may_have_ended, end);
            }
            may_have_ended = Some(agreed(may_have_ended, end));
        }
        let rest = if chain.drops_rest {
            End::Drop
        } else {
            End::Return
        };
        agreed(may_have_ended, rest)
    }

    /// Whether a rule is about the packet, and what it does with it.
    fn read(&self, at: &ChainName, rule: &[Value], packet: Packet<'_>) -> (Fits, Option<Verdict>) {
        let (mut fits, mut verdict) = (Fits::Yes, None);
        let target = |value: &Value| {
            let name = value["target"].as_str().unwrap_or_default().to_owned();
            (at.0.clone(), at.1.clone(), name)
        };
        for part in rule {
            let Some((key, value)) = part.as_object().and_then(|part| part.iter().next()) else {
                continue;
            };
            match key.as_str() {
                "match" => fits = fits.min(self.matches(at, value, packet)),
                "accept" => verdict = Some(Verdict::Ends(End::Accept)),
                "drop" | "reject" => verdict = Some(Verdict::Ends(End::Drop)),
                "return" => verdict = Some(Verdict::Ends(End::Return)),
                "jump" => verdict = Some(Verdict::Jump(target(value))),
                "goto" => verdict = Some(Verdict::Goto(target(value))),
                "counter" | "log" | "comment" => {}
                // Maps of verdicts may do anything with some packets.
                "vmap" => {
                    fits = fits.min(Fits::Maybe);
                    verdict = Some(Verdict::Ends(End::Unknown));
                }
                "queue" => verdict = Some(Verdict::Ends(End::Unknown)),
                // Those of iptables have a target of their own, and limits end.
                "xt" => {
                    fits = fits.min(Fits::Maybe);
                    verdict = verdict.or(Some(Verdict::Ends(End::Unknown)));
                }
                _ => fits = fits.min(Fits::Maybe),
            }
        }
        (fits, verdict)
    }

    fn matches(&self, at: &ChainName, value: &Value, packet: Packet<'_>) -> Fits {
        let (left, right) = (&value["left"], &value["right"]);
        let is = match value["op"].as_str() {
            Some("==" | "in") => true,
            Some("!=") => false,
            _ => return Fits::Maybe,
        };
        // From anywhere: not by loopback, and of no connection that is known.
        let found = if let Some(payload) = left.get("payload") {
            self.of_payload(at, payload, right, packet)
        } else if left["meta"]["key"] == "l4proto" {
            sure(self.holds(at, right, &|one| one == packet.protocol))
        } else if ["iif", "iifname"]
            .iter()
            .any(|key| left["meta"]["key"] == *key)
            && right == "lo"
        {
            Fits::No
        } else if left["ct"]["key"] == "state" {
            sure(self.holds(at, right, &|one| one == "new"))
        } else {
            Fits::Maybe
        };
        match (found, is) {
            (Fits::Yes, false) => Fits::No,
            (Fits::No, false) => Fits::Yes,
            (found, _) => found,
        }
    }

    fn of_payload(&self, at: &ChainName, left: &Value, right: &Value, packet: Packet<'_>) -> Fits {
        let protocol = left["protocol"].as_str().unwrap_or_default();
        match (protocol, left["field"].as_str().unwrap_or_default()) {
            ("ip", "protocol") | ("ip6", "nexthdr") => {
                sure(self.holds(at, right, &|one| one == packet.protocol))
            }
            ("udp" | "tcp" | "th", "dport") => {
                let of_it = protocol == "th" || protocol == packet.protocol;
                sure(of_it && self.holds(at, right, &|one| is_port(one, packet.port)))
            }
            ("udp" | "tcp" | "icmp" | "icmpv6" | "sctp" | "dccp", _)
                if protocol != packet.protocol =>
            {
                Fits::No
            }
            _ => Fits::Maybe,
        }
    }

    /// Whether a value, or one of a set of them, is as wanted.
    fn holds(&self, at: &ChainName, right: &Value, wanted: &dyn Fn(&Value) -> bool) -> bool {
        if let Some(set) = right.as_str().and_then(|text| text.strip_prefix('@')) {
            let name = (at.0.clone(), at.1.clone(), set.to_owned());
            let elements = self.sets.get(&name).map(Vec::as_slice).unwrap_or_default();
            return elements.iter().any(wanted);
        }
        let several = right.get("set").unwrap_or(right);
        match several.as_array() {
            Some(several) => several.iter().any(wanted),
            None => wanted(right),
        }
    }
}

/// What a rule does.
enum Verdict {
    Ends(End),
    Jump(ChainName),
    Goto(ChainName),
}

/// What is sure where a rule before may have ended otherwise.
fn agreed(before: Option<End>, now: End) -> End {
    match before {
        Some(before) if before != now => End::Unknown,
        _ => now,
    }
}

fn sure(fits: bool) -> Fits {
    if fits { Fits::Yes } else { Fits::No }
}

/// A number, or a range of them.
fn is_port(value: &Value, port: u16) -> bool {
    let port = u64::from(port);
    match value["range"].as_array().map(Vec::as_slice) {
        Some([from, to]) => {
            let (from, to) = (from.as_u64(), to.as_u64());
            from.is_some_and(|from| from <= port) && to.is_some_and(|to| port <= to)
        }
        _ => value.as_u64() == Some(port),
    }
}

fn name(object: &Value, key: &str) -> ChainName {
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    (text("family"), text("table"), text(key))
}

fn shown((family, table, chain): &ChainName) -> String {
    format!("{family} {table} {chain}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chain(name: &str, policy: Option<&str>) -> Value {
        let mut chain = json!({ "family": "inet", "table": "filter", "name": name });
        if let Some(policy) = policy {
            chain["hook"] = json!("input");
            chain["prio"] = json!(0);
            chain["policy"] = json!(policy);
        }
        json!({ "chain": chain })
    }

    fn rule(chain: &str, expr: Value) -> Value {
        json!({ "rule": { "family": "inet", "table": "filter", "chain": chain, "expr": expr } })
    }

    fn dport(protocol: &str, right: Value) -> Value {
        json!({ "match": { "op": "==", "left": { "payload": { "protocol": protocol, "field": "dport" } }, "right": right } })
    }

    fn fate(objects: Vec<Value>) -> Fate {
        let text = json!({ "nftables": objects }).to_string();
        Ruleset::parse(&text).unwrap().fate("udp", 7_400, true)
    }

    fn dropped() -> Fate {
        Fate::Dropped("inet filter input".to_owned())
    }

    #[test]
    fn policies_and_rules_decide_on_ports() {
        let accept = json!({ "accept": null });
        assert_eq!(fate(vec![]), Fate::Accepted);
        assert_eq!(fate(vec![chain("input", Some("drop"))]), dropped());
        for (port, expected) in [
            (json!(7_400), Fate::Accepted),
            (json!({ "range": [7_000, 8_000] }), Fate::Accepted),
            (
                json!({ "set": [22, { "range": [7_399, 7_401] }] }),
                Fate::Accepted,
            ),
            (json!(7_401), dropped()),
        ] {
            let rule = rule("input", json!([dport("udp", port), accept]));
            assert_eq!(fate(vec![chain("input", Some("drop")), rule]), expected);
        }
        let other = rule("input", json!([dport("tcp", json!(7_400)), accept]));
        assert_eq!(fate(vec![chain("input", Some("drop")), other]), dropped());
        let refused = rule(
            "input",
            json!([dport("udp", json!(7_400)), { "reject": null }]),
        );
        assert_eq!(
            fate(vec![chain("input", Some("accept")), refused]),
            dropped()
        );
    }

    #[test]
    fn jumps_sets_and_states_are_followed() {
        let jump = rule("input", json!([{ "jump": { "target": "open" } }]));
        let set = json!({ "set": { "family": "inet", "table": "filter", "name": "ports", "elem": [7_400] } });
        let open = rule(
            "open",
            json!([dport("udp", json!("@ports")), { "accept": null }]),
        );
        let chains = || vec![chain("input", Some("drop")), chain("open", None)];
        let mut all = chains();
        all.extend([set, jump.clone(), open]);
        assert_eq!(fate(all), Fate::Accepted);
        let mut all = chains();
        let state = json!({ "match": { "op": "in", "left": { "ct": { "key": "state" } }, "right": ["established", "related"] } });
        let loopback = json!({ "match": { "op": "==", "left": { "meta": { "key": "iifname" } }, "right": "lo" } });
        all.extend([
            jump,
            rule("open", json!([state, { "accept": null }])),
            rule("open", json!([loopback, { "accept": null }])),
        ]);
        assert_eq!(fate(all), dropped());
    }

    #[test]
    fn rules_about_more_leave_it_open() {
        let from = json!({ "match": { "op": "==", "left": { "payload": { "protocol": "ip", "field": "saddr" } }, "right": "192.0.2.1" } });
        let some = rule("input", json!([from, { "accept": null }]));
        assert_eq!(
            fate(vec![chain("input", Some("drop")), some]),
            Fate::Unknown
        );
        // Of a chain that goes round no end is known.
        let round = rule("input", json!([{ "jump": { "target": "input" } }]));
        assert_eq!(
            fate(vec![chain("input", Some("accept")), round]),
            Fate::Unknown
        );
        assert!(Ruleset::parse("nothing").is_none());
    }
}
