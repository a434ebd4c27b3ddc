//! When a ring is in order, judged from what all its routers say of themselves.

use ringway_node::control::{RouterRef, Status};

/// Says what is not yet in order: every router a member, every successor list complete and right,
/// every predecessor right, every leaf attached to a router that runs.
pub(super) fn ring_holds(statuses: &[Status]) -> Result<(), String> {
    let mut routers: Vec<(&str, &Status)> = Vec::new();
    for status in statuses.iter().filter(|status| status.role == "router") {
        let key = status
            .ring_key
            .as_deref()
            .ok_or_else(|| format!("{} has no ring key", status.name))?;
        routers.push((key, status));
    }
    routers.sort_by_key(|(key, _)| *key);
    let keys: Vec<&str> = routers.iter().map(|(key, _)| *key).collect();
    for (place, (_, router)) in routers.iter().enumerate() {
        router_in_place(router, place, &keys)?;
    }
    let leaves = statuses.iter().filter(|status| status.role != "router");
    leaves
        .into_iter()
        .try_for_each(|leaf| leaf_attached(leaf, &keys))
}

fn router_in_place(router: &Status, place: usize, keys: &[&str]) -> Result<(), String> {
    let name = &router.name;
    if router.state != "member" {
        return Err(format!("{name} is {}", router.state));
    }
    let others = keys.len().saturating_sub(1);
    // The ring closes: behind its highest key comes the lowest.
    let after = keys.iter().cycle().skip(place + 1).copied();
    let expected: Vec<&str> = after
        .take(others.min(router.successor_list_length))
        .collect();
    let found: Vec<&str> = router
        .successors
        .iter()
        .map(|successor| successor.ring_key.as_str())
        .collect();
    if found != expected {
        return Err(format!(
            "{name} has the successors {}, not {}",
            short(&found),
            short(&expected)
        ));
    }
    let before = keys
        .iter()
        .cycle()
        .skip(place + others)
        .copied()
        .next()
        .filter(|_| others > 0);
    let predecessor = router
        .predecessor
        .as_ref()
        .map(|predecessor| predecessor.ring_key.as_str());
    if predecessor != before {
        let shown =
            |key: Option<&str>| key.map_or_else(|| "nobody".to_owned(), |key| short(&[key]));
        return Err(format!(
            "{name} has the predecessor {}, not {}",
            shown(predecessor),
            shown(before)
        ));
    }
    Ok(())
}

fn leaf_attached(leaf: &Status, keys: &[&str]) -> Result<(), String> {
    let lives = |parent: &RouterRef| keys.contains(&parent.ring_key.as_str());
    if leaf.state == "member" && leaf.parents.iter().any(lives) {
        return Ok(());
    }
    Err(format!(
        "{} ({}) is attached to no living router",
        leaf.name, leaf.state
    ))
}

/// The ring key of the router that is responsible for `target`: the first at or after it.
pub(super) fn owner_of<'a>(target: &str, keys: &'a [String]) -> Option<&'a str> {
    let at_or_after = keys.iter().filter(|key| key.as_str() >= target).min();
    at_or_after
        .or_else(|| keys.iter().min())
        .map(String::as_str)
}

fn short(keys: &[&str]) -> String {
    let short: Vec<&str> = keys.iter().map(|key| key.get(..8).unwrap_or(key)).collect();
    format!("[{}]", short.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn reference(key: &str) -> RouterRef {
        RouterRef {
            ring_key: key.to_owned(),
            name: None,
        }
    }

    fn status(name: &str, key: Option<&str>) -> Status {
        Status {
            release: String::new(),
            member: format!("id-{name}"),
            name: name.to_owned(),
            role: if key.is_some() { "router" } else { "leaf" }.to_owned(),
            ring: "r".to_owned(),
            statement: 1,
            statement_in_dns: None,
            serial: 1,
            expires: 0,
            expires_soon: false,
            not_renewed: None,
            pid: 1,
            uptime_s: 1.0,
            state: "member".to_owned(),
            ring_key: key.map(str::to_owned),
            predecessor: None,
            successors: Vec::new(),
            parents: Vec::new(),
            successor_list_length: 2,
            addresses: Vec::new(),
            links: Vec::new(),
            transports: Vec::new(),
            counters: BTreeMap::new(),
            caps: Vec::new(),
            nat: None,
        }
    }

    /// Three routers at a, b, c and a leaf, all in order.
    fn good() -> Vec<Status> {
        let mut all = Vec::new();
        for (name, key, before, after) in [
            ("x", "b", "a", ["c", "a"]),
            ("y", "a", "c", ["b", "c"]),
            ("z", "c", "b", ["a", "b"]),
        ] {
            let mut router = status(name, Some(key));
            router.predecessor = Some(reference(before));
            router.successors = after.iter().map(|key| reference(key)).collect();
            all.push(router);
        }
        let mut leaf = status("l", None);
        leaf.parents = vec![reference("c")];
        all.push(leaf);
        all
    }

    #[test]
    fn a_ring_in_order_holds() {
        assert_eq!(ring_holds(&good()), Ok(()));
        let alone = status("x", Some("a"));
        assert_eq!(ring_holds(&[alone]), Ok(()));
    }

    #[test]
    fn every_fault_is_named() {
        type Spoil = fn(&mut Vec<Status>);
        let faults: [(&str, Spoil); 6] = [
            ("x is joining", |all| all[0].state = "joining".to_owned()),
            ("x has the successors", |all| all[0].successors.swap(0, 1)),
            ("y has the successors", |all| drop(all[1].successors.pop())),
            ("z has the predecessor nobody", |all| {
                all[2].predecessor = None
            }),
            ("z has the predecessor [a]", |all| {
                all[2].predecessor = Some(reference("a"))
            }),
            ("l (member) is attached to no", |all| {
                all[3].parents = vec![reference("d")]
            }),
        ];
        for (complaint, spoil) in faults {
            let mut all = good();
            spoil(&mut all);
            let said = ring_holds(&all).unwrap_err();
            assert!(said.starts_with(complaint), "{said}");
        }
    }

    #[test]
    fn a_key_belongs_to_its_successor() {
        let keys = ["c".to_owned(), "a".to_owned(), "b".to_owned()];
        assert_eq!(owner_of("b", &keys), Some("b"));
        assert_eq!(owner_of("aa", &keys), Some("b"));
        assert_eq!(owner_of("d", &keys), Some("a"), "round the ring");
        assert_eq!(owner_of("d", &[]), None);
    }
}
