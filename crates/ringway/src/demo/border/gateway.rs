//! The gateway of the demo's border: `gate up` as a process of its own, and what is asked of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::hosts::{INSIDE, OUTSIDE};
use super::message::Stop;
use crate::demo::process::reason;
use crate::limits::{DEMO_GRACE, DEMO_READY, DEMO_WAIT};

/// What the demo enforces.
pub(super) const POLICY: &str = r#"[classes.updates]
rate = "16 Mbit/s"

[[rule]]
name = "no-bittorrent"
app = "bittorrent"
action = "block"

[[rule]]
name = "slow-updates"
app = "http"
host = "*.mirror.example"
action = "shape"
class = "updates"

[[rule]]
name = "no-viruses"
app = "http"
action = "scan"
audit = true
"#;
/// The class of [`POLICY`].
pub(super) const CLASS: &str = "updates";
/// Its rate in bits a second.
pub(super) const RATE: f64 = 16e6;
/// Which of its rules blocks.
pub(super) const BLOCKS: &str = "no-bittorrent";
/// Which of its rules scans.
pub(super) const SCANS: &str = "no-viruses";

/// A rule beside EICAR's, which is always there: files are scanned where there is one.
const OWN_RULE: &str =
    "rule Demo_marker { strings: $a = \"8f2c6d0e-ringway-demo\" condition: $a }\n";

/// Its process; it ends when its stdin closes.
type Running = Arc<Mutex<Option<(Child, ChildStdin)>>>;

/// Ends it, from whichever thread comes first.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    running: Running,
}

/// The gateway at work.
#[derive(Debug)]
pub(super) struct Gateway {
    program: PathBuf,
    state: PathBuf,
    control: PathBuf,
    end: End,
}

impl End {
    /// Lets it end by itself, and kills it if it does not.
    pub(super) fn now(&self) {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((mut child, stdin)) = running else {
            return;
        };
        drop(stdin);
        let until = Instant::now() + DEMO_GRACE;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                // One that cannot be killed has ended.
                child.kill().ok();
                child.wait().ok();
                return;
            }
            std::thread::sleep(DEMO_WAIT);
        }
    }
}

impl Gateway {
    /// Starts it in this process's network, with all its files in `folder`, and waits until it is
    /// at work.
    pub(super) fn start(folder: &Path, log: &Path, end: &End) -> Result<Gateway, Stop> {
        let failed = |error: std::io::Error| Stop::Failed(format!("starting the gateway: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let place = |name: &str| folder.join(name);
        std::fs::write(place("policy.toml"), POLICY).map_err(failed)?;
        std::fs::write(place("demo.yar"), OWN_RULE).map_err(failed)?;
        let (state, control) = (place("state"), place("gate.sock"));
        let mut command = Command::new(&program);
        command.args([
            "--json",
            "-v",
            "gate",
            "up",
            "--enforce",
            "--exit-with-stdin",
        ]);
        command.args(["--inside", INSIDE, "--outside", OUTSIDE, "--policy"]);
        command
            .arg(place("policy.toml"))
            .arg("--yara")
            .arg(place("demo.yar"));
        command
            .arg("--state")
            .arg(&state)
            .arg("--control")
            .arg(&control);
        let log_file = File::options().create(true).append(true).open(log);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .stderr(log_file.map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(Stop::Failed(
                "the gateway has no stdin and stdout".to_owned(),
            ));
        };
        *end.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((child, stdin));
        let (said, heard) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                // Whatever it prints later is read, or it would block one day.
                drop(said.send(line));
            }
        });
        match heard.recv_timeout(DEMO_READY) {
            Ok(Ok(_)) => Ok(Gateway {
                program,
                state,
                control,
                end: end.clone(),
            }),
            _ => {
                end.now();
                let why = reason(&std::fs::read_to_string(log).unwrap_or_default());
                let why = why.unwrap_or_else(|| "it gave no reason".to_owned());
                Err(Stop::Missing(format!("the gateway did not start: {why}")))
            }
        }
    }

    /// What a command of the gateway prints, such as `why 7`.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String, Stop> {
        let mut command = Command::new(&self.program);
        command
            .arg("gate")
            .args(words)
            .arg("--control")
            .arg(&self.control);
        printed(command, words)
    }

    /// The first event of this rule in its audit of which this holds, once there is one.
    pub(super) fn event_where(
        &self,
        rule: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, Stop> {
        let until = Instant::now() + DEMO_READY;
        loop {
            let mut command = Command::new(&self.program);
            command
                .args(["--json", "gate", "audit", "--state"])
                .arg(&self.state);
            let text = printed(command, &["audit"])?;
            let events = text.lines().map(serde_json::from_str::<Value>);
            let mut of_rule = events
                .flatten()
                .filter(|event| event["ringway"]["rule"] == rule);
            match of_rule.find(&holds) {
                Some(event) => return Ok(event),
                None if Instant::now() > until => {
                    return Err(Stop::Failed(format!(
                        "the audit has nothing of the rule {rule}"
                    )));
                }
                None => std::thread::sleep(DEMO_WAIT),
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end.now();
    }
}

fn printed(mut command: Command, words: &[&str]) -> Result<String, Stop> {
    let failed = |why: &str| Stop::Failed(format!("`ringway gate {}`: {why}", words.join(" ")));
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}
