//! Policies as a user meets them: checked, replayed, and refused with line and reason.

use std::path::Path;

use crate::run;

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn valid_policy_passes_and_is_summarised() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/policies/office.toml"
    );
    let outcome = run(&["gate", "check", example]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.ends_with(
            "7 rules, 9 tests passed; `gate up` needs a scanner for it: --yara, --hashes or --clamd\n"
        ),
        "{}",
        outcome.stdout
    );
}

#[test]
fn faults_name_their_lines_and_exit_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "bad.toml", &format!("{BLOCK}colour = 1\n"));
    let outcome = run(&["gate", "check", &path]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("bad.toml:5: there is no key"),
        "{}",
        outcome.stderr
    );
    let two = format!(
        "{}{}",
        BLOCK.replace("bittorrent", "bitorent"),
        BLOCK.replace("no-t", "so-t").replace("block", "shape")
    );
    let path = file(folder.path(), "two.toml", &two);
    let outcome = run(&["gate", "check", &path]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("two.toml:3: ") && outcome.stderr.contains("two.toml:5: "),
        "{}",
        outcome.stderr
    );
}

#[test]
fn rules_on_unread_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for app in ["bittorrent", "edonkey", "directconnect"] {
        for (condition, action) in [("file_name = \"*.exe\"\n", "block"), ("", "scan")] {
            let text = format!(
                "[[rule]]\nname = \"x\"\napp = \"{app}\"\n{condition}action = \"{action}\"\n"
            );
            let outcome = run(&["gate", "check", &file(folder.path(), "p.toml", &text)]);
            assert_eq!(outcome.code, Some(2), "{text}");
            assert!(
                outcome.stderr.contains("cannot be read"),
                "{}",
                outcome.stderr
            );
        }
    }
}

#[test]
fn failing_policy_test_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let test = "[[test]]\nname = \"web\"\napp = \"http\"\nclient = \"10.0.0.1:1\"\nserver = \"10.0.0.2:80\"\nexpect = \"block\"\n";
    let path = file(folder.path(), "p.toml", &format!("{BLOCK}{test}"));
    let outcome = run(&["gate", "check", &path]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome
            .stdout
            .contains("p.toml:5: test `web` failed: expected block, got allow by default"),
        "{}",
        outcome.stdout
    );
    let outcome = run(&["--json", "gate", "check", &path]);
    let objects = outcome.objects().unwrap();
    assert_eq!(
        (&objects[0]["passed"], &objects[0]["schema"]),
        (&false.into(), &"ringway.gate.check/1".into())
    );
}

#[test]
fn replay_reports_the_verdict_of_each_flow() {
    let folder = tempfile::tempdir().unwrap();
    let samples = ringway_gateway::samples::write(folder.path()).unwrap();
    let path = file(folder.path(), "p.toml", BLOCK);
    let mut arguments = vec!["--json", "gate", "replay", "--policy", &path];
    arguments.extend(samples.iter().map(|sample| sample.to_str().unwrap()));
    let outcome = run(&arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let flows = outcome.objects().unwrap();
    for flow in &flows {
        // A flow that was refused like one before it was never looked at.
        let blocked = flow["app"] == "bittorrent" && flow["confidence"] != "guess";
        if flow["rule"] != "connection-cache" {
            assert_eq!(flow["action"] == "block", blocked, "{flow}");
        }
        assert_eq!(flow["schema"], "ringway.gate.replay/1");
    }
    assert!(
        flows
            .iter()
            .any(|flow| flow["rule"] == "no-torrents" && flow["decided_after"].is_u64())
    );
}

#[test]
fn unreadable_files_get_one_line() {
    for arguments in [
        ["gate", "check", "/nowhere.toml"].as_slice(),
        &[
            "gate",
            "replay",
            "/nowhere.pcap",
            "--policy",
            "/nowhere.toml",
        ],
        &[
            "gate",
            "up",
            "--policy",
            "/nowhere.toml",
            "--inside",
            "a",
            "--outside",
            "b",
        ],
    ] {
        let outcome = run(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
    let outcome = run(&["gate", "audit", "--state", "/nowhere"]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("no gateway has written one"),
        "{}",
        outcome.stderr
    );
    let outcome = run(&["gate", "status", "--control", "/nowhere.sock"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("gate up"), "{}", outcome.stderr);
}

#[test]
fn missing_queues_are_refused_before_any_change() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "").unwrap();
    let policy = policy.to_str().unwrap();
    let outcome = run(&[
        "gate",
        "up",
        "--policy",
        policy,
        "--inside",
        "a",
        "--outside",
        "b",
        "--queue",
        "65530",
        "--queues",
        "4",
    ]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("there are no 8 queues from 65530"),
        "{}",
        outcome.stderr
    );
}
