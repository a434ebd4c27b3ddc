//! Other programs use a member: the examples of the client libraries, and a member within a
//! program, against daemons.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use ringway_testbed::{Member, Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{not_tested, ping_until_answered, program};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(120);

/// Versions of Python that are tried where they are installed.
const PYTHONS: [&str; 6] = [
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
];

/// An example of a package, which Cargo builds where it has not been built with these tests.
fn example(package: &str, name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).unwrap();
    let found = folder.join("examples").join(name);
    if !found.is_file() {
        BUILT.get_or_init(|| {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut cargo = Command::new(cargo);
            cargo.args(["build", "--locked", "--examples", "--target-dir"]);
            cargo.arg(folder.parent().unwrap());
            cargo.args(["-p", "ringway-client", "-p", "ringway-node"]);
            let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
            assert!(built.unwrap().success(), "the examples were not built");
        });
    }
    assert!(found.is_file(), "{package} has no example {name}");
    found
}

/// A program that speaks with a member.
struct Running {
    process: Child,
}

impl Running {
    fn start(command: &mut Command, member: &Member) -> Running {
        let command = command.env("RINGWAY_HOME", &member.home);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = piped.spawn().unwrap();
        Running { process }
    }

    /// Its output, once it has ended well with this input.
    fn finish(mut self, input: &str) -> String {
        let mut stdin = self.process.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let mut output = String::new();
        let mut stdout = self.process.stdout.take().unwrap();
        stdout.read_to_string(&mut output).unwrap();
        assert!(self.process.wait().unwrap().success(), "{output}");
        output
    }

    /// Waits until its output has these words.
    fn wait_for(&mut self, words: &str) {
        let stdout = self.process.stdout.as_mut().unwrap();
        let mut output = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&output).contains(words) {
            let read = stdout.read(&mut byte).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&output));
            output.extend_from_slice(&byte);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn run(member: &Member, name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(example("ringway-client", name));
    Running::start(command.args(arguments), member).finish("")
}

fn two_members() -> Ring {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    ping_until_answered(&ring, "oslo", "lima");
    ring
}

/// A file for `lima`, and where it arrives.
fn file_in(ring: &Ring, name: &str) -> (String, PathBuf) {
    let file = ring.folder().join(name);
    fs::write(&file, name).unwrap();
    let inbox = ring.member("lima").unwrap().home.join("inbox");
    (file.to_str().unwrap().to_owned(), inbox)
}

/// True if any file below the folder has this content.
fn has_come(folder: &Path, content: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| match path.is_dir() {
            true => has_come(&path, content),
            false => fs::read(&path).is_ok_and(|bytes| bytes == content.as_bytes()),
        })
}

#[test]
fn programs_send_and_watch_and_keep_records() {
    let ring = two_members();
    let (oslo, lima) = (ring.member("oslo").unwrap(), ring.member("lima").unwrap());
    let mut watch = Command::new(example("ringway-client", "watch"));
    let mut watching = Running::start(&mut watch, lima);
    watching.wait_for("lima of");
    let (file, inbox) = file_in(&ring, "report");
    assert_eq!(
        run(oslo, "send_file", &[&file, "lima"]),
        "report to lima: done\n"
    );
    assert!(has_come(&inbox, "report"));
    watching.wait_for("done report: 6/6");
    let kept = run(oslo, "records", &["printer", "ipp://192.0.2.7"]);
    assert!(kept.ends_with("\nprinter: ipp://192.0.2.7\n"), "{kept}");
}

/// Whether the daemon does what this example asks for.
fn does(member: &Member, name: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(example("ringway-client", name));
    let command = command.args(arguments).stdin(Stdio::null());
    let output = command.env("RINGWAY_HOME", &member.home).output().unwrap();
    let does = !String::from_utf8_lossy(&output.stderr).contains("does not do that");
    if !does {
        not_tested(&format!("the example {name}: this daemon does not do that"));
    }
    does
}

#[test]
fn programs_serve_and_open_and_chat() {
    let ring = two_members();
    let (oslo, lima) = (ring.member("oslo").unwrap(), ring.member("lima").unwrap());
    if !does(oslo, "open_stream", &["lima", "nothing"]) {
        return;
    }
    let mut serve = Command::new(example("ringway-client", "serve"));
    let mut serving = Running::start(serve.arg("echo"), lima);
    serving.wait_for("echo of lima waits");
    let mut open = Command::new(example("ringway-client", "open_stream"));
    let opened = Running::start(open.args(["lima", "echo"]), oslo);
    assert_eq!(opened.finish("over and back\n"), "over and back\n");
    serving.wait_for("oslo has come");
    let mut chat = Command::new(example("ringway-client", "chat"));
    let mut reading = Running::start(chat.arg("oslo"), lima);
    let mut chat = Command::new(example("ringway-client", "chat"));
    Running::start(chat.arg("lima"), oslo).finish("hello lima\n");
    reading.wait_for("oslo: hello lima");
}

#[test]
fn member_runs_within_another_program() {
    let builder = RingBuilder::new(program()).router("oslo");
    let ring = builder.absent_leaf("alice").start().unwrap();
    let alice = ring.member("alice").unwrap();
    let output = Command::new(example("ringway-node", "embedded"))
        .arg(&alice.home)
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("this is alice of "), "{said}{error}");
    assert!(
        said.contains("\nalice\n") && output.status.success(),
        "{said}{error}"
    );
    // It has left nothing that a daemon would stumble over.
    assert!(!alice.home.join("control.sock").exists());
}

#[test]
fn python_does_the_same() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let mut ring: Option<Ring> = None;
    for python in PYTHONS {
        let version = Command::new(python).arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            not_tested(&format!(
                "the client for Python with {python}, which is not here"
            ));
            continue;
        }
        let ring = ring.get_or_insert_with(two_members);
        let (oslo, lima) = (ring.member("oslo").unwrap(), ring.member("lima").unwrap());
        let mut command = Command::new(python);
        command.args(["-m", "unittest", "discover", "-s", "tests"]);
        command.current_dir(&package).env("PYTHONPATH", &package);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
            .env("RINGWAY_OSLO", &oslo.home)
            .env("RINGWAY_LIMA", &lima.home);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{python}\n{said}");
    }
    let known = wait_until(DEADLINE, || match &ring {
        Some(ring) => ring.member("lima")?.call(&["transfers"]),
        None => Ok(Vec::<Value>::new()),
    });
    let known: Result<Vec<Value>, TestbedError> = known;
    let done = known.unwrap();
    assert!(ring.is_none() || done.iter().any(|transfer| transfer["state"] == "done"));
}
