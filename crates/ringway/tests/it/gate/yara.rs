//! Files through a gateway that asks YARA rules, without any other scanner.

use super::border::{Border, SERVER};
use super::scans::{SCAN, fetch, serve};
use crate::{random_bytes, run};

const RULES: &str = r#"
rule Needle { strings: $a = "a needle in the hay" condition: $a }
rule Small_program { condition: uint16(0) == 0x5a4d and filesize == 5000 }
"#;
const WINDOW: usize = 32_768;

#[test]
fn files_that_a_rule_holds_of_never_arrive_whole_and_others_do() {
    let Some(mut border) = Border::new("YARA rules") else {
        return;
    };
    let rules = border.folder.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    std::fs::write(rules.join("own.yar"), RULES).unwrap();
    let policy = format!("{SCAN}failure = \"closed\"\n");
    border.up(&policy, &["--enforce", "--yara", rules.to_str().unwrap()]);

    let clean = random_bytes("clean", 5 << 20);
    let needle = b"a needle in the hay";
    let mut across = clean[..4 * WINDOW].to_vec();
    across[WINDOW - 7..WINDOW - 7 + needle.len()].copy_from_slice(needle);
    let mut program = clean[..5_000].to_vec();
    program[..2].copy_from_slice(b"MZ");
    let other = [b"MZ".as_slice(), &clean[..5_000]].concat();
    let files = [
        (8_001, clean, None),
        (8_002, across, Some("Needle")),
        (8_003, program, Some("Small_program")),
        (8_004, other, None),
    ];
    for (port, body, found) in &files {
        serve(&border, *port, body.clone(), true);
        let arrived = fetch(&border, *port, "file.bin");
        match found {
            None => assert!(arrived == *body, "{SERVER}:{port}: {}", border.status()),
            Some(name) => assert!(arrived.len() < body.len(), "{name}: all of it arrived"),
        }
    }
    let events = border.audit_when(|events| {
        let found = events
            .iter()
            .filter(|event| event["fileinfo"]["found"].is_string());
        found.count() == 2
    });
    for (_, _, found) in files {
        let Some(name) = found else { continue };
        let told = events.iter().any(|event| {
            event["fileinfo"]["found"] == name && event["alert"]["action"] == "blocked"
        });
        assert!(told, "{name}: {events:?}");
    }
}

#[test]
fn wrong_rules_are_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, rules) = (
        folder.path().join("policy.toml"),
        folder.path().join("wrong.yar"),
    );
    std::fs::write(&policy, SCAN).unwrap();
    std::fs::write(&rules, "rule a { condition: nonsense }").unwrap();
    let (policy, rules) = (policy.to_str().unwrap(), rules.to_str().unwrap());
    let up = [
        "gate",
        "up",
        "--policy",
        policy,
        "--inside",
        "a",
        "--outside",
        "b",
    ];
    let outcome = run(&[&up, ["--yara", rules].as_slice()].concat());
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    for words in ["--yara", "wrong.yar:1", "nonsense"] {
        assert!(
            outcome.stderr.contains(words),
            "{words}: {}",
            outcome.stderr
        );
    }
    let outcome = run(&up);
    assert!(
        outcome.stderr.contains("--yara or --clamd"),
        "{}",
        outcome.stderr
    );
}
