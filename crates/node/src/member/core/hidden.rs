//! A leaf that hides its address (`node.hide_address`): it sends directly to no member but its
//! parents, and those stay the same.

use std::collections::{BTreeMap, BTreeSet};

use ringway_transport::{Address, Hello, MemberId, Protocol};

use crate::certificate::Certificate;
use crate::member::answer::{Reason, Unreachable};

/// Dials after which another router is asked instead.
const DIALS: u32 = 5;

/// What such a leaf keeps.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// The only addresses that packets go to directly: those by which its parents are dialled.
    direct: BTreeSet<Address>,
    /// How often each of the routers has been dialled without an answer. As few as routers are
    /// known.
    dials: BTreeMap<MemberId, u32>,
}

impl Hidden {
    /// True if a packet to this address shows no new peer where we are.
    pub(super) fn permits(&self, address: &Address) -> bool {
        address.protocol().hides_the_host() || self.direct.contains(address)
    }

    /// A router becomes a parent: from now on its addresses may be dialled.
    pub(super) fn choose(&mut self, router: MemberId, addresses: Vec<Address>) {
        let dials = self.dials.entry(router).or_default();
        *dials = dials.saturating_add(1);
        self.direct.extend(addresses);
    }

    /// Routers in the order in which `me` asks them. It is the same after every start, so that few
    /// of them ever see where we are; who does not answer comes later.
    pub(super) fn in_order(
        &mut self,
        me: &MemberId,
        routers: &mut [&Certificate],
        up: &[MemberId],
    ) {
        self.dials.retain(|router, _| !up.contains(router));
        let rank = |router: &Certificate| {
            let member = router.member();
            let both = [me.as_bytes().as_slice(), member.as_bytes()].concat();
            let dials = self.dials.get(&member).copied().unwrap_or_default();
            (dials / DIALS, *blake3::hash(&both).as_bytes())
        };
        routers.sort_by_cached_key(|router| rank(router));
    }
}

/// Why no way leads to a leaf, of which this HELLO was found.
pub(in crate::member) fn why_no_way(hidden: bool, found: Option<&Hello>) -> Reason {
    let mut addresses = found.into_iter().flat_map(Hello::addresses);
    let has_parents = addresses.any(|d| d.address.protocol() == Protocol::Relay);
    if hidden && has_parents {
        Unreachable::NoCommonParent
    } else {
        Unreachable::NotFound
    }
}

#[cfg(test)]
mod tests {
    use ringway_transport::Signer as _;

    use super::*;
    use crate::certificate::CertificateFields;
    use crate::identity::Identity;

    fn router(owner: &Identity, number: u8) -> Certificate {
        let fields = CertificateFields {
            member: Identity::generate().unwrap().member(),
            name: format!("r{number}").parse().unwrap(),
            address: Some(([192, 0, 2, number], 4000).into()),
            nonce: [0; 16],
            not_before: 0,
            not_after: u64::MAX,
            serial: u64::from(number),
        };
        Certificate::issue(owner, &fields)
    }

    /// The same routers are asked until they do not answer.
    #[test]
    fn same_routers_are_asked_while_they_answer() {
        let owner = Identity::generate().unwrap();
        let routers: Vec<Certificate> = (1..20).map(|number| router(&owner, number)).collect();
        let me = owner.member();
        let first = |hidden: &mut Hidden, up: &[MemberId]| {
            let mut order: Vec<&Certificate> = routers.iter().rev().collect();
            hidden.in_order(&me, &mut order, up);
            order[0].member()
        };
        let mut hidden = Hidden::default();
        let chosen = first(&mut hidden, &[]);
        assert_eq!(
            first(&mut Hidden::default(), &[]),
            chosen,
            "after a restart"
        );
        for _ in 0..DIALS {
            assert_eq!(first(&mut hidden, &[]), chosen);
            hidden.choose(chosen, Vec::new());
        }
        assert_ne!(first(&mut hidden, &[]), chosen, "it is off");
        assert_eq!(first(&mut hidden, &[chosen]), chosen, "it has come back");
    }

    #[test]
    fn hiding_is_given_as_the_reason() {
        use ringway_transport::{AddressDescriptor, RelayAddress};
        let leaf = Identity::generate().unwrap();
        let parent = MemberId::new([1; 32]);
        let member = leaf.member();
        let relay = Address::Relay(RelayAddress { parent, member });
        let with = vec![AddressDescriptor::observed(relay)];
        let found = Hello::sign(&leaf, 1, with).unwrap();
        let without = Hello::sign(&leaf, 1, Vec::new()).unwrap();
        let words = |hidden, found| why_no_way(hidden, found)("bob".to_owned()).to_string();
        let hiding = words(true, Some(&found));
        assert!(hiding.contains("hide_address") && hiding.contains("bob"));
        for (hidden, found) in [(false, Some(&found)), (true, None), (true, Some(&without))] {
            let words = words(hidden, found);
            assert!(words.contains("`ringway node` running?"), "{words}");
            assert!(words.contains("just started"), "{words}");
        }
    }

    #[test]
    fn nothing_goes_directly_to_anybody_else() {
        let mut hidden = Hidden::default();
        let [mine, other]: [Address; 2] =
            ["udp://192.0.2.1:4000", "udp://192.0.2.2:4000"].map(|text| text.parse().unwrap());
        hidden.choose(MemberId::new([1; 32]), vec![mine.clone()]);
        assert!(hidden.permits(&mine) && !hidden.permits(&other));
        assert!(hidden.permits(&"smtp://a@example.org?X-A=b".parse().unwrap()));
        assert!(!hidden.permits(&"exec://radio/a".parse().unwrap()));
    }
}
