//! Child programs: the example in `examples/exec-folder`, and some that misbehave.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_transport::limits::{EXEC_MTU, EXEC_QUEUE};
use ringway_transport::{
    Address, ExecOptions, ExecTransport, Incoming, LatencyClass, SendError, StartError, Transport,
};
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{installed, next, skipped, soon, until};

/// A transport whose program is a line of shell.
async fn shell(script: &str) -> Result<(ExecTransport, Receiver<Incoming>), StartError> {
    let (sender, receiver) = channel(16);
    let options = ExecOptions {
        name: "test".to_owned(),
        command: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        ..ExecOptions::default()
    };
    let transport = soon(ExecTransport::start(options, sender)).await?;
    Ok((transport, receiver))
}

/// Shell that says hello with this MTU.
fn hello(mtu: usize) -> String {
    let json =
        format!(r#"{{"version":1,"mtu":{mtu},"cost":70,"latency":"minutes","addresses":["me"]}}"#);
    let length = json.len() + 1;
    format!("printf '\\000\\000\\000\\{length:03o}H%s' '{json}'; ")
}

/// The interpreter itself: a wrapper might need more of the environment than a child gets.
fn python() -> Option<PathBuf> {
    let found = installed("python3")?;
    let mut command = std::process::Command::new(found);
    let said = command.args(["-c", "import sys; print(sys.executable)"]);
    let output = said.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

async fn member(python: &Path, folder: &Path, name: &str) -> (ExecTransport, Receiver<Incoming>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/exec-folder/folder.py");
    let (sender, receiver) = channel(64);
    let options = ExecOptions {
        name: "folder".to_owned(),
        command: python.to_owned(),
        arguments: vec![
            script.canonicalize().unwrap().into(),
            "--folder".into(),
            folder.into(),
            "--name".into(),
            name.into(),
            "--poll".into(),
            "0.02".into(),
        ],
        ..ExecOptions::default()
    };
    let started = soon(ExecTransport::start(options, sender)).await;
    (started.unwrap(), receiver)
}

#[tokio::test]
async fn two_members_talk_through_a_shared_folder() {
    let Some(python) = python() else {
        skipped("two_members_talk_through_a_shared_folder", "python3");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (oslo, mut at_oslo) = member(&python, folder.path(), "oslo").await;
    let (rome, mut at_rome) = member(&python, folder.path(), "rome").await;
    let described = rome.addresses();
    assert_eq!(described[0].address.to_string(), "exec://folder/rome");
    assert_eq!(described[0].latency, LatencyClass::Seconds);
    assert_eq!((rome.cost(), rome.mtu()), (500, 32 * 1024));
    let to_rome = oslo.connect(&described[0].address).await.unwrap();
    for size in [0, 1, 300, rome.mtu()] {
        let message: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        to_rome.send(&message).unwrap();
        let incoming = next(&mut at_rome).await;
        assert_eq!(&incoming.message[..], &message[..]);
        assert_eq!(incoming.session.remote().to_string(), "exec://folder/oslo");
        incoming.session.send(&message).unwrap();
        assert_eq!(&next(&mut at_oslo).await.message[..], &message[..]);
    }
    // A name that would lead out of the folder, and one that no member has, lead nowhere.
    for nowhere in ["../up", "nobody"] {
        let there: Address = format!("exec://folder/{nowhere}").parse().unwrap();
        oslo.connect(&there).await.unwrap().send(b"x").unwrap();
    }
    to_rome.send(b"still here").unwrap();
    assert_eq!(&next(&mut at_rome).await.message[..], b"still here");
    assert_eq!(oslo.counters().failed, 0);
    // Dropped, it ends, and its messages wait in the folder until it is back.
    drop(rome);
    to_rome.send(b"later").unwrap();
    let (_rome, mut at_rome) = member(&python, folder.path(), "rome").await;
    assert_eq!(&next(&mut at_rome).await.message[..], b"later");
}

#[tokio::test]
async fn ended_child_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    // Each run has another MTU, takes one frame of 11 bytes, answers with it, and ends.
    let script = format!(
        "echo run >> {0}; if [ $(wc -l < {0}) = 1 ]; then {1} else {2} fi; head -c 11",
        runs.display(),
        hello(100),
        hello(200)
    );
    let (transport, mut incoming) = shell(&script).await.unwrap();
    assert_eq!((transport.mtu(), transport.cost()), (100, 70));
    let to = transport.addresses()[0].address.clone();
    let session = transport.connect(&to).await.unwrap();
    let size = 101;
    let refused = session.send(&[0; 101]);
    assert_eq!(refused, Err(SendError::TooLarge { size, mtu: 100 }));
    session.send(b"ab").unwrap();
    let answer = next(&mut incoming).await;
    assert_eq!(&answer.message[..], b"ab");
    assert_eq!(answer.session.remote(), to);
    // While no child runs nothing is sent, and nothing is queued for the next.
    until(|| transport.counters().failed == 1).await;
    assert_eq!(session.send(b"no"), Err(SendError::WouldBlock));
    assert_eq!(transport.counters().would_block, 1);
    until(|| transport.mtu() == 200).await;
    until(|| session.send(b"cd").is_ok()).await;
    assert_eq!(&next(&mut incoming).await.message[..], b"cd");
    drop(transport);
    assert_eq!(session.send(b"no"), Err(SendError::Closed));
}

#[tokio::test]
async fn a_child_that_breaks_the_frames_is_stopped() {
    for garbage in [
        r"printf '\377\377\377\377'",             // a frame of 4 GiB
        r"printf '\000\000\000\001X'",            // an unknown kind
        r"printf '\000\000\000\003M\000\011'",    // a cut message
        r"printf '\000\000\000\005M\000\001 x'",  // an address that is none
        r"printf '\000\000\000\006M\000\000abc'", // longer than the MTU
        r"printf '\000\000\000\003H{}'",          // a second hello
    ] {
        let script = format!("{}{garbage}; exec sleep 1000", hello(2));
        let (transport, mut incoming) = shell(&script).await.unwrap();
        until(|| transport.counters().malformed == 1).await;
        assert!(incoming.try_recv().is_err(), "{garbage}");
    }
}

/// Messages that find no room are refused.
#[tokio::test]
async fn child_that_reads_nothing_blocks_no_sender() {
    let script = format!("{} exec sleep 1000", hello(EXEC_MTU));
    let (transport, _incoming) = shell(&script).await.unwrap();
    let to = transport.addresses()[0].address.clone();
    let session = transport.connect(&to).await.unwrap();
    let sent = (0..EXEC_QUEUE + 10).filter(|_| session.send(&[0; EXEC_MTU]).is_ok());
    assert_eq!(sent.count(), EXEC_QUEUE);
    assert_eq!(transport.counters().would_block, 10);
}

#[tokio::test]
async fn dropping_kills_the_child_and_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!(
        "sleep 1000 & echo $! > {0}; echo $$ >> {0}; {1} wait",
        file.display(),
        hello(10)
    );
    let (transport, _incoming) = shell(&script).await.unwrap();
    let pids = std::fs::read_to_string(&file).unwrap();
    let runs = |pid: &str| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie has ended.
        !state.is_empty() && !state.contains(") Z ")
    };
    assert_eq!(pids.lines().filter(|pid| runs(pid)).count(), 2);
    drop(transport);
    until(|| !pids.lines().any(runs)).await;
}

