//! Which flows a policy may concern whatever their application, by the fields of the first packet.

use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::quantities::apart;
use super::{Action, Names, Policy};
use crate::limits::MAX_TRIAGE_NETWORKS;
use crate::packet::L4;

/// Flows between such addresses or at such ports may get anything but being let pass, whatever
/// application they are of. It holds for either end: of a rule that names several networks or
/// ports, and one of which a flow has not, no more is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Concern {
    /// All flows may.
    pub everything: bool,
    /// Flows with an end in one of these.
    pub networks: Vec<IpNet>,
    /// Flows with an end at one of these ports, of TCP and of UDP; spans that neither overlap nor
    /// touch.
    pub ports: [Vec<RangeInclusive<u16>>; 2],
}

impl Concern {
    fn add_ports(&mut self, l4: Option<L4>, ports: &[RangeInclusive<u16>]) {
        let [tcp, udp] = &mut self.ports;
        for (transport, known) in [(L4::Tcp, tcp), (L4::Udp, udp)] {
            if l4.is_none_or(|l4| l4 == transport) {
                known.extend_from_slice(ports);
                *known = apart(known);
            }
        }
    }
}

impl Policy {
    /// Flows to which rules that name no application may do anything but let them pass; all where
    /// all are named.
    #[must_use]
    pub fn concern(&self) -> Concern {
        let mut concern = Concern {
            everything: self.default != Action::Allow || self.names == Names::All,
            ..Concern::default()
        };
        let acts = self
            .rules
            .iter()
            .filter(|rule| !rule.only_allows() && rule.is_about_all());
        for rule in acts {
            let matcher = &rule.matcher;
            let networks = [&matcher.client, &matcher.server, &matcher.either];
            // Any one of them holds where the rule matches; the one whose widest network is the
            // narrowest asks least.
            let narrowest = networks
                .into_iter()
                .flatten()
                .max_by_key(|networks| networks.widest());
            match (narrowest, &matcher.ports) {
                (Some(networks), _) => {
                    // One more than can be put into the kernel says that there are too many.
                    let most = MAX_TRIAGE_NETWORKS.saturating_add(1);
                    concern.networks.extend(networks.first(most));
                }
                (None, Some(ports)) => concern.add_ports(matcher.l4, ports.ranges()),
                (None, None) => concern.everything = true,
            }
        }
        concern.networks.sort_unstable();
        concern.networks.dedup();
        if concern.networks.len() > MAX_TRIAGE_NETWORKS {
            concern.everything = true;
            concern.networks.clear();
        }
        concern
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Concern;
    use crate::policy::Policy;

    fn concern(rules: &str) -> Concern {
        let known: BTreeSet<String> = [String::from("irc")].into();
        Policy::parse(rules, &known).unwrap().concern()
    }

    #[test]
    fn rules_without_application_concern_their_narrowest_condition() {
        let rules = "[networks]\nlab = [\"10.9.0.0/16\", \"fd00:9::/32\"]\n\
            [[rule]]\nname = \"a\"\nclient = \"lab\"\nserver = \"192.0.2.7\"\naction = \"block\"\n\
            [[rule]]\nname = \"b\"\nport = [25, \"6881-6889\"]\nl4 = \"tcp\"\naction = \"block\"\n\
            [[rule]]\nname = \"c\"\nport = \"6885-7000\"\naction = \"block\"\n\
            [[rule]]\nname = \"d\"\nnetwork = \"lab\"\nport = 80\naction = \"audit\"\n\
            [[rule]]\nname = \"e\"\napp = \"irc\"\naction = \"block\"\n\
            [[rule]]\nname = \"f\"\naction = \"allow\"\n";
        let networks = ["10.9.0.0/16", "192.0.2.7/32", "fd00:9::/32"];
        assert_eq!(
            concern(rules),
            Concern {
                everything: false,
                networks: networks.map(|network| network.parse().unwrap()).to_vec(),
                ports: [vec![25..=25, 6_881..=7_000], vec![6_885..=7_000]],
            }
        );
        assert!(
            concern("[[rule]]\nname = \"a\"\nhost = \"*.example\"\naction = \"block\"\n")
                .everything
        );
        assert!(concern("[gateway]\ndefault = \"audit\"\n").everything);
        assert_eq!(concern(""), Concern::default());
        assert!(concern("[gateway]\nnames = \"all\"\n").everything);
    }
}
