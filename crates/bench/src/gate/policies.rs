//! The policies of these measurements.

use std::collections::BTreeSet;

use ringway_gateway::SignatureSet;
use ringway_gateway::policy::Policy;

use ringway_terminal::Failure;

pub(super) const CLASSIFY: &str = "[[rule]]\nname = \"p\"\napp = \"p2p\"\naction = \"block\"\n";
pub(super) const FILTER: &str =
    "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
pub(super) const AUDIT: &str = "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"a\"\napp = \"http\"\naction = \"audit\"\n";
/// What cannot be scanned is blocked: no figure comes of what was not looked at.
pub(super) const SCAN: &str = "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\naudit = true\nfailure = \"closed\"\n\
    [[rule]]\nname = \"k\"\napp = \"irc\"\nkeyword = \"forbidden\"\naction = \"block\"\n";

/// Applications that these loads have, or that carry their names: rules on them would manage the
/// load itself.
const CARRIERS: [&str; 6] = ["http", "tls", "quic", "dns", "mdns", "llmnr"];
/// Any 64 bytes may be its obfuscated opening, so that under a rule on it the kernel has to ask
/// about nearly every connection. It has a policy of its own.
const OPAQUE: &str = "telegram";
pub(super) const ON_OPAQUE: &str =
    "[[rule]]\nname = \"t\"\napp = \"telegram\"\naction = \"block\"\n";
/// How many applications the generated rules name.
const NAMED: usize = 20;
/// How many rules each of them has at most: as many as there are conditions.
const CONDITIONS: usize = 10;
/// The larger policy has so many rules; the smaller one, as the paper's, one for each application.
pub(super) const FEW: usize = NAMED;
pub(super) const MANY: usize = NAMED * CONDITIONS;

/// So many rules, each of which names an application and one more condition; none of them is met
/// here.
pub(super) fn naming(rules: usize) -> String {
    let known = SignatureSet::built_in();
    let applications = known.signatures().iter();
    let applications = applications.map(|signature| signature.application.as_str());
    let applications: BTreeSet<&str> = applications
        .filter(|name| !CARRIERS.contains(name) && *name != OPAQUE)
        .collect();
    let applications: Vec<&str> = applications.into_iter().take(NAMED).collect();
    let mut text = "[gateway]\ninside = [\"10.0.0.0/8\"]\n".to_owned();
    for (number, application) in (0..rules).zip(applications.iter().cycle()) {
        let (condition, action) = condition(number);
        text.push_str(&format!(
            "[[rule]]\nname = \"r{number}\"\napp = \"{application}\"\n{condition}\naction = \"{action}\"\n"
        ));
    }
    text
}

/// What else a rule asks for, and what it does: another condition for each rule of one application,
/// and for neighbours.
fn condition(number: usize) -> (String, &'static str) {
    let port = number.saturating_mul(100).saturating_add(10_000);
    match number.saturating_add(number / NAMED) % CONDITIONS {
        0 => (format!("client = \"10.{number}.0.0/16\""), "block"),
        1 => (format!("server = \"203.0.113.{number}\""), "block"),
        2 => (
            format!("port = \"{port}-{}\"", port.saturating_add(99)),
            "block",
        ),
        3 => ("direction = \"inbound\"".to_owned(), "audit"),
        4 => ("time = \"Mon-Fri 08:00-18:00\"".to_owned(), "block"),
        5 => ("confidence = \"certain\"".to_owned(), "audit"),
        6 => ("l4 = \"udp\"".to_owned(), "block"),
        7 => (format!("host = \"*.site{number}.example\""), "block"),
        8 => (format!("when = \"client_port > {port}\""), "block"),
        _ => (
            format!("network = [\"192.0.2.0/24\", \"10.200.{number}.0/24\"]"),
            "block",
        ),
    }
}

/// A thousand rules, each with a text, bytes and a regular expression that no file here has.
pub(super) fn yara_rules() -> String {
    (0..1_000_u32).fold(String::new(), |text, number| {
        let mixed = number.wrapping_mul(2_654_435_761);
        let hex = mixed
            .to_be_bytes()
            .map(|byte| format!("{byte:02X}"))
            .join(" ");
        format!(
            "{text}rule r{number} {{ strings: $a = \"sample {mixed:08x} text\" $b = {{ 4D 5A {hex} ?? {hex} }} \
             $c = /id-{mixed:x}-[a-z0-9]{{4,12}}\\.example/ condition: any of them }}\n"
        )
    })
}

/// A policy of these measurements.
pub(super) fn policy(text: &str) -> Result<Policy, Failure> {
    let signatures = SignatureSet::built_in();
    Policy::parse(text, &signatures.applications())
        .map_err(|errors| Failure::failed(format_args!("{errors:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::ladder::{LADDER, Setup, Step};

    #[test]
    fn the_rules_for_files_compile() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yar");
        std::fs::write(&file, yara_rules()).unwrap();
        let rules = ringway_gateway::scan::YaraRules::load(&[file]).unwrap();
        assert_eq!(rules.count(), 1_001);
    }

    #[test]
    fn the_policies_of_the_ladder_are_in_order() {
        let mut count = 0;
        for Step { name, setup, .. } in LADDER {
            if let Setup::Gateway(text) = setup {
                assert!(policy(text).is_ok(), "{name}");
                count += 1;
            }
        }
        assert_eq!(count, 5, "gateways");
    }

    #[test]
    fn rules_that_are_made_can_all_be_reached() {
        for count in [FEW, MANY] {
            let read = policy(&naming(count)).unwrap();
            assert_eq!(read.rules().len(), count);
        }
    }

    #[test]
    fn each_application_has_rules_with_different_conditions() {
        let kinds = |application: usize| -> BTreeSet<String> {
            let numbers = (0..CONDITIONS).map(|turn| turn * NAMED + application);
            let first_word = |number| condition(number).0.split(' ').next().map(str::to_owned);
            numbers.filter_map(first_word).collect()
        };
        for application in 0..NAMED {
            assert_eq!(kinds(application).len(), CONDITIONS, "{application}");
        }
    }
}
