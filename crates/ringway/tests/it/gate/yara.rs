//! Files through a gateway that asks YARA rules, without any other scanner.

use super::beside::{Tested, all};
use super::border::{Border, SERVER};
use super::both::{Compared, GatePath, on_both};
use super::scans::{SCAN, fetch, serve};
use crate::{random_bytes, run};

const RULES: &str = r#"
rule Needle { strings: $a = "a needle in the hay" condition: $a }
rule Small_program { condition: uint16(0) == 0x5a4d and filesize == 5000 }
"#;
const WINDOW: usize = 32_768;

#[test]
fn matching_files_never_arrive_whole_and_others_do() -> Tested {
    all(vec![on_both("YARA rules", scanned)])
}

fn scanned(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("YARA rules", path) else {
        return Ok(None);
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
            .filter(|event| event["ringway"]["found"].is_string());
        found.count() == 2
    });
    for (_, _, found) in files {
        let Some(name) = found else { continue };
        let told = events.iter().any(|event| {
            event["ringway"]["found"] == name && event["ringway"]["action"] == "blocked"
        });
        assert!(told, "{name}: {events:?}");
    }
    border.seen()
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
        outcome.stderr.contains("--yara, --hashes or --clamd"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn rules_are_checked_without_a_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = put("good.yar", RULES);
    let outcome = run(&["gate", "check", "--yara", &good]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("good.yar: 3 YARA rules"),
        "{}",
        outcome.stdout
    );

    let wrong = put(
        "wrong.yar",
        "rule a {\n condition: nonsense }\nrule b { condition: $c }",
    );
    let policy = put("policy.toml", SCAN);
    let words = ["gate", "check", &policy, "--yara", &good, "--yara", &wrong];
    let outcome = run(&words);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    // What is wrong with one does not keep the others from being checked.
    assert!(
        outcome.stdout.contains("policy.toml: 1 rules"),
        "{}",
        outcome.stdout
    );
    for words in ["wrong.yar:2: ", "nonsense", "wrong.yar:3: ", "$c"] {
        assert!(
            outcome.stderr.contains(words),
            "{words}: {}",
            outcome.stderr
        );
    }
    assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);

    let outcome = run(&[["--json"].as_slice(), &words].concat());
    let objects = outcome.objects().unwrap();
    let rules = objects.last().unwrap();
    assert_eq!(rules["schema"], "ringway.gate.check.yara/1");
    assert_eq!(rules["passed"], false, "{rules}");
    assert_eq!(rules["faults"][0]["line"], 2, "{rules}");
    assert_eq!(rules["faults"][1]["file"], wrong, "{rules}");
    let outcome = run(&["--json", "gate", "check", "--yara", &good]);
    let rules = outcome.objects().unwrap().remove(0);
    assert_eq!(
        (&rules["passed"], &rules["rules"]),
        (&true.into(), &3.into())
    );

    // Neither policies nor rules: nothing to check.
    assert_eq!(run(&["gate", "check"]).code, Some(2));
}
