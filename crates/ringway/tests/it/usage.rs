//! A user's mistake: exit code 2, one line that names it, and nothing changed.

mod configuration;

use serde_json::Value;

use super::{program, run};

/// Arguments, what stdin holds, and a word that the line must have.
type Mistake<'a> = (&'a [&'a str], &'a str, &'a str);

/// `FILE` stands for a readable file, `FOLDER` for the folder that it is in.
const MISTAKES: &[Mistake<'_>] = &[
    (&["nonsense"], "", "nonsense"),
    (&["invite", "oslo"], "", "`ringway ring invite`"),
    (&["enrol"], "", "`ringway join`"),
    (&["status", "--colour"], "", "--colour"),
    (&["send"], "", "<PATH>"),
    (&["send", "FILE"], "", "no member is named"),
    (&["send", "FOLDER/absent", "oslo"], "", "absent"),
    (&["send", "/dev/null", "oslo"], "", "regular file"),
    (&["send", "-", "oslo"], "", "--name"),
    (&["send", "-", "FILE", "oslo"], "", "sent alone"),
    (
        &["send", "FOLDER", "oslo", "--name", "x"],
        "",
        "single file",
    ),
    (&["send", "FILE", "--to"], "", "--to"),
    (&["send", "FILE", "oslo", "--priority", "-1"], "", "from 0"),
    (&["send", "FILE", "oslo", "--priority", "NaN"], "", "from 0"),
    (&["send", "FILE", "oslo", "--priority=inf"], "", "from 0"),
    (
        &["send", "FILE", "oslo", "--priority", "-inf"],
        "",
        "from 0",
    ),
    (&["priority", "4f1c", "-0.5"], "", "from 0"),
    (&["priority", "4f1c", "NaN"], "", "from 0"),
    (&["priority", "4f1c", "-inf"], "", "from 0"),
    (&["priority", "4f1c", "1,5"], "", "from 0"),
    (&["priority", "4f1c"], "", "<P>"),
    (&["ping", "oslo", "--count", "0"], "", "1..=1000"),
    (&["route"], "", "--key"),
    (&["route", "oslo", "--key", "x"], "", "--key"),
    (&["node", "--upload-limit", "20Mb"], "", "20MiB"),
    (&["node"], "", "ringway join"),
    (&["join", "rw1secret"], "", "secret"),
    (&["join", "7", "crackdown", "adviser"], "", "secret"),
    (&["join"], "7-crackdown-adviser", "3 words"),
    (&["join"], "7-crackdown-adviser-ragtaim", "word 3"),
    (&["join"], "7-crackdown-adviser-ragtime", "--at"),
    (&["join"], "", "stdin"),
    (&["join"], "not an invitation", "ringway ring invite"),
    (&["join", "--invite", "FOLDER/absent"], "", "absent"),
    (&["ring", "init", "not a domain"], "", "not a domain"),
    (
        &["ring", "init", "ring.test", "--successors", "1"],
        "",
        "2 to 16",
    ),
    (
        &["ring", "init", "ring.test", "--group", "6"],
        "",
        "odd number",
    ),
    (
        &["ring", "init", "ring.test", "--dns", "nowhere"],
        "",
        "nowhere",
    ),
    (&["ring", "invite", "oslo", "--expires", "24"], "", "24h"),
    (&["ring", "invite", "oslo", "--role", "king"], "", "router"),
    (&["ring", "invite", "oslo"], "", "ringway ring init"),
    (&["ring", "members"], "", "ringway ring init"),
    (&["ring", "address"], "", "ringway ring init"),
    (&["ring", "init", "localhost"], "", "RFC 6761"),
    (&["ring", "init", "office.local"], "", "multicast"),
    (
        &["ring", "init", "ring.test", "--dns", "0.0.0.0:53"],
        "",
        "--dns-listen",
    ),
    (
        &["ring", "init", "ring.test", "--dns-listen", "192.0.2.7:53"],
        "",
        "no address of this machine",
    ),
    (&["ring", "move", "oslo", "nowhere"], "", "192.0.2.9"),
    (
        &["ring", "move", "oslo", "192.0.2.9"],
        "",
        "ringway ring init",
    ),
    (&["ring", "revoke", "oslo"], "", "ringway ring init"),
    (&["ring", "publish"], "", "ringway ring init"),
    (&["ring", "serve"], "", "ringway ring init"),
    (&["gate", "classify"], "", "<FILE>"),
    (&["gate", "classify", "FILE", "FOLDER/absent"], "", "absent"),
    (&["gate", "classify", "FOLDER"], "", "folder"),
    (&["gate", "classify", "-", "-"], "", "only once"),
    (&["join", "--listen", ":65535"], "", "192.0.2.7:7400"),
    (&["priority", "4f1c", "1001"], "", "to 1000"),
    (&["bench"], "", "ringway-bench"),
    (&["bench", "transport", "--plots", "x"], "", "ringway-bench"),
    (&["demo", "--size", "0"], "", "1..=16384"),
    (
        &["demo", "--once", "--captures", "FOLDER/absent"],
        "",
        "absent",
    ),
    (&["completions", "cmd.exe"], "", "cmd.exe"),
    (&["man", "--dir", "x", "--markdown"], "", "--markdown"),
];

#[test]
fn each_mistake_gets_one_line_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.bin");
    std::fs::write(&file, b"content").unwrap();
    let (here, file) = (folder.path().to_str().unwrap(), file.to_str().unwrap());
    for (arguments, input, word) in MISTAKES {
        let home = folder.path().join("home");
        let mut all = vec!["--home".to_owned(), home.to_str().unwrap().to_owned()];
        all.extend(
            arguments
                .iter()
                .map(|a| a.replace("FILE", file).replace("FOLDER", here)),
        );
        let outcome = program().run_with_input(&all, input).unwrap();
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{arguments:?}: {}", outcome.stderr);
        assert!(
            lines[0].starts_with("ringway: ") && lines[0].contains(word),
            "{arguments:?}: {}",
            lines[0]
        );
        assert!(!home.exists(), "{arguments:?} made {}", home.display());
    }
}

