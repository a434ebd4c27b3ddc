//! Members and authorities that are asked by a signal to load their configuration again, and
//! programs whose terminal goes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::json;

use super::{not_tested, program, transfer_when};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

/// Changes the member's configuration, and has it loaded again.
fn change(ring: &mut Ring, name: &str, from: &str, to: &str) {
    let member = ring.member_mut(name).unwrap();
    let file = member.home.join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&file, text.replace(from, to)).unwrap();
    member.reload().unwrap();
}

fn until_logged(ring: &Ring, name: &str, line: &str) {
    let member = ring.member(name).unwrap();
    let logged = wait_until(DEADLINE, || match member.log_text().contains(line) {
        true => Ok(()),
        false => Err(TestbedError(member.log_text())),
    });
    logged.unwrap_or_else(|error| panic!("no `{line}`: {error}"));
}

/// Sends a file from oslo to lima, and gives how it ended.
fn sent(ring: &Ring, text: &str) -> serde_json::Value {
    let file = ring.folder().join("file.txt");
    fs::write(&file, text).unwrap();
    let member = ring.member("oslo").unwrap();
    let queued = member
        .call(&["send", file.to_str().unwrap(), "lima", "--detach"])
        .unwrap();
    let id = queued[0]["id"].as_str().unwrap().to_owned();
    transfer_when(ring, "oslo", &id, |transfer| {
        transfer["state"] == "done" || transfer["state"] == "failed"
    })
}

#[test]
fn hang_up_changes_caps_rules_and_paths() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    assert_eq!(sent(&ring, "first")["state"], "done");
    let all = "from = [\"*\"]";
    change(&mut ring, "lima", all, "from = [\"rome\"]");
    until_logged(&ring, "lima", "the configuration was loaded again");
    assert_eq!(sent(&ring, "second")["state"], "failed");
    let inbox = "into = \"inbox\"";
    change(&mut ring, "lima", inbox, "into = \"other\"");
    let rome = "from = [\"rome\"]";
    change(&mut ring, "lima", rome, "from = [\"oslo\"]");
    let other = ring.member("lima").unwrap().home.join("other");
    let arrived = wait_until(DEADLINE, || {
        let done = sent(&ring, "third")["state"] == "done";
        // The file, and the folder of partial ones.
        match done && fs::read_dir(&other).map_or(0, Iterator::count) > 1 {
            true => Ok(()),
            false => Err(TestbedError(
                "it does not go to the other folder".to_owned(),
            )),
        }
    });
    arrived.unwrap();
    let rules = "upload = 5000000\n[[path]]\nto = \"udp\"\ncost = 77\n";
    change(&mut ring, "oslo", "upload = 0\n", rules);
    let followed = wait_until(DEADLINE, || {
        let member = ring.member("oslo")?;
        let status = member.status()?;
        let paths = member.call(&["path", "lima"])?;
        let costs = paths[0]["paths"].as_array().cloned().unwrap_or_default();
        let capped = status["caps"][0]["upload"] == json!(5_000_000);
        match capped && costs.iter().any(|path| path["cost"] == 77) {
            true => Ok(()),
            false => Err(TestbedError(format!("{status} {paths:?}"))),
        }
    });
    followed.unwrap();
}

#[test]
fn wrong_configuration_changes_nothing_while_running() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.start().unwrap();
    change(&mut ring, "lima", "from = [", "frm = [");
    until_logged(&ring, "lima", "the configuration was not loaded again");
    until_logged(&ring, "lima", "frm");
    assert_eq!(sent(&ring, "as before")["state"], "done");
    change(&mut ring, "lima", "frm = [", "from = [");
    until_logged(&ring, "lima", "the configuration was loaded again");
    let name = "transports = [";
    change(
        &mut ring,
        "lima",
        name,
        "port_mapping = false\ntransports = [",
    );
    until_logged(&ring, "lima", "restart=\"[node]\"");
}

#[test]
fn authority_publishes_its_zone_at_a_hang_up() {
    let mut ring = RingBuilder::new(program()).router("oslo").start().unwrap();
    ring.authority.hang_up().unwrap();
    ring.authority.reopen().unwrap();
    let published = wait_until(DEADLINE, || {
        let log = ring.authority.log_text();
        match log.contains("ordered=true") {
            true => Ok(()),
            false => Err(TestbedError(log)),
        }
    });
    published.unwrap();
    ring.owner_call(&["ring", "invite", "lima"]).unwrap();
    assert_eq!(ring.authority.terminate().unwrap(), Some(0));
}

/// Starts a program on a terminal, sends SIGHUP once it is ready, and closes the terminal once it
/// has loaded again. Prints how the program ended.
const ON_A_TERMINAL: &str = r#"
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
def until(word):
    seen = b""
    while word not in seen:
        seen += os.read(terminal, 4096)
until(b"ringway.node/1")
os.kill(pid, signal.SIGHUP)
until(b"loaded again")
os.close(terminal)
print(os.waitpid(pid, 0)[1])
"#;

#[test]
fn program_ends_with_its_terminal_only() {
    if Command::new("python3").arg("--version").output().is_err() {
        return not_tested("a program on a terminal: python3 is not installed");
    }
    let builder = RingBuilder::new(program())
        .router("oslo")
        .absent_leaf("lima");
    let ring = builder.start().unwrap();
    let home = ring.member("lima").unwrap().home.display().to_string();
    let program = env!("CARGO_BIN_EXE_ringway");
    let ended = Command::new("python3")
        .args(["-c", ON_A_TERMINAL, program])
        .args(["--json", "--home", &home, "-v", "node"])
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert_eq!(stdout.trim(), "0", "{stderr}");
}
