//! `gate classify`: flows on stdout, totals on stderr, and what a broken capture gets.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{program, run};

fn samples(folder: &Path) -> Vec<PathBuf> {
    ringway_gateway::samples::write(folder).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn each_flow_is_one_object_with_contract_fields() {
    let folder = tempfile::tempdir().unwrap();
    let files = samples(folder.path());
    let mut arguments = vec!["--json", "gate", "classify"];
    arguments.extend(files.iter().map(|file| text(file)));
    let outcome = run(&arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let flows = outcome.objects().unwrap();
    let apps: Vec<&str> = flows
        .iter()
        .filter_map(|flow| flow["app"].as_str())
        .collect();
    for app in ["bittorrent", "edonkey", "gnutella", "http", "tls", "dns"] {
        assert!(apps.contains(&app), "{app} is not in {apps:?}");
    }
    for flow in &flows {
        for field in [
            "schema",
            "file",
            "l4",
            "client_ip",
            "server_ip",
            "app",
            "confidence",
        ] {
            assert!(flow[field].is_string(), "{field}: {flow}");
        }
        for field in ["client_port", "server_port", "packets", "bytes"] {
            assert!(flow[field].is_u64(), "{field}: {flow}");
        }
    }
    let totals: Vec<Value> = outcome
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(totals.len(), files.len());
    let counted: u64 = totals
        .iter()
        .map(|total| total["flows"].as_u64().unwrap())
        .sum();
    assert_eq!(usize::try_from(counted).unwrap(), flows.len());
    assert!(
        totals
            .iter()
            .all(|total| total["schema"] == "ringway.capture/1")
    );
}

/// It gets one line on stderr, and the next capture is read.
#[test]
fn cut_capture_gives_flows_and_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let files = samples(folder.path());
    let whole = run(&["--json", "gate", "classify", text(&files[0])]);
    let bytes = std::fs::read(&files[0]).unwrap();
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).unwrap();
    let outcome = run(&[
        "--json",
        "--quiet",
        "gate",
        "classify",
        text(&cut),
        text(&files[0]),
    ]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let flows = outcome.objects().unwrap();
    let of = |file: &Path| {
        flows
            .iter()
            .filter(|flow| flow["file"] == text(file))
            .count()
    };
    assert!(of(&cut) >= 1, "{}", outcome.stdout);
    assert_eq!(of(&files[0]), whole.objects().unwrap().len());
    let errors = outcome.stderr.lines();
    let errors: Vec<Value> = errors
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["schema"] == "ringway.error/1")
        .collect();
    let first = errors[0]["message"].as_str().unwrap();
    assert!(
        first.contains("cut.pcap") && first.contains("byte"),
        "{errors:?}"
    );
}

#[test]
fn stdin_gives_the_same_flows_as_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = samples(folder.path());
    let of_file = run(&["--json", "gate", "classify", text(&files[0])]);
    let mut command = program().command(["--json", "gate", "classify", "-"]);
    let piped = std::fs::File::open(&files[0]).unwrap();
    let outcome = command.stdin(piped).output().unwrap();
    assert_eq!(outcome.status.code(), Some(0));
    let name = serde_json::to_string(text(&files[0])).unwrap();
    let expected = of_file.stdout.replace(&name, "\"-\"");
    assert_eq!(String::from_utf8(outcome.stdout).unwrap(), expected);
}

#[test]
fn a_single_broken_capture_gets_exactly_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let noise = folder.path().join("noise.pcap");
    std::fs::write(&noise, b"this is no capture at all, only text").unwrap();
    let outcome = run(&["gate", "classify", text(&noise)]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""));
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("noise.pcap"), "{}", outcome.stderr);
}

#[test]
fn people_get_columns_under_one_heading() {
    let folder = tempfile::tempdir().unwrap();
    let files = samples(folder.path());
    let outcome = run(&["gate", "classify", text(&files[0]), text(&files[0])]);
    let headings = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("APP"))
        .count();
    assert_eq!(headings, 1, "{}", outcome.stdout);
    assert!(outcome.stdout.lines().count() > 2);
    assert!(outcome.stderr.contains("packets"), "{}", outcome.stderr);
}

/// A ring's own flows say who only to its members: the file of members does.
#[test]
fn members_file_names_the_members_of_flows() {
    let folder = tempfile::tempdir().unwrap();
    let files = samples(folder.path());
    let mut arguments = vec!["--json", "gate", "classify"];
    arguments.extend(files.iter().map(|file| text(file)));
    let is_ours = |flow: &Value| flow["app"] == "ringway";
    let outcome = run(&arguments);
    let flow = outcome
        .objects()
        .unwrap()
        .into_iter()
        .find(is_ours)
        .unwrap();
    assert!(flow["member"].is_null(), "{flow}");
    let members = folder.path().join("members");
    let line = format!(
        "# where they listen\n{}:{} oslo  # the router there\n",
        flow["server_ip"].as_str().unwrap(),
        flow["server_port"]
    );
    std::fs::write(&members, line).unwrap();
    arguments.extend(["--members", text(&members)]);
    let outcome = run(&arguments);
    let flows = outcome.objects().unwrap();
    let named: Vec<&Value> = flows
        .iter()
        .filter(|flow| flow["member"] == "oslo")
        .collect();
    assert!(!named.is_empty() && named.iter().all(|flow| is_ours(flow)));

    let policy = folder.path().join("policy.toml");
    let rule = "[[rule]]\nname = \"oslo\"\nmember = \"os*\"\naction = \"block\"\n";
    std::fs::write(&policy, rule).unwrap();
    let capture = flow["file"].as_str().unwrap();
    let replay = [
        "--json",
        "gate",
        "replay",
        capture,
        "--policy",
        text(&policy),
    ];
    let blocked = |more: &[&str]| {
        let outcome = run(&[&replay, more].concat());
        let flows = outcome.objects().unwrap();
        flows.iter().filter(|flow| flow["rule"] == "oslo").count()
    };
    assert_eq!(blocked(&[]), 0);
    assert!(blocked(&["--members", text(&members)]) > 0);

    std::fs::write(&members, "192.0.2.7:7946 oslo\noslo 192.0.2.7:7946\n").unwrap();
    let outcome = run(&arguments);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("members:2: not ADDRESS:PORT"),
        "{}",
        outcome.stderr
    );
}
