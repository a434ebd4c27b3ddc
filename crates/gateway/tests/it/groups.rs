//! Groups of applications in rules.

use std::collections::BTreeSet;

use ringway_gateway::policy::{Policy, groups};
use ringway_gateway::{Packets, SignatureSet};

use crate::{at, only};

fn parsed(conditions: &str) -> Result<Policy, String> {
    let set = SignatureSet::built_in();
    let named = set.signatures().iter();
    let known: BTreeSet<String> = named.map(|one| one.application.clone()).collect();
    let text = format!("[[rule]]\nname = \"no\"\naction = \"block\"\n{conditions}\n");
    Policy::parse(&text, &known).map_err(|errors| {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        texts.join("\n")
    })
}

#[test]
fn rules_on_groups_are_about_their_applications() {
    let policy = parsed("group = \"vpn\"").unwrap();
    assert!(policy.touches("wireguard") && policy.touches("openvpn"));
    assert!(!policy.touches("ssh") && !policy.touches("unknown"));
    let policy = parsed("group = [\"mail\", \"terminal\"]\nconfidence = \"guess\"").unwrap();
    assert!(policy.touches("smtp") && policy.touches("ssh") && !policy.touches("rdp"));
    // The same in a list of applications, and under an earlier name.
    let policy = parsed("app = [\"vpn\", \"ssh\", \"chat\"]").unwrap();
    assert!(policy.touches("tinc") && policy.touches("ssh") && policy.touches("whatsapp"));
}

#[test]
fn unknown_groups_are_refused_with_the_known_ones() {
    let error = parsed("group = \"vnp\"").unwrap_err();
    assert!(error.contains("no group `vnp`"), "{error}");
    for group in groups() {
        assert!(error.contains(&group.name), "{error}");
    }
    // An application is no group.
    assert!(parsed("group = \"openvpn\"").is_err());
    let error = parsed("group = \"vpn\"\napp = \"ssh\"").unwrap_err();
    assert!(error.contains("`app` and `group`"), "{error}");
}

#[test]
fn flow_records_tell_the_group_of_the_application() {
    let mut packets = Packets::new();
    packets.udp(
        at("10.0.0.1:5000"),
        at("192.0.2.1:51820"),
        &[[1, 0, 0, 0].as_slice(), &noise()].concat(),
    );
    let flow = only(&packets);
    assert_eq!(
        (flow.app.as_str(), flow.group.as_deref()),
        ("wireguard", Some("vpn"))
    );
    let mut packets = Packets::new();
    packets.udp(at("10.0.0.1:5000"), at("192.0.2.1:5000"), b"nothing");
    let flow = only(&packets);
    assert_eq!(flow.group, None);
    assert!(!serde_json::to_string(&flow).unwrap().contains("group"));
}

/// What follows the kind of WireGuard's initiation: 144 different bytes.
fn noise() -> Vec<u8> {
    (1..=144).collect()
}

#[test]
fn the_reference_lists_every_group_with_its_applications() {
    let page = include_str!("../../../../docs/reference/policy.md");
    for group in groups() {
        let members: Vec<String> = group
            .applications
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let row = format!("| `{}` | {} |", group.name, members.join(", "));
        assert!(page.contains(&row), "to be put in: {row}");
    }
}