#[tokio::test]
async fn the_environment_has_no_secrets() {
    // The test runner's environment has CARGO_MANIFEST_DIR; the child's must not.
    let script = format!(
        "[ -z \"$CARGO_MANIFEST_DIR$HOME$USER\" ] && [ \"$(pwd)\" = / ] && {} sleep 1000",
        hello(10)
    );
    assert!(shell(&script).await.is_ok());
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    for (script, expected) in [
        ("exit 3", "it ended"),
        (r"printf '\000\000\000\003H{}'", "JSON"),
        (&hello(0), "mtu"),
        ("echo what is this", "too long"),
    ] {
        let error = shell(script).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("A program of your own"), "{error}");
    }
    for (name, command) in [("Bad", "/bin/sh"), ("x", "sh"), ("x", "/nonexistent")] {
        let options = ExecOptions {
            name: name.to_owned(),
            command: command.into(),
            ..ExecOptions::default()
        };
        let started = ExecTransport::start(options, channel(1).0);
        let error = tokio::time::timeout(Duration::from_secs(30), started).await;
        assert!(error.unwrap().is_err(), "{name} {command}");
    }
    let (transport, _incoming) = shell(&format!("{} sleep 9", hello(9))).await.unwrap();
    assert!(!transport.accepts(&"exec://other/me".parse().unwrap()));
    assert!(!transport.accepts(&"udp://127.0.0.1:1".parse().unwrap()));
}
