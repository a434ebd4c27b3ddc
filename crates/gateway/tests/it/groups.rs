//! Groups of applications in rules.

use std::collections::BTreeSet;

use ringway_gateway::SignatureSet;
use ringway_gateway::policy::{Policy, groups};

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
