//! `docs/tutorial/use-your-ring.md`, word by word: its commands in one shell, and the output that
//! it promises.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ringway_testbed::Network;

use super::not_tested;

const TUTORIAL: &str = include_str!("../../../../docs/tutorial/use-your-ring.md");
/// The one command that has to fail, and with which exit code.
const REFUSED: &str = "exit 1: ringway --home oslo connect lima/web < /dev/null";
/// Before the commands: says which of them fail, and waits thrice as long as a reader, because the
/// machine may be busy.
const BEFORE: &str = "trap 'echo \"exit $?: $BASH_COMMAND\"' ERR
sleep() { command sleep $((3 * $1)); }
";
/// Begins the output of a block.
const MARK: &str = "== block";

/// A block of commands, and the output that the page shows behind it.
struct Block {
    commands: &'static str,
    promised: &'static str,
}

fn blocks(page: &'static str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    // Text and blocks take turns.
    for block in page.split("\n```").skip(1).step_by(2) {
        match block.split_once('\n') {
            Some(("sh", commands)) => found.push(Block {
                commands,
                promised: "",
            }),
            Some(("text", promised)) => found.last_mut().unwrap().promised = promised,
            _ => panic!("neither commands nor their output: {block}"),
        }
    }
    found
}

/// A line without what differs from run to run: blanks, numbers and ids.
fn lasting(line: &str) -> String {
    let differs = |word: &&str| {
        let id = word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit());
        id || word.starts_with(|c: char| c.is_ascii_digit())
    };
    let words = line.split_whitespace().filter(|word| !differs(word));
    words.collect::<Vec<_>>().join(" ")
}

/// The project's folder as its reader has it after `make release`.
fn project(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for part in ["home", "project/target/release", "project/clients"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    let links = [
        (
            Path::new(env!("CARGO_BIN_EXE_ringway")),
            "target/release/ringway",
        ),
        (&root.join("clients/python"), "clients/python"),
    ];
    for (to, place) in links {
        symlink(to, folder.join("project").join(place)).unwrap();
    }
}

#[test]
fn a_reader_can_use_the_ring() {
    let Some(mut network) = Network::or_skip("the tutorial `Use your ring`").unwrap() else {
        return;
    };
    for program in ["curl", "python3"] {
        if Command::new(program).arg("--version").output().is_err() {
            return not_tested(&format!(
                "the tutorial `Use your ring`: {program} is not installed (./setup.sh --tests)"
            ));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    project(folder.path());
    let blocks = blocks(TUTORIAL);
    let script: String = blocks
        .iter()
        .map(|block| format!("echo '{MARK}'\n{}\n", block.commands))
        .collect();
    let script = format!("{BEFORE}{script}");
    let reader = network.host("reader").unwrap();
    let mut shell = reader.command("bash");
    shell
        .args(["-c", &format!("exec 2>&1\n{script}")])
        .current_dir(folder.path().join("project"))
        .env("HOME", folder.path().join("home"))
        .env_remove("RINGWAY_HOME")
        .env_remove("XDG_DATA_HOME");
    let output = shell.output().unwrap().stdout;
    let output = String::from_utf8_lossy(&output);
    let failed: Vec<_> = output
        .lines()
        .filter(|line| line.starts_with("exit "))
        .collect();
    assert_eq!(failed, [REFUSED], "{output}");
    let came: Vec<_> = output.split(MARK).skip(1).collect();
    assert_eq!(came.len(), blocks.len(), "{output}");
    for (block, came) in blocks.iter().zip(came) {
        let came: Vec<_> = came.lines().map(lasting).collect();
        for line in block.promised.lines() {
            assert!(
                came.contains(&lasting(line)),
                "`{line}` is not in\n{output}"
            );
        }
    }
}
