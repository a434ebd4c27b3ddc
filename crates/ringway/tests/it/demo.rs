//! The demo: it passes, it ends when told to, and it leaves nothing behind.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringway_testbed::{Network, TestbedError, wait_until};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{not_tested, program};

/// How long processes may take to be gone.
const GONE: Duration = Duration::from_secs(60);

/// A user who is not root: the one that stands for users unknown here.
const SOME_USER: &str = "65534";
/// A user namespace in which there can be no further one, and whose root may make no others: what a
/// machine is like that forbids them. The words after it are run there.
const FORBIDDEN: &str = "echo 0 > /proc/sys/user/max_user_namespaces
    exec setpriv --bounding-set=-sys_admin -- \"$@\"";
/// What the demo checks at a border.
const AT_THE_BORDER: [&str; 5] = [
    "a BitTorrent transfer through the gateway is blocked",
    "it stays blocked when its client connects again",
    "a download in a class of 16.0 Mbit/s holds its rate",
    "a file with the EICAR signature is stopped, a clean one arrives",
    "`gate why` names the rule that blocked the transfer",
];

/// A demo in a temporary folder of its own, by which its processes and files can be told from
/// others.
struct Demo {
    folder: TempDir,
    child: Child,
}

impl Demo {
    fn start(arguments: &[&str]) -> Demo {
        let command = program().command(["--json", "demo", "--once"]);
        Demo::run(command, arguments)
    }

    /// The same by a command that runs the program.
    fn run(mut command: Command, arguments: &[&str]) -> Demo {
        let folder = tempfile::tempdir().unwrap();
        // Other users use it, too.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
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
    let objects = objects(&text);
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
            "captures",
            "border"
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
    let border = steps.last().unwrap();
    if Network::or_skip("the demo's border").unwrap().is_some() {
        assert_eq!(names_of_checks(border), AT_THE_BORDER, "{border}");
        assert!(border["details"]["missing"].is_null(), "{border}");
    }
}

fn objects(text: &str) -> Vec<Value> {
    let objects = text.lines().map(serde_json::from_str);
    objects.collect::<Result<_, _>>().unwrap()
}

fn names_of_checks(step: &Value) -> Vec<&str> {
    let checks = step["checks"].as_array().unwrap().iter();
    checks
        .map(|check| check["check"].as_str().unwrap())
        .collect()
}

/// The program where other users can run it, and a command by which one of them does. `None`: that
/// cannot be done here, and stderr says so.
fn by_some_user(test: &str) -> Option<(TempDir, Command)> {
    let setpriv = Command::new("setpriv").arg("--version").output();
    if !geteuid().is_root() || setpriv.is_err() {
        not_tested(&format!("{test}: it takes root and setpriv"));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ringway"), copy_in(&folder)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", SOME_USER, "--regid", SOME_USER, "--clear-groups"]);
    Some((folder, command))
}

fn copy_in(folder: &TempDir) -> PathBuf {
    folder.path().join("ringway")
}

/// What the demo's own process with the border reports.
fn border_alone(mut command: Command) -> (Value, String) {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
    command.args(["--json", "--home"]).arg(home.path());
    command
        .arg("demo-border")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    // Its stdin stays open, or it would end.
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = String::from_utf8(output.stdout).unwrap();
    (objects(&text).pop().unwrap(), text)
}

#[test]
fn unprivileged_users_see_the_border() {
    let test = "the demo's border without root";
    let Some((folder, mut command)) = by_some_user(test) else {
        return;
    };
    // What other programs are refused is refused to the demo as well.
    let (_, mut trial) = by_some_user(test).unwrap();
    let granted = trial
        .args(["unshare", "--user", "--map-root-user", "--net", "true"])
        .status();
    if !granted.is_ok_and(|status| status.success()) {
        return not_tested(&format!("{test}: user namespaces are forbidden here"));
    }
    command.arg(copy_in(&folder));
    let (last, text) = border_alone(command);
    assert_eq!(last["event"], "shown", "{text}");
    let (torrent, files) = (&last["torrent"], &last["files"]);
    assert_eq!(torrent["before"], torrent["size"], "{last}");
    assert_eq!(
        (&torrent["arrived"], &torrent["arrived_again"]),
        (&0.into(), &0.into()),
        "{last}"
    );
    assert_eq!(files["clean_arrived"], true, "{last}");
    assert_eq!(
        (&files["infected_arrived"], &files["found"]),
        (&0.into(), &"EICAR_test_file".into())
    );
    assert!(
        last["class"]["measured"]
            .as_f64()
            .is_some_and(|rate| rate <= 16.8e6),
        "{last}"
    );
    for (field, words) in [
        ("/why/text", "block by no-bittorrent"),
        ("/top", "bittorrent"),
    ] {
        let shown = last.pointer(field).and_then(Value::as_str);
        assert!(shown.is_some_and(|shown| shown.contains(words)), "{last}");
    }
}

#[test]
fn forbidden_namespaces_are_told_and_the_rest_shown() {
    let Some((folder, mut command)) = by_some_user("the demo without namespaces") else {
        return;
    };
    command.args([
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        FORBIDDEN,
        "sh",
    ]);
    command
        .arg(copy_in(&folder))
        .args(["--json", "demo", "--once", "--size", "8"]);
    let demo = Demo::run(command, &[]);
    let output = demo.child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let objects = objects(&text);
    let (summary, steps) = objects.split_last().unwrap();
    let border = steps.last().unwrap();
    let reason = border["details"]["missing"].as_str().unwrap();
    assert!(
        reason.contains("sudo sysctl user.max_user_namespaces=10000"),
        "{reason}"
    );
    assert_eq!(
        (&border["ok"], &summary["ok"]),
        (&true.into(), &true.into()),
        "{text}"
    );
    let skipped = summary["checks"].as_array().unwrap().iter();
    let skipped = skipped.filter(|check| check["skipped"] == true);
    assert_eq!(skipped.count(), 1, "{summary}");
}

#[test]
fn border_ends_with_the_demo_that_is_killed() {
    if Network::or_skip("the demo's border, killed")
        .unwrap()
        .is_none()
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = program().command(["--json", "--home"]);
    command.arg(folder.path()).arg("demo-border");
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut demo = Demo { folder, child };
    let works = || match demo.processes() {
        found if found.iter().any(|line| line.contains(" gate up ")) => Ok(()),
        found => Err(TestbedError(found.join("\n"))),
    };
    wait_until(GONE, works).unwrap();
    // So does the demo's end.
    drop(demo.child.stdin.take());
    demo.child.wait().unwrap();
    demo.wait_until_no_process_is_left();
}

/// Scanners of viruses would take the program for one.
#[test]
fn program_has_no_virus_signature() {
    let program = fs::read(env!("CARGO_BIN_EXE_ringway")).unwrap();
    let signature = [b"$EICAR-STANDARD-".as_slice(), b"ANTIVIRUS-TEST-FILE!"].concat();
    let begin = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}";
    let mut places = program.windows(signature.len()).enumerate();
    let spoilt = places.find(|(at, part)| {
        *part == signature
            && program
                .get(..*at)
                .is_some_and(|before| before.ends_with(begin))
    });
    assert!(spoilt.is_none(), "{spoilt:?}");
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