#[test]
fn missing_daemon_gets_line_on_starting_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let commands: [&[&str]; 5] = [
        &["status"],
        &["transfers"],
        &["cancel", "4f1c"],
        &["ping", "oslo"],
        &["route", "--key", "x"],
    ];
    for command in commands {
        let outcome = run(&[&["--home", home], command].concat());
        assert_eq!(outcome.code, Some(1), "{command:?}");
        assert!(
            outcome.stderr.starts_with("ringway: ")
                && outcome.stderr.contains("start it with `ringway node`")
                && outcome.stderr.lines().count() == 1,
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn with_json_the_error_is_one_object() {
    for (arguments, usage) in [
        (&["--home", "/nonexistent", "status"][..], false),
        (&["priority", "x", "-1"], true),
        // Without it these show their help.
        (&["ring"], true),
        (&["gate"], true),
    ] {
        let outcome = run(&[&["--json"], arguments].concat());
        let object: Value = serde_json::from_str(&outcome.stderr).unwrap();
        assert_eq!(object["schema"], "ringway.error/1");
        assert_eq!(object["usage"], usage);
        assert!(object["message"].as_str().unwrap().len() > 20, "{object}");
    }
}

#[test]
fn a_bad_log_filter_is_named() {
    let mut command = program().command(["--home", "/nonexistent", "status"]);
    let outcome = command
        .env("RINGWAY_LOG", "ringway=shouting")
        .output()
        .unwrap();
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert_eq!(outcome.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("RINGWAY_LOG") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn home_folder_follows_the_documented_environment_order() {
    let socket_named = |variables: &[(&str, &str)]| {
        let mut command = program().command(["status"]);
        command.env_remove("HOME").envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let (own, data, user) = (
        ("RINGWAY_HOME", "/no/own"),
        ("XDG_DATA_HOME", "/no/data"),
        ("HOME", "/no/user"),
    );
    assert!(socket_named(&[own, data, user]).contains("/no/own/"));
    assert!(socket_named(&[data, user]).contains("/no/data/ringway/"));
    assert!(socket_named(&[user]).contains("/no/user/.local/share/ringway/"));
    assert!(socket_named(&[]).contains("--home"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let samples = ringway_gateway::samples::write(folder.path()).unwrap();
    let sample = samples[0].to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["completions", "bash"],
        &["man"],
        &["gate", "classify", sample],
        &["--json", "gate", "classify", sample],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = program()
            .command(arguments)
            .arg("--quiet")
            .stdout(writer)
            .output()
            .unwrap();
        let stderr = String::from_utf8(outcome.stderr).unwrap();
        assert_eq!(
            (outcome.status.code(), stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn bare_commands_show_help_and_exit_with_2() {
    for arguments in [&[][..], &["ring"], &["gate"]] {
        let outcome = run(arguments);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
        assert!(outcome.stderr.contains("Commands:"), "{}", outcome.stderr);
    }
}
