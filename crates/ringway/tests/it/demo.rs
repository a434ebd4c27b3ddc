//! The demo: it passes, it ends when told to, and it leaves nothing behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use ringway_testbed::{TestbedError, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::program;

/// How long processes may take to be gone.
const GONE: Duration = Duration::from_secs(60);

/// A demo in a temporary folder of its own, by which its processes and files can be told from
/// others.
struct Demo {
    folder: TempDir,
    child: Child,
}

impl Demo {
    fn start(arguments: &[&str]) -> Demo {
        let folder = tempfile::tempdir().unwrap();
        let mut command = program().command(["--json", "demo", "--once"]);
        command
            .args(arguments)
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        Demo { folder, child }
    }

    /// Reads objects until `step` has ended.
    fn read_until(&mut self, step: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        for line in BufReader::new(stdout).lines() {
            let object: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert_eq!(object["ok"], true, "{object}");
            if object["step"] == step {
                return;
            }
        }
        panic!("the demo ended before the step `{step}`");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Command lines of processes that work in the folder.
    fn processes(&self) -> Vec<String> {
        let folder = self.folder.path().to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        texts.filter(|line| line.contains(folder)).collect()
    }

    fn wait_until_no_process_is_left(&self) {
        let none = || match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(TestbedError(left.join("\n"))),
        };
        wait_until(GONE, none).unwrap();
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn small_demo_passes_every_check_and_leaves_nothing() {
    let demo = Demo::start(&["--size", "8"]);
    let folder = demo.folder;
    let output = demo.child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let objects: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (summary, steps) = objects.split_last().unwrap();
    let names: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["step"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "members",
            "ring",
            "transfers",
            "lookups",
            "heal",
            "return",
            "captures"
        ]
    );
    assert!(
        steps
            .iter()
            .all(|step| step["schema"] == "ringway.demo.step/1" && step["ok"] == true),
        "{text}"
    );
    assert_eq!(
        (&summary["schema"], &summary["ok"]),
        (&Value::from("ringway.demo/1"), &Value::from(true))
    );
    assert!(
        summary["checks"]
            .as_array()
            .is_some_and(|checks| checks.len() >= 10),
        "{summary}"
    );
    assert!(is_empty(folder.path()));
}

#[test]
fn ctrl_c_removes_every_process_and_the_folder() {
    let mut demo = Demo::start(&["--size", "16"]);
    demo.read_until("members");
    assert!(
        demo.processes().len() >= 8,
        "an authority and seven members run"
    );
    demo.signal(Signal::INT);
    assert_eq!(demo.child.wait().unwrap().code(), Some(1));
    demo.wait_until_no_process_is_left();
    assert!(is_empty(demo.folder.path()));
}

#[test]
fn a_killed_demo_leaves_no_process() {
    let mut demo = Demo::start(&["--size", "16"]);
    demo.read_until("members");
    assert!(
        demo.processes().len() >= 8,
        "an authority and seven members run"
    );
    demo.signal(Signal::KILL);
    demo.child.wait().unwrap();
    demo.wait_until_no_process_is_left();
}
